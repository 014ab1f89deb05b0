"""Stands for a Python that ``server.py`` forks: signals go to it, and this process ends as it does.

python -I -S client.py SOCKET ARGUMENTS

The arguments are those of Python.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
ANEW = b"anew"


def main(address: str, *arguments: str) -> None:
    """Ask for a Python, and wait for its end."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        for number in PASSED_ON:
            signal.signal(number, lambda got, _frame: server.sendall(bytes([got])))
        folder = os.getcwd()  # noqa: PTH109 - pathlib takes as long to import as all of the rest
        asked = json.dumps({"arguments": arguments, "environ": dict(os.environ), "folder": folder}).encode()
        socket.send_fds(server, [len(asked).to_bytes(4, "big")], [0, 1, 2])
        server.sendall(asked)
        told = server.recv(16)
    if told == ANEW:
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - no shell is wanted
    _end(int(told or b"1"))


def _end(code: int) -> None:
    """End by the same signal as the fork, or with its status."""
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
