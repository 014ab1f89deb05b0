"""When Python collected garbage, noted by a callback of ``gc`` that consists of functions of C alone.

A callback in Python would be where an interrupt that arrives during a collection is raised, and Python drops what
callbacks raise.
"""

from __future__ import annotations

import gc
from collections import deque
from contextlib import suppress
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# More collections than this are not kept; the first ones are lost.
MAX_COLLECTIONS = 100_000


class GarbageTimes:
    """Notes the start and the end of each collection of any thread, which all threads wait for.

    ``times_ns`` alternates between the two, by ``perf_counter_ns``.
    """

    def __init__(self) -> None:
        self.times_ns: deque[int] = deque(maxlen=2 * MAX_COLLECTIONS)
        self._before = 0
        self._callback = _noting(self.times_ns)

    @staticmethod
    def collect_young() -> None:
        """Collect the youngest objects if Python would do so by itself, so that its count of them begins anew.

        The next collection comes after a number of new objects. Without this, which of the recorded steps it is in
        depends on how many were made to set the recording up.
        """
        if gc.isenabled() and gc.get_threshold()[0] > 0:
            gc.collect(0)

    def begin(self) -> None:
        """Begin to note collections."""
        self._before = len(self.times_ns)
        gc.callbacks.append(self._callback)

    def end(self) -> None:
        """End it; does nothing where it has not begun, or where the program has removed the callback."""
        with suppress(ValueError):
            gc.callbacks.remove(self._callback)
        if len(self.times_ns) % 2:  # another thread was collecting meanwhile, and what is a start is not known
            while len(self.times_ns) > self._before:
                self.times_ns.pop()

    def drop(self) -> None:
        """Forget the collections since the last call of ``take``."""
        self.times_ns.clear()

    def since_ns(self, start_ns: int) -> int:
        """Return how long the collections since a moment took, by ``perf_counter_ns``."""
        times, took_ns = list(self.times_ns), 0
        for begin_ns, end_ns in zip(times[-2::-2], times[-1::-2], strict=False):
            if begin_ns < start_ns:
                break
            took_ns += end_ns - begin_ns
        return took_ns

    def take(self) -> list[tuple[int, int]]:
        """Return the start and the end of each collection since the last call."""
        times = list(self.times_ns)
        self.times_ns.clear()
        return list(zip(times[::2], times[1::2], strict=False))


def _noting(times_ns: deque[int]) -> Callable[[str, dict[str, int]], object]:
    """Return a function that takes the arguments of a callback, and adds the time without running any Python code."""
    note = map(times_ns.append, iter(perf_counter_ns, None))

    class Clock(dict[str, None]):
        """Adds the time, by the next item of ``note``, where a key is looked up."""

        __missing__ = staticmethod(partial(next, note))

    return partial("{0[now]}".format, Clock())
