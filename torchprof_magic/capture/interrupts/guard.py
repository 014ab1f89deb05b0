"""Protection from Ctrl-C in the few places where it would crash the kernel or lose the recording.

A KeyboardInterrupt between torch's ``stop_trace`` and ``prepare_trace`` ends in SIGSEGV, and one inside ``stop`` loses
the recording. Installing a handler inside ``step()`` would leave its first and last instructions unprotected. So one
handler is installed for the whole session and looks at *where* the signal arrived: if a protected function is anywhere
on the stack, the interrupt waits until that function returns.
"""

from __future__ import annotations

import os
import signal
import sys
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from torchprof_magic.capture.interrupts.other_signals import OtherHandlers
from torchprof_magic.system.process.threads import is_main_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    Handler = Callable[[int, FrameType | None], Any] | int | None

Function = TypeVar("Function", bound="Callable[..., Any]")

# Keyed by id, because hashing a code object hashes its constants. The values keep the ids from being reused.
_PROTECTED: dict[int, CodeType] = {}
_OPEN: dict[int, weakref.ref[CodeType]] = {}


def protected(function: Function) -> Function:
    """Let interrupts wait while ``function``, or anything it calls, runs, except in code that was opened to them."""
    code = function.__code__
    _PROTECTED[id(code)] = code
    return function


def open_to_interrupts(code: CodeType) -> None:
    """Let interrupts into this code of the user's, and what it calls, although a protected function runs it."""
    # Not with a callback: Python ignores exceptions in one, and a Ctrl-C might arrive there.
    for gone in [key for key, known in _OPEN.items() if known() is None]:
        del _OPEN[gone]
    _OPEN[id(code)] = weakref.ref(code)


def is_protected(frame: FrameType | None) -> bool:
    """Return whether a protected function is on the stack of ``frame``, with no open code inside it."""
    while frame is not None:
        key = id(frame.f_code)
        if key in _PROTECTED:
            return True
        opened = _OPEN.get(key)
        if opened is not None and opened() is frame.f_code:
            return False
        frame = frame.f_back
    return False


def raised_by_handler(error: BaseException) -> bool:
    """Return whether ``error`` was raised by one of the user's signal handlers, and so is unrelated to torch."""
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = {id(getattr(handler, "__code__", None)) for handler in handlers} - {id(None)}
    trace = error.__traceback__
    while trace is not None:
        if id(trace.tb_frame.f_code) in codes:
            return True
        trace = trace.tb_next
    return False


class InterruptGuard:
    """The SIGINT handler of one session: it waits inside protected functions, and calls the old handler elsewhere.

    ``pending`` counts the interrupts that wait. ``on_wait`` is called with this count whenever one more has to wait for
    slow work. Only the main thread receives signals, so on others this does nothing.
    """

    def __init__(self, on_wait: Callable[[int], None] | None = None) -> None:
        self.pending = 0
        self._raised = 0
        self._on_wait = on_wait
        self._is_slow = False
        self._patience = sys.maxsize
        self._previous: Handler = None
        self._is_installed = False
        self._pid = os.getpid()

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Handle one SIGINT that arrived while ``frame`` ran."""
        __tracebackhide__ = True
        if os.getpid() == self._pid and is_protected(frame) and self.pending < self._patience:
            self.pending += 1
            if self._is_slow and self._on_wait is not None:
                with suppress(OSError, RuntimeError, ValueError):  # stdout may be closed; torch must not see that
                    self._on_wait(self.pending)
        else:
            _call(self._previous, signum, frame)

    @property
    def is_installed(self) -> bool:
        """True from ``install`` to ``uninstall``, also while another handler has replaced it."""
        return self._is_installed

    def install(self) -> None:
        """Replace the current handler; does nothing where signals cannot be handled."""
        current = signal.getsignal(signal.SIGINT)
        # None: the handler was set by C code and could not be restored.
        if self._is_installed or current is None or not is_main_thread():
            return
        self._previous = current
        signal.signal(signal.SIGINT, self)
        self._is_installed = True

    def uninstall(self) -> None:
        """Restore the old handler, unless the user's code has set its own meanwhile."""
        if self._is_installed and is_main_thread() and self._is_current():
            signal.signal(signal.SIGINT, self._previous)
        self._is_installed = False

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Replace the user's own handlers during one transition.

        Interrupts wait as they do for this guard; handlers of other signals, such as a timeout, run at the end.
        """
        if not is_main_thread():  # only it handles signals
            yield
            return
        with OtherHandlers().held_back(), self._in_place():
            yield

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Replace a handler of interrupts that the user's code has set since ``install``."""
        foreign = signal.getsignal(signal.SIGINT)
        is_ours: bool = foreign is self
        if is_ours or foreign is None or not self._is_installed:
            yield
            return
        signal.signal(signal.SIGINT, self)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, foreign)

    @contextmanager
    def slow_work(self, *, is_interrupted: bool = False) -> Iterator[None]:
        """Call ``on_wait`` for the interrupts that arrive within.

        ``is_interrupted``: an interrupt is the reason for this work, and counts as well.
        """
        if is_interrupted:
            self.pending += max(self._raised, 1)
        before, self._is_slow = self._is_slow, True
        try:
            yield
        finally:
            self._is_slow = before

    @contextmanager
    def patience(self, interrupts: int) -> Iterator[None]:
        """Hold back at most ``interrupts`` within; the next one is raised, so that slow work can be aborted."""
        before, self._patience = self._patience, interrupts
        try:
            yield
        finally:
            self._patience = before

    def drop_pending(self) -> None:
        """Drop the waiting interrupts, because an exception is already being raised."""
        self.pending = 0

    def raise_pending(self) -> None:
        """Pass a waiting interrupt to the handler that it was meant for, which usually raises ``KeyboardInterrupt``."""
        __tracebackhide__ = True
        if not self.pending:
            return
        self._raised, self.pending = self.pending, 0
        handler = self._previous if self._is_current() else signal.getsignal(signal.SIGINT)
        _call(handler, signal.SIGINT, sys._getframe(1))  # noqa: SLF001 - a handler receives the interrupted frame

    def _is_current(self) -> bool:
        handler: object = signal.getsignal(signal.SIGINT)
        return handler is self


def _call(handler: Handler, signum: int, frame: FrameType | None) -> None:
    __tracebackhide__ = True
    if callable(handler):
        handler(signum, frame)
    elif handler == signal.SIG_DFL:
        raise KeyboardInterrupt
