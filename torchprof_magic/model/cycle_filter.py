"""One recording cycle of a trace that holds several."""

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

    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.trace import Trace


def of_cycle(trace: Trace, cycle: int) -> Trace:
    """Return the trace without the events, steps and links of other cycles. All stacks are kept."""
    is_kept = (trace.events["cycle"] == cycle).to_numpy()
    number = np.full(len(is_kept) + 1, NO_PARENT)
    number[:-1][is_kept] = np.arange(is_kept.sum())
    above = nearest_marked(trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy(), is_kept)
    parent = number[above[trace.events["parent"].to_numpy()[is_kept]]]
    events = trace.events.filter(pl.Series(is_kept)).with_columns(
        pl.Series("parent", parent, dtype=pl.Int32), pl.Series("depth", depth_of(parent), dtype=pl.Int32)
    )
    scopes = trace.scopes.filter(pl.col("cycle") == cycle)
    waits, host_lines = (each.filter(pl.col("cycle") == cycle) for each in (trace.waits, trace.host_lines))
    lanes = pl.concat([each["lane"] for each in (events, scopes, waits, host_lines)]).unique().sort()
    places = {lane: place for place, lane in enumerate(lanes.to_list())}
    source, target = (number[trace.flows[name].to_numpy()] for name in ("source", "target"))
    flows = trace.flows.with_columns(
        pl.Series("source", source, dtype=pl.Int32), pl.Series("target", target, dtype=pl.Int32)
    )
    memory = trace.memory.filter(pl.col("cycle") == cycle)
    steps = trace.steps.filter(pl.col("cycle") == cycle)
    marks = tuple(mark for mark in trace.meta.recorded_steps if mark.cycle == cycle)
    return replace(
        trace,
        events=events.with_columns(pl.col("lane").replace_strict(places, return_dtype=pl.Int32)),
        lanes=trace.lanes[lanes.to_list()],
        flows=flows.filter((pl.col("source") >= 0) & (pl.col("target") >= 0)),
        memory=memory.with_columns(pl.Series("event", number[memory["event"].to_numpy()], dtype=pl.Int32)),
        steps=steps,
        scopes=scopes.with_columns(pl.col("lane").replace_strict(places, return_dtype=pl.Int32)),
        tags=trace.tags.filter(pl.col("cycle") == cycle),
        waits=waits.with_columns(pl.col("lane").replace_strict(places, return_dtype=pl.Int32)),
        host_lines=host_lines.with_columns(pl.col("lane").replace_strict(places, return_dtype=pl.Int32)),
        storages=trace.storages.filter(pl.col("cycle") == cycle),
        counters=trace.counters.filter(pl.col("cycle") == cycle),
        meta=replace(
            trace.meta,
            recorded_steps=marks,
            chosen_steps=(),
            is_partial=not steps["complete"].all(),
            extra=_with_trace_id(trace.meta.extra, cycle),
        ),
        problems=tuple(_with_overlaps(trace.problems, count_overlaps(events, steps))),
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
