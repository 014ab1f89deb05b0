"""The captures of graphs from another file, laid beside a recording on lanes of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.captures import captures_of
from torchprof_magic.facts.device.graph_captures import CapturedGraph, captured_calls, captured_graphs, with_all_around
from torchprof_magic.facts.ops.hints import rows_that_tell
from torchprof_magic.facts.shared import in_category, is_named
from torchprof_magic.model.intervals import NO_PARENT, IntArray, depth_of, nearest_marked
from torchprof_magic.model.meta import MAX_TEXT, GraphCapture, shortened
from torchprof_magic.model.trace import STEP_PATTERN, Trace
from torchprof_magic.model.vendors import GRAPH_LAUNCH


def with_captures(trace: Trace, other: Trace) -> Trace:
    """Return a trace beside which the captures of another one lie: their launches with the ops and frames around them.

    Nothing of them ran during the recording, so each capture has lanes of its own, on which only the order of times is
    that of the file: it is numbered in ns. Without the bounds of a capture in the other trace, all of its launches
    that have no work are one capture. There is none if it has none of these.
    """
    graphs = captured_graphs(other)
    if not graphs and len(every := np.flatnonzero(captured_calls(other))):
        start = other.events["start_ns"].to_numpy()
        graphs = (CapturedGraph(every[np.argsort(start[every], kind="stable")], 0, None),)
    at_ns, cycle = _first_replay(trace)
    joined = _with_frames(trace, other)
    for number, graph in enumerate(graphs, 1):
        added = _Added(graph, at_ns, cycle, _range_around(other, graph.launches) or f"capture {number}")
        joined = _with_capture(joined, trace, other, added)
    meta = replace(joined.meta, captures_from=(*trace.meta.captures_from, other.meta.title))
    return replace(joined, meta=meta)


def _first_replay(trace: Trace) -> tuple[int, int]:
    """Return the time and the cycle of the first launch of a graph, 0 if there is none."""
    rows = np.flatnonzero(is_named(trace, GRAPH_LAUNCH, "runtime"))
    found = trace.events.select("start_ns", "cycle")[rows].sort("start_ns").head(1).rows()
    return found[0] if found else (0, 0)


def _with_frames(trace: Trace, other: Trace) -> Trace:
    """Return a trace with the stacks, watched places and nodes of compiled graphs of another one behind its own."""
    stacks, sites, fx_nodes = (
        pl.concat([own, _moved(theirs, column, own.height)])
        for own, theirs, column in (
            (trace.stacks, other.stacks, "parent"),
            (trace.sites, other.sites, "parent"),
            (trace.fx_nodes, other.fx_nodes, "call"),
        )
    )
    fx_code = pl.concat([trace.fx_code, other.fx_code]).unique("file", keep="first", maintain_order=True)
    return replace(trace, stacks=stacks, sites=sites, fx_nodes=fx_nodes, fx_code=fx_code)


def _moved(frame: pl.DataFrame, column: str, by: int) -> pl.DataFrame:
    """Return the rows of a frame, the numbers of other rows in one of its columns moved; -1 stays."""
    moved = pl.when(pl.col(column) >= 0).then(pl.col(column) + by).otherwise(pl.col(column))
    return frame.with_columns(moved.cast(frame.schema[column]).alias(column))


class _Added(NamedTuple):
    """A capture that is laid beside a recording: at a time of a cycle, in ns, and under a name."""

    graph: CapturedGraph
    at_ns: int
    cycle: int
    name: str


def _with_capture(joined: Trace, trace: Trace, other: Trace, added: _Added) -> Trace:
    """Return the joined trace with one capture more."""
    graph, at_ns, cycle, name = added
    rows = _rows_of(graph, other)
    chosen, first = other.events[rows], joined.events.height
    scopes = _scopes_around(other, graph.launches)
    both = [(frame["start_ns"].to_numpy(), frame["dur_ns"].to_numpy()) for frame in (chosen, scopes)]
    moments = np.unique(np.concatenate([time for start, dur in both for time in (start, start + dur)]))
    times = [_numbered(moments, start, dur, at_ns) for start, dur in both]
    old_lanes, lane = np.unique(chosen["lane"].to_numpy(), return_inverse=True)
    number = np.full(other.events.height + 1, NO_PARENT, np.int64)
    number[rows] = first + np.arange(len(rows))
    around = other.events["parent"].to_numpy()
    nearest = nearest_marked(around, other.events["depth"].to_numpy(), number[:-1] >= 0)
    parent = number[nearest[around[rows]]]
    stack = chosen["stack"] + trace.stacks.height
    events = chosen.with_columns(
        *times[0],
        pl.Series("lane", lane + joined.lanes.height, dtype=pl.Int32),
        pl.Series("parent", parent, dtype=pl.Int32),
        pl.Series("depth", depth_of(np.where(parent >= 0, parent - first, NO_PARENT)), dtype=pl.Int32),
        stack.cast(pl.Int32).alias("stack"),
        *(pl.lit(None, chosen.schema[column]).alias(column) for column in ("step", "correlation", "sequence")),
        pl.lit(cycle, pl.Int32).alias("cycle"),
    )
    of_lane = np.full(other.lanes.height, NO_PARENT, np.int64)
    of_lane[old_lanes] = joined.lanes.height + np.arange(len(old_lanes))
    scopes = scopes.with_columns(
        *times[1],
        (pl.col("site") + trace.sites.height).cast(pl.Int32),
        pl.Series("lane", of_lane[scopes["lane"].to_numpy()], dtype=pl.Int32),
        pl.lit(cycle, pl.Int32).alias("cycle"),
    )
    named = GraphCapture(
        name=name,
        file=other.meta.title,
        lanes=tuple(range(joined.lanes.height, joined.lanes.height + len(old_lanes))),
    )
    lanes = _named_lanes(other.lanes[old_lanes.tolist()], name)
    return replace(
        joined,
        events=pl.concat([joined.events, events]),
        lanes=pl.concat([joined.lanes, lanes]),
        flows=pl.concat([joined.flows, _flows_among(other, number)]),
        scopes=pl.concat([joined.scopes, scopes.select(joined.scopes.columns)]),
        meta=replace(joined.meta, graph_captures=(*joined.meta.graph_captures, named)),
    )


def _rows_of(graph: CapturedGraph, trace: Trace) -> IntArray:
    """Return the events of a capture, rows in order: its launches and its begin, with all but the steps around them.

    What tells a call around the launches how large its tensors are is among them.
    """
    begins = captures_of(trace)
    begin = begins.row[(begins.start_ns == graph.start_ns) & (graph.start_ns > 0)]
    parent = trace.events["parent"].to_numpy()
    around = with_all_around(parent, np.concatenate((graph.launches, begin)))
    rows = with_all_around(parent, np.concatenate((around, rows_that_tell(trace, around))))
    return rows[~is_named(trace, STEP_PATTERN)[rows]]  # they are no steps of the recording beside


def _named_lanes(lanes: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return some lanes as those of a capture of that name, which count as no thread and no stream."""
    return lanes.with_columns(
        pl.lit("other", lanes.schema["kind"]).alias("kind"),
        pl.lit(shortened(f"graph capture: {name}", MAX_TEXT)).alias("name"),
    )


def _scopes_around(trace: Trace, launches: IntArray) -> pl.DataFrame:
    """Return the runs of lines and modules in which some launches were made."""
    scopes = trace.scopes
    lane, start, dur = (scopes[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns", "dur_ns"))
    of_launch, at_ns = (trace.events[name].to_numpy()[launches].astype(np.int64) for name in ("lane", "start_ns"))
    holds = np.zeros(len(lane), np.bool_)
    for one in np.unique(of_launch).tolist():  # once per thread
        times, here = np.sort(at_ns[of_launch == one]), lane == one
        first, last = np.searchsorted(times, start[here]), np.searchsorted(times, start[here] + dur[here], "right")
        holds[here] = last > first
    return scopes.filter(pl.Series(holds))


def _numbered(moments: IntArray, start_ns: IntArray, dur_ns: IntArray, at_ns: int) -> tuple[pl.Series, pl.Series]:
    """Return times as the places of their moments, counted from ``at_ns``."""
    start, end = (np.searchsorted(moments, time) for time in (start_ns, start_ns + dur_ns))
    return (
        pl.Series("start_ns", at_ns + start, dtype=pl.Int64),
        pl.Series("dur_ns", end - start, dtype=pl.Int64),
    )


def _range_around(trace: Trace, launches: IntArray) -> str:
    """Return the name of the outermost range of the user's around the first launch, empty if there is none."""
    is_range = in_category(trace, "user_annotation") & ~is_named(trace, STEP_PATTERN)
    parent, row, name = trace.events["parent"].to_numpy(), int(launches[0]), ""
    while (row := int(parent[row])) >= 0:  # once per level of the nest
        name = str(trace.events["name"][row]) if is_range[row] else name
    return name


def _flows_among(trace: Trace, number: IntArray) -> pl.DataFrame:
    """Return the links from forward to backward ops among the chosen events, with their new numbers."""
    flows = trace.flows.filter(pl.col("kind") == "backward")
    source, target = (number[flows[name].to_numpy()] for name in ("source", "target"))
    moved = flows.with_columns(pl.Series("source", source, dtype=pl.Int32), pl.Series("target", target, dtype=pl.Int32))
    return moved.filter(pl.Series((source >= 0) & (target >= 0)))
