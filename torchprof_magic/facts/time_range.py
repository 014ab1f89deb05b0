"""A part of a recording, for views that show only what lies in it.

Events are cut at its edges, and device work counts where it ran, as in the tables of ops and kernels of a range. What
an event belongs to, such as its line or its forward op, is found in the whole recording. So times and bytes of ranges
that follow one another add up to those of all of them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray


class TimeRange(NamedTuple):
    """The time from ``start_ns`` until just before ``end_ns``."""

    start_ns: int
    end_ns: int

    def cut(self, start_ns: IntArray, dur_ns: IntArray) -> tuple[IntArray, IntArray]:
        """Return the start and the duration of the part of each interval that lies inside; of others 0 ns at an edge.

        Nested intervals stay nested.
        """
        start = np.clip(start_ns, self.start_ns, self.end_ns)
        return start, np.clip(start_ns + dur_ns, self.start_ns, self.end_ns) - start

    def touches(self, start_ns: IntArray, dur_ns: IntArray) -> BoolArray:
        """Return which intervals have a part inside; those of 0 ns if that moment is."""
        is_begun, is_open = start_ns < self.end_ns, start_ns + dur_ns > self.start_ns
        return is_begun & (is_open | ((dur_ns == 0) & (start_ns == self.start_ns)))

    def holds(self, time_ns: IntArray) -> BoolArray:
        """Return which moments are inside."""
        return (time_ns >= self.start_ns) & (time_ns < self.end_ns)


# Every moment that a trace can have.
WHOLE = TimeRange(-(2**63), 2**63 - 1)
