"""Why devices wait in a range of a timeline, and how long they work. Times are cut at its edges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from torchprof_magic.tables.timeline.slice_levels import first_where

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.tables.timeline.slice_windows import SliceWindows


@dataclass(frozen=True, slots=True)
class Sum:
    """Time on the lane of a device in a range: with a cause, in which it waits; without one, in which it works.

    ``count`` is in how many gaps the cause is, or how often the device works. ``gaps`` is how many gaps the device has
    in the range, whatever their causes.
    """

    lane: int
    cause: str
    count: int
    ns: int
    gaps: int


class _Group(NamedTuple):
    """The slices of one lane with one cause, in order of time, the time of those before each, and the gap of each."""

    lane: int
    cause: str
    rows: npt.NDArray[np.int32]
    before_ns: IntArray
    gap: IntArray


class SliceRanges:
    """Counts what runs in ranges of a recording. What that needs is built on first use and kept."""

    def __init__(self, windows: SliceWindows) -> None:
        self._windows = windows

    def sums(self, start_ns: int, end_ns: int) -> list[Sum]:
        """Return for each device why it waits in a range, and how long it works; the longest time first."""
        cut = [(group, *self._positions(group, start_ns, end_ns)) for group in self._groups]
        gaps: dict[int, list[IntArray]] = {}
        for group, first, last in cut:
            if group.cause:
                gaps.setdefault(group.lane, []).append(group.gap[first:last])
        counts = {lane: len(np.unique(np.concatenate(each))) for lane, each in gaps.items()}
        found = [
            self._sum(group, first, last, start_ns, end_ns, counts.get(group.lane, 0))
            for group, first, last in cut
            if first < last
        ]
        return sorted((each for each in found if each.ns > 0), key=lambda each: -each.ns)

    def _positions(self, group: _Group, start_ns: int, end_ns: int) -> tuple[int, int]:
        """Return the first slice of a group that overlaps a range, and the one after the last."""
        rows = group.rows
        start, dur = self._windows.times.start_ns, self._windows.times.dur_ns
        all_low, all_high = np.zeros(1, np.int64), np.array([len(rows)])
        low = first_where(all_low, all_high, lambda at: start[rows[at]] + dur[rows[at]] > start_ns)
        high = first_where(low, all_high, lambda at: start[rows[at]] >= end_ns)
        return int(low[0]), int(high[0])

    def _sum(self, group: _Group, first: int, last: int, start_ns: int, end_ns: int, gaps: int) -> Sum:
        rows, before_ns = group.rows, group.before_ns
        start, dur = self._windows.times.start_ns, self._windows.times.dur_ns
        head_ns = max(0, start_ns - int(start[rows[first]]))
        tail_ns = max(0, int(start[rows[last - 1]] + dur[rows[last - 1]]) - end_ns)
        whole_ns = int(before_ns[last] - before_ns[first])
        count = len(np.unique(group.gap[first:last])) if group.cause else last - first
        return Sum(group.lane, group.cause, count, whole_ns - head_ns - tail_ns, gaps)

    @cached_property
    def _groups(self) -> list[_Group]:
        windows, found = self._windows, []
        single = windows.shared.single
        for depth in (0, 1):
            for track in windows.tracks("waits", depth=depth).tolist():
                rows = single.row[single.first[track] : single.last[track]]
                cause = windows.times.cause[rows]
                gap = np.cumsum(windows.times.gaps[rows])
                for number in np.unique(cause).tolist():
                    own, own_gap = rows[cause == number], gap[cause == number]
                    before_ns = np.concatenate(([0], np.cumsum(windows.times.dur_ns[own])))
                    lane = int(windows.shared.lane[track])
                    found.append(_Group(lane, windows.causes[number], own, before_ns, own_gap))
        return found
