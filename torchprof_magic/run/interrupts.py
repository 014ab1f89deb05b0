"""Interrupts while a report is made: none may get lost in a compiled library."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


@contextmanager
def interrupts_raise(*, is_awaiting: bool) -> Iterator[None]:
    """Let no Ctrl-C get lost here: compiled libraries swallow one that comes at certain moments.

    ``is_awaiting``: where nothing awaits any more, a cancellation, which is what Ctrl-C is there, would come too late.
    A handler of the user's own is left alone.
    """
    before = signal.getsignal(signal.SIGINT)
    if (
        before is None
        or threading.current_thread() is not threading.main_thread()
        or not (is_awaiting or before is signal.default_int_handler)
    ):
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
        # What it left undone has failed instead. A generator that is closed was left by it already.
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
    """Return whether a compiled library gave up: what it raises is no ``Exception``, nor what ends a program."""
    return not isinstance(exc, (Exception, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError))
