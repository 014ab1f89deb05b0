"""Why devices wait in a range of a timeline that is too long for a page."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from made_slices import STREAM, WAITS, Made, make_slices, random_slices

from torchprof_magic.tables.timeline.slice_ranges import SliceRanges, Sum
from torchprof_magic.tables.timeline.slice_windows import SliceWindows

if TYPE_CHECKING:
    from torchprof_magic.model.shapes import Slices


def ranges(*slices: Made) -> SliceRanges:
    return SliceRanges(SliceWindows(make_slices(*slices)))


def test_waits_are_cut_at_the_edges_of_a_range_and_summed_by_cause() -> None:
    found = ranges(
        Made(WAITS, 0, 100, note="A"),
        Made(WAITS, 100, 20, note="B\tfile.py:3"),
        Made(WAITS, 120, 10, note="A"),
        Made(WAITS, 300, 100, note="A"),
        Made(WAITS, 130, 170, depth=1),
        Made(STREAM, 130, 170),
    )
    # Of A: 40 ns of the first, the third whole, both in one gap, and 50 ns of the last.
    assert found.sums(60, 350) == [
        Sum(WAITS, "", 1, 170, 2), Sum(WAITS, "A", 2, 100, 2), Sum(WAITS, "B", 1, 20, 2),
    ]  # fmt: skip
    assert found.sums(400, 500) == []


@pytest.mark.parametrize("seed", range(8))
def test_sums_of_any_range_equal_those_of_all_its_slices(seed: int) -> None:
    slices = random_slices(seed)
    windows = SliceWindows(slices)
    counted = SliceRanges(windows)
    rng = np.random.default_rng(seed)
    low, high = windows.span
    for _ in range(12):
        start, end = sorted(rng.integers(low, high, 2).tolist())
        assert sorted((each.cause, each.count, each.ns) for each in counted.sums(start, end)) == waits_in(
            slices, start, end
        )


def waits_in(slices: Slices, start: int, end: int) -> list[tuple[str, int, int]]:
    time, runs, gaps = Counter[str](), Counter[str](), defaultdict[str, set[int]](set)
    gap, gap_end = 0, -1
    for row in slices.frame.filter(pl.col("lane") == WAITS).rows(named=True):
        if row["kind"] == "idle":
            gap += row["start_ns"] > gap_end  # waits of a gap touch
            gap_end = row["start_ns"] + row["dur_ns"]
        cut = min(end, row["start_ns"] + row["dur_ns"]) - max(start, row["start_ns"])
        if row["start_ns"] < end and row["start_ns"] + row["dur_ns"] > start:
            cause = row["note"].split("\t")[0] if row["kind"] == "idle" else ""
            time[cause] += cut
            runs[cause] += 1
            gaps[cause].add(gap)
    return sorted((cause, len(gaps[cause]) if cause else runs[cause], time[cause]) for cause in time if time[cause])
