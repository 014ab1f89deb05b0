"""Merging slices within equal parts of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from made_slices import OPS, QUEUE, STREAM, THREAD, WAITS, Made, make_slices, random_slices

from torchprof_magic.tables.timeline import slice_levels
from torchprof_magic.tables.timeline.slice_levels import Run, bucket_below, merge_run
from torchprof_magic.tables.timeline.slice_windows import SliceWindows

if TYPE_CHECKING:
    from torchprof_magic.model.shapes import Slices


def picture(slices: Slices, bucket: int) -> list[tuple[int, int, str, int]]:
    """Return start, duration, name and number of merged slices of everything that is not on a thread."""
    windows = SliceWindows(slices)
    run = windows.shared.picture(0, windows.span[1] + 1, bucket)
    names = slices.frame["name"].cast(pl.String)[run.row.astype(np.int64)].to_list()
    return list(zip(run.start_ns.tolist(), run.dur_ns.tolist(), names, run.merged.tolist(), strict=True))


def rows_of(run: Run) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in run), strict=True))


def test_slices_shorter_than_a_bucket_are_merged_where_they_begin_in_the_same_one() -> None:
    slices = make_slices(
        Made(STREAM, 0, 2, "a"), Made(STREAM, 3, 4, "b"), Made(STREAM, 8, 3, "c"), Made(STREAM, 15, 2, "d")
    )
    # Buckets of 8 begin at 0, 8 and 16: the last slice begins in the second one, and reaches into the third.
    assert picture(slices, 8) == [(0, 6, "b", 2), (8, 5, "c", 2)]


def test_a_slice_as_long_as_a_bucket_stays_as_it_is() -> None:
    slices = make_slices(
        Made(STREAM, 0, 2, "a"), Made(STREAM, 2, 8, "long"), Made(STREAM, 10, 1, "c"), Made(STREAM, 12, 1, "d")
    )
    assert picture(slices, 8) == [(0, 2, "a", 1), (2, 8, "long", 1), (10, 2, "c", 2)]


def test_the_name_of_a_merged_slice_is_that_of_the_longest_and_of_equals_the_first() -> None:
    slices = make_slices(Made(STREAM, 0, 1, "a"), Made(STREAM, 1, 3, "b"), Made(STREAM, 4, 3, "c"))
    assert picture(slices, 8) == [(0, 7, "b", 3)]


def test_a_merged_queue_is_as_long_as_its_longest() -> None:
    slices = make_slices(Made(QUEUE, 0, 5, "few", count=2), Made(QUEUE, 5, 1, "many", count=9))
    assert picture(slices, 8) == [(0, 6, "many", 2)]


def test_waits_of_different_causes_stay_apart_and_follow_one_another() -> None:
    slices = make_slices(
        Made(WAITS, 0, 1, "x", note="A"),
        Made(WAITS, 1, 2, "y", note="B\tfile.py:3"),
        Made(WAITS, 3, 2, "z", note="A"),
        Made(WAITS, 6, 1, "w", note="B\tother.py:4"),
    )
    assert picture(slices, 8) == [(0, 3, "z", 2), (3, 3, "y", 2)]


def test_merged_waits_begin_in_their_bucket_even_when_the_last_one_reaches_over_its_end() -> None:
    slices = make_slices(Made(WAITS, 1, 1, "x", note="B"), Made(WAITS, 6, 7, "y", note="A"))
    assert picture(slices, 8) == [(1, 7, "y", 1), (7, 1, "x", 1)]


def test_nothing_is_merged_without_a_bucket() -> None:
    slices = make_slices(Made(STREAM, 5, 0, "a"), Made(STREAM, 5, 0, "b"))
    assert [merged for *_, merged in picture(slices, 0)] == [1, 1]


def test_the_longest_power_of_two_within_a_span() -> None:
    assert [bucket_below(span) for span in (0.5, 1, 3, 4, 1023.9)] == [1, 1, 2, 4, 512]


@pytest.mark.parametrize("seed", range(6))
def test_a_picture_is_the_same_from_coarse_levels_as_from_single_slices(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(slice_levels, "COARSEST_BUCKETS", 8)
    monkeypatch.setattr(slice_levels, "PIECE_ROWS", 64)
    windows = SliceWindows(random_slices(seed))
    span = windows.span
    levels = [len(each.levels) for each in (windows.shared, windows.threads(OPS))]
    assert min(levels) > 2
    for pyramid in (windows.shared, windows.threads(OPS)):
        for exponent in range(1, span[1].bit_length()):
            direct = merge_run(pyramid.picture(*span, 0), 1 << exponent, windows.times)
            assert rows_of(pyramid.picture(*span, 1 << exponent)) == rows_of(direct)


def test_levels_that_save_little_are_not_kept() -> None:
    far_apart = make_slices(*(Made(STREAM, at * 1000, 900) for at in range(2_000)))
    assert [level.bucket_ns for level in SliceWindows(far_apart).shared.levels] == [0]


@pytest.mark.parametrize("bucket", [0, 16])
def test_a_long_slice_is_found_behind_shorter_ones_that_overlap_it(bucket: int) -> None:
    # Only damaged files have such slices at one depth.
    slices = make_slices(Made(STREAM, 0, 500, "long"), Made(STREAM, 10, 20, "short"), Made(STREAM, 300, 50, "later"))
    windows = SliceWindows(slices)
    run = windows.shared.picture(200, 400, bucket)
    assert {0, 2} <= set(run.row.tolist())


def test_a_recording_without_slices_on_threads_or_devices_has_no_rows() -> None:
    only_threads = SliceWindows(make_slices(Made(THREAD, 0, 5)))
    assert rows_of(only_threads.shared.picture(0, 10, 2)) == []
    assert len(rows_of(only_threads.threads(OPS).picture(0, 10, 2))) == 1
