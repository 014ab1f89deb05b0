"""Forks itself into kernels and scripts for ``client.py``, until its standard input ends.

    python server.py SOCKET

A fork has none of the threads of polars, which it starts when it is first used. So nothing is read or recorded here.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

# What the forks need.
import anywidget  # noqa: F401
import ipykernel.kernelapp
import ipykernel.zmqshell  # noqa: F401
import torch._inductor.config  # noqa: F401

import torchprof_magic.ipython.extension
import torchprof_magic.jobs.report
import torchprof_magic.profiling
import torchprof_magic.report.trace_report  # noqa: F401

ANEW = b"anew"
# What Python and torch read when they start: a Python in which it is different is started anew.
READ_AT_START = ("PYTHON", "TORCH_", "TORCHDYNAMO_", "OMP_", "MKL_", "KMP_", "LD_", "CUDA_", "KINETO_")


@dataclass(frozen=True)
class Request:
    """A Python that a client asks for, with its descriptors 0 to 2."""

    arguments: list[str]
    environ: dict[str, str]
    folder: str
    descriptors: list[int]


class Server:
    """Listens for clients. ``serve`` returns in a forked process, with what it is to become."""

    def __init__(self, address: str) -> None:
        self._ready = selectors.DefaultSelector()
        self._clients: dict[int, socket.socket] = {}
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(f"{address}.soon")
        self._listening.listen(16)
        Path(f"{address}.soon").rename(address)
        self._ready.register(self._listening, selectors.EVENT_READ, self._fork)
        self._ready.register(0, selectors.EVENT_READ, None)

    def serve(self) -> Request | None:
        """Answer until standard input ends; return None then, after all forks have been killed."""
        while True:
            for key, _events in self._ready.select():
                if key.data is None:
                    self._kill_all()
                    return None
                if (request := key.data()) is not None:
                    return request

    def _fork(self) -> Request | None:
        client, _address = self._listening.accept()
        request = _request(client)
        pid = -1
        if _was_read_at_start(request.environ) != _was_read_at_start(dict(os.environ)):
            client.sendall(ANEW)
            client.close()
        else:
            pid = os.fork()
            if pid == 0:
                self._let_go(client)
                return request
            self._watch(pid, client)
        for each in request.descriptors:
            os.close(each)
        return None

    def _watch(self, pid: int, client: socket.socket) -> None:
        self._clients[pid] = client
        ended = os.pidfd_open(pid)
        self._ready.register(ended, selectors.EVENT_READ, lambda: self._tell_end(pid, ended))
        self._ready.register(client, selectors.EVENT_READ, lambda: self._pass_on(pid, client))

    def _tell_end(self, pid: int, ended: int) -> None:
        """Tell the client how its fork has ended."""
        _pid, status = os.waitpid(pid, 0)
        self._ready.unregister(ended)
        os.close(ended)
        client = self._clients.pop(pid)
        with suppress(KeyError):
            self._ready.unregister(client)
        with suppress(OSError):
            client.sendall(str(os.waitstatus_to_exitcode(status)).encode())
        client.close()

    def _pass_on(self, pid: int, client: socket.socket) -> None:
        """Send a signal to a fork and its children; a client that is gone was killed."""
        try:
            numbers = client.recv(16)
        except OSError:
            numbers = b""
        if not numbers:
            self._ready.unregister(client)
        for number in numbers or [signal.SIGKILL]:
            _signal(pid, number)

    def _kill_all(self) -> None:
        for pid in self._clients:
            _signal(pid, signal.SIGKILL)

    def _let_go(self, client: socket.socket) -> None:
        """Close in a fork what is the server's."""
        self._ready.close()
        for each in (self._listening, client, *self._clients.values()):
            each.close()


def _request(client: socket.socket) -> Request:
    head, descriptors, _flags, _address = socket.recv_fds(client, 4, 3)
    with client.makefile("rb") as stream:
        asked: dict[str, Any] = json.loads(stream.read(int.from_bytes(head, "big")))
    return Request(**asked, descriptors=descriptors)


def _was_read_at_start(environ: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(READ_AT_START)}


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:  # it has no group yet
            os.kill(pid, number)


def become(request: Request) -> None:
    """Run as the Python that a client asked for: ``[-W ignore] -m MODULE``, ``-c CODE`` or a script, and arguments."""
    os.setsid()
    for descriptor, own in enumerate(request.descriptors):
        os.dup2(own, descriptor)
        os.close(own)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environ)
    arguments = request.arguments
    if arguments[:2] == ["-W", "ignore"]:
        warnings.simplefilter("ignore")
        arguments = arguments[2:]
    sys.path[0] = ""
    if arguments[0] == "-m":
        _run_module(*arguments[1:])
    elif arguments[0] == "-c":
        sys.argv[:] = ["-c", *arguments[2:]]
        _run_code(compile(arguments[1], "<string>", "exec"))
    else:
        sys.argv[:] = arguments
        sys.path[0] = str(Path(arguments[0]).parent)
        _run_code(compile(Path(arguments[0]).read_bytes(), arguments[0], "exec"), __file__=arguments[0])


def _run_module(name: str, *arguments: str) -> None:
    sys.argv[1:] = arguments
    if name == "ipykernel_launcher":
        # A kernel ends with its parent, which it looks for in the environment as it is imported.
        sys.argv.append(f"--IPKernelApp.parent_handle={os.getppid()}")
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_code(code: CodeType, **names: str) -> None:
    """Run a program as the main module, which stays until the process ends."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    vars(main).update(names)
    exec(code, vars(main))  # noqa: S102 - it is the program that was asked for


def main() -> None:
    """Serve; in a fork, be what was asked for."""
    # Otherwise each fork looks through all of torch before it ends, and in collections, for longer than it runs.
    gc.collect()
    gc.freeze()
    server = Server(sys.argv[1])
    if (request := server.serve()) is not None:
        become(request)


if __name__ == "__main__":
    main()
