"""The launches that were captured into each graph, in order, and which calls these are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.device.captures import captures_of
from torchprof_magic.facts.shared import is_named, launch_sources, once_per_trace
from torchprof_magic.model.intervals import IntArray, marked_above
from torchprof_magic.model.vendors import BEGIN_CAPTURE, COPY_CALL, FILL_CALL, GRAPH_LAUNCH, LAUNCH, NO_TRANSFER

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.model.intervals import BoolArray
    from torchprof_magic.model.trace import Trace


class CapturedGraph(NamedTuple):
    """The launches that were captured into one graph, rows of ``trace.events`` in order.

    ``start_ns`` is when the capture began: what began before is around all of it. ``end_ns`` is when it ended, and no
    replay begins before; it is None for one from another file. ``is_made`` if only annotations tell of it.
    """

    launches: IntArray
    start_ns: int
    end_ns: int | None
    is_made: bool = False


@once_per_trace
def captured_graphs(trace: Trace) -> tuple[CapturedGraph, ...]:
    """Return the graphs whose capture is known, those of the recording first, in order of time."""
    start, lane = (trace.events[name].to_numpy().astype(np.int64) for name in ("start_ns", "lane"))
    calls = np.flatnonzero(captured_calls(trace))
    calls = calls[np.argsort(start[calls], kind="stable")]
    is_beside = np.isin(lane[calls], trace.meta.captured_lanes)
    own, found = calls[~is_beside], []
    captures, cycle = captures_of(trace), trace.events["cycle"].to_numpy()[own]
    for at in np.argsort(captures.start_ns, kind="stable").tolist():  # one per graph
        inside = (cycle == captures.cycle[at]) & (start[own] >= captures.start_ns[at])
        inside &= start[own] <= captures.end_ns[at]
        found.append(CapturedGraph(own[inside], int(captures.start_ns[at]), int(captures.end_ns[at])))
    begins = is_named(trace, BEGIN_CAPTURE, "runtime")
    for capture in trace.meta.graph_captures:
        is_of = np.isin(lane, capture.lanes)
        found.append(CapturedGraph(calls[is_of[calls]], _first(start[begins & is_of]), None, capture.is_made))
    return tuple(graph for graph in found if len(graph.launches))


def _first(times: IntArray) -> int:
    """Return the first of some times; 0 if there is none, as nothing is known to have begun before."""
    return int(times.min()) if len(times) else 0


@once_per_trace
def on_captured_lanes(trace: Trace) -> BoolArray:
    """Return which events are of captures from other files: what the host did then, not in this recording."""
    return np.isin(trace.events["lane"].to_numpy(), trace.meta.captured_lanes)


def captured_calls(trace: Trace) -> BoolArray:
    """Return which events are calls that start a kernel, a copy or a fill, and have no work in the file.

    Of a call inside another one, only the outer one counts. Launches of graphs do not.
    """
    has_name = (is_named(trace, pattern, "runtime") for pattern in (LAUNCH, COPY_CALL, FILL_CALL))
    is_launch, is_copy, is_fill = has_name
    moves = (is_copy | is_fill) & ~is_launch & ~is_named(trace, NO_TRANSFER, "runtime")
    is_call = (is_launch & ~is_named(trace, GRAPH_LAUNCH, "runtime")) | moves
    sources = launch_sources(trace)
    is_call[sources[sources >= 0]] = False
    rows, parent = np.flatnonzero(is_call), trace.events["parent"].to_numpy()
    is_call[rows[marked_above(parent, is_call, parent[rows]) >= 0]] = False
    return is_call


def with_all_around(parent: npt.NDArray[np.integer], rows: IntArray) -> IntArray:
    """Return some rows of events with those of all events around them, in their order."""
    is_chosen = np.zeros(len(parent) + 1, np.bool_)
    while len(rows):  # once per level of the nest
        is_chosen[rows] = True
        rows = np.unique(parent[rows])
        rows = rows[(rows >= 0) & ~is_chosen[rows]]
    return np.flatnonzero(is_chosen[:-1])
