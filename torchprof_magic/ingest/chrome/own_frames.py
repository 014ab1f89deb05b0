"""Leaves out the Python frames of this package, and what its recording calls, so that stacks are the program's."""

from __future__ import annotations

import numpy as np
import polars as pl

from torchprof_magic.model.distinct import distinct
from torchprof_magic.model.intervals import IntArray, levels, nest, nesting_order
from torchprof_magic.model.own_frames import BUILTIN, OWN_FRAME, RECORDING_FRAME, STAND_IN_FRAME


def without_own_frames(spans: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Return the spans without the frames that ``model/own_frames.py`` says are hidden; the file still has them."""
    is_python = (places["category"] == "python_function").to_numpy()
    if not is_python.any():
        return spans
    is_python = is_python[spans["place"].to_numpy()]
    own = _named(spans["name"], pl.col("name").str.contains(OWN_FRAME))
    if not (own & is_python).any():
        return spans
    row = np.flatnonzero(is_python)
    frames = spans.select("name", "start_ns", "dur_ns")[row]
    lane = places["lane"].gather(spans["place"][row]).to_numpy()
    order = nesting_order(lane, frames["start_ns"].to_numpy(), frames["dur_ns"].to_numpy())
    frames, lane, row = frames[order], lane[order], row[order]
    is_kept = np.ones(spans.height, np.bool_)
    is_kept[row[_hidden(frames, lane)]] = False
    return spans.filter(pl.Series(is_kept))


def _hidden(frames: pl.DataFrame, lane: IntArray) -> np.ndarray:
    """Return which of the frames, which are in nesting order, are hidden."""
    parent, depth, _ = nest(lane, frames["start_ns"].to_numpy(), frames["dur_ns"].to_numpy())
    name = pl.col("name")
    own = _named(frames["name"], name.str.contains(OWN_FRAME))
    records = name.str.contains(RECORDING_FRAME) & ~name.str.contains(STAND_IN_FRAME)
    closes = _named(frames["name"], records)
    for rows in levels(depth)[1:]:  # what is called by a frame that closes closes, too
        closes[rows] |= closes[parent[rows]]
    has_parent = parent >= 0
    in_own, in_closed = (flags[parent] & has_parent for flags in (own, closes))
    is_builtin = _named(frames["name"], name.str.starts_with(BUILTIN))
    hidden: np.ndarray = own | in_closed | (in_own & is_builtin)
    return hidden


def _named(names: pl.Series, asked: pl.Expr) -> np.ndarray:
    """Return which names are as asked; each different name is looked at once."""
    once = distinct(names)
    known = pl.DataFrame({"name": once.cast(pl.String)}).select(asked.fill_null(value=False)).to_series()
    found: np.ndarray = names.is_in(once.filter(known).implode()).fill_null(value=False).to_numpy().copy()
    return found
