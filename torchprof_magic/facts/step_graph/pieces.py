"""The recording in pieces, of which no two on one lane are at the same time but for work of a device.

A piece of a thread is the time in which one event is the innermost one, or in which none is: untracked time of its own.
A piece of a stream is one kernel, copy or fill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.host.asleep import asleep
from torchprof_magic.facts.host.host_nest import host_nest, lanes_of, thread_segments
from torchprof_magic.facts.host.host_states import does_more_than_python, thread_timelines
from torchprof_magic.facts.host.lanes_of_steps import lanes_of_steps
from torchprof_magic.facts.shared import device_rows, once_per_trace
from torchprof_magic.facts.step_graph.awaits import awaits_of_threads
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, all_moments

if TYPE_CHECKING:
    from torchprof_magic.facts.host.host_nest import Segments
    from torchprof_magic.model.trace import Trace


class Pieces(NamedTuple):
    """The pieces by lane and start: times in ns, and the innermost event, a row of ``trace.events`` or -1.

    ``is_first`` marks the first of each lane, ``is_work`` those of devices, and ``is_await`` those in which a thread
    does nothing until others have done something for it: run its backward pass, or communicated.
    """

    lane: IntArray
    start_ns: IntArray
    dur_ns: IntArray
    row: IntArray
    is_first: BoolArray
    is_work: BoolArray
    is_await: BoolArray

    @property
    def end_ns(self) -> IntArray:
        """The end of each piece."""
        return self.start_ns + self.dur_ns

    @property
    def threads(self) -> list[int]:
        """The lanes of threads."""
        found: list[int] = self.lane[self.is_first & ~self.is_work].tolist()
        return found

    def of_lane(self, lane: int) -> slice:
        """Return where the pieces of a lane are."""
        first, last = np.searchsorted(self.lane, (lane, lane + 1))
        return slice(int(first), int(last))

    def at(self, lane: int, time_ns: IntArray) -> IntArray:
        """Return the piece of a lane that has begun last at each moment, or -1 before the first."""
        here = self.of_lane(lane)
        found = np.searchsorted(self.start_ns[here], time_ns, side="right") - 1
        return np.where(found >= 0, found + here.start, NO_PARENT)

    def share_until(self, piece: IntArray, time_ns: IntArray) -> np.ndarray:
        """Return which share of each piece had passed at a moment, from 0 to 1."""
        passed = (time_ns - self.start_ns[piece]) / np.maximum(self.dur_ns[piece], 1)
        return np.clip(passed, 0.0, 1.0)


@once_per_trace
def main_lane(trace: Trace) -> int:
    """Return the thread that runs most steps; without steps the one that is busiest, -1 if no thread was recorded."""
    of_steps = lanes_of_steps(trace)
    of_steps = of_steps[of_steps >= 0]
    if len(of_steps):
        return int(np.bincount(of_steps).argmax())
    nest = host_nest(trace)
    lines = thread_timelines(trace)
    busy = {
        lane: _busy_ns(trace, rows) * (1 + does_more_than_python(lines[lane]))
        for lane, rows in lanes_of(nest)
        if lane in lines
    }
    return max(busy, key=busy.__getitem__, default=NO_PARENT)


def _busy_ns(trace: Trace, rows: slice) -> int:
    nest = host_nest(trace)
    outer = nest.parent[rows] < 0
    return int((nest.end_ns[rows] - nest.start_ns[rows])[outer].sum())


@once_per_trace
def pieces_of_trace(trace: Trace) -> Pieces:
    """Return the pieces of all threads and streams. Captures from other files took no time and have none."""
    parts = [_of_thread(trace, lane, segments) for lane, segments in thread_segments(trace).items()]
    parts.append(_of_devices(trace))
    joined = Pieces._make(map(np.concatenate, zip(*parts, strict=True)))
    if (joined.lane[1:] >= joined.lane[:-1]).all():
        return joined
    order = np.argsort(joined.lane, kind="stable")
    return Pieces._make(column[order] for column in joined)


def _of_thread(trace: Trace, lane: int, segments: Segments) -> Pieces:
    row = np.append(host_nest(trace).row, NO_PARENT)[segments.event]
    if len(row) == 0:
        return _pieces(np.empty(0, np.int64), *(np.empty(0, np.int64) for _ in range(3)), is_work=False)
    start, row = _cut(trace, lane, segments.start_ns, row)
    start, end, event, awaits = _with_awaits(trace, lane, start, row)
    found = _pieces(np.full(len(start), lane), start, end - start, event, is_work=False)
    return found._replace(is_await=awaits)


def _cut(trace: Trace, lane: int, start: IntArray, row: IntArray) -> tuple[IntArray, IntArray]:
    """Return the segments of a thread, cut where its steps begin and end, and where it began and ended to wait.

    What is shortened in a step is then not taken for a part of what the thread does between steps, nor what it waits
    for a part of what it does before and after.
    """
    steps, waits = trace.steps.filter(lanes_of_steps(trace) == lane), asleep(trace)
    times = [steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()]
    times += [waits.start_ns, waits.end_ns] if lane == main_lane(trace) else []
    at = np.unique(np.concatenate(times)).astype(np.int64)
    at = at[(at > start[0]) & (at < start[-1])]
    at = at[start[np.searchsorted(start, at)] != at]
    place = np.searchsorted(start, at)
    return np.insert(start, place, at), np.insert(row, place, row[place - 1])


def _with_awaits(
    trace: Trace, lane: int, start: IntArray, row: IntArray
) -> tuple[IntArray, IntArray, IntArray, BoolArray]:
    """Return the segments of a thread, cut at the times in which it waits for other threads."""
    waits = awaits_of_threads(trace)
    here = waits.lane == lane
    if not here.any():
        return start[:-1], start[1:], row[:-1], np.zeros(len(start) - 1, np.bool_)
    of = np.searchsorted(start, waits.start_ns[here], side="right") - 1
    chosen, first = np.unique(of, return_index=True)
    begin = waits.start_ns[here][first]
    stop = np.maximum.reduceat(waits.end_ns[here], first) if len(first) else begin
    begin, stop = begin[chosen >= 0], stop[chosen >= 0]
    edges = all_moments(start, begin, stop)
    event = row[np.searchsorted(start, edges, side="right") - 1]
    place = np.searchsorted(begin, edges, side="right") - 1
    is_await = (place >= 0) & (edges < np.append(stop, 0)[place])
    return edges[:-1], edges[1:], event[:-1], is_await[:-1]


def _of_devices(trace: Trace) -> Pieces:
    rows = device_rows(trace)
    start, dur, lane = (trace.events[name].to_numpy().astype(np.int64)[rows] for name in ("start_ns", "dur_ns", "lane"))
    order = np.lexsort((start, lane))
    return _pieces(lane[order], start[order], dur[order], rows[order], is_work=True)


def _pieces(lane: IntArray, start: IntArray, dur: IntArray, row: IntArray, *, is_work: bool) -> Pieces:
    is_first = np.diff(lane, prepend=NO_PARENT) != 0
    lane, row = lane.astype(np.int64), row.astype(np.int64)
    return Pieces(lane, start, dur, row, is_first, np.full(len(lane), is_work), np.zeros(len(lane), np.bool_))
