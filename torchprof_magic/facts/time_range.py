"""A part of the time of a recording: a step, a range that was chosen, or the steps that count.

Intervals are cut at its edges, and moments are in it or not. A moment at an edge belongs to one range only, so sums of
ranges that follow one another add up to those of all of them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.model.intervals import latest_at

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray

# Before every moment that a trace can have.
_FIRST_NS = -(2**63)


class TimeRange(NamedTuple):
    """The time from ``start_ns`` until just before ``end_ns``, but for the ranges that are ``left_out``.

    ``left_out`` holds the start and the end of each, sorted and disjoint. Where there are some, the times that ``cut``
    returns are by the part's own clock, which stands still in them, so they only compare with others of the same part.
    """

    start_ns: int
    end_ns: int
    left_out: tuple[tuple[int, int], ...] = ()

    def cut(self, start_ns: IntArray, dur_ns: IntArray) -> tuple[IntArray, IntArray]:
        """Return the start and the duration of the part of each interval that lies inside; of others 0 ns at an edge.

        Nested intervals stay nested.
        """
        start = self._clock(start_ns)
        return start, self._clock(start_ns + dur_ns) - start

    def touches(self, start_ns: IntArray, dur_ns: IntArray) -> BoolArray:
        """Return which intervals have a part inside; those of 0 ns if that moment is."""
        is_begun, is_open = start_ns < self.end_ns, start_ns + dur_ns > self.start_ns
        found: BoolArray = is_begun & (is_open | ((dur_ns == 0) & (start_ns == self.start_ns)))
        if self.left_out:
            has_time, moments = self.cut(start_ns, dur_ns)[1] > 0, np.flatnonzero(dur_ns == 0)
            has_time[moments] = self.holds(start_ns[moments])
            found &= has_time
        return found

    def holds(self, time_ns: IntArray) -> BoolArray:
        """Return which moments are inside."""
        found: BoolArray = (time_ns >= self.start_ns) & (time_ns < self.end_ns)
        if self.left_out:
            starts, ends = np.array(self.left_out, np.int64).T
            found &= time_ns >= np.append(_FIRST_NS, ends)[latest_at(starts, time_ns) + 1]
        return found

    def _clock(self, time_ns: IntArray) -> IntArray:
        """Return the times by the clock of the part."""
        time: IntArray = np.clip(time_ns, self.start_ns, self.end_ns)
        if not self.left_out:
            return time
        starts, ends = np.array(self.left_out, np.int64).T
        begun = latest_at(starts, time) + 1
        stood = np.append(0, np.cumsum(ends - starts))
        # After a range that is left out, the clock has stood for as long as that; in it, it is where it began.
        return np.maximum(time - stood[begun], np.append(_FIRST_NS, starts - stood[:-1])[begun])


# Every moment that a trace can have.
WHOLE = TimeRange(_FIRST_NS, 2**63 - 1)
