"""What runs in a range of a timeline that is too long for a page."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from made_slices import OPS, STREAM, THREAD, WAITS, Made, make_slices, random_slices

from torchprof_magic.tables.timeline.slice_ranges import SliceRanges, Sum
from torchprof_magic.tables.timeline.slice_windows import SliceWindows

if TYPE_CHECKING:
    from torchprof_magic.model.shapes import Slices


def ranges(*slices: Made) -> SliceRanges:
    return SliceRanges(SliceWindows(make_slices(*slices)))


def by_name(frame: pl.DataFrame, *columns: str) -> dict[str | None, tuple[object, ...]]:
    return {row[0]: row[1:] for row in frame.select(pl.col("name").cast(pl.String), *columns).rows()}


def test_waits_are_cut_at_the_edges_of_a_range_and_summed_by_cause() -> None:
    found = ranges(
        Made(WAITS, 0, 100, note="A"),
        Made(WAITS, 100, 20, note="B\tfile.py:3"),
        Made(WAITS, 120, 10, note="A"),
        Made(WAITS, 300, 100, note="A"),
        Made(WAITS, 130, 170, depth=1),
        Made(STREAM, 130, 170),
    )
    # Of A: 40 ns of the first, the third whole, and 50 ns of the last.
    assert found.sums(60, 350) == [Sum(WAITS, "", 1, 170), Sum(WAITS, "A", 3, 100), Sum(WAITS, "B", 1, 20)]
    assert found.sums(400, 500) == []


def test_what_ops_inside_an_op_take_is_not_its_own_and_a_recursive_call_counts_once() -> None:
    found = ranges(
        Made(THREAD, 0, 100, "outer"),
        Made(THREAD, 10, 60, "inner", depth=1),
        Made(THREAD, 20, 30, "outer", depth=2),
        Made(THREAD, 200, 10, "inner"),
    )
    table = found.ops(0, 1000)
    assert by_name(table, "calls", "self_cpu_ns", "total_cpu_ns") == {
        "outer": (2, 70, 100),
        "inner": (2, 40, 70),
    }
    assert by_name(table, "self_cpu_ratio") == {"outer": (70 / 110,), "inner": (40 / 110,)}


def test_a_range_cuts_ops_and_what_is_inside_them() -> None:
    found = ranges(Made(THREAD, 0, 100, "outer"), Made(THREAD, 10, 60, "inner", depth=1))
    # From 50 to 80: 30 ns of the outer one, of which the inner one takes 20.
    assert by_name(found.ops(50, 80), "calls", "self_cpu_ns", "total_cpu_ns") == {
        "outer": (1, 10, 30),
        "inner": (1, 20, 20),
    }


def test_device_time_belongs_to_the_op_that_launched_it_also_from_before_the_range() -> None:
    found = ranges(
        Made(THREAD, 0, 10, "mm"),
        Made(STREAM, 50, 40, "gemm", op=0, phase="backward"),
        Made(STREAM, 100, 20, "copy"),
    )
    table = found.ops(60, 200)
    assert by_name(table, "calls", "self_device_ns", "kernels", "phase") == {
        "mm": (0, 30, 1, "backward"),
        None: (0, 20, 1, "forward"),
    }


def test_the_steps_have_a_row_but_no_part_in_the_ratios() -> None:
    found = ranges(Made(THREAD, 0, 100, "ProfilerStep"), Made(THREAD, 10, 20, "mm", depth=1))
    ratios = by_name(found.ops(0, 100), "self_cpu_ns", "self_cpu_ratio")
    assert ratios["mm"] == (20, 1.0)
    assert ratios["ProfilerStep"][0] == 80


def test_kernels_are_summed_by_name_and_their_longest_run_is_not_cut() -> None:
    found = ranges(
        Made(STREAM, 0, 100, "gemm"), Made(STREAM, 100, 20, "add", phase="backward"), Made(STREAM, 200, 30, "gemm")
    )
    table = found.kernels(60, 1000)
    assert by_name(table, "calls", "sum_ns", "mean_ns", "max_ns", "phase") == {
        "gemm": (2, 70, 35.0, 100, "forward"),
        "add": (1, 20, 20.0, 20, "backward"),
    }
    assert table["sum_ns"].to_list() == [70, 20]


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
        calls = by_name(counted.ops(start, end), "calls", "self_cpu_ns", "total_cpu_ns")
        calls.pop(None, None)  # what no known op launched
        assert calls == ops_in(slices, start, end)


def waits_in(slices: Slices, start: int, end: int) -> list[tuple[str, int, int]]:
    time, count = Counter[str](), Counter[str]()
    for row in slices.frame.filter(pl.col("lane") == WAITS).rows(named=True):
        cut = min(end, row["start_ns"] + row["dur_ns"]) - max(start, row["start_ns"])
        if row["start_ns"] < end and row["start_ns"] + row["dur_ns"] > start:
            cause = row["note"].split("\t")[0] if row["kind"] == "idle" else ""
            time[cause] += cut
            count[cause] += 1
    return sorted((cause, count[cause], time[cause]) for cause in time if time[cause])


def ops_in(slices: Slices, start: int, end: int) -> dict[str, tuple[int, int, int]]:
    """Count one op after the other, with the open ones on a stack."""
    rows = slices.frame.filter(pl.col("lane") == THREAD).sort("start_ns", OPS, maintain_order=True).rows(named=True)
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    open_: list[dict[str, object]] = []
    for row in rows:
        cut = min(end, row["start_ns"] + row["dur_ns"]) - max(start, row["start_ns"])
        if not (row["start_ns"] < end and row["start_ns"] + row["dur_ns"] > start):
            continue
        open_ = open_[: row[OPS]]
        if open_:
            sums[str(open_[-1]["name"])][1] -= cut
        own = sums[row["name"]]
        own[0] += 1
        own[1] += cut
        own[2] += 0 if any(each["name"] == row["name"] for each in open_) else cut
        open_.append(row)
    return {name: tuple(values) for name, values in sums.items()}
