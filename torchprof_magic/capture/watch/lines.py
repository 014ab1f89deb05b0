"""The times at which the lines of a cell began, noted by calls that the cell was compiled with."""

from __future__ import annotations

import sys
from array import array
from collections import Counter, deque
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING

from torchprof_magic.capture.watch.users_code import OWN_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

# Marks alternate between a time and a line, which is far smaller.
MAX_LINE = 1_000_000_000
# More marks in a single step than this are not kept; the first ones of that step are lost.
MAX_MARKS_OF_STEP = 200_000
# More marks in a whole recording are not kept.
MAX_MARKS = 2_000_000
# What a mark costs, measured by benchmarks/marks.py; and the share of a step from which on marks in inner loops are
# left out.
MARK_NS = 200
MOST_OF_STEP = 0.05
NO_LINE = 0
# A line that began so often in a step is in a loop inside it; that of the loop that steps begins twice.
LEAST_OF_LOOP = 3


class LineMarks:
    """Notes a time and a line number whenever a statement of the cell begins.

    The cell holds this object as a constant and calls ``append`` and ``clock`` directly, both functions of C, so that
    no frame of ours is in a traceback and no interrupt is raised in our code. ``is_on`` is asked before each mark, and
    ``is_inner_on`` before those in loops inside the loop that steps. The numbers alternate: a time, then a line. Line
    numbers are far below times, so a mark that was interrupted between the two is recognized.
    """

    __slots__ = ("_codes", "_kept", "_looped", "append", "clock", "is_inner_on", "is_on", "left_out", "lost", "pending")

    def __init__(self) -> None:
        self.pending: deque[int] = deque(maxlen=2 * MAX_MARKS_OF_STEP)
        self.append: Callable[[int], None] = self.pending.append
        self.clock: Callable[[], int] = perf_counter_ns
        self.is_on = False
        self.is_inner_on = False
        self.lost = 0
        self._codes: frozenset[int] = frozenset()
        # The lines whose marks were left out of steps that were kept.
        self.left_out: frozenset[int] = frozenset()
        self._looped: frozenset[int] = frozenset()
        self._kept = array("q")

    def be_unseen(self) -> None:
        """Keep the calls of marks out of recorded stacks: Python tells no profiler what a partial function calls."""
        self.append, self.clock = partial(self.pending.append), partial(perf_counter_ns)

    def mark(self, line: int) -> None:
        """Note that a line begins, or none of the cell's with ``NO_LINE``."""
        if self.is_on:
            self.append(self.clock())
            self.append(line)

    def be_of(self, *codes: CodeType | None) -> None:
        """Tell the code of the cell, which is not kept: it holds this object, and Python could free neither."""
        self._codes = frozenset(map(id, codes))

    def mark_running(self) -> None:
        """Note that a line of the cell goes on as a step begins: the step was made in what the line calls.

        A line that makes the step itself, as the header of a loop does, is over, or notes itself.
        """
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to the callers
        is_in_called = False
        while frame is not None and id(frame.f_code) not in self._codes:
            is_in_called |= not frame.f_code.co_filename.startswith(OWN_FOLDER)
            frame = frame.f_back
        if frame is not None and is_in_called:
            self.mark(frame.f_lineno)

    def switch(self, *, is_on: bool) -> None:
        """Begin or end to note lines; marks in inner loops stay off once they were too many."""
        if is_on and not self.is_on:
            self.is_on = self.is_inner_on = True
        elif not is_on:
            self.is_on = self.is_inner_on = False

    def end_step(self, dur_ns: int, is_kept: bool) -> None:
        """Keep the marks of a step, or drop them. Where they cost too much, leave those in inner loops out."""
        count = len(self.pending) // 2
        if is_kept and self.is_on and not self.is_inner_on:
            self.left_out |= self._looped
        if self.is_inner_on and count * MARK_NS > MOST_OF_STEP * max(dur_ns, 1):
            self.is_inner_on = False
            begun = Counter(number for number in self.pending if number <= MAX_LINE)
            self._looped = frozenset(line for line, times in begun.items() if times >= LEAST_OF_LOOP)
        if is_kept:
            if count >= MAX_MARKS_OF_STEP or len(self._kept) > 2 * MAX_MARKS:
                self.lost += 1
            if len(self._kept) <= 2 * MAX_MARKS:
                self._kept.extend(self.pending)
        self.pending.clear()

    def take(self) -> array[int]:
        """Return what was kept since the last call."""
        kept, self._kept = self._kept, array("q")
        return kept
