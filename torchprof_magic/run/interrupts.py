"""Interrupts while a report is made, which compiled libraries must not swallow."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchprof_magic.system.process.threads import is_main_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


@contextmanager
def interrupts_raise(*, is_awaiting: bool) -> Iterator[None]:
    """Raise every Ctrl-C within as ``KeyboardInterrupt``: compiled libraries swallow some of them.

    ``is_awaiting``: an awaiting cell is interrupted by cancelling its task, which would be too late here, because
    nothing awaits any more. A handler of the user's own is not replaced.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is None or not is_main_thread() or not (is_awaiting or before is signal.default_int_handler):
        yield
        return
    arrived: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True
        arrived.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    except BaseException as exc:
        # The library failed instead of raising it. A generator that is being closed was left by it already.
        if arrived and not isinstance(exc, (KeyboardInterrupt, GeneratorExit)):
            raise KeyboardInterrupt from None
        if _is_panic(exc):
            raise RuntimeError(f"{type(exc).__name__}: {exc}") from exc
        raise
    else:
        if arrived:
            raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, before)


def _is_panic(exc: BaseException) -> bool:
    """Return whether a compiled library panicked: it raises neither an ``Exception`` nor what ends a program."""
    return not isinstance(exc, (Exception, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError))
