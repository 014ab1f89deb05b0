"""Build the front end before the Python package is packed.

The build is skipped when the bundle is there already (an sdist holds it) or when TORCHPROF_SKIP_NPM is set.
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

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Make sure that the bundle exists, or fail with a message that says what to install."""
        root = Path(self.root)
        bundle = root / "torchprof_magic" / "static" / "report.js"
        if bundle.exists() or os.environ.get("TORCHPROF_SKIP_NPM"):
            return
        npm = shutil.which("npm")
        if npm is None:
            msg = (
                "npm was not found, and torchprof-magic builds its interactive view with it. "
                "Install Node.js 20 or newer (nodejs and npm), or install a released wheel, which holds the view."
            )
            raise RuntimeError(msg)
        for command in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
            subprocess.run([npm, *command], cwd=root / "js", check=True)
