"""The examples of docs/architecture.md, applied to a copy of the package."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NAMES = ("table", "tab", "rule", "reader")


def examples() -> dict[str, str]:
    """Return the diffs of the page by what they add."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return dict(zip(NAMES, re.findall(r"^```diff\n(.*?)^```$", page, re.MULTILINE | re.DOTALL), strict=True))


def copy_with(folder: Path, *names: str) -> Path:
    """Return a folder with a copy of the package to which some examples have been applied, in this order."""
    shutil.copytree(ROOT / "torchprof_magic", folder / "torchprof_magic")
    for name in names:
        _apply(examples()[name], folder)
    return folder


def _apply(diff: str, folder: Path) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    # A repository around the folder, or that of a hook, is none of its business.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env["GIT_CEILING_DIRECTORIES"] = str(folder.parent)
    ran = subprocess.run(
        [git, "apply", "-"],
        cwd=folder,
        input=diff,
        env=env,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def run_in(copy: Path, code: str) -> Any:
    """Run a program with the package of a copy, and return what it prints as JSON."""
    paths = os.pathsep.join(map(str, (copy, ROOT / "scripts")))
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)
