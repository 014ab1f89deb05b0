"""Nests the spans of a trace into events, each sorted after the events that enclose it."""

from __future__ import annotations

import numpy as np
import polars as pl

from torchprof_magic.model.distinct import distinct
from torchprof_magic.model.intervals import nest, nesting_order
from torchprof_magic.model.trace import STEP_PATTERN

# In files with times in whole µs, an op and what it calls often have the same interval; this order tells the caller.
_OUTER_FIRST = {"user_annotation": 0, "python_function": 1, "cpu_op": 2, "overhead": 3, "runtime": 4}


def nested_events(spans: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Return the spans in nesting order, with lane, category, device and stream of their place, parent and depth.

    ``spans`` is consumed: each column is dropped as soon as its sorted copy exists, because ten million events do not
    fit into memory twice.
    """
    lane = places["lane"].gather(spans["place"])
    ranks = places["category"].cast(pl.String).replace_strict(_OUTER_FIRST, default=len(_OUTER_FIRST))
    rank = ranks.cast(pl.Int8).gather(spans["place"]).to_numpy()
    order = nesting_order(lane.to_numpy(), spans["start_ns"].to_numpy(), spans["dur_ns"].to_numpy(), rank)
    order = order.astype(np.uint32)
    columns = [spans.drop_in_place(name).rechunk()[order] for name in spans.columns]
    events = pl.DataFrame(columns)
    place = events.drop_in_place("place")
    parent, depth, overlaps = nest(lane[order].to_numpy(), events["start_ns"].to_numpy(), events["dur_ns"].to_numpy())
    known = [places[name][place] for name in ("lane", "category", "device", "stream")]
    return events.hstack(
        [
            *known,
            pl.Series("parent", parent.astype(np.int32)),
            pl.Series("depth", depth.astype(np.int32)),
            pl.Series("overlaps", overlaps),
        ]
    )


def with_step_annotations(events: pl.DataFrame) -> pl.DataFrame:
    """Return the events with ``ProfilerStep#N`` as an annotation; old files and those of Ascend call it an operator."""
    names = distinct(events["name"])
    steps = names.filter(names.cast(pl.String).str.contains(STEP_PATTERN))
    if len(steps) == 0:
        return events
    is_step = pl.col("name").is_in(steps.implode()) & (pl.col("category") == "cpu_op")
    annotation = pl.lit("user_annotation").cast(events.schema["category"])
    return events.with_columns(pl.when(is_step).then(annotation).otherwise(pl.col("category")).alias("category"))
