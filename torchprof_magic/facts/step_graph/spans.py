"""The steps in the graph: from which moment to which one each lasts, and how long they are when it is replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.host.lanes_of_steps import lanes_of_steps
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray

if TYPE_CHECKING:
    from torchprof_magic.facts.step_graph.graph import StepGraph
    from torchprof_magic.facts.step_graph.replay import FloatArray, Replay
    from torchprof_magic.model.trace import Trace


class Spans(NamedTuple):
    """The steps, or the windows of a recording without steps: times in ns, and the moments in the graph.

    ``step`` is a row of ``trace.steps``, or -1. ``first`` and ``last`` are pieces, of which a share has passed when it
    begins and ends. ``lead_ns`` is how long it lasts before its thread has done anything, and ``tail_ns`` after that
    has done its last: events that overlap one another end earlier on it.
    """

    step: IntArray
    start_ns: IntArray
    end_ns: IntArray
    first: IntArray
    first_share: FloatArray
    last: IntArray
    last_share: FloatArray
    lead_ns: IntArray
    tail_ns: IntArray

    @property
    def dur_ns(self) -> IntArray:
        """How long each was when it was recorded."""
        return self.end_ns - self.start_ns

    def chosen(self, which: IntArray | BoolArray) -> Spans:
        """Return some of them."""
        return Spans._make(column[which] for column in self)

    def replayed_ns(self, replayed: Replay) -> FloatArray:
        """Return how long each is in a replay."""
        last, first = replayed.at(self.last, self.last_share), replayed.at(self.first, self.first_share)
        return last - first + self.lead_ns + self.tail_ns


@once_per_trace
def spans_of_steps(trace: Trace) -> Spans:
    """Return the steps whose moments are in the graph; the windows of a recording without steps."""
    graph, steps = step_graph(trace), trace.steps
    if steps.height == 0:
        return _spans_of_windows(trace, graph)
    start, end = (steps[name].to_numpy().astype(np.int64) for name in ("start_ns", "end_ns"))
    lane = np.where(lanes_of_steps(trace) < 0, graph.main, lanes_of_steps(trace))
    return _spans(graph, np.arange(steps.height), (start, end), (lane, lane))


def _spans_of_windows(trace: Trace, graph: StepGraph) -> Spans:
    """Return the windows, each until the last thread or stream in it has ended."""
    windows, pieces = windows_of(trace), graph.pieces
    ends, lanes = [], []
    for until in windows.end_ns.tolist():
        inside = np.where(pieces.end_ns <= until, pieces.end_ns, np.iinfo(np.int64).min)
        last = int(inside.argmax()) if len(inside) else NO_PARENT
        ends.append(int(pieces.end_ns[last]) if last >= 0 else until)
        lanes.append(int(pieces.lane[last]) if last >= 0 else NO_PARENT)
    step = np.full(len(ends), NO_PARENT, np.int64)
    begin = np.full(len(ends), graph.main, np.int64)
    return _spans(graph, step, (windows.start_ns, np.array(ends, np.int64)), (begin, np.array(lanes, np.int64)))


def _spans(
    graph: StepGraph, step: IntArray, times: tuple[IntArray, IntArray], lanes: tuple[IntArray, IntArray]
) -> Spans:
    first, last = _pieces_at(graph, lanes[0], times[0]), _pieces_at(graph, lanes[1], times[1], is_end=True)
    known = (first >= 0) & (last >= 0)
    step, begin, end, first, last = (column[known] for column in (step, *times, first, last))
    pieces = graph.pieces
    lead, tail = np.maximum(pieces.start_ns[first] - begin, 0), np.maximum(end - pieces.end_ns[last], 0)
    shares = pieces.share_until(first, begin), pieces.share_until(last, end)
    return Spans(step, begin, end, first, shares[0], last, shares[1], lead, tail)


def _pieces_at(graph: StepGraph, lane: IntArray, time_ns: IntArray, *, is_end: bool = False) -> IntArray:
    """Return the piece of each lane at a moment; at an end the piece that has lasted until then."""
    found = np.full(len(lane), NO_PARENT, np.int64)
    for number in np.unique(lane).tolist():
        here = lane == number
        found[here] = graph.pieces.at(number, time_ns[here] - is_end)
    if not is_end and len(graph.pieces.lane):
        # A step that begins before anything on its thread begins with the first of it.
        firsts = np.minimum(np.searchsorted(graph.pieces.lane, lane), len(graph.pieces.lane) - 1)
        found = np.where((found < 0) & (graph.pieces.lane[firsts] == lane), firsts, found)
    return found


def lag_ns(graph: StepGraph, replayed: Replay, spans: Spans) -> float:
    """Return how long devices go on after the last step has ended, with work that began to be in it when recorded."""
    pieces = graph.pieces
    begun = pieces.is_work & (pieces.start_ns < spans.end_ns.max(initial=0))
    if not begun.any() or len(spans.step) == 0:
        return 0.0
    done = (replayed.start_ns + replayed.own_ns)[begun].max()
    return max(float(done - replayed.at(spans.last, spans.last_share).max()), 0.0)
