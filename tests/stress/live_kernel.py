"""A real kernel for the stress scripts: cells run in it, and one may be interrupted at a given moment."""

from __future__ import annotations

import json
import queue
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jupyter_client.manager import start_new_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

STUCK_S = 60.0
IDLE_S = 3.0  # the last message of a cell follows its reply at once, unless an interrupt dropped it
SETTLE_S = 0.03


@dataclass(slots=True)
class Done:
    """The result of one cell. ``status`` is empty without a reply; ``outcome`` is ``ok`` or the name of the error."""

    text: str = ""
    status: str = ""
    error: str = ""
    traceback: list[str] = field(default_factory=list)
    seconds: float = 0.0
    is_idle: bool = False
    interrupted_at: float | None = None  # by the monotonic clock, which all processes share
    sent_at: float = 0.0  # the latest time at which the interrupt was sent; a busy machine may send it late

    @property
    def outcome(self) -> str:
        return self.error or self.status or "no reply"

    @property
    def facts(self) -> Any:
        """What the cell printed on its last line, as JSON."""
        return json.loads(self.text.strip().splitlines()[-1])


class LiveKernel:
    """Runs cells one after the other, and returns the result of each."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager = manager
        self._client = client

    @property
    def is_alive(self) -> bool:
        return bool(self.manager.is_alive())

    def run(self, code: str, *, interrupt_s: float | None = None) -> Done:
        """Run a cell to its end; an interrupt is sent ``interrupt_s`` after the request, even if it has ended."""
        done = Done()
        start = time.monotonic()
        message = self._client.execute(code, allow_stdin=False)
        while not (done.status and done.is_idle) and self.is_alive:
            now = time.monotonic() - start
            if interrupt_s is not None and now >= interrupt_s:
                self._interrupt(done)
                interrupt_s = None
            if now > (done.seconds + IDLE_S if done.status else STUCK_S):
                break
            self._take_shell(message, done, start)
            self._take_output(message, done, 0.01 if interrupt_s is None else min(0.01, max(0.0, interrupt_s - now)))
        if interrupt_s is not None and self.is_alive:
            time.sleep(max(0.0, interrupt_s - (time.monotonic() - start)))
            self._interrupt(done)
            time.sleep(SETTLE_S)
        return done

    def _interrupt(self, done: Done) -> None:
        done.interrupted_at = time.monotonic()
        self.manager.interrupt_kernel()
        done.sent_at = time.monotonic()

    def _take_shell(self, message: str, done: Done, start: float) -> None:
        try:
            got = self._client.get_shell_msg(timeout=0)
        except queue.Empty:
            return
        if got["parent_header"].get("msg_id") == message and got["msg_type"] == "execute_reply":
            done.seconds = time.monotonic() - start
            done.status, done.error = got["content"]["status"], got["content"].get("ename", "")

    def _take_output(self, message: str, done: Done, timeout_s: float) -> None:
        try:
            got = self._client.get_iopub_msg(timeout=timeout_s)
        except queue.Empty:
            return
        if got["parent_header"].get("msg_id") != message:
            return
        content = got["content"]
        if got["msg_type"] == "stream":
            done.text += content["text"]
        elif got["msg_type"] == "error":
            done.traceback = content["traceback"]
        elif got["msg_type"] == "status" and content["execution_state"] == "idle":
            done.is_idle = True


@contextmanager
def live_kernel(first: str) -> Iterator[LiveKernel]:
    """Start a kernel that has run the cell ``first``."""
    manager, client = start_new_kernel(kernel_name="python3")
    kernel = LiveKernel(manager, client)
    try:
        done = kernel.run(first)
        assert done.status == "ok", done
        yield kernel
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
