"""Windows of timelines that are too long for a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from made_slices import ALL, CALLS, OPS, STEPS, STREAM, THREAD, WAITS, Made, make_slices, random_slices

from torchprof_magic.tables.timeline import slice_levels, slice_windows
from torchprof_magic.tables.timeline.slice_windows import SliceWindows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.shapes import Slices

SUMS = ["lane", OPS, "cause"]


@pytest.fixture(autouse=True)
def _small_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make levels of some hundred slices, as there are of millions."""
    monkeypatch.setattr(slice_levels, "COARSEST_BUCKETS", 16)


def summed(frame: pl.DataFrame) -> list[tuple[object, ...]]:
    """Return the time and the number of slices by lane, depth and cause."""
    cause = pl.col("note").cast(pl.String).str.split("\t").list.first().alias("cause")
    count = pl.col("merged").sum() if "merged" in frame.columns else pl.len().cast(pl.Int64)
    rows = frame.filter(pl.col(OPS) >= 0).with_columns(cause).group_by(SUMS)
    return rows.agg(pl.col("dur_ns").sum(), count.cast(pl.Int64).alias("count")).sort(SUMS).rows()


def spans(slices: Slices, seed: int) -> Iterator[tuple[float, float, int]]:
    """Yield windows of all sizes with their widths in pixels, the whole recording first."""
    rng = np.random.default_rng(seed)
    low, high = SliceWindows(slices).span
    yield low, high, 100
    for _ in range(40):
        length = (high - low) / 2 ** rng.uniform(0, 14)
        start = rng.uniform(low, high - length)
        yield start, start + length, int(rng.integers(20, 300))


@pytest.mark.parametrize("seed", range(8))
def test_no_time_of_any_lane_depth_or_cause_is_lost_in_any_window(seed: int) -> None:
    slices = random_slices(seed)
    windows = SliceWindows(slices)
    for start, end, pixels in spans(slices, seed):
        found = windows.window(OPS, start, end, pixels)
        begins = (pl.col("start_ns") >= found.start_ns) & (pl.col("start_ns") < found.end_ns)
        assert summed(found.slices.frame.filter(begins)) == summed(slices.frame.filter(begins))


@pytest.mark.parametrize("seed", range(4))
def test_every_slice_as_long_as_a_bucket_is_in_the_window_as_it_is(seed: int) -> None:
    slices = random_slices(seed)
    windows = SliceWindows(slices)
    for start, end, pixels in spans(slices, seed):
        found = windows.window(OPS, start, end, pixels)
        ends = pl.col("start_ns") + pl.col("dur_ns")
        overlaps = (pl.col("start_ns") < found.end_ns) & (ends > found.start_ns)
        long = slices.frame.with_row_index("slice").filter(overlaps & (pl.col("dur_ns") >= max(1, found.bucket_ns)))
        shown = found.slices.frame.filter(pl.col("merged") == 1)
        columns = ["slice", "lane", OPS, "start_ns", "dur_ns", "name", "kind"]
        missing = long.select(pl.col("slice").cast(pl.Int32), *columns[1:]).join(shown, on=columns, how="anti")
        assert missing.height == 0


def test_a_window_has_margins_of_half_its_length_which_end_at_the_ends_of_the_recording() -> None:
    windows = SliceWindows(make_slices(*(Made(STREAM, at, 1) for at in range(0, 4096, 2))))
    found = windows.window(OPS, 1024, 2048, 64)
    assert found.bucket_ns == 16
    # From 512 to 2,560, and outwards to whole buckets.
    assert (found.start_ns, found.end_ns) == (496, 2576)
    found = windows.window(OPS, 0, 4096, 64)
    assert (found.start_ns, found.end_ns) == (-64, 4096)


def test_rows_follow_pixels_rather_than_slices() -> None:
    windows = SliceWindows(make_slices(*(Made(STREAM, at, 1) for at in range(0, 100_000, 2))))
    for pixels in (10, 100, 1000):
        # At most two buckets for each pixel, and as many again in the margins.
        assert windows.window(OPS, 25_000, 75_000, pixels).slices.frame.height <= 4 * pixels + 3


def test_more_rows_than_a_window_may_have_are_merged_into_longer_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_windows, "MOST_ROWS", 50)
    windows = SliceWindows(make_slices(*(Made(STREAM, at, 1) for at in range(0, 10_000, 2))))
    found = windows.window(OPS, 0, 10_000, 1000)
    assert found.bucket_ns == 256
    assert found.slices.frame["merged"].sum() == 5_000
    exact = windows.window(OPS, 0, 600, 1000)
    assert exact.bucket_ns == 32
    assert not exact.is_exact


def test_a_window_that_looks_at_too_many_slices_has_longer_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    # All but a few slices are within one of 64 equal parts of the recording.
    slices = make_slices(
        *(Made(STREAM, at, 1) for at in range(0, 8_192, 2)),
        *(Made(STREAM, at, 400) for at in range(8_192, 524_288, 512)),
    )
    windows = SliceWindows(slices)
    assert windows.window(OPS, 0, 8_192, 1_000).bucket_ns == 8
    monkeypatch.setattr(slice_windows, "MOST_READ", 500)
    found = windows.window(OPS, 0, 8_192, 1_000)
    assert found.bucket_ns > 8
    assert found.slices.frame.filter(pl.col("start_ns") < 8_192)["merged"].sum() == 4_096


def test_a_close_window_shows_single_slices_and_says_so() -> None:
    windows = SliceWindows(random_slices(1))
    low, high = windows.span
    middle = (low + high) / 2
    assert windows.window(OPS, middle, middle + 100, 100).is_exact
    assert not windows.window(OPS, low, high, 100).is_exact


def test_the_first_slice_after_a_window_is_known_for_every_lane() -> None:
    windows = SliceWindows(make_slices(Made(CALLS, 0, 5, "first"), Made(CALLS, 50_000, 9, "next"), Made(STREAM, 0, 9)))
    frame = windows.window(OPS, 0, 10, 10).slices.frame
    assert frame.filter(pl.col("name") == "next").select("start_ns", "dur_ns").rows() == [(50_000, 9)]


def test_windows_beyond_the_recording_are_empty_rather_than_wrong() -> None:
    windows = SliceWindows(make_slices(Made(STREAM, 100, 5)))
    found = windows.window(OPS, 1_000, 2_000, 100)
    assert found.slices.frame.filter(pl.col("start_ns") >= 200).height == 0


def test_the_threads_of_a_window_are_those_of_its_layer() -> None:
    python = Made(THREAD, 0, 90, "main.py", depth=-1, inner=0)
    op = Made(THREAD, 10, 20, "mm", depth=0, inner=1)
    windows = SliceWindows(make_slices(python, op, Made(STREAM, 15, 9, "gemm"), has_python=True))
    ops, everything = (windows.window(layer, 0, 100, 100).slices.frame for layer in (OPS, ALL))
    columns = ["name", OPS, ALL]
    assert ops.select(pl.col(columns[0]).cast(pl.String), *columns[1:]).rows() == [("gemm", 0, 0), ("mm", 0, -1)]
    names = everything.select(pl.col(columns[0]).cast(pl.String), *columns[1:]).rows()
    assert names == [("gemm", 0, 0), ("main.py", -1, 0), ("mm", -1, 1)]


def test_an_overview_has_all_lanes_and_every_step() -> None:
    slices = random_slices(3)
    windows = SliceWindows(slices)
    overview = windows.overview()
    frame, steps = overview.frame, pl.col("lane") == STEPS
    assert (
        frame.filter(steps).select("start_ns", "dur_ns").rows()
        == slices.frame.filter(steps).select("start_ns", "dur_ns").rows()
    )
    assert summed(frame) == summed(slices.frame)
    assert overview.excerpt is not None
    low, high = windows.span
    assert (overview.excerpt.slices, overview.excerpt.start_ns, overview.excerpt.end_ns) == (
        slices.frame.height,
        low,
        high,
    )


def test_an_excerpt_has_the_longest_slices_that_fit_and_the_time_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    slices = random_slices(4)
    monkeypatch.setattr(slice_windows, "WHOLE_SLICES", slices.frame.height // 2)
    excerpt = SliceWindows(slices).excerpt()
    assert slices.frame.height // 8 < excerpt.frame.height <= slices.frame.height // 2
    assert summed(excerpt.frame) == summed(slices.frame)
    assert excerpt.excerpt is not None
    shown = set(excerpt.frame.filter(pl.col("merged") == 1)["slice"].to_list())
    long = slices.frame.with_row_index().filter(pl.col("dur_ns") >= excerpt.excerpt.bucket_ns)["index"]
    assert set(long.to_list()) <= shown


def test_a_slice_that_two_layers_show_is_one_row_of_an_overview() -> None:
    op = Made(THREAD, 10, 2000, "mm", depth=0, inner=1)
    slices = make_slices(Made(THREAD, 0, 4000, "main.py", depth=-1, inner=0), op, has_python=True)
    frame = SliceWindows(slices).overview().frame
    assert frame.select("slice", OPS, ALL).rows() == [(0, -1, 0), (1, 0, 1)]


def launched() -> Slices:
    """Return an op with two calls, of which one launched a kernel, and a kernel of another op, far away."""
    return make_slices(
        Made(THREAD, 0, 100, "mm", op=-1),
        Made(THREAD, 5_000, 100, "add"),
        Made(CALLS, 10, 5, "cudaLaunchKernel", op=0),
        Made(CALLS, 5_010, 5, "cudaLaunchKernel", op=1),
        Made(STREAM, 1_000, 500, "gemm", source=2, op=0),
        Made(STREAM, 9_000, 500, "add kernel", source=3, op=1),
    )


def names_around(slices: Slices, number: int) -> set[str]:
    return set(SliceWindows(slices).around(number, OPS).frame["name"].cast(pl.String).to_list())


def test_a_kernel_comes_with_its_call_and_its_op_wherever_they_are() -> None:
    frame = SliceWindows(launched()).around(5, OPS).frame
    row = frame.filter(pl.col("slice") == 5).row(0, named=True)
    numbers = frame["slice"].to_list()
    assert (numbers[row["source"]], numbers[row["op"]]) == (3, 1)
    assert frame["merged"].to_list() == [1] * frame.height


def test_an_op_comes_with_what_it_launched() -> None:
    frame = SliceWindows(launched()).around(0, OPS).frame
    numbers = frame["slice"].to_list()
    kernel = frame.filter(pl.col("slice") == 4).row(0, named=True)
    assert (numbers[kernel["source"]], numbers[kernel["op"]]) == (2, 0)


def test_a_slice_comes_with_its_neighbors() -> None:
    slices = make_slices(*(Made(STREAM, at * 10, 5, f"k{at}") for at in range(100)), Made(5, 0, 5))
    assert {"k49", "k50", "k51"} <= names_around(slices, 50)
    assert "k55" not in names_around(slices, 50)
    assert names_around(slices, 0) >= {"k0", "k1"}
    assert names_around(slices, 99) >= {"k98", "k99"}


def test_a_wait_comes_with_the_waits_of_its_gap_and_the_work_around_it() -> None:
    slices = make_slices(
        Made(WAITS, 100, 10, "x", note="A"),
        Made(WAITS, 200, 10, "first", note="A"),
        Made(WAITS, 210, 20, "second", note="B"),
        Made(WAITS, 230, 10, "third", note="A"),
        Made(WAITS, 300, 10, "y", note="A"),
        *(Made(STREAM, at, 5, f"k{at}") for at in range(0, 1000, 5) if not 200 <= at < 240),
    )
    assert {"first", "second", "third", "k195", "k240"} <= names_around(slices, 2)
    row = SliceWindows(slices).around(2, OPS).frame.filter(pl.col("slice") == 2)
    assert row["dur_ns"].to_list() == [20]


def test_work_of_no_known_op_has_no_op_in_its_window() -> None:
    frame = SliceWindows(make_slices(Made(STREAM, 0, 5, "gemm"))).window(OPS, 0, 5, 5).slices.frame
    assert frame.select("source", "op", "by").rows() == [(-1, -1, None)]


def test_a_window_says_which_op_launched_a_kernel() -> None:
    frame = SliceWindows(launched()).window(OPS, 8_000, 10_000, 100).slices.frame
    kernel = frame.filter(pl.col("name") == "add kernel").row(0, named=True)
    assert (kernel["by"], kernel["op"]) == ("add", -1)
