"""A real kernel and the output of its cells, as a front end receives it."""

from __future__ import annotations

import os
import queue
import re
import signal
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from forking import jupyter_environment
from jupyter_client.manager import start_new_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_S = 120
LOOK_S = 5  # how often to check whether the kernel is alive
SENDING_S = 0.5  # an interrupt while the kernel sends output would truncate its messages
# A kernel that hangs runs no Python code to show where, but faulthandler is written in C.
TELLING = """
(lambda file, fault, signal: (fault.enable(file), fault.register(signal.SIGUSR1, file)))(
    open({path!r}, "w"), __import__("faulthandler"), __import__("signal")
)
"""


class Kernel:
    """Runs cells and collects their output."""

    def __init__(self, manager: Any, client: Any, stacks: Path) -> None:
        self.manager = manager
        self.client = client
        self._stacks = stacks
        self.client.execute(TELLING.format(path=str(stacks)), silent=True)

    def run(self, code: str, *, interrupt_at: str = "") -> Cell:
        """Run one cell; the kernel is interrupted when its output holds ``interrupt_at``."""
        return self.answer(self.ask(code), interrupt_at=interrupt_at)

    def ask(self, code: str) -> str:
        """Start to run a cell, and return its message ID for ``answer``."""
        # After an error, older kernels would skip the next cell if it came at once.
        return str(self.client.execute(code, allow_stdin=False, stop_on_error=False))

    def answer(self, message: str, *, interrupt_at: str = "") -> Cell:
        """Wait for the end of a cell."""
        cell = Cell()
        while True:
            got = self._next()
            if got["parent_header"].get("msg_id") != message:
                continue
            if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
                break
            cell.messages.append(got)
            if interrupt_at and interrupt_at in cell.text:
                interrupt_at = ""
                time.sleep(SENDING_S)
                self.manager.interrupt_kernel()
        cell.reply = self._reply(message)
        return cell

    def _next(self) -> Any:
        """Return the next message of the kernel; fail the test with a stack when the kernel is dead or hangs."""
        for _ in range(TIMEOUT_S // LOOK_S):
            with suppress(queue.Empty):
                return self.client.get_iopub_msg(timeout=LOOK_S)
            if not self.manager.is_alive():
                pytest.fail(f"the kernel is dead: {self.manager.provisioner.process}\n{self._where()}")
        process = self.manager.provisioner.process
        process.send_signal(signal.SIGUSR1)
        time.sleep(1)
        process.kill()  # so that no other test waits for it
        return pytest.fail(f"the kernel has said nothing for {TIMEOUT_S} s; it is here:\n{self._where()}")

    def _where(self) -> str:
        """Return what the kernel was doing, if it came so far as to tell."""
        return self._stacks.read_text() if self._stacks.exists() else "in its first cell, or before it"

    def _reply(self, message: str) -> Any:
        """Return the reply to ``message``, skipping replies to earlier requests."""
        while True:
            got = self.client.get_shell_msg(timeout=TIMEOUT_S)
            if got["parent_header"].get("msg_id") == message:
                return got["content"]


class Cell:
    """The output of one cell."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.reply: Any = {}

    def of(self, kind: str) -> list[Any]:
        return [message["content"] for message in self.messages if message["msg_type"] == kind]

    @property
    def text(self) -> str:
        return "".join(content["text"] for content in self.of("stream"))

    @property
    def shown(self) -> list[dict[str, Any]]:
        return [content["data"] for content in self.of("display_data")]

    @property
    def values(self) -> list[str]:
        """What ``Out`` shows."""
        return [content["data"]["text/plain"] for content in self.of("execute_result")]

    @property
    def error_lines(self) -> list[int]:
        """The line numbers of the cell in its only traceback, the outermost first."""
        (error,) = self.of("error")
        plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error["traceback"]))
        return [int(line) for line in re.findall(r"Cell In\[\d+\], line (\d+)", plain)]

    @property
    def static(self) -> list[str]:
        return [data["text/html"] for data in self.shown if "data-tp-static" in data.get("text/html", "")]


def environment() -> dict[str, str]:
    """Return the environment of a user's kernel: under pytest, ipykernel does not watch descriptors 1 and 2."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@contextmanager
def started(first: str, *, is_new: bool = False, **environ: str) -> Iterator[Kernel]:
    """Yield a kernel with additional environment variables that has run the cell ``first``.

    In a sample it is forked from a process that has imported torch, unless ``is_new``.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ({} if is_new else jupyter_environment()).items():
            patch.setenv(name, value)
        manager, client = start_new_kernel(kernel_name="python3", env=environment() | environ)
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(manager, client, Path(folder) / "stacks.txt")
        try:
            assert kernel.run(first).reply["status"] == "ok"
            yield kernel
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
