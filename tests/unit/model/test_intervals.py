from __future__ import annotations

import numpy as np
import pytest
from amount import sampled

from torchprof_magic.model import intervals
from torchprof_magic.model.intervals import (
    all_moments,
    covered_ns,
    depth_of,
    each_from,
    innermost_at,
    inside_earlier,
    levels,
    marked_above,
    merge,
    nearest_marked,
    nest,
    nesting_order,
    own_time,
    rolled_up,
    self_time,
    union_ns,
    windows_met,
)


def arrays(*rows: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lane, start, dur = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    order = nesting_order(lane, start, dur)
    return lane[order], start[order], dur[order]


def test_a_child_lies_inside_its_parent_on_the_same_lane() -> None:
    parent, depth, overlaps = nest(*arrays((0, 0, 100), (0, 10, 20), (0, 12, 5), (1, 11, 3)))
    assert parent.tolist() == [-1, 0, 1, -1]
    assert depth.tolist() == [0, 1, 2, 0]
    assert not overlaps.any()


def test_an_event_that_starts_where_another_ends_is_its_sibling() -> None:
    parent, _, overlaps = nest(*arrays((0, 0, 30), (0, 0, 10), (0, 10, 10)))
    assert parent.tolist() == [-1, 0, 0]
    assert not overlaps.any()


def test_a_partial_overlap_is_counted_and_has_no_parent_that_it_outlives() -> None:
    parent, _, overlaps = nest(*arrays((0, 0, 100), (0, 10, 20), (0, 20, 30), (0, 25, 3)))
    # 20..50 outlives 10..30, so its parent is 0..100; 25..28 lies in the later of the two.
    assert parent.tolist() == [-1, 0, 0, 2]
    assert overlaps.tolist() == [False, False, True, False]


def test_zero_length_events_nest_like_any_other() -> None:
    parent, _, _ = nest(*arrays((0, 0, 10), (0, 5, 0), (0, 5, 0), (0, 10, 0)))
    assert parent.tolist() == [-1, 0, 0, -1]


@pytest.mark.parametrize("seed", sampled(range(40)))
def test_nesting_equals_a_stack_that_reads_events_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 40, (60, 3))
    lane, start, dur = arrays(*[(int(a) % 3, int(b), int(c) // 2) for a, b, c in rows])
    parent, depth, _ = nest(lane, start, dur)
    assert parent.tolist() == _by_stack(lane.tolist(), start.tolist(), (start + dur).tolist())
    assert all(depth[row] == (depth[above] + 1 if above >= 0 else 0) for row, above in enumerate(parent))


def _by_stack(lane: list[int], start: list[int], end: list[int]) -> list[int]:
    stack: list[int] = []
    parents = []
    for row in range(len(lane)):
        while stack and (lane[stack[-1]] != lane[row] or start[row] >= end[stack[-1]] or end[row] > end[stack[-1]]):
            stack.pop()
        parents.append(stack[-1] if stack else -1)
        stack.append(row)
    return parents


def test_an_outlier_in_time_does_not_affect_other_events() -> None:
    now = 1_700_000_000 * 10**9
    rows = [(0, 0, 1)] + [(lane, now + at, dur) for lane in range(1, 13) for at, dur in ((0, 100), (10, 9))]
    strays = [(lane, at, 1) for lane in (13, 14) for at in (-(2**61), 2**61)]
    for given in (rows, [*rows, *strays]):
        parent, depth, _ = nest(*arrays(*given))
        assert depth.max() == 1
        assert (parent >= 0).sum() == 12


def test_self_time_is_the_duration_without_direct_children() -> None:
    lane, start, dur = arrays((0, 0, 100), (0, 10, 20), (0, 12, 5), (0, 50, 30))
    parent, _, _ = nest(lane, start, dur)
    assert self_time(parent, dur).tolist() == [50, 15, 5, 30]


def test_the_union_counts_overlapping_time_once() -> None:
    start, end = np.array([0, 5, 20]), np.array([10, 12, 25])
    assert union_ns(start, end) == 17
    assert [part.tolist() for part in merge(start, end)] == [[0, 20], [12, 25]]


def test_a_moment_is_in_the_interval_that_holds_it_or_in_none() -> None:
    start, end, time = np.array([10, 30]), np.array([20, 40]), np.array([9, 10, 19, 20, 35, 40])
    assert intervals.interval_at(start, end, time).tolist() == [-1, 0, 0, -1, 1, -1]


@pytest.mark.parametrize("times", [1, 40])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_the_latest_moment_is_found_however_many_times_are_asked_and_in_any_order(times: int, is_sorted: bool) -> None:
    time, found = np.array([0, 5, 5, 6, 9, 20, 30] * times), np.array([-1, 0, 0, 0, 0, 2, 2] * times)
    order = np.argsort(time, kind="stable") if is_sorted else np.arange(len(time))
    assert intervals.latest_at(np.array([5, 20, 20]), time[order]).tolist() == found[order].tolist()
    assert intervals.latest_at(np.array([], np.int64), time).tolist() == [-1] * len(time)


def test_coverage_is_cut_at_the_window() -> None:
    start, end = np.array([0, 20]), np.array([10, 30])
    covered = covered_ns(start, end, np.array([5, 12, 25]), np.array([22, 18, 40]))
    assert covered.tolist() == [7, 0, 5]


def test_nothing_covers_nothing() -> None:
    empty = np.empty(0, np.int64)
    assert union_ns(empty, empty) == 0
    assert covered_ns(empty, empty, np.array([0]), np.array([9])).tolist() == [0]


def test_a_point_belongs_to_the_innermost_event_around_it_on_its_own_lane() -> None:
    lane, start, dur = arrays((0, 0, 100), (0, 10, 20), (1, 0, 50))
    rows = innermost_at(lane, start, dur, np.array([0, 0, 0, 1, 2]), np.array([15, 40, 200, 15, 15]))
    assert rows.tolist() == [1, 0, -1, 2, -1]


def test_depth_counts_the_ancestors_of_long_chains_too() -> None:
    chain = np.arange(-1, 999)
    assert depth_of(chain).tolist() == list(range(1000))
    assert depth_of(np.array([-1, 0, 0, 2, -1])).tolist() == [0, 1, 1, 2, 0]


def test_values_roll_up_to_every_ancestor() -> None:
    assert rolled_up(np.array([1, 10, 100, 1000]), np.array([-1, 0, 1, 0])).tolist() == [1111, 110, 100, 1000]
    assert [rows.tolist() for rows in levels(np.array([0, 1, 2, 1]))] == [[0], [1, 3], [2]]


def test_own_time_is_what_no_child_covers_when_children_overlap_each_other() -> None:
    lane, start, dur = arrays((0, 0, 100), (0, 10, 30), (0, 20, 40), (0, 25, 5), (0, 90, 5), (1, 0, 9))
    parent, _, overlaps = nest(lane, start, dur)
    assert parent.tolist() == [-1, 0, 0, 2, 0, -1]
    # 10..40 and 20..60 cover 50 of the outer 100, 90..95 another 5; 25..30 is taken from the second alone.
    assert own_time(parent, start, dur, overlaps).tolist() == [45, 30, 35, 5, 5, 9]
    assert self_time(parent, dur).tolist() == [25, 30, 35, 5, 5, 9]


@pytest.mark.parametrize("seed", sampled(range(20)))
def test_own_time_equals_a_count_of_each_single_ns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 30, (25, 3))
    lane, start, dur = arrays(*[(int(a) % 2, int(b), int(c)) for a, b, c in rows])
    parent, _, overlaps = nest(lane, start, dur)
    covered: list[set[int]] = [set() for _ in parent]
    for row, above in enumerate(parent):
        if above >= 0:
            covered[above] |= set(range(start[row], start[row] + dur[row]))
    assert own_time(parent, start, dur, overlaps).tolist() == [d - len(c) for d, c in zip(dur, covered, strict=True)]


def test_an_interval_inside_an_earlier_one_of_its_group() -> None:
    group, start, dur = (np.array(column) for column in zip((0, 0, 10), (0, 2, 3), (0, 8, 9), (1, 3, 1), strict=True))
    # 8..17 outlives 0..10; 3..4 is of another group.
    assert inside_earlier(group, start, dur).tolist() == [False, True, False, False]


def test_groups_that_do_not_fit_on_a_common_axis_are_compared_too() -> None:
    far = 2**61
    group, start, dur = np.array([0, 0, 1, 1, 2, 2]), np.array([-far, far - 9, -far, 0, -far, far]), np.array([9] * 6)
    start[3], dur[2] = -far + 1, 20
    assert inside_earlier(group, start, dur).tolist() == [False, False, False, True, False, False]


def test_the_nearest_marked_row_is_the_row_itself_or_the_closest_above() -> None:
    parent, depth = np.array([-1, 0, 1, 2, -1]), np.array([0, 1, 2, 3, 0])
    marked = np.array([True, False, True, False, False])
    assert nearest_marked(parent, depth, marked).tolist() == [0, 0, 2, 2, -1, -1]


def test_the_innermost_event_is_found_under_a_stack_of_thousands() -> None:
    count = 5000
    lane, start = np.zeros(count, np.int64), np.arange(count)
    dur = 10 * count - 2 * start  # each lies 1 ns inside the one before it, on both sides
    # At 10 * count - 1 only the outermost two still run; a point at an end belongs to the event.
    found = innermost_at(lane, start, dur, np.zeros(3, np.int64), np.array([10 * count - 1, 10 * count - 3000, count]))
    assert found.tolist() == [1, 3000, count - 1]


def test_nesting_in_pieces_equals_nesting_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(7)
    lane = np.sort(random.integers(0, 3, 400))
    start, dur = random.integers(0, 900, 400), random.integers(0, 30, 400)
    order = nesting_order(lane, start, dur)
    whole = nest(lane[order], start[order], dur[order])
    assert whole[2].any()
    monkeypatch.setattr(intervals, "PIECE_ROWS", 5)
    for at_once, in_pieces in zip(whole, nest(lane[order], start[order], dur[order]), strict=True):
        assert at_once.tolist() == in_pieces.tolist()


def test_overlaps_deep_inside_are_nested_as_if_event_by_event() -> None:
    random = np.random.default_rng(11)
    for _ in range(200):
        count = int(random.integers(3, 60))
        start, dur = random.integers(0, 40, count), random.integers(0, 25, count)
        order = nesting_order(np.zeros(count, np.int64), start, dur)
        start, dur = start[order], dur[order]
        parent, depth, overlaps = nest(np.zeros(count, np.int64), start, dur)
        by_hand, cut = intervals._nest_with_stack(start.tolist(), (start + dur).tolist())
        assert (parent.tolist(), np.flatnonzero(overlaps).tolist()) == (by_hand, cut)
        assert depth.tolist() == [0 if up < 0 else int(depth[up]) + 1 for up in by_hand]


def test_all_moments_are_those_of_all_arrays_once_and_in_order() -> None:
    found = all_moments(np.array([0, 5, 9]), np.array([5, 6]), np.array([-2, 9, 9]))
    assert found.tolist() == [-2, 0, 5, 6, 9]
    assert all_moments(np.empty(0, np.int64)).tolist() == []


def test_the_nearest_marked_row_above_some_rows_is_the_one_that_all_rows_have() -> None:
    parent = np.array([-1, 0, 1, 1, 3, -1, 5])
    is_marked = np.array([True, False, True, False, False, False, False])
    rows = np.array([4, 2, 6, -1, 0])
    assert marked_above(parent, is_marked, rows).tolist() == [0, 2, -1, -1, 0]
    assert rows.tolist() == [4, 2, 6, -1, 0]


def test_a_marked_row_is_found_from_far_below() -> None:
    chain = np.arange(-1, 999)
    is_marked = np.arange(1000) == 3
    assert marked_above(chain, is_marked, np.array([999, 4, 2])).tolist() == [3, 3, -1]


def test_each_row_has_its_count_of_numbers_from_its_first_on() -> None:
    row, number = each_from(np.array([5, 0, 7]), np.array([2, 0, 3]))
    assert (row.tolist(), number.tolist()) == ([0, 0, 2, 2, 2], [5, 6, 7, 8, 9])


def test_an_interval_meets_the_windows_that_it_has_time_in() -> None:
    windows = np.array([0, 10, 20]), np.array([5, 20, 30])
    # In one, touching two without time in the second, in none, and in all.
    interval, window = windows_met(np.array([1, 12, 5, 0]), np.array([3, 20, 10, 30]), *windows)
    assert list(zip(interval.tolist(), window.tolist(), strict=True)) == [(0, 0), (1, 1), (3, 0), (3, 1), (3, 2)]
