"""Kernels and scripts that are forked from a process that has imported torch, so that each need not import it again.

``client.py`` is started where Jupyter would start a kernel, or a test a Python. The client asks ``server.py``, of which
each worker of the tests has one, to fork itself; the copy becomes the kernel or runs the script, and the client passes
signals on to it and ends as it does. What is killed with SIGKILL ends a moment after its client.

All of them are started anew by ``make thorough``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from amount import IS_WHOLE

_HERE = Path(__file__).parent
CAN_FORK = sys.platform == "linux" and not IS_WHOLE


class Forks:
    """The process that forks, and the folder that Jupyter finds its kernel in; both are made when first needed."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._path: Path | None = None

    def path(self) -> Path:
        """Return the folder for ``JUPYTER_PATH``, whose kernel ``python3`` is forked."""
        if self._path is None:
            folder = self._path = Path(self._running.enter_context(tempfile.TemporaryDirectory(prefix="forks-")))
            self._serve(folder / "asked")
            argv = self.command("-m", "ipykernel_launcher", "-f", "{connection_file}")
            spec = folder / "kernels" / "python3" / "kernel.json"
            spec.parent.mkdir(parents=True)
            spec.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
        return self._path

    def command(self, *arguments: str) -> list[str]:
        """Return the command that runs a forked Python with these arguments."""
        return [sys.executable, "-I", "-S", str(_HERE / "client.py"), str(self.path() / "asked"), *arguments]

    def end(self) -> None:
        """End the process and its kernels."""
        self._running.close()
        self._path = None

    def _serve(self, address: Path) -> None:
        command = [sys.executable, str(_HERE / "server.py"), str(address)]
        environ = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        process = self._running.enter_context(
            subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=address.parent)
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"


@cache
def forks() -> Forks:
    """Return what the tests of this worker share."""
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
