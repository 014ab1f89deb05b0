"""Nests the spans of a trace into events, each sorted after the events that enclose it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.model.distinct import codes_of, numbered
from torchprof_magic.model.intervals import nest, nesting_order
from torchprof_magic.model.known_names import which_match
from torchprof_magic.model.rows import in_categories, values_at, with_series
from torchprof_magic.model.trace import CATEGORIES, STEP_PATTERN

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.model.intervals import BoolArray, IntArray

# In files with times in whole µs, an op and what it calls often have the same interval; this order tells the caller.
_OUTER_FIRST = {"user_annotation": 0, "python_function": 1, "cpu_op": 2, "overhead": 3, "runtime": 4}


class Nested(NamedTuple):
    """The events, the number of the category of each, and which of the spans it was."""

    events: pl.DataFrame
    category: npt.NDArray[np.uint8]
    span: IntArray


def nested_events(spans: pl.DataFrame, places: pl.DataFrame) -> Nested:
    """Return the spans in nesting order, with lane, category, device and stream of their place, parent and depth.

    ``spans`` is consumed: each column is dropped as soon as its sorted copy exists, because ten million events do not
    fit into memory twice.
    """
    place = spans["place"].to_numpy()
    lane = places["lane"].to_numpy()[place]
    categories = places["category"].to_list()
    rank = np.array([_OUTER_FIRST.get(each, len(_OUTER_FIRST)) for each in categories], np.int8)[place]
    category = np.array([CATEGORIES.index(each) for each in categories], np.uint8)[place]
    order = nesting_order(lane, spans["start_ns"].to_numpy(), spans["dur_ns"].to_numpy(), rank)
    rows = pl.Series(order.astype(np.uint32))
    columns = [_gathered(spans.drop_in_place(name), rows) for name in spans.columns]
    events = pl.DataFrame(columns)
    parent, depth, overlaps = nest(lane[order], events["start_ns"].to_numpy(), events["dur_ns"].to_numpy())
    at = events.drop_in_place("place").cast(pl.UInt32)
    known = [places[name][at] for name in ("lane", "category", "device", "stream")]
    events = events.hstack(
        [
            *known,
            pl.Series("parent", parent.astype(np.int32)),
            pl.Series("depth", depth.astype(np.int32)),
            pl.Series("overlaps", overlaps),
        ]
    )
    return Nested(events, category[order], order)


def _gathered(values: pl.Series, rows: pl.Series) -> pl.Series:
    """Return the values of all rows in another order."""
    return values if values.null_count() == len(values) else values.rechunk()[rows]


def steps_among(names: pl.Series) -> BoolArray:
    """Return which rows have the name of a step, such as ``ProfilerStep#N``."""
    return named_like(names, STEP_PATTERN)


def named_like(names: pl.Series, pattern: str) -> BoolArray:
    """Return which rows have a name that a pattern finds."""
    rows, of_rows = numbered(codes_of(names))
    return which_match(values_at(names, rows).cast(pl.String), pattern)[of_rows]


def with_step_annotations(nested: Nested, rows: IntArray) -> Nested:
    """Return the events with steps as annotations; old files and those of Ascend call them operators."""
    rows = rows[in_categories(nested.category[rows], "cpu_op")]
    if len(rows) == 0:
        return nested
    nested.category[rows] = CATEGORIES.index("user_annotation")
    category = nested.events["category"].scatter(rows, "user_annotation")
    return nested._replace(events=with_series(nested.events, category))
