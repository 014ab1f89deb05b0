"""The user's handlers of signals other than Ctrl-C, which wait while torch changes its state.

A timeout with SIGALRM raises wherever the signal arrives. Inside torch this would lose the recording and leave the
profiler on, so it waits as an interrupt does.
"""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_OTHERS = tuple(int(number) for number in signal.valid_signals() if number != signal.SIGINT)


class OtherHandlers:
    """Replaces the user's handlers of all other signals; each signal that arrived is handled once, at the end."""

    def __init__(self) -> None:
        self._handlers = {number: handler for number in _OTHERS if callable(handler := signal.getsignal(number))}
        self._due: dict[int, None] = {}
        self._is_over = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Note one signal."""
        if self._is_over:  # an exception of a handler prevented restoring this one
            self._handlers[number](number, frame)
        else:
            self._due[number] = None

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Let no handler run within, because its exception would interrupt torch."""
        try:
            for number in self._handlers:
                signal.signal(number, self)
            yield
        finally:
            self._is_over = True
            for number, handler in self._handlers.items():
                current: object = signal.getsignal(number)
                if current is self:  # otherwise the user's code has set another one meanwhile
                    signal.signal(number, handler)
            self._handle_due()

    def _handle_due(self) -> None:
        """Run the handlers of the signals that arrived; an exception of one does not prevent the others."""
        if not self._due:
            return
        number, _ = self._due.popitem()
        try:
            handler = signal.getsignal(number)
            if callable(handler):
                handler(number, sys._getframe(1))  # noqa: SLF001 - a handler receives the interrupted frame
        finally:
            self._handle_due()
