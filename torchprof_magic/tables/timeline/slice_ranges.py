"""Ops, kernels and waits in a range of a timeline. Times are cut at its edges; a call counts if any of it lies inside.

For recordings that a page holds whole, ``js/src/layout/range-tables.ts`` counts the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray
from torchprof_magic.tables.timeline.slice_levels import first_where, positions_between

if TYPE_CHECKING:
    from torchprof_magic.tables.timeline.slice_levels import Level
    from torchprof_magic.tables.timeline.slice_windows import SliceWindows

# The table of ops has a row for the steps, but its ratios leave them out.
STEP = "ProfilerStep"


@dataclass(frozen=True, slots=True)
class Sum:
    """Time on the lane of a device in a range: with a cause, in which it waits; without one, in which it works."""

    lane: int
    cause: str
    count: int
    ns: int


class _Group(NamedTuple):
    """The slices of one lane with one cause, in order of time, and the time of those before each."""

    lane: int
    cause: str
    rows: npt.NDArray[np.int32]
    before_ns: IntArray


class SliceRanges:
    """Counts what runs in ranges of a recording. What that needs is built on first use and kept."""

    def __init__(self, windows: SliceWindows) -> None:
        self._windows = windows

    def sums(self, start_ns: int, end_ns: int) -> list[Sum]:
        """Return for each device why it waits in a range, and how long it works; the longest time first."""
        found = [self._sum(group, start_ns, end_ns) for group in self._groups]
        return sorted((each for each in found if each.ns > 0), key=lambda each: -each.ns)

    def _sum(self, group: _Group, start_ns: int, end_ns: int) -> Sum:
        rows, before_ns = group.rows, group.before_ns
        start, dur = self._windows.times.start_ns, self._windows.times.dur_ns
        all_low, all_high = np.zeros(1, np.int64), np.array([len(rows)])
        low = first_where(all_low, all_high, lambda at: start[rows[at]] + dur[rows[at]] > start_ns)
        high = first_where(low, all_high, lambda at: start[rows[at]] >= end_ns)
        first, last = int(low[0]), int(high[0])
        if first == last:
            return Sum(group.lane, group.cause, 0, 0)
        head_ns = max(0, start_ns - int(start[rows[first]]))
        tail_ns = max(0, int(start[rows[last - 1]] + dur[rows[last - 1]]) - end_ns)
        whole_ns = int(before_ns[last] - before_ns[first])
        return Sum(group.lane, group.cause, last - first, whole_ns - head_ns - tail_ns)

    @cached_property
    def _groups(self) -> list[_Group]:
        windows, found = self._windows, []
        single = windows.shared.single
        for depth in (0, 1):
            for track in windows.tracks("waits", depth=depth).tolist():
                rows = single.row[single.first[track] : single.last[track]]
                cause = windows.times.cause[rows]
                for number in np.unique(cause).tolist():
                    own = rows[cause == number]
                    before_ns = np.concatenate(([0], np.cumsum(windows.times.dur_ns[own])))
                    found.append(_Group(int(windows.shared.lane[track]), windows.causes[number], own, before_ns))
        return found

    def ops(self, start_ns: int, end_ns: int) -> pl.DataFrame:
        """Return one row per op, and one without a name for device work of no known op."""
        host, device = self._on_host(start_ns, end_ns), self._on_device(start_ns, end_ns)
        op = pl.Series(device["op"]).set(device["op"] < 0, None)
        device = device.with_columns(self._windows.frame["name"].gather(op).alias("name"))
        launched = device.group_by("name", maintain_order=True).agg(
            pl.col("time_ns").sum().alias("self_device_ns"),
            pl.len().alias("kernels"),
            pl.col("phase").first().alias("device_phase"),
        )
        rows = host.join(launched, on="name", how="full", coalesce=True, nulls_equal=True)
        self_ns, is_step = pl.col("self_cpu_ns"), pl.col("name").cast(pl.String).eq_missing(STEP)
        return (
            rows.with_columns(pl.coalesce("phase", "device_phase"), pl.col(pl.Int64, pl.UInt32).fill_null(0))
            .with_columns((self_ns / self_ns.filter(~is_step).sum().clip(1)).alias("self_cpu_ratio"))
            .drop("device_phase")
            .sort("self_device_ns", "self_cpu_ns", descending=True)
        )

    def kernels(self, start_ns: int, end_ns: int) -> pl.DataFrame:
        """Return one row per kernel, copy or fill."""
        work = self._on_device(start_ns, end_ns)
        sums = work.group_by("name", maintain_order=True).agg(
            pl.len().alias("calls"), pl.col("time_ns").sum().alias("sum_ns"), pl.col("dur_ns").max().alias("max_ns")
        )
        return (
            sums.join(_phases(work), on="name", how="left")
            .with_columns(
                (pl.col("sum_ns") / pl.col("calls")).alias("mean_ns"),
                (pl.col("sum_ns") / pl.col("sum_ns").sum().clip(1)).alias("sum_ratio"),
            )
            .sort("sum_ns", descending=True, maintain_order=True)
        )

    def _on_host(self, start_ns: int, end_ns: int) -> pl.DataFrame:
        """Return the calls of each op: what those inside it take is not its own, and a recursive call counts once."""
        windows = self._windows
        single, (parent, is_recursive) = windows.threads(windows.first_layer).single, self._nest
        calls = self._cut(single, np.arange(len(single.first)), start_ns, end_ns)
        position = calls["position"].to_numpy()
        around = parent[position]
        calls = calls.with_columns(pl.Series("total_ns", np.where(is_recursive[position], 0, calls["time_ns"])))
        sums = calls.group_by("name", maintain_order=True).agg(
            pl.len().alias("calls"),
            pl.col("time_ns").sum().alias("self_cpu_ns"),
            pl.col("total_ns").sum().alias("total_cpu_ns"),
        )
        of_others = calls.select("time_ns").with_columns(
            windows.frame["name"].gather(single.row[around].astype(np.int64)).alias("name")
        )
        of_others = of_others.filter(pl.Series(around >= 0)).group_by("name").agg(pl.col("time_ns").sum())
        return (
            sums.join(of_others, on="name", how="left")
            .with_columns(pl.col("self_cpu_ns") - pl.col("time_ns").fill_null(0))
            .drop("time_ns")
            .join(_phases(calls), on="name", how="left")
        )

    def _on_device(self, start_ns: int, end_ns: int) -> pl.DataFrame:
        return self._cut(self._windows.shared.single, self._windows.tracks("stream"), start_ns, end_ns)

    def _cut(self, single: Level, tracks: IntArray, start_ns: int, end_ns: int) -> pl.DataFrame:
        """Return the slices of some tracks that lie in a range, with the time of each that does."""
        first, last = single.within(start_ns, end_ns)
        position, _ = positions_between(first[tracks], last[tracks])
        rows = single.row[position].astype(np.int64)
        begin, dur_ns = self._windows.times.start_ns[rows], self._windows.times.dur_ns[rows]
        time_ns = np.minimum(end_ns, begin + dur_ns) - np.maximum(start_ns, begin)
        is_inside = (time_ns > 0) | ((time_ns == 0) & (dur_ns == 0))
        slices = self._windows.frame.select("name", "phase", "op")[rows[is_inside]]
        return slices.with_columns(
            pl.Series("position", position[is_inside]),
            pl.Series("time_ns", time_ns[is_inside]),
            pl.Series("dur_ns", dur_ns[is_inside]),
        )

    @cached_property
    def _nest(self) -> tuple[IntArray, BoolArray]:
        """The position of the op around each op on a thread, or -1, and whether one of the same name is around it."""
        windows = self._windows
        threads = windows.threads(windows.first_layer)
        single = threads.single
        parent = np.full(len(single.row), NO_PARENT, np.int64)
        for track in range(1, len(threads.lane)):
            if threads.lane[track] != threads.lane[track - 1]:
                continue
            above, own = (slice(int(single.first[each]), int(single.last[each])) for each in (track - 1, track))
            at = np.searchsorted(single.starts(above), single.starts(own), side="right") - 1
            parent[own] = np.where(at >= 0, at + above.start, NO_PARENT)
        return parent, _has_own_name_above(parent, windows.frame["name"].to_physical().to_numpy()[single.row])


def _has_own_name_above(parent: IntArray, name: npt.NDArray[np.uint32]) -> BoolArray:
    found = np.zeros(len(parent), np.bool_)
    rows = np.flatnonzero(parent >= 0)
    above = parent[rows]
    while len(rows):
        found[rows[name[above] == name[rows]]] = True
        is_open = (parent[above] >= 0) & ~found[rows]
        rows, above = rows[is_open], parent[above[is_open]]
    return found


def _phases(slices: pl.DataFrame) -> pl.DataFrame:
    """Return the phase of each name that takes the most time; without time, each slice counts as 1 ns."""
    sums = slices.group_by("name", "phase", maintain_order=True).agg((pl.col("time_ns") + 1).sum())
    largest = sums.sort("time_ns", descending=True, maintain_order=True)
    return largest.group_by("name", maintain_order=True).agg(pl.col("phase").first())
