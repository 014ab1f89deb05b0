"""Nests the spans of a trace into events, each sorted after the events that enclose it."""

from __future__ import annotations

import numpy as np
import polars as pl

from torchprof_magic.model.distinct import codes_of, distinct
from torchprof_magic.model.intervals import IntArray, nest, nesting_order
from torchprof_magic.model.rows import are_in
from torchprof_magic.model.trace import STEP_PATTERN

# In files with times in whole µs, an op and what it calls often have the same interval; this order tells the caller.
_OUTER_FIRST = {"user_annotation": 0, "python_function": 1, "cpu_op": 2, "overhead": 3, "runtime": 4}


def nested_events(spans: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Return the spans in nesting order, with lane, category, device and stream of their place, parent and depth.

    ``spans`` is consumed: each column is dropped as soon as its sorted copy exists, because ten million events do not
    fit into memory twice.
    """
    place = spans["place"].to_numpy()
    lane = places["lane"].to_numpy()[place]
    ranks = [_OUTER_FIRST.get(category, len(_OUTER_FIRST)) for category in places["category"].to_list()]
    rank = np.array(ranks, np.int8)[place]
    order = nesting_order(lane, spans["start_ns"].to_numpy(), spans["dur_ns"].to_numpy(), rank)
    rows = pl.Series(order.astype(np.uint32))
    columns = [spans.drop_in_place(name).rechunk()[rows] for name in spans.columns]
    events = pl.DataFrame(columns)
    parent, depth, overlaps = nest(lane[order], events["start_ns"].to_numpy(), events["dur_ns"].to_numpy())
    at = events.drop_in_place("place").cast(pl.UInt32)
    known = [places[name][at] for name in ("lane", "category", "device", "stream")]
    return events.hstack(
        [
            *known,
            pl.Series("parent", parent.astype(np.int32)),
            pl.Series("depth", depth.astype(np.int32)),
            pl.Series("overlaps", overlaps),
        ]
    )


def names_of_steps(names: pl.Series) -> pl.Series:
    """Return the different names of steps, such as ``ProfilerStep#N``."""
    once = distinct(names)
    return once.filter(once.cast(pl.String).str.contains(STEP_PATTERN))


def rows_of_steps(events: pl.DataFrame, steps: pl.Series) -> IntArray:
    """Return the rows of events that have the name of a step."""
    if len(steps) == 0:
        return np.empty(0, np.int64)
    return np.flatnonzero(np.isin(codes_of(events["name"]), codes_of(steps)))


def with_step_annotations(events: pl.DataFrame, rows: IntArray) -> pl.DataFrame:
    """Return the events with steps as annotations; old files and those of Ascend call them operators."""
    rows = rows[are_in(events["category"][rows], ("cpu_op",))]
    if len(rows) == 0:
        return events
    return events.with_columns(events["category"].scatter(rows, "user_annotation"))
