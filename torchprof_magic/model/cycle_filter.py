"""Parts of a trace: one recording cycle of several, or the recording without the captures beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.model.intervals import NO_PARENT, depth_of, nearest_marked
from torchprof_magic.model.meta import TRACE_ID, TRACE_ID_OF_CYCLE
from torchprof_magic.model.overlaps import count_overlaps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.intervals import BoolArray
    from torchprof_magic.model.meta import GraphCapture, Problem
    from torchprof_magic.model.trace import Trace


def of_cycle(trace: Trace, cycle: int) -> Trace:
    """Return the trace without the events, steps and links of other cycles. All stacks are kept.

    So are captures of graphs that were loaded beside the recording.
    """
    is_of = pl.col("cycle") == cycle
    is_kept = (trace.events["cycle"] == cycle).to_numpy()
    is_kept = is_kept | np.isin(trace.events["lane"].to_numpy(), trace.meta.captured_lanes)
    scopes = trace.scopes.filter(is_of | pl.col("lane").is_in(trace.meta.captured_lanes))
    steps = trace.steps.filter(is_of)
    marks = tuple(mark for mark in trace.meta.recorded_steps if mark.cycle == cycle)
    found = replace(
        trace,
        memory=trace.memory.filter(is_of),
        steps=steps,
        scopes=scopes,
        tags=trace.tags.filter(is_of),
        waits=trace.waits.filter(is_of),
        host_lines=trace.host_lines.filter(is_of),
        storages=trace.storages.filter(is_of),
        counters=trace.counters.filter(is_of),
    )
    found = _of_events(found, is_kept)
    return replace(
        found,
        meta=replace(
            found.meta,
            recorded_steps=marks,
            chosen_steps=(),
            is_partial=not steps["complete"].all(),
            extra=_with_trace_id(trace.meta.extra, cycle),
        ),
        problems=tuple(_with_overlaps(trace.problems, count_overlaps(found.events, steps))),
    )


def without_captures(trace: Trace) -> Trace:
    """Return the trace without the captures of graphs that were loaded beside it, as it is in its file."""
    found = _without_captures(trace, trace.meta.graph_captures)
    return replace(found, meta=replace(found.meta, captures_from=()))


def without_made_captures(trace: Trace) -> Trace:
    """Return the trace without the captures that only annotations tell of."""
    return _without_captures(trace, tuple(each for each in trace.meta.graph_captures if each.is_made))


def _without_captures(trace: Trace, captures: tuple[GraphCapture, ...]) -> Trace:
    lanes = [lane for capture in captures for lane in capture.lanes]
    if not lanes:
        return trace
    left = tuple(each for each in trace.meta.graph_captures if each not in captures)
    scopes = trace.scopes.filter(~pl.col("lane").is_in(lanes))
    trace = replace(trace, scopes=scopes, meta=replace(trace.meta, graph_captures=left))
    return _of_events(trace, ~np.isin(trace.events["lane"].to_numpy(), lanes))


def _of_events(trace: Trace, is_kept: BoolArray) -> Trace:
    """Return the trace with some of its events, and the lanes that these and the other rows are on."""
    number = np.full(len(is_kept) + 1, NO_PARENT)
    number[:-1][is_kept] = np.arange(is_kept.sum())
    above = nearest_marked(trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy(), is_kept)
    parent = number[above[trace.events["parent"].to_numpy()[is_kept]]]
    events = trace.events.filter(pl.Series(is_kept)).with_columns(
        pl.Series("parent", parent, dtype=pl.Int32), pl.Series("depth", depth_of(parent), dtype=pl.Int32)
    )
    on_lanes = (events, trace.scopes, trace.waits, trace.host_lines)
    lanes = pl.concat([each["lane"] for each in on_lanes]).unique().sort()
    places = {lane: place for place, lane in enumerate(lanes.to_list())}
    source, target = (number[trace.flows[name].to_numpy()] for name in ("source", "target"))
    flows = trace.flows.with_columns(
        pl.Series("source", source, dtype=pl.Int32), pl.Series("target", target, dtype=pl.Int32)
    )
    moved = pl.col("lane").replace_strict(places, return_dtype=pl.Int32)
    captures = tuple(
        replace(capture, lanes=tuple(places[lane] for lane in capture.lanes if lane in places))
        for capture in trace.meta.graph_captures
    )
    return replace(
        trace,
        events=events.with_columns(moved),
        scopes=trace.scopes.with_columns(moved),
        waits=trace.waits.with_columns(moved),
        host_lines=trace.host_lines.with_columns(moved),
        lanes=trace.lanes[lanes.to_list()],
        flows=flows.filter((pl.col("source") >= 0) & (pl.col("target") >= 0)),
        memory=trace.memory.with_columns(pl.Series("event", number[trace.memory["event"].to_numpy()], dtype=pl.Int32)),
        meta=replace(trace.meta, graph_captures=captures),
    )


def _with_trace_id(extra: tuple[tuple[str, str], ...], cycle: int) -> tuple[tuple[str, str], ...]:
    """Return the metadata with torch's id of one cycle alone."""
    own, every = TRACE_ID_OF_CYCLE.format(cycle), TRACE_ID_OF_CYCLE.format("")
    return tuple(
        (TRACE_ID if key == own else key, text) for key, text in extra if key == own or not key.startswith(every)
    )


def _with_overlaps(problems: tuple[Problem, ...], count: int) -> Iterator[Problem]:
    """Yield the problems with the number of overlapping events in this cycle."""
    for problem in problems:
        if problem.code != "chrome.partial_overlap":
            yield problem
        elif count:
            yield replace(problem, count=count)
