"""The part of a recording in which waiting and idle time are looked for: from its first step to the end of its last."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.model.intervals import BoolArray, IntArray, interval_at
from torchprof_magic.model.trace import DEVICE_CATEGORIES

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace

_LAST_NS = np.iinfo(np.int64).max
_PROGRAM = ("cpu_op", "user_annotation", "runtime")


class Windows(NamedTuple):
    """One window for each recording cycle, in order of time, in ns; ``has_steps`` is False where the file has none."""

    start_ns: IntArray
    end_ns: IntArray
    has_steps: bool

    @property
    def whole_ns(self) -> int:
        """The time in all windows together."""
        return int((self.end_ns - self.start_ns).sum())

    def holds(self, time_ns: IntArray) -> BoolArray:
        """Return which moments are in a window."""
        return interval_at(self.start_ns, self.end_ns, time_ns) >= 0

    def without(self, start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
        """Return the starts and ends of what no interval covers of the windows; intervals are sorted and disjoint."""
        starts, ends = [start_ns[:0]], [end_ns[:0]]
        for first, last in zip(self.start_ns.tolist(), self.end_ns.tolist(), strict=True):  # a window for each cycle
            inside = (end_ns > first) & (start_ns < last)
            starts.append(np.concatenate(([first], np.clip(end_ns[inside], first, last))))
            ends.append(np.concatenate((np.clip(start_ns[inside], first, last), [last])))
        whole_start, whole_end = np.concatenate(starts), np.concatenate(ends)
        is_left = whole_end > whole_start
        return whole_start[is_left], whole_end[is_left]

    def in_part(self, part: TimeRange) -> Windows:
        """Return the windows as far as they lie in a part of the time; of others 0 ns at an edge."""
        start_ns, dur_ns = part.cut(self.start_ns, self.end_ns - self.start_ns)
        return Windows(start_ns, start_ns + dur_ns, self.has_steps)


@once_per_trace
def windows_of(trace: Trace) -> Windows:
    """Return the window of every cycle.

    It lasts from the start of the first to the end of the last complete step. Without steps it lasts from the first op,
    annotation or runtime call to the end of the last op or of the last work on a device, whichever is later.
    """
    steps, is_complete = trace.steps, trace.steps["complete"]
    if is_complete.any() and not is_complete.all():
        steps = steps.filter(is_complete)
    if steps.height:
        cycles, of = np.unique(steps["cycle"].to_numpy(), return_inverse=True)
        first_ns, last_ns = np.full(len(cycles), _LAST_NS), np.full(len(cycles), -_LAST_NS)
        np.minimum.at(first_ns, of, steps["start_ns"].to_numpy())
        np.maximum.at(last_ns, of, steps["end_ns"].to_numpy())
        return _windows(first_ns, last_ns, has_steps=True)
    end_ns = pl.col("start_ns") + pl.col("dur_ns")
    is_last = pl.col("category").is_in(("cpu_op", *DEVICE_CATEGORIES))
    ends = (
        trace.events.filter(pl.col("category").is_in((*_PROGRAM, *DEVICE_CATEGORIES)))
        .group_by("cycle")
        .agg(
            pl.col("start_ns").filter(pl.col("category").is_in(_PROGRAM)).min(),
            pl.coalesce(end_ns.filter(is_last).max(), end_ns.max()).alias("end_ns"),
            pl.col("start_ns").min().alias("first"),
        )
    )
    ends = ends.with_columns(pl.coalesce("start_ns", "first").alias("start_ns"))
    return _windows(ends["start_ns"].to_numpy(), ends["end_ns"].to_numpy(), has_steps=False)


def _windows(start_ns: IntArray, end_ns: IntArray, *, has_steps: bool) -> Windows:
    order = np.argsort(start_ns, kind="stable")
    start_ns, end_ns = start_ns[order], end_ns[order]
    # Cycles follow one another; damaged times must not count a moment twice.
    reach = np.maximum.accumulate(np.concatenate(([np.iinfo(np.int64).min], end_ns)))[: len(start_ns)]
    start_ns = np.maximum(start_ns, reach)
    return Windows(start_ns, np.maximum(end_ns, start_ns), has_steps)
