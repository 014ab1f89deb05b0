"""The number of Python calls in a recording, watched while it goes on; past a limit stacks end, and the rest goes on.

Ending a recording costs torch microseconds and kilobytes for each call, and a loop makes millions in a second. So the
limit must hold within a step, too: a thread looks from time to time how many calls torch has.
"""

from __future__ import annotations

import _thread
import time
from typing import TYPE_CHECKING, Final

from torchprof_magic.capture.parts import PYTHON_CALLS
from torchprof_magic.capture.torch_api.python_tracer import TracedThreads
from torchprof_magic.capture.watch.call_counts import NO_LIMIT, count_calls
from torchprof_magic.model.units import counted, format_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture.parts import Parts
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.capture.watch.call_counts import CallCount, Counting

# More calls than Python can make in a second while torch records them; the next look comes before they can be too many.
_MOST_PER_S: Final = 8_000_000
# Each look stops the program for some 20 us.
_LEAST_WAIT_S, _MOST_WAIT_S = 0.01, 0.05
# How long to wait for the thread, which is gone in a forked process.
_JOIN_S: Final = 1.0


class CallLimit:
    """Ends the stacks of a recording when its cycles together hold ``limit`` Python calls.

    ``calls`` is how many the finished cycles hold, and ``calls_of_cycle`` the last of them. ``ended_ns`` is when, since
    1970, stacks ended in the current cycle.
    """

    def __init__(self, limit: int, parts: Parts, problems: ProblemLog) -> None:
        self.limit = limit
        self.calls = self.calls_of_cycle = 0
        self.ended_ns: int | None = None
        self._parts = parts
        self._problems = problems
        self._counted: CallCount | None = None
        self._bound = ""
        self._begun_calls = self._begun_ns = 0
        self._ended_step: int | None = None
        self._stop: _thread.LockType | None = None
        self._done: _thread.LockType | None = None
        self._is_told = False

    @property
    def is_reached(self) -> bool:
        """True when no more Python calls are to be recorded."""
        return self.ended_ns is not None or self.calls >= self.limit

    def begin(self, step: Callable[[], int], *, has_stacks: bool) -> None:
        """Count from here, on the thread that records and just after torch began; does nothing without stacks.

        ``step`` returns the number of the current step, and ``has_stacks`` is whether stacks were asked of torch.
        """
        self.ended_ns, self.calls_of_cycle = None, 0
        if not has_stacks:
            return
        threads = TracedThreads()
        counting = count_calls(self.limit, threads.count)
        count = self._countable(counting, threads)
        if count is None:
            return
        self._counted, self._begun_calls, self._begun_ns = count, count.count() or 0, time.time_ns()
        self._stop, self._done = _thread.allocate_lock(), _thread.allocate_lock()
        self._stop.acquire()
        self._done.acquire()

        def end() -> None:
            threads.end()
            self.ended_ns, self._ended_step = time.time_ns(), step()
            self.calls_of_cycle = self._made(count)
            count.close()

        # Not a Thread: the user's code may list those, and replace how they start.
        _thread.start_new_thread(self._watch, (count, end, self._stop, self._done))

    def end(self) -> None:
        """Stop counting, just before torch ends the recording; can be called twice."""
        count, self._counted = self._counted, None
        if count is None or self._stop is None or self._done is None:
            return
        self._stop.release()
        self._done.acquire(timeout=_JOIN_S)
        if self.ended_ns is None:
            self.calls_of_cycle = self._made(count)
        self.calls += self.calls_of_cycle
        count.close()

    def so_far(self) -> int:
        """Return how many calls the cycle that is being recorded holds."""
        if self.ended_ns is not None or self._counted is None:
            return self.calls_of_cycle
        return self._made(self._counted)

    def text_of_cycle(self) -> str:
        """Return how many calls the last finished cycle holds, empty if there are none."""
        return f"{self._bound}{counted(self.calls_of_cycle, 'Python call')}" if self.calls_of_cycle else ""

    def has_news(self) -> bool:
        """Return, once, whether stacks have ended."""
        is_news = self.ended_ns is not None and not self._is_told
        self._is_told |= is_news
        return is_news

    def note(self, step: int, *, may_follow: bool) -> None:
        """Note that stacks have ended, once; ``may_follow``: another cycle may follow, which begins without."""
        if self._problems.has("capture.stacks_ended") or not (may_follow or self.ended_ns is not None):
            return
        later = " Later cycles have no stacks." if may_follow else ""
        self._problems.note(
            "capture.stacks_ended",
            step=step if self._ended_step is None else self._ended_step,
            moment=format_ns((self.ended_ns or time.time_ns()) - self._begun_ns),
            calls=f"{self._bound}{self.calls:,}",
            limit=f"{self.limit:,}",
            rest=f"Everything else was recorded to the end.{later}",
        )

    def _countable(self, counting: Counting, threads: TracedThreads) -> CallCount | None:
        """Return what counts the calls, None without stacks, or where they cannot end; note what is not exact."""
        count, lack, instead, self._bound = counting
        if count is not None and not threads.can_end:
            count.close()
            count, lack, instead = None, "this Python cannot end what other threads are traced by", NO_LIMIT
        if lack and not self._problems.has("capture.calls_not_counted"):
            self._problems.note("capture.calls_not_counted", reason=lack, instead=instead)
        return count

    def _made(self, count: CallCount) -> int:
        return max((count.count() or 0) - self._begun_calls, 0)

    def _watch(self, count: CallCount, end: Callable[[], None], stop: _thread.LockType, done: _thread.LockType) -> None:
        try:
            self._parts.run(PYTHON_CALLS, self._look, count, end, stop)
        finally:
            done.release()

    def _look(self, count: CallCount, end: Callable[[], None], stop: _thread.LockType) -> None:
        left = self.limit - self.calls
        while left > 0:
            if stop.acquire(timeout=min(max(left / _MOST_PER_S, _LEAST_WAIT_S), _MOST_WAIT_S)):
                return
            left = self.limit - self.calls - self._made(count)
        end()
