"""The host's ops, annotations, Python frames and runtime calls, nested so that every moment has one innermost event.

Recorded Python frames do not nest properly; ``nest_properly`` says what becomes of those that do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.host.proper_nest import nest_properly, roles_of
from torchprof_magic.facts.shared import in_category, once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, depth_of, levels, nearest_marked

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

NESTED = ("cpu_op", "user_annotation", "python_function", "runtime")


class HostNest(NamedTuple):
    """Host events sorted by lane and so that each comes after the one around it.

    ``row`` is the event's row in ``trace.events``, ``parent`` an index into these arrays, or -1. Times are ns.
    """

    row: IntArray
    lane: IntArray
    start_ns: IntArray
    end_ns: IntArray
    parent: IntArray


@once_per_trace
def host_nest(trace: Trace) -> HostNest:
    """Return the host events of all threads, properly nested."""
    events = trace.events
    is_thread = (trace.lanes["kind"] == "thread").to_numpy()
    is_thread = is_thread | np.isin(np.arange(len(is_thread)), trace.meta.captured_lanes)
    lane_of = events["lane"].to_numpy()
    is_host = in_category(trace, *NESTED) & is_thread[lane_of]
    row = np.flatnonzero(is_host)
    lane = lane_of[row].astype(np.int64)
    start = events["start_ns"].to_numpy()[row]
    end = start + events["dur_ns"].to_numpy()[row]
    number = np.full(len(is_host) + 1, NO_PARENT, np.int64)
    number[row] = np.arange(len(row))
    above = nearest_marked(events["parent"].to_numpy(), events["depth"].to_numpy(), is_host)
    found = HostNest(row, lane, start, end, number[above[events["parent"].to_numpy()[row]]])
    # Any event that cuts through others on its lane, even one that is not nested here, hides what is around later ones.
    torn = np.unique(lane_of[events["overlaps"].to_numpy()])
    torn = torn[np.isin(torn, lane)]
    if len(torn) == 0:
        return found
    order, start, end, parent = nest_properly(
        found.lane, start, end, found.parent, roles_of(events["category"][row]), torn
    )
    return HostNest(row[order], lane, start, end, parent)


@once_per_trace
def nest_levels(trace: Trace) -> list[IntArray]:
    """Return the indexes in the nest by the number of events around them, from the outermost."""
    return levels(depth_of(host_nest(trace).parent))


def inherited(nest: HostNest, marks: IntArray, turns: list[IntArray]) -> tuple[IntArray, IntArray]:
    """Return for each event the lowest mark at or around it, and the innermost event that has it."""
    lowest, where = marks.copy(), np.arange(len(marks))
    for rows in turns[1:]:
        above = nest.parent[rows]
        is_weaker = lowest[rows] > lowest[above]
        weaker = rows[is_weaker]
        lowest[weaker], where[weaker] = lowest[above[is_weaker]], where[above[is_weaker]]
    return lowest, where


class Segments(NamedTuple):
    """The innermost event of a thread over time: from each ``start_ns`` to the next one; -1 where there is none."""

    start_ns: IntArray
    event: IntArray


def segments_of(nest: HostNest, rows: slice) -> Segments:
    """Return the innermost event of one lane over time; ``rows`` are all events of that lane."""
    start, end, parent = nest.start_ns[rows], nest.end_ns[rows], nest.parent[rows]
    lasting = np.flatnonzero(end > start)
    start, end, parent = start[lasting], end[lasting], parent[lasting]
    inner_first = np.argsort(end[::-1], kind="stable")
    inner_first = len(end) - 1 - inner_first
    time = np.concatenate((end[inner_first], start))
    event = np.concatenate((parent[inner_first], lasting + (rows.start or 0)))
    order = np.argsort(time, kind="stable")  # at one moment, events end from the inside out, and others begin then
    time, event = time[order], event[order]
    is_last = np.concatenate((time[1:] != time[:-1], [True])) if len(time) else np.empty(0, np.bool_)
    return Segments(time[is_last], event[is_last])


@once_per_trace
def thread_segments(trace: Trace) -> dict[int, Segments]:
    """Return the innermost event of every thread over time, by its lane; captures from other files took no time."""
    nest, beside = host_nest(trace), trace.meta.captured_lanes
    return {lane: segments_of(nest, rows) for lane, rows in lanes_of(nest) if lane not in beside}


def lanes_of(nest: HostNest) -> list[tuple[int, slice]]:
    """Return the lanes and the rows of each."""
    if len(nest.lane) == 0:
        return []
    edges = np.flatnonzero(np.diff(nest.lane)) + 1
    first, last = np.concatenate(([0], edges)), np.concatenate((edges, [len(nest.lane)]))
    return [(int(nest.lane[a]), slice(int(a), int(b))) for a, b in zip(first, last, strict=True)]


def indexes_of(nest: HostNest, rows: IntArray) -> IntArray:
    """Return the index in the nest of each row of ``trace.events``, all of which are in it."""
    index = np.empty(int(nest.row.max(initial=0)) + 1, np.int64)
    index[nest.row] = np.arange(len(nest.row))
    return index[rows]


def above_marked(nest: HostNest, is_marked: BoolArray) -> IntArray:
    """Return for each event the nearest marked one at or above it, or -1; with one more entry for event -1."""
    return nearest_marked(nest.parent, depth_of(nest.parent), is_marked).astype(np.int64)
