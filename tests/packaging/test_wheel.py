"""What a user gets from an install: a wheel with the front end in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from amount import thorough

ROOT = Path(__file__).parents[2]
SHOW = """\
import sys
import torchprof_magic as tp
assert not {"torch", "IPython"} & set(sys.modules)
import torch
with tp.profile() as p:
    for _ in tp.steps(range(4)):
        torch.ones(8).sum()
assert p.report.ops.height
assert len(p.report.widget._front_end._module) > 50_000, "the bundle is not in the package"
assert p.report.to_html("report.html").stat().st_size > 50_000
print(tp.__file__)
"""

# What tools leave in a checkout, and git ignores.
LEFT_BEHIND = {"__pycache__", ".ipynb_checkpoints", ".hypothesis", ".pytest_cache"}

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=os.environ | env, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return an sdist of this checkout, and the wheel that is built from that sdist alone."""
    out = tmp_path_factory.mktemp("dist")
    # An install from the sdist must not need npm: the bundle is inside.
    done = run(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=out)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (sdist,) = out.glob("*.tar.gz")
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of a fresh environment that borrows the dependencies, but not this package."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=True)
    (here,) = (path for path in map(Path, sys.path) if path.name == "site-packages")
    (there,) = folder.glob("lib/*/site-packages")
    for item in here.iterdir():
        if not item.name.startswith(("torchprof", "_torchprof", "pip", "__", "_editable")) and item.suffix != ".pth":
            target = there / item.name
            if not target.exists():
                target.symlink_to(item)
    return folder / "bin" / "python"


def test_wheel_and_sdist_hold_the_front_end_without_its_development_files(built: tuple[Path, Path]) -> None:
    sdist, wheel = built
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "static/report.js",
        "static/report.css",
        "static/THIRD_PARTY_LICENSES.txt",
        "render/palette.json",
        "py.typed",
    ):
        assert f"torchprof_magic/{needed}" in names
    assert not any(name.startswith(("js/", "widgets/", "tests/")) for name in names)
    with tarfile.open(sdist) as archive:
        sources = [name.partition("/")[2] for name in archive.getnames()]
    assert {"torchprof_magic/static/report.js", "js/package-lock.json", "widgets/report/index.ts"} <= set(sources)
    assert not any("node_modules" in name for name in sources)


def test_the_sdist_holds_all_tests_and_documents(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    for folder in ("tests", "docs", "scripts", "notebooks", "benchmarks"):
        files = [path for path in (ROOT / folder).rglob("*") if path.is_file() and not set(path.parts) & LEFT_BEHIND]
        assert files
        assert {path.relative_to(ROOT).as_posix() for path in files} - packed == set()
    assert {"Makefile", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"} <= packed


@thorough
def test_the_tests_of_the_sdist_can_be_collected(built: tuple[Path, Path], tmp_path: Path) -> None:
    with tarfile.open(built[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    command = (sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
    done = run(*command, cwd=unpacked, PYTHONPATH=str(unpacked))
    assert done.returncode == 0, done.stdout[-3000:]
    assert len(re.findall(r"^tests/\S+::", done.stdout, re.MULTILINE)) > 1_000


def test_the_page_of_the_package_has_no_link_that_needs_the_checkout(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        page = archive.read(name).decode().partition("\n\n")[2]
    assert page.startswith("# torchprof-magic\n")
    assert re.findall(r"\]\((?!https?:|#)[^)]*\)", page) == []
    for path in re.findall(r"\]\((docs/[^)]*\.md)\)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert f"`{path}`" in page


@thorough
def test_the_installed_wheel_gives_a_working_widget(built: tuple[Path, Path], fresh: Path, tmp_path: Path) -> None:
    done = run(fresh, "-m", "pip", "install", "-q", "--no-deps", "--no-index", built[1], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = run(fresh, "-c", SHOW, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr[-3000:]
    assert str(fresh.parents[1]) in shown.stdout


@thorough
def test_an_editable_install_gives_a_working_widget(fresh: Path, tmp_path: Path) -> None:
    done = run(fresh, "-m", "pip", "install", "-q", "--no-deps", "-e", ROOT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    shown = run(fresh, "-c", SHOW, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr[-3000:]
    assert str(ROOT) in shown.stdout
