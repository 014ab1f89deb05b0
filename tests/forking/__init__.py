"""Kernels and scripts that are forked from a process that has imported torch, so that each need not import it again.

``client.py`` is started where Jupyter would start a kernel, or a test a Python. The client asks ``server.py``, of which
all workers of the tests have one, to fork itself; the copy becomes the kernel or runs the script, and the client passes
signals on to it and ends as it does. What is killed with SIGKILL ends a moment after its client.

All of them are started anew by ``make thorough``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from amount import IS_WHOLE

_HERE = Path(__file__).parent
_ADDRESS = "asked"
_SHARED = "TORCHPROF_TESTS_FORKS"  # names the folder in the environment of the workers
_MOST_S = 200.0
CAN_FORK = sys.platform == "linux" and not IS_WHOLE


class Forks:
    """The process that forks, and the folder that Jupyter finds its kernel in; both are made when first needed."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._path: Path | None = None

    def path(self) -> Path:
        """Return the folder for ``JUPYTER_PATH``, whose kernel ``python3`` is forked, when it can be."""
        folder = self.folder()
        ends = time.monotonic() + _MOST_S
        while not (folder / _ADDRESS).exists():
            assert time.monotonic() < ends, "the process that forks has not begun to listen"
            time.sleep(0.02)
        return folder

    def folder(self) -> Path:
        """Return the folder of what forks, which may not be ready yet."""
        shared = os.environ.get(_SHARED)
        self._path = self._path or (Path(shared) if shared else self._begun())
        return self._path

    def is_shared(self) -> bool:
        """Return whether all workers have the same."""
        return _SHARED in os.environ

    def share(self) -> None:
        """Start the process for all workers of the tests that this process starts, and do not wait for it."""
        self._path = self._begun()
        os.environ[_SHARED] = str(self._path)
        self._running.callback(os.environ.pop, _SHARED)

    def command(self, *arguments: str) -> list[str]:
        """Return the command that runs a forked Python with these arguments."""
        return _command(self.path(), *arguments)

    def end(self) -> None:
        """End the process and its kernels, if it was started here."""
        self._running.close()
        self._path = None

    def _begun(self) -> Path:
        folder = Path(self._running.enter_context(tempfile.TemporaryDirectory(prefix="forks-")))
        argv = _command(folder, "-m", "ipykernel_launcher", "-f", "{connection_file}")
        spec = folder / "kernels" / "python3" / "kernel.json"
        spec.parent.mkdir(parents=True)
        spec.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
        command = [sys.executable, str(_HERE / "server.py"), str(folder / _ADDRESS)]
        environ = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        self._running.enter_context(subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, cwd=folder))
        return folder


def _command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(_HERE / "client.py"), str(folder / _ADDRESS), *arguments]


@cache
def forks() -> Forks:
    """Return what forks for the tests of this process."""
    return Forks()


def jupyter_environment() -> dict[str, str]:
    """Return the environment in which Jupyter starts forked kernels; empty where each is started anew."""
    return {"JUPYTER_PATH": str(forks().path())} if CAN_FORK else {}


def forked_python(*arguments: str) -> list[str]:
    """Return a command that runs Python for a test that does not mind that torch is imported already.

    The arguments are ``-c CODE`` or the path of a script, its own, and ``-W ignore`` before. The environment of the
    command may differ from that of the tests in what is not read at the start.
    """
    return forks().command(*arguments) if CAN_FORK else [sys.executable, *arguments]
