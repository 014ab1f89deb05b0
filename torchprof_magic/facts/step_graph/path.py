"""The critical path of each step: what follows on what, from its end back to its begin, without a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.step_graph.edges import ASSUMED, KINDS
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.facts.step_graph.replay import replay
from torchprof_magic.facts.step_graph.spans import spans_of_steps
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray

if TYPE_CHECKING:
    from torchprof_magic.facts.step_graph.graph import StepGraph
    from torchprof_magic.facts.step_graph.replay import FloatArray, Replay
    from torchprof_magic.facts.step_graph.spans import Spans
    from torchprof_magic.model.trace import Trace


class CriticalPath(NamedTuple):
    """The paths of all steps, one after the other, each in order of time and without pauses; times in ns.

    ``span`` numbers the steps. ``piece`` is the piece that ran, or -1 where an edge took the time: then ``kind`` is
    that of the edge, else -1. ``slack_ns`` is by how much it can become shorter, and the step with it, until another
    path is the longest.
    """

    span: IntArray
    piece: IntArray
    kind: IntArray
    start_ns: IntArray
    dur_ns: IntArray
    slack_ns: IntArray

    @property
    def end_ns(self) -> IntArray:
        """The end of each part."""
        return self.start_ns + self.dur_ns


class Deciders(NamedTuple):
    """For each piece with edges the one that decides when it begins, else -1; and by how much it is the latest."""

    edge: IntArray
    margin_ns: FloatArray


@once_per_trace
def critical_path(trace: Trace) -> CriticalPath:
    """Return the critical path of every step as it was recorded."""
    return path_of(step_graph(trace), replay_as_recorded(trace), spans_of_steps(trace))


@once_per_trace
def replay_as_recorded(trace: Trace) -> Replay:
    """Return the replay of the graph without a change."""
    return replay(step_graph(trace))


def deciders(graph: StepGraph, replayed: Replay) -> Deciders:
    """Return which edge decides when each piece begins."""
    target, ready = graph.edges.target, replayed.ready_ns
    order = np.lexsort((ready, target))
    is_last = np.append(target[order][1:] != target[order][:-1], True) if len(order) else np.empty(0, np.bool_)
    last = np.flatnonzero(is_last)
    edge, margin = np.full(len(graph.head), NO_PARENT, np.int64), np.full(len(graph.head), np.inf)
    edge[target[order[last]]] = order[last]
    has_second = np.append(False, ~is_last[:-1])[last] if len(last) else is_last
    first, second = order[last[has_second]], order[last[has_second] - 1]
    margin[target[first]] = ready[first] - ready[second]
    return Deciders(edge, margin)


def path_of(graph: StepGraph, replayed: Replay, spans: Spans, *, by_replay: bool = False) -> CriticalPath:
    """Return the critical path of each step, at the times at which it was recorded, or at those of the replay."""
    walk = _Walk(graph, replayed, deciders(graph, replayed), by_replay=by_replay)
    parts = [walk.of(spans, at) for at in range(len(spans.step))]
    return CriticalPath(*map(np.concatenate, zip(*parts, strict=True))) if parts else _NONE


class Legs(NamedTuple):
    """The last part of the paths to some moments: each since the last piece of a kind, or the begin of its span.

    ``path`` has all of them, numbered by its ``span``. ``before`` is for each leg that piece, or -1.
    """

    path: CriticalPath
    before: IntArray


def legs_of(
    graph: StepGraph, replayed: Replay, spans: Spans, targets: tuple[IntArray, FloatArray], *, stops: BoolArray
) -> Legs:
    """Return the leg to each target, a moment in a piece, with the span that each is of; ``stops`` are such pieces."""
    walk = _Walk(graph, replayed, deciders(graph, replayed), by_replay=False)
    count = np.arange(len(stops))
    last = np.maximum.accumulate(np.where(stops, count, NO_PARENT)) if len(stops) else count
    found = [walk.leg(spans, at, piece, share, last) for at, (piece, share) in enumerate(zip(*targets, strict=True))]
    parts = [path for path, _ in found]
    path = CriticalPath(*map(np.concatenate, zip(*parts, strict=True))) if parts else _NONE
    return Legs(path, np.array([before for _, before in found], np.int64))


_NONE = CriticalPath(*(np.empty(0, np.int64) for _ in CriticalPath._fields))


class _Walk:
    """Goes back from the end of a step over the edges that decide."""

    def __init__(self, graph: StepGraph, replayed: Replay, found: Deciders, *, by_replay: bool) -> None:
        self._graph = graph
        self._found = found
        pieces = graph.pieces
        self._kind = np.append(graph.edges.kind, ASSUMED)
        self._start = replayed.start_ns if by_replay else pieces.start_ns
        self._dur = replayed.own_ns if by_replay else pieces.dur_ns

    def of(self, spans: Spans, at: int) -> CriticalPath:
        """Return the path of one step."""
        begin = self._begin(spans, at)
        runs, _ = self._runs(int(spans.last[at]), float(spans.last_share[at]), begin)
        path = _cut(self._parts(runs, at, begin), begin)
        return _with_tail(path, at, self._moment(int(spans.last[at]), 1.0), int(spans.tail_ns[at]))

    def leg(self, spans: Spans, at: int, piece: int, share: float, stops: IntArray) -> tuple[CriticalPath, int]:
        """Return the last leg to a moment, and the piece before it; ``stops`` is the last such piece by each piece."""
        begin = self._begin(spans, at)
        runs, before = self._runs(int(piece), float(share), begin, stops)
        parts = self._parts(runs, at, begin)
        if before >= 0:
            parts = CriticalPath(*(column[2:] for column in parts))  # an edge to it, and itself
        return _cut(parts, begin), before

    def _begin(self, spans: Spans, at: int) -> float:
        return self._moment(int(spans.first[at]), float(spans.first_share[at])) - float(spans.lead_ns[at])

    def _moment(self, piece: int, share: float) -> float:
        return float(self._start[piece] + share * self._dur[piece])

    def _runs(
        self, piece: int, share: float, begin: float, stops: IntArray | None = None
    ) -> tuple[list[tuple[int, int, float, int]], int]:
        """Return runs of pieces, the last one first: from which to which, the share of that, and the edge before.

        They go back to the begin, or to the last of the pieces at which to stop, which is returned as well, else -1.
        """
        head, edge, edges = self._graph.head, self._found.edge, self._graph.edges
        runs: list[tuple[int, int, float, int]] = []
        while True:
            first = int(head[piece])
            by = int(edge[first])
            # What a leg leads to is no stop of it.
            stop = NO_PARENT if stops is None or piece - (not runs) < 0 else int(stops[piece - (not runs)])
            if stop >= first and self._start[stop] > begin:
                return [*runs, (stop, piece, share, NO_PARENT)], stop
            if self._start[first] <= begin:
                # What ran before the step is left out: the thread may have done the same since the first step.
                first += int(np.searchsorted(self._start[first : piece + 1], begin, side="right")) - 1
                by = NO_PARENT
            runs.append((first, piece, share, by))
            if by < 0:
                return runs, NO_PARENT
            piece, share = int(edges.source[by]), float(edges.share[by])

    def _parts(self, runs: list[tuple[int, int, float, int]], at: int, begin: float) -> CriticalPath:
        runs.reverse()
        first, last, by = (np.array([run[column] for run in runs], np.int64) for column in (0, 1, 3))
        share = np.array([run[2] for run in runs])
        count = last - first + 2  # an edge, and then the pieces
        of = np.repeat(np.arange(len(runs)), count)
        place = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
        is_edge = place == 0
        piece = np.where(is_edge, NO_PARENT, first[of] + place - 1)
        known = np.maximum(piece, 0)
        start, dur = self._start[known].astype(np.float64), self._dur[known].astype(np.float64)
        # Work can begin before the call that launched it has returned.
        until = np.append(self._start[first[1:]], np.inf)
        ends = np.minimum(start + np.where(piece == last[of], share[of], 1.0) * dur, until[of])
        start = np.minimum(start, ends)
        begun = float(self._start[first[0]])
        since = np.append(begun, ends[:-1])
        start = np.where(is_edge, since, start)
        ends = np.where(is_edge, np.maximum(self._start[first[of]], since), ends)
        start[0] = min(begin, begun) if by[0] < 0 else begun  # what holds it before is not known, or not of the step
        kind = np.where(is_edge, self._kind[by[of]], NO_PARENT)
        left = np.minimum.accumulate(self._found.margin_ns[first][::-1])[::-1]  # of this head and all that follow
        after = np.append(left[1:], np.inf)
        slack = np.minimum(np.where(is_edge, left[of], after[of]), ends - start)
        start_ns, end_ns = np.rint(start).astype(np.int64), np.rint(ends).astype(np.int64)
        return CriticalPath(
            np.full(len(of), at, np.int64),
            piece,
            kind,
            start_ns,
            end_ns - start_ns,
            np.rint(np.maximum(slack, 0)).astype(np.int64),
        )


def _cut(path: CriticalPath, begin: float) -> CriticalPath:
    """Return the path from a moment on, without parts that take no time."""
    start = np.maximum(path.start_ns, round(begin))
    dur = path.end_ns - start
    cut = path._replace(start_ns=start, dur_ns=dur, slack_ns=np.minimum(path.slack_ns, np.maximum(dur, 0)))
    return CriticalPath(*(column[dur > 0] for column in cut))


def _with_tail(path: CriticalPath, at: int, since: float, tail_ns: int) -> CriticalPath:
    """Return the path of a step with the time after its thread has done its last: nothing says what it waits for."""
    if tail_ns <= 0:
        return path
    tail = CriticalPath(*(np.array([value], np.int64) for value in (at, NO_PARENT, ASSUMED, round(since), tail_ns, 0)))
    return CriticalPath(*(np.concatenate(both) for both in zip(path, tail, strict=True)))


def edge_title(kind: int) -> str:
    """Return the name of a kind of edge."""
    return list(KINDS)[kind]
