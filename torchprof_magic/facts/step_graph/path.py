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
    walk = _Walk(graph, replayed, by_replay=by_replay)
    begin = walk.begins_of(spans)
    runs, _ = walk.back_from(spans.last, spans.last_share, begin)
    return _with_tails(_cut(walk.parts_of(runs, begin), begin), walk.moments(spans.last, 1.0), spans.tail_ns)


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
    walk = _Walk(graph, replayed, by_replay=False)
    begin = walk.begins_of(spans)
    runs, before = walk.back_from(
        *targets, begin, np.maximum.accumulate(np.where(stops, np.arange(len(stops)), NO_PARENT))
    )
    parts = walk.parts_of(runs, begin)
    # The first two of a leg with a piece before it are an edge to that piece, and itself.
    is_of_leg = (_places_in(parts.span) >= 2) | (before < 0)[parts.span]  # noqa: PLR2004
    return Legs(_cut(_chosen(parts, is_of_leg), begin), before)


class _Runs(NamedTuple):
    """Runs of pieces on one lane each, by span and in order of time.

    Each goes from ``first`` to ``share`` of ``last``, after the edge ``by``, or -1. ``slack_ns`` is the smallest margin
    of the edges from here on to the end of the path.
    """

    span: IntArray
    first: IntArray
    last: IntArray
    by: IntArray
    share: FloatArray
    slack_ns: FloatArray


class _Walk:
    """Goes back from moments over the edges that decide."""

    def __init__(self, graph: StepGraph, replayed: Replay, *, by_replay: bool) -> None:
        self._graph = graph
        self._found = deciders(graph, replayed)
        pieces = graph.pieces
        self._kind = np.append(graph.edges.kind, ASSUMED)
        # Moments are no integers: to search for one among integers would make floats of all of them, each time.
        self._start = (replayed.start_ns if by_replay else pieces.start_ns).astype(np.float64)
        self._dur = (replayed.own_ns if by_replay else pieces.dur_ns).astype(np.float64)

    def begins_of(self, spans: Spans) -> FloatArray:
        """Return when each step begins."""
        return self.moments(spans.first, spans.first_share) - spans.lead_ns

    def moments(self, piece: IntArray, share: FloatArray | float) -> FloatArray:
        """Return when a share of each piece has passed."""
        found: FloatArray = self._start[piece] + share * self._dur[piece]
        return found

    def back_from(
        self, piece: IntArray, share: FloatArray, begin: FloatArray, stops: IntArray | None = None
    ) -> tuple[_Runs, IntArray]:
        """Return the runs that lead to each moment since its span began.

        Or since the last of the pieces at which to stop, which is returned as well, else -1. ``stops`` is for each
        piece the last such one until then.
        """
        runs: list[tuple[int, int, int, int, float, float]] = []
        before = []
        for span, moment in enumerate(zip(piece.tolist(), share.tolist(), begin.tolist(), strict=True)):
            found, stop = self._back(span, *moment, stops)
            runs += reversed(found)
            before.append(stop)
        columns = list(zip(*runs, strict=True)) or [()] * len(_Runs._fields)
        whole, shares = (np.array(column, np.int64) for column in columns[:4]), map(np.array, columns[4:])
        return _Runs._make((*whole, *shares)), np.array(before, np.int64)

    def _back(
        self, span: int, piece: int, share: float, begin: float, stops: IntArray | None
    ) -> tuple[list[tuple[int, int, int, int, float, float]], int]:
        """Return the runs that lead to one moment, the last one first, and the piece at which they stop, or -1."""
        head, edge, edges = self._graph.head, self._found.edge, self._graph.edges
        runs: list[tuple[int, int, int, int, float, float]] = []
        slack_ns = np.inf
        while True:
            first = int(head[piece])
            by = int(edge[first])
            # What a leg leads to is no stop of it.
            stop = NO_PARENT if stops is None or piece - (not runs) < 0 else int(stops[piece - (not runs)])
            if stop >= first and self._start[stop] > begin:
                first, by = stop, NO_PARENT
            else:
                stop = NO_PARENT
                if self._start[first] <= begin:
                    # What ran before the step is left out: the thread may have done the same since the first step.
                    first += int(np.searchsorted(self._start[first : piece + 1], begin, side="right")) - 1
                    by = NO_PARENT
            slack_ns = min(slack_ns, float(self._found.margin_ns[first]))
            runs.append((span, first, piece, by, share, slack_ns))
            if by < 0:
                return runs, stop
            piece, share = int(edges.source[by]), float(edges.share[by])

    def parts_of(self, runs: _Runs, begin: FloatArray) -> CriticalPath:
        """Return the parts of the paths that runs make up: before each run an edge, and then its pieces."""
        count = runs.last - runs.first + 2
        edge = np.cumsum(count) - count
        begun = self._start[runs.first]
        is_first, is_last = _are_first(runs.span), _are_last(runs.span)
        piece = np.arange(count.sum()) + np.repeat(runs.first - 1 - edge, count)
        piece[edge] = 0  # any: an edge has times of its own
        start = self._start[piece]
        ends = start + self._dur[piece]
        at_end = edge + count - 1
        ends[at_end] = start[at_end] + runs.share * self._dur[runs.last]
        # Work can begin before the call that launched it has returned.
        np.minimum(ends, np.repeat(np.where(is_last, np.inf, np.roll(begun, -1)), count), out=ends)
        np.minimum(start, ends, out=start)
        since = np.where(is_first, begun, ends[edge - 1])
        ends[edge] = np.maximum(begun, since)
        # What holds the first run is not known, or not of the step.
        start[edge] = np.where(is_first & (runs.by < 0), np.minimum(begin[runs.span], since), since)
        slack = np.repeat(np.where(is_last, np.inf, np.roll(runs.slack_ns, -1)), count)
        slack[edge] = runs.slack_ns
        start_ns, end_ns = np.rint(start).astype(np.int64), np.rint(ends).astype(np.int64)
        piece[edge] = NO_PARENT
        kind = np.full(len(piece), NO_PARENT, self._kind.dtype)
        kind[edge] = self._kind[runs.by]
        return CriticalPath(
            span=np.repeat(runs.span, count),
            piece=piece,
            kind=kind,
            start_ns=start_ns,
            dur_ns=end_ns - start_ns,
            slack_ns=np.rint(np.maximum(np.minimum(slack, ends - start), 0)).astype(np.int64),
        )


def _are_first(group: IntArray) -> BoolArray:
    """Return which rows are the first of their group; groups follow one another."""
    return np.append(True, group[1:] != group[:-1])[: len(group)]


def _are_last(group: IntArray) -> BoolArray:
    return np.append(group[1:] != group[:-1], True)[: len(group)]


def _places_in(group: IntArray) -> IntArray:
    """Return the place of each row in its group, from 0 on."""
    first = np.flatnonzero(_are_first(group))
    return np.arange(len(group)) - np.repeat(first, np.diff(first, append=len(group)))


def _chosen(path: CriticalPath, which: BoolArray | IntArray) -> CriticalPath:
    return CriticalPath(*(column[which] for column in path))


def _cut(path: CriticalPath, begin: FloatArray) -> CriticalPath:
    """Return the paths from some moments on, without parts that take no time."""
    start = np.maximum(path.start_ns, np.rint(begin).astype(np.int64)[path.span])
    dur = path.end_ns - start
    cut = path._replace(start_ns=start, dur_ns=dur, slack_ns=np.minimum(path.slack_ns, np.maximum(dur, 0)))
    return _chosen(cut, dur > 0)


def _with_tails(path: CriticalPath, since_ns: FloatArray, tail_ns: IntArray) -> CriticalPath:
    """Return the paths with the time after the thread of a step has done its last: nothing says what it waits for."""
    span = np.flatnonzero(tail_ns > 0)
    if len(span) == 0:
        return path
    none, kind, no_slack = (np.full(len(span), value, np.int64) for value in (NO_PARENT, ASSUMED, 0))
    since = np.rint(since_ns[span]).astype(np.int64)
    tails = CriticalPath(span, none, kind, since, tail_ns[span], no_slack)
    both = CriticalPath(*map(np.append, path, tails))
    return _chosen(both, np.argsort(both.span, kind="stable"))


def edge_title(kind: int) -> str:
    """Return the name of a kind of edge."""
    return list(KINDS)[kind]
