"""Which captured launch each kernel of a graph comes from, and so which op, line and module.

A replay is one call that starts all of a graph's work. The work is aligned with the launches of every capture that is
known: by name, and by grid and block where both sides have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_captures import captured_graphs, with_all_around
from torchprof_magic.facts.device.launch_configs import launch_configs
from torchprof_magic.facts.shared import (
    device_rows,
    in_category,
    is_named,
    launch_sources,
    once_per_trace,
)
from torchprof_magic.model.alignment import align
from torchprof_magic.model.distinct import codes_of
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, nearest_marked
from torchprof_magic.model.rows import filled, row_keys
from torchprof_magic.model.vendors import COPY_CALL, FILL_CALL, GRAPH_LAUNCH, LAUNCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from torchprof_magic.facts.device.graph_captures import CapturedGraph
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace

# A replay is of a capture if at least this share of its work has a launch there.
LEAST_MATCHED = 0.5
_KERNEL, _COPY, _FILL = range(3)
_UNKNOWN = -1


class GraphWork(NamedTuple):
    """The work of graphs: which events are such work, and the captured launch of each event, or -1.

    ``replays`` are the rows of the calls that launched graphs with work, ``graph`` for each of them which of
    ``captured_graphs(trace)`` it replays, or -1. ``unsure`` is how many replays fit several captures with different ops
    equally well, ``by_order`` how many were matched by their order alone, because the captured launches have no names.
    """

    is_graph: BoolArray
    origin: npt.NDArray[np.int32]
    replays: IntArray
    graph: IntArray
    unsure: int
    by_order: int

    @property
    def is_matched(self) -> BoolArray:
        """Which events are work of graphs whose captured launch is known."""
        return self.is_graph & (self.origin >= 0)


@once_per_trace
def graph_work(trace: Trace) -> GraphWork:
    """Return the work of graphs with the captured launches it comes from."""
    work = device_rows(trace)
    source = launch_sources(trace)[work].astype(np.int64)
    of_graph = np.append(is_named(trace, GRAPH_LAUNCH, "runtime"), False)[source]
    work, source = work[of_graph], source[of_graph]
    is_graph = np.zeros(trace.events.height, np.bool_)
    is_graph[work] = True
    origin = np.full(trace.events.height, NO_PARENT, np.int32)
    start = trace.events["start_ns"].to_numpy()
    order = np.lexsort((start[work], source))
    work, source = work[order], source[order]
    replays, first = np.unique(source, return_index=True)
    graph = np.full(len(replays), NO_PARENT, np.int64)
    graphs = captured_graphs(trace) if len(replays) else ()
    if not graphs:
        return GraphWork(is_graph, origin, replays, graph, 0, 0)
    matcher = _Matcher(trace, graphs, work)
    edges = np.append(first, len(work)).tolist()
    unsure = by_order = 0
    origin[work], graph[:] = _annotated(trace, graphs, work, first)
    for at, replay in enumerate(replays.tolist()):  # once per launch of a graph; alike ones are matched once
        match = matcher.match(slice(edges[at], edges[at + 1]), int(start[replay]))
        if match is None or (graph[at] >= 0 and (match.is_unsure or match.is_by_order)):
            continue
        graph[at] = match.graph
        origin[work[edges[at] + match.work]] = graphs[match.graph].launches[match.launch]
        unsure, by_order = unsure + match.is_unsure, by_order + match.is_by_order
    return GraphWork(is_graph, origin, replays, graph, unsure, by_order)


@once_per_trace
def origins(trace: Trace) -> npt.NDArray[np.int32]:
    """Return for each event the row of the call that its work comes from, or -1.

    That is the launch; of work of a graph it is the captured one, where that is known. What the host did then says to
    which op, line and module the work belongs. When it was launched says ``launch_sources``.
    """
    found = graph_work(trace).origin
    return np.where(found >= 0, found, launch_sources(trace))


def origin_links(trace: Trace) -> tuple[IntArray, IntArray]:
    """Return the rows of ``origins`` and of their work, for all work that has one."""
    found = origins(trace)
    target = np.flatnonzero(found >= 0)
    return found[target].astype(np.int64), target


def replayed_calls(trace: Trace, part: TimeRange, *, any_of_it: bool = True) -> IntArray:
    """Return for each event that was captured how often it was replayed in a part of the time, 0 for all others.

    These are the launches and what is around them, as far as it began in the capture. A replay counts if any of its
    call lies in the part, or unless ``any_of_it`` if it begins there.
    """
    found = np.zeros(trace.events.height, np.int64)
    for graph, count in _replays(trace, part, any_of_it=any_of_it):
        found[_captured_rows(trace, graph)] += count
    return found


def replays_at(trace: Trace, part: TimeRange, lane: IntArray, at_ns: IntArray) -> IntArray:
    """Return how often what a thread did at a moment was replayed in a part of the time: 0 outside of all captures."""
    found = np.zeros(len(lane), np.int64)
    for graph, count in _replays(trace, part):
        lanes = np.unique(trace.events["lane"].to_numpy()[graph.launches])
        inside = np.isin(lane, lanes) & (at_ns >= graph.start_ns)
        found[inside if graph.end_ns is None else inside & (at_ns <= graph.end_ns)] += count
    return found


def _replays(trace: Trace, part: TimeRange, *, any_of_it: bool = True) -> Iterator[tuple[CapturedGraph, int]]:
    """Yield the graphs that were replayed in a part of the time, and how often."""
    work = graph_work(trace)
    start, dur = (trace.events[name].to_numpy()[work.replays] for name in ("start_ns", "dur_ns"))
    graph = work.graph[part.touches(start, dur) if any_of_it else part.holds(start)]
    numbers, counts = np.unique(graph[graph >= 0], return_counts=True)
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        yield captured_graphs(trace)[number], count


@once_per_trace
def is_captured(trace: Trace) -> BoolArray:
    """Return which events were captured into a graph, or are around what was, as far as they began in the capture."""
    found = np.zeros(trace.events.height, np.bool_)
    for graph in captured_graphs(trace):
        found[_captured_rows(trace, graph)] = True
    return found


def _captured_rows(trace: Trace, graph: CapturedGraph) -> IntArray:
    rows = with_all_around(trace.events["parent"].to_numpy(), graph.launches)
    return rows[trace.events["start_ns"].to_numpy()[rows] >= graph.start_ns]


def _annotated(
    trace: Trace, graphs: tuple[CapturedGraph, ...], work: IntArray, first: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the launch that annotations tell for each piece of work, by the node of its graph, or -1.

    For each replay, of which ``first`` is the first piece, also the graph that the annotations of its work are of.
    """
    node = filled(trace.events["graph_node"], 0)
    made = [number for number, graph in enumerate(graphs) if graph.is_made]
    calls = np.concatenate([np.empty(0, np.int64), *(graphs[number].launches for number in made)])
    of_call = np.repeat(made, [len(graphs[number].launches) for number in made])
    if not len(calls):
        return np.full(len(work), NO_PARENT), np.full(len(first), NO_PARENT)
    order = np.argsort(node[calls], kind="stable")
    calls, of_call = calls[order], of_call[order]
    at = np.minimum(np.searchsorted(node[calls], node[work]), len(calls) - 1)
    is_known = (node[calls][at] == node[work]) & (node[work] > 0)
    graph = np.maximum.reduceat(np.where(is_known, of_call[at], NO_PARENT), first)
    return np.where(is_known, calls[at], NO_PARENT), graph


class _Match(NamedTuple):
    """Positions in the work of a replay and in the launches of a graph that belong together."""

    graph: int
    work: IntArray
    launch: IntArray
    is_unsure: bool = False
    is_by_order: bool = False


class _Items(NamedTuple):
    """What is known of pieces of work, or of launches: numbers that both share, -1 where it is not known."""

    kind: IntArray
    name: IntArray
    extent: IntArray

    def at(self, places: slice) -> _Items:
        """Return those at some places."""
        return _Items(self.kind[places], self.name[places], self.extent[places])

    def are_those_of(self, work: _Items) -> bool:
        """Return whether these launches are exactly those of some work, by all that is known of both."""
        if len(self.kind) != len(work.kind) or not self.has_names() or not np.array_equal(self.name, work.name):
            return False
        has_extents = self.has_extents() and work.has_extents()
        return np.array_equal(self.kind, work.kind) and (not has_extents or np.array_equal(self.extent, work.extent))

    def has_extents(self) -> bool:
        """Return whether grid and block of all kernels are known."""
        return not ((self.kind == _KERNEL) & (self.extent == _UNKNOWN)).any()

    def has_names(self) -> bool:
        """Return whether the names of all kernels are known."""
        return not ((self.kind == _KERNEL) & (self.name == _UNKNOWN)).any()


class _Matcher:
    """Matches replays with captures; what it found for one replay it knows for all with the same work."""

    def __init__(self, trace: Trace, graphs: tuple[CapturedGraph, ...], work: IntArray) -> None:
        launches = np.concatenate([graph.launches for graph in graphs])
        edges = np.cumsum([0, *(len(graph.launches) for graph in graphs)])
        self._work, every = _items(trace, work, launches)
        self._launches = [every.at(slice(first, last)) for first, last in zip(edges[:-1], edges[1:], strict=True)]
        self._end_ns = {number: graph.end_ns for number, graph in enumerate(graphs) if not graph.is_made}
        self._ops = np.split(_ops_of(trace, launches), edges[1:-1])
        self._streams = np.stack([filled(trace.events[name], 0)[work] for name in ("device", "stream")])
        self._known: dict[tuple[bytes, tuple[int, ...]], _Match | None] = {}

    def match(self, at: slice, start_ns: int) -> _Match | None:
        """Return how some work that follows one another matches the best capture before it, None if none does."""
        before = tuple(graph for graph, end_ns in self._end_ns.items() if end_ns is None or end_ns <= start_ns)
        items, streams = self._work.at(at), self._streams[:, at]
        is_one_stream = bool((streams == streams[:, :1]).all())
        key = b"".join(column.tobytes() for column in (*items, np.array([is_one_stream]))), before
        if key not in self._known:
            self._known[key] = self._best(items, before, is_one_stream=is_one_stream)
        return self._known[key]

    def _best(self, items: _Items, graphs: tuple[int, ...], *, is_one_stream: bool) -> _Match | None:
        """Return the match with the most work, of equal ones that with the fewest other launches, then the latest."""
        found = []
        # Nothing fits better than the same work, which is quickly found among hundreds of graphs.
        same = [graph for graph in graphs if self._launches[graph].are_those_of(items)]
        for graph in same or graphs:
            match = _matched(graph, items, self._launches[graph], is_one_stream=is_one_stream)
            if match is not None and len(match.work) >= LEAST_MATCHED * len(items.kind):
                found.append(match)
        if not found:
            return None
        scores = [(len(match.work), -len(self._launches[match.graph].kind)) for match in found]
        equal = [match for match, score in zip(found, scores, strict=True) if score == max(scores)]
        best = equal[-1]
        ops = self._ops[best.graph][best.launch]
        is_unsure = any(not np.array_equal(self._ops[each.graph][each.launch], ops) for each in equal)
        # What matches several by order alone matches none.
        return None if is_unsure and best.is_by_order else best._replace(is_unsure=is_unsure)


def _matched(graph: int, work: _Items, launches: _Items, *, is_one_stream: bool) -> _Match | None:
    """Return which work belongs to which captured launch, None if that cannot be said."""
    if not launches.has_names():
        # Only a stream keeps the order in which its work was launched.
        if not is_one_stream or not np.array_equal(work.kind, launches.kind):
            return None
        every = np.arange(len(work.kind))
        return _Match(graph, every, every, is_by_order=True)
    has_extents = work.has_extents() and launches.has_extents()
    columns = [
        np.concatenate((getattr(work, name), getattr(launches, name)))
        for name in (("kind", "name", "extent") if has_extents else ("kind", "name"))
    ]
    keys = row_keys(*(column + 1 for column in columns))
    first, second = keys[: len(work.kind)], keys[len(work.kind) :]
    left, right = align(first, second)
    if len(left) < min(len(first), len(second)):
        left, right = _with_moved(first, second, left, right)
    return _Match(graph, left, right)


def _with_moved(first: IntArray, second: IntArray, left: IntArray, right: IntArray) -> tuple[IntArray, IntArray]:
    """Return matching positions with those of items that ran in another order, as they may on several streams.

    Those that are left belong together in their order if both sides have equally many of their kind.
    """
    others = [np.setdiff1d(np.arange(len(keys)), known) for keys, known in ((first, left), (second, right))]
    most = int(max(first.max(initial=0), second.max(initial=0))) + 1
    counts = [np.bincount(keys[rest], minlength=most) for keys, rest in zip((first, second), others, strict=True)]
    is_even = counts[0] == counts[1]
    more = []
    for keys, rest in zip((first, second), others, strict=True):
        kept = rest[is_even[keys[rest]]]
        more.append(kept[np.argsort(keys[kept], kind="stable")])
    return np.concatenate((left, more[0])), np.concatenate((right, more[1]))


def _items(trace: Trace, work: IntArray, launches: IntArray) -> tuple[_Items, _Items]:
    """Return what is known of work and of captured launches, in numbers that both share."""
    events = trace.events
    kind = np.full(events.height, _KERNEL, np.int64)
    for pattern, category, number in ((COPY_CALL, "memcpy", _COPY), (FILL_CALL, "memset", _FILL)):
        is_call = is_named(trace, pattern, "runtime") & ~is_named(trace, LAUNCH, "runtime")
        kind[is_call | in_category(trace, category)] = number
    rows = np.concatenate((work, launches))
    texts = pl.concat([events["name"].gather(work), events["kernel"].gather(launches)])
    names = np.where(kind[rows] == _KERNEL, filled(texts.to_physical(), _UNKNOWN), _UNKNOWN)
    every = _Items(kind[rows], names, _extents(trace, rows))
    return every.at(slice(len(work))), every.at(slice(len(work), None))


def _extents(trace: Trace, rows: IntArray) -> IntArray:
    """Return a number for grid and block of some events, -1 where they are not known."""
    configs = launch_configs(trace.events["launch_config"].gather(rows))
    extent = configs.select(pl.concat_str("grid", "block", separator=" ").cast(pl.Categorical()))["grid"]
    return filled(extent.to_physical(), _UNKNOWN)


def _ops_of(trace: Trace, launches: IntArray) -> IntArray:
    """Return for each launch a number of the name and the shapes of the op around it."""
    events = trace.events
    parent, depth = events["parent"].to_numpy(), events["depth"].to_numpy()
    op = nearest_marked(parent, depth, in_category(trace, "cpu_op"))[launches].astype(np.int64)
    shapes = np.append(filled(events["shapes"].to_physical(), _UNKNOWN), _UNKNOWN)
    names = np.append(codes_of(events["name"]).astype(np.int64), _UNKNOWN)
    return names[op] * (2**32) + shapes[op] + 1
