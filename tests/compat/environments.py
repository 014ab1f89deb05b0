"""What a line runs in: the built wheel, installed into an environment of its own that is deleted afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lines import Line

ROOT = Path(__file__).parents[2]
LACKS = "import json; from torchprof_magic.capture.torch_api import features; print(json.dumps(features.missing()))"
EXTRAS = ("lab", "pandas", "remote")
# What pyproject.toml asks for at least; tests/packaging builds with the newest.
LOWEST_BACKEND = ("hatchling==1.26.0", "hatch-fancy-pypi-readme==24.1.0")


class UnavailableError(Exception):
    """This machine has no such Python and cannot get it, or a package cannot be installed; the text says what."""


def build_wheel(folder: Path) -> Path:
    """Build the wheel with the lowest build backend that is declared, and return its path."""
    pinned = folder / "backend.txt"
    pinned.write_text("\n".join(LOWEST_BACKEND))
    _run(sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT), PIP_CONSTRAINT=str(pinned))
    (wheel,) = folder.glob("*.whl")
    return wheel


@contextmanager
def installed(line: Line, wheel: Path) -> Iterator[Path]:
    """Yield the Python of a new environment in which the wheel is installed. Raises ``UnavailableError``."""
    with tempfile.TemporaryDirectory(prefix="torchprof-compat-", ignore_cleanup_errors=True) as folder:
        python = Path(folder) / "venv" / "bin" / "python"
        try:
            _uv("venv", "--python", line.python, "--no-project", str(python.parents[1]))
        except UnavailableError as exc:
            raise UnavailableError(f"{exc}\nno Python {line.python} was found, and none could be downloaded") from exc
        _install(python, f"torch=={line.torch}")  # first, because its lowest build is the one with gigabytes of CUDA
        if line.is_lowest:
            _install(python, *_lowest(versions_in(python)["torch"]))
            _install(python, "--no-deps", str(wheel))
        else:
            _install(python, f"{wheel}[{','.join(EXTRAS)}]", "--upgrade", f"torch=={versions_in(python)['torch']}")
        _uv("pip", "check", "--python", str(python))
        yield python


def versions_in(python: Path) -> dict[str, str]:
    """Return the version of Python and of each package that is installed there, by its normalized name."""
    listed = json.loads(_uv("pip", "list", "--format", "json", "--python", str(python)))
    release = _run(str(python), "-c", "import platform; print(platform.python_version())").strip()
    return {"python": release} | {item["name"]: item["version"] for item in listed}


def lacks_of(python: Path) -> dict[str, list[str]]:
    """Return what the torch that is installed there lacks: names of features, by what happens without them."""
    found: dict[str, list[str]] = json.loads(_run(str(python), "-c", LACKS, PYTHONPATH=""))
    return found


def _lowest(torch: str) -> list[str]:
    """Return arguments that install the lowest of everything that pyproject.toml asks for and that has a wheel."""
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    lowest = ["--upgrade", "--resolution", "lowest-direct", "--only-binary", ":all:"]
    return ["--requirements", str(ROOT / "pyproject.toml"), *extras, f"torch=={torch}", *lowest]


def _install(python: Path, *what: str) -> None:
    _uv("pip", "install", "--python", str(python), *what)


def _uv(*arguments: str) -> str:
    """Run uv. It finds the Pythons on PATH and those of pyenv, and may download others."""
    uv = shutil.which("uv")
    if uv is None:
        sys.exit("uv was not found. Install it with `pip install uv`.")
    pyenv = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin"))
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, pyenv)])
    # uv does not read the variables of pip. A folder of wheels that pip finds serves uv as well.
    links = os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS", "")
    return _run(uv, *arguments, PATH=path, UV_FIND_LINKS=links, UV_HTTP_TIMEOUT="300")


def _run(*command: str, **env: str) -> str:
    done = subprocess.run(
        command, env=os.environ | env, cwd=tempfile.gettempdir(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        what = (done.stdout + done.stderr).strip()[-2000:]
        raise UnavailableError(f"{Path(command[0]).name} {' '.join(command[1:4])}: {what}")
    return done.stdout
