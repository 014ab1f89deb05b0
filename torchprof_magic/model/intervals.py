"""Nesting, union and coverage of intervals, on arrays of int64 ns."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from torchprof_magic.model.distinct import numbers_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

NO_PARENT = -1
MAX_AXIS_NS = 2.0**62
NO_END = 2**63
MAX_CLIMB = 64  # callers that are looked at for one that holds a partial overlap whole
# Rows that are nested at once; a piece takes about 150 bytes a row for a moment.
PIECE_ROWS = 1 << 20
SHALLOW = 32  # levels that are climbed one by one; deeper nests are climbed by doubling steps
MANY_TIMES = 4  # so many times as many sorted times as moments are quicker to look up the other way around
RADIX_SIZE = 2**15  # numpy sorts integers below this by radix, in linear time


def nesting_order(
    lane: IntArray, start_ns: IntArray, dur_ns: IntArray, rank: npt.NDArray[np.int8] | None = None
) -> IntArray:
    """Return the order in which every event comes after all events that enclose it: lane, start, longest first.

    Of several events with the same interval, the one with the lowest ``rank`` encloses the others. Without ranks, and
    among equal ranks, it is the first one.
    """
    order = np.argsort(start_ns, kind="stable")
    order = order[np.argsort(lane[order], kind="stable")]
    start, lanes = start_ns[order], lane[order]
    ties = np.flatnonzero((start[1:] == start[:-1]) & (lanes[1:] == lanes[:-1]))
    if len(ties) == 0:
        return order
    # Few events start together; only those are sorted by length too.
    tied = np.union1d(ties, ties + 1)
    rows = order[tied]
    keys = (-dur_ns[rows], start_ns[rows], lane[rows])
    order[tied] = rows[np.lexsort(keys if rank is None else (rank[rows], *keys))]
    return order


def nest(lane: IntArray, start_ns: IntArray, dur_ns: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
    """Return ``(parent, depth, overlaps)`` for events already in nesting order.

    ``parent`` is the row of the innermost enclosing event on the same lane, or -1. An event that only partly
    overlaps an earlier one is not its child (as in torch); ``overlaps`` marks such events.
    """
    count = len(start_ns)
    parent, depth = np.empty(count, np.int64), np.empty(count, np.int64)
    overlaps = np.empty(count, np.bool_)
    for first, last in _separate_pieces(lane, start_ns, dur_ns):
        piece = slice(first, last)
        parent[piece], depth[piece], overlaps[piece] = _nest_piece(
            lane[piece].astype(np.int64), start_ns[piece].astype(np.int64), dur_ns[piece].astype(np.int64)
        )
        parent[piece][parent[piece] >= 0] += first
    return parent, depth, overlaps


def _separate_pieces(lane: IntArray, start_ns: IntArray, dur_ns: IntArray) -> Iterator[tuple[int, int]]:
    """Yield row ranges of at least ``PIECE_ROWS`` that nest independently, to bound the memory that nesting needs."""
    count = len(start_ns)
    first = 0
    while count - first > 2 * PIECE_ROWS:
        # Nothing lies across a row that begins a lane, or begins after all before it on its lane ended.
        last = _next_gap(lane, start_ns, dur_ns, first)
        if last is None:
            break
        yield first, last
        first = last
    if first < count:
        yield first, count


def _next_gap(lane: IntArray, start_ns: IntArray, dur_ns: IntArray, first: int) -> int | None:
    at = first + PIECE_ROWS
    while at < len(start_ns):
        rows = slice(first, min(at + PIECE_ROWS, len(start_ns)))
        lane_start = first + int(np.searchsorted(lane[rows], lane[at]))
        rows = slice(lane_start, rows.stop)
        reach = np.maximum.accumulate(start_ns[rows] + dur_ns[rows])
        is_gap = (lane[rows][1:] != lane[rows][:-1]) | (start_ns[rows][1:] > reach[:-1])
        gaps = np.flatnonzero(is_gap) + lane_start + 1
        after = gaps[gaps >= at]
        if len(after):
            return int(after[0])
        at = rows.stop
    return None


def _nest_piece(lane: IntArray, start_ns: IntArray, dur_ns: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
    count = len(start_ns)
    base = _lane_offsets(lane, start_ns, start_ns + dur_ns)
    if base is None:
        nothing = np.full(count, NO_PARENT, np.int64)
        return _nest_lanes_in_turn(lane, start_ns, start_ns + dur_ns, nothing, nothing, np.ones(count, np.bool_))
    start, end = start_ns + base, start_ns + dur_ns + base
    depth = _depths_if_nested(start, end)
    parent = _parents_from_depths(depth)
    has_parent = parent >= 0
    broken = has_parent & (end > end[parent])
    # A zero-length event at its predecessor's end makes the closed form miscount, as a partial overlap does.
    broken |= has_parent & ((start >= end[parent]) | (start < start[parent]))
    if not broken.any():
        return parent, depth, np.zeros(count, np.bool_)
    return _with_regions_nested_again(start, end, parent, depth, broken)


def _lane_offsets(lane: IntArray, start_ns: IntArray, end_ns: IntArray) -> IntArray | None:
    """Return what to add to each time so that lanes follow one another on one axis without touching.

    ``None`` if the axis would not fit into int64, as with outliers on many lanes.
    """
    is_first = np.concatenate(([True], lane[1:] != lane[:-1]))
    first = np.flatnonzero(is_first)
    low = start_ns[first]
    span = np.maximum.reduceat(end_ns, first) - low + 2
    if span.astype(np.float64).sum() > MAX_AXIS_NS or (span < 0).any():
        return None
    offset = np.cumsum(span) - span - low
    return offset[np.cumsum(is_first) - 1]


def _depths_if_nested(start: IntArray, end: IntArray) -> IntArray:
    """Return how many earlier events are still open when each one starts. Correct only for properly nested events."""
    closed = np.searchsorted(np.sort(end), start, side="right")
    depth = np.arange(len(start), dtype=np.int64) - closed
    # Zero-length events close at their own start, so they count themselves as closed.
    return np.maximum(depth + _zero_length_corrections(start, end), 0)


def _zero_length_corrections(start: IntArray, end: IntArray) -> IntArray:
    """Return for each event how many zero-length events of the same instant were counted as closed before it."""
    is_zero = end == start
    if not is_zero.any():
        return np.zeros(len(start), np.int64)
    zeros_before = np.concatenate(([0], np.cumsum(is_zero)))
    last_at_start = np.searchsorted(start, start, side="right")
    rows = np.arange(len(start))
    return zeros_before[last_at_start] - zeros_before[rows]


def _parents_from_depths(depth: IntArray) -> IntArray:
    """Return the last earlier row that is one level up; rows are in nesting order."""
    count = len(depth)
    keys = np.sort(depth * count + np.arange(count, dtype=np.int64))
    level, row = np.divmod(keys, max(count, 1))
    found = np.searchsorted(keys, keys - count) - 1  # in order, which is much faster than by row
    is_child = (found >= 0) & (level[found] == level - 1)
    parent = np.empty(count, np.int64)
    parent[row] = np.where(is_child, row[found], NO_PARENT)
    return parent


def _nest_lanes_in_turn(
    lane: IntArray, start: IntArray, end: IntArray, parent: IntArray, depth: IntArray, broken: BoolArray
) -> tuple[IntArray, IntArray, BoolArray]:
    """Nest lanes that do not fit on a common axis event by event."""
    parent, depth, overlaps = parent.copy(), depth.copy(), np.zeros(len(lane), np.bool_)
    for bad_lane in np.unique(lane[broken]):
        first, last = np.searchsorted(lane, [bad_lane, bad_lane + 1])  # lanes stand one after the other
        _nest_again(range(first, last), NO_PARENT, start, end, (parent, depth, overlaps))
    return parent, depth, overlaps


def _with_regions_nested_again(
    start: IntArray, end: IntArray, parent: IntArray, depth: IntArray, broken: BoolArray
) -> tuple[IntArray, IntArray, BoolArray]:
    """Nest the events around partial overlaps event by event, and nothing else."""
    overlaps = np.zeros(len(start), np.bool_)
    reach = np.maximum.accumulate(end)
    gaps = np.concatenate(([0], np.flatnonzero(start[1:] > reach[:-1]) + 1, [len(start)]))
    done = 0
    for row in np.flatnonzero(broken).tolist():
        if row < done:
            continue
        above, region = _region_around(row, start, end, parent, gaps)
        _nest_again(region, above, start, end, (parent, depth, overlaps))
        done = region.stop
    return parent, depth, overlaps


def _region_around(row: int, start: IntArray, end: IntArray, parent: IntArray, gaps: IntArray) -> tuple[int, range]:
    """Return the closest event that holds a broken row and all that begins within it, and the rows inside it.

    Rows before the first broken one are nested correctly, and so are its ancestors; nothing changes outside the region.
    """
    above = int(parent[row])
    for _ in range(MAX_CLIMB):
        if above < 0:
            break
        last = int(np.searchsorted(start, end[above], side="left"))
        if above < row < last and end[above + 1 : last].max() <= end[above]:
            return above, range(above + 1, last)
        above = int(parent[above])
    index = int(np.searchsorted(gaps, row, side="right"))
    return NO_PARENT, range(int(gaps[index - 1]), int(gaps[index]))


def _nest_again(
    rows: range, above: int, start: IntArray, end: IntArray, result: tuple[IntArray, IntArray, BoolArray]
) -> None:
    """Write parent, depth and overlaps of a region into ``result``; ``above`` is the row around all of it, or -1."""
    parent, depth, overlaps = result
    region = slice(rows.start, rows.stop)
    local_parent, cut = _nest_with_stack(start[region].tolist(), end[region].tolist())
    local = np.asarray(local_parent, np.int64)
    parent[region] = np.where(local >= 0, local + rows.start, above)
    depth[region] = depth_of(local) + (depth[above] + 1 if above >= 0 else 0)
    overlaps[np.asarray(cut, np.int64) + rows.start] = True


def _nest_with_stack(starts: list[int], ends: list[int]) -> tuple[list[int], list[int]]:
    """Return each row's parent, and the rows that began inside an event and ended after it."""
    open_rows, open_ends = [NO_PARENT], [NO_END]
    parents: list[int] = []
    cut: list[int] = []
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        innermost = open_ends[-1]
        while start >= innermost or end > innermost:
            if start < innermost and (not cut or cut[-1] != row):
                cut.append(row)
            open_rows.pop()
            open_ends.pop()
            innermost = open_ends[-1]
        parents.append(open_rows[-1])
        open_rows.append(row)
        open_ends.append(end)
    return parents, cut


def depth_of(parent: IntArray) -> IntArray:
    """Return how many ancestors each row has. Distances double, so a chain of a million takes twenty iterations."""
    depth, ancestor = (parent >= 0).astype(np.int64), parent.astype(np.int64)
    while (has_one := ancestor >= 0).any():
        depth += np.where(has_one, depth[ancestor], 0)
        ancestor = np.where(has_one, ancestor[ancestor], NO_PARENT)
    return depth


def levels(depth: IntArray) -> list[IntArray]:
    """Return the rows of each depth, from the outermost; within a level rows keep their order."""
    if len(depth) == 0:
        return []
    deepest = int(depth.max())
    order = stable_order(depth, deepest + 1)
    return np.split(order, np.searchsorted(depth[order], np.arange(1, deepest + 1)))


def stable_order(keys: IntArray, size: int) -> IntArray:
    """Return the order that sorts keys in ``0..size-1``; equal keys keep their order."""
    return np.argsort(keys.astype(np.int16) if size <= RADIX_SIZE else keys, kind="stable")


def nearest_marked(parent: npt.NDArray[np.integer], depth: IntArray, is_marked: BoolArray) -> npt.NDArray[np.int32]:
    """Return for each row the marked row at or closest above it, or -1; one iteration per level of nesting.

    The result has one more entry at the end, for row -1.
    """
    count = len(parent)
    found = np.full(count + 1, NO_PARENT, np.int32)
    marked = np.flatnonzero(is_marked)
    if len(marked) == 0:
        return found
    found[marked] = marked
    unmarked = np.flatnonzero(~is_marked & (parent >= 0))
    for level in levels(depth[unmarked]):
        rows = unmarked[level]
        found[rows] = found[parent[rows]]
    return found


def marked_above(parent: npt.NDArray[np.integer], is_marked: BoolArray, rows: IntArray) -> IntArray:
    """Return the marked row at or closest above each of some rows, or -1; those of few rows are found by climbing."""
    found, is_end = rows.astype(np.int64), np.append(is_marked, True)
    for _ in range(SHALLOW):
        lower = np.flatnonzero(~is_end[found])
        if len(lower) == 0:
            return found
        found[lower] = parent[found[lower]]
    return nearest_marked(parent, depth_of(parent.astype(np.int64)), is_marked)[rows].astype(np.int64)


def merge_paths(parent: IntArray, label: IntArray) -> tuple[IntArray, IntArray]:
    """Return each row's path number and the first row of each path; one iteration per level of nesting.

    Two rows share a path when their labels (>= 0) are equal and their parents share a path. Numbers grow with depth,
    so a path's parent has a smaller one.
    """
    width = int(label.max(initial=0)) + 1
    path, first, used = np.full(len(label), NO_PARENT, np.int64), [], 0
    for rows in levels(depth_of(parent)):
        above = np.where(parent[rows] >= 0, path[parent[rows]], NO_PARENT)
        keys, where, inverse = np.unique((above + 1) * width + label[rows], return_index=True, return_inverse=True)
        path[rows] = used + inverse
        first.append(rows[where])
        used += len(keys)
    return path, np.concatenate(first) if first else np.empty(0, np.int64)


def rolled_up(
    values: IntArray, parent: IntArray, turns: Sequence[IntArray] | None = None, join: np.ufunc = np.add
) -> IntArray:
    """Return each value plus that of everything inside it, from the inside out.

    ``turns`` are the ``levels``, if the caller has them already; ``join`` can be another ufunc than the sum.
    """
    total = values.astype(np.int64)
    for rows in reversed((levels(depth_of(parent)) if turns is None else turns)[1:]):
        join.at(total, parent[rows], total[rows])
    return total


def self_time(parent: IntArray, dur_ns: IntArray) -> IntArray:
    """Return each event's duration minus that of its direct children, in ns, as torch computes it.

    Children that overlap each other are subtracted twice, so the result can be negative; see ``own_time``.
    """
    has_parent = parent >= 0
    covered = np.bincount(parent[has_parent], weights=dur_ns[has_parent], minlength=len(dur_ns))
    # float64 sums of ns stay exact below 2^53 ns = 104 days.
    return dur_ns - covered.astype(np.int64)


def own_time(parent: IntArray, start_ns: IntArray, dur_ns: IntArray, overlaps: BoolArray) -> IntArray:
    """Return the part of each event that no direct child covers, in ns; never negative.

    Rows are in nesting order; ``overlaps`` marks events that began inside another one of their lane and ended after it.
    """
    has_torn_children = np.zeros(len(parent) + 1, np.bool_)  # the last one answers for row -1
    has_torn_children[parent[overlaps]] = True
    has_torn_children[NO_PARENT] = False
    children = np.flatnonzero(has_torn_children[parent])
    if len(children) == 0:
        return self_time(parent, dur_ns)
    children = children[np.argsort(parent[children], kind="stable")]
    start, end = start_ns[children], start_ns[children] + dur_ns[children]
    reach = _reach_before(parent[children], start, end)
    fresh_ns = dur_ns.copy()
    fresh_ns[children] = np.maximum(end - np.maximum(start, reach), 0)
    return dur_ns - (fresh_ns - self_time(parent, fresh_ns))


def inside_earlier(group: IntArray, start_ns: IntArray, dur_ns: IntArray) -> BoolArray:
    """Return True for intervals that lie inside an earlier one of their group.

    Rows are sorted by group, and in nesting order within each group.
    """
    end_ns = start_ns + dur_ns
    reach = _reach_before(group, start_ns, end_ns)
    return (start_ns < reach) & (end_ns <= reach)


def _reach_before(group: IntArray, start_ns: IntArray, end_ns: IntArray) -> IntArray:
    """Return the latest end among the earlier rows of each row's group; for the first one its own start."""
    if len(group) == 0:
        return np.empty(0, np.int64)
    offset = _lane_offsets(group, start_ns, end_ns)
    if offset is None:
        return _reach_group_by_group(group, start_ns, end_ns)
    reach = np.empty(len(group), np.int64)
    reach[0] = start_ns[0] + offset[0]
    reach[1:] = np.maximum.accumulate(end_ns + offset)[:-1]
    return np.maximum(reach, _first_of_each(group, start_ns + offset)) - offset


def _first_of_each(group: IntArray, values: IntArray) -> IntArray:
    is_first = np.concatenate(([True], group[1:] != group[:-1]))
    return values[np.flatnonzero(is_first)][np.cumsum(is_first) - 1]


def _reach_group_by_group(group: IntArray, start_ns: IntArray, end_ns: IntArray) -> IntArray:
    """Do the same for groups that do not fit on a common axis, as with wrong clocks; one iteration per group."""
    reach = np.empty(len(group), np.int64)
    for rows in np.split(np.arange(len(group)), np.flatnonzero(group[1:] != group[:-1]) + 1):
        reach[rows[0]] = start_ns[rows[0]]
        reach[rows[1:]] = np.maximum.accumulate(end_ns[rows])[:-1]
    return reach


def innermost_at(
    lane: IntArray,
    start_ns: IntArray,
    dur_ns: IntArray,
    at_lane: IntArray,
    at_ns: IntArray,
    *,
    until_ns: IntArray | None = None,
    parent: IntArray | None = None,
) -> IntArray:
    """Return for each point (lane, time) the row of the innermost event that covers it, or -1.

    Events are in nesting order; their ``parent`` is computed if it is not given. An event includes its end.
    With ``until_ns`` each point is the start of an interval that the event must cover.
    """
    if len(start_ns) == 0 or len(at_ns) == 0:
        return np.full(len(at_ns), NO_PARENT, np.int64)
    if parent is None:
        parent, _, _ = nest(lane, start_ns, dur_ns)
    last_started = _last_started(lane, start_ns, at_lane, at_ns)
    return _climb(last_started, parent, start_ns + dur_ns, at_ns if until_ns is None else until_ns)


def _last_started(lane: IntArray, start_ns: IntArray, at_lane: IntArray, at_ns: IntArray) -> IntArray:
    """Return for each point the last event of its lane that has started, or -1."""
    found = np.full(len(at_ns), NO_PARENT, np.int64)
    for number in numbers_in(at_lane):
        first, last = np.searchsorted(lane, [number, number + 1])  # lanes stand one after the other
        here = np.flatnonzero(at_lane == number)
        at = latest_at(start_ns[first:last], at_ns[here])
        found[here] = np.where(at >= 0, first + at, NO_PARENT)
    return found


def _climb(row: IntArray, parent: IntArray, end_ns: IntArray, at_ns: IntArray) -> IntArray:
    """Walk up from the last event that started before each point until one still covers it."""
    for _ in range(SHALLOW):
        past = np.flatnonzero((row >= 0) & (end_ns[row] < at_ns))
        if len(past) == 0:
            return row
        row[past] = parent[row[past]]
    return _climb_far(row, parent, end_ns, at_ns)


def _climb_far(row: IntArray, parent: IntArray, end_ns: IntArray, at_ns: IntArray) -> IntArray:
    """Jump over 1, 2, 4, ... ancestors as long as the last of them has ended too, the longest jump first."""
    jumps = [parent]
    while ((above := jumps[-1]) >= 0).any():
        jumps.append(np.where(above >= 0, above[above], NO_PARENT))
    for jump in reversed(jumps):
        target = np.where(row >= 0, jump[row], NO_PARENT)
        row = np.where((target >= 0) & (end_ns[target] < at_ns), target, row)
    return np.where((row >= 0) & (end_ns[row] < at_ns), parent[row], row)


def merge(start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
    """Return the union of intervals as sorted, disjoint ``(starts, ends)``."""
    if len(start_ns) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.argsort(start_ns, kind="stable")
    start, reach = start_ns[order], np.maximum.accumulate(end_ns[order])
    is_first = np.concatenate(([True], start[1:] > reach[:-1]))
    is_last = np.concatenate((is_first[1:], [True]))
    return start[is_first], reach[is_last]


def union_ns(start_ns: IntArray, end_ns: IntArray) -> int:
    """Return how many ns are covered by at least one interval."""
    start, end = merge(start_ns, end_ns)
    return int((end - start).sum())


def union_by(group: npt.NDArray[np.integer], start_ns: IntArray, dur_ns: IntArray) -> dict[int, int]:
    """Return how many ns are covered by at least one interval of each group."""
    if len(group) == 0:
        return {}
    order = np.argsort(group, kind="stable")
    groups, first = np.unique(group[order], return_index=True)
    found = {}
    for number, rows in zip(groups.tolist(), np.split(order, first[1:]), strict=True):
        found[number] = union_ns(start_ns[rows], start_ns[rows] + dur_ns[rows])
    return found


def all_moments(*times_ns: IntArray) -> IntArray:
    """Return the different moments in some arrays, each of which is sorted, in order."""
    time = np.sort(np.concatenate(times_ns), kind="stable")  # which takes linear time for sorted pieces
    return time[np.concatenate(([True], time[1:] != time[:-1]))] if len(time) else time


def latest_at(start_ns: IntArray, time_ns: IntArray) -> IntArray:
    """Return which of some sorted moments is the latest at or before each time, or -1."""
    if len(time_ns) > MANY_TIMES * len(start_ns) and (time_ns[1:] >= time_ns[:-1]).all():  # looked up the other way
        first = np.searchsorted(time_ns, start_ns, side="left")
        return np.repeat(np.arange(-1, len(start_ns)), np.diff(first, prepend=0, append=len(time_ns)))
    return np.searchsorted(start_ns, time_ns, side="right") - 1


def interval_at(start_ns: IntArray, end_ns: IntArray, time_ns: IntArray) -> IntArray:
    """Return which of the intervals, sorted and disjoint, holds each moment, or -1."""
    at = latest_at(start_ns, time_ns)
    return np.where((at >= 0) & (time_ns < np.append(end_ns, 0)[at]), at, NO_PARENT)


def each_from(first: IntArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Return ``count`` numbers from ``first`` on for each row: which row each is of, and the numbers."""
    of = np.repeat(np.arange(len(count)), count)
    return of, np.arange(len(of)) + (first - (np.cumsum(count) - count))[of]


def windows_met(
    start_ns: IntArray, end_ns: IntArray, window_start: IntArray, window_end: IntArray
) -> tuple[IntArray, IntArray]:
    """Return pairs of an interval and a window that it has time in; windows are in order, and none overlap."""
    first = np.searchsorted(window_end, start_ns, side="right")
    last = np.searchsorted(window_start, end_ns, side="left")
    return each_from(first, np.maximum(last - first, 0))


def covered_ns(start_ns: IntArray, end_ns: IntArray, window_start: IntArray, window_end: IntArray) -> IntArray:
    """Return for each window how many of its ns are covered by at least one interval."""
    start, end = merge(start_ns, end_ns)
    before = np.concatenate(([0], np.cumsum(end - start)))

    def measure(at: IntArray) -> IntArray:
        index = latest_at(start, at) + 1
        last_end = np.concatenate(([np.iinfo(np.int64).min], end))[index]
        return before[index] - np.maximum(last_end - at, 0) * (index > 0)

    return measure(window_end) - measure(window_start)
