"""Checks the frames of a saved run against what ``model/trace.py`` says about their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.model.distinct import distinct
from torchprof_magic.model.trace import FRAME_COLUMNS, MAX_SUM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import FrameColumn


# Rows can share the bytes of a text. What is shown and exported cannot, so all rows of a column together are bounded.
MAX_TEXTS_BYTES = 256 << 20


def first_flaw(frames: Mapping[str, pl.DataFrame]) -> str:
    """Return what is wrong with the values of the frames, or an empty text.

    Values are in range and not null unless they may be, texts are not too long, row numbers name a row, parents come
    before their children, and rows are in the order that the analyses rely on.
    """
    heights = {name: frame.height for name, frame in frames.items()}
    for name, columns in FRAME_COLUMNS.items():
        for column in columns:
            if not all(_checks(frames[name], name, column, heights)):
                return f"invalid {column.name} in {name}"
    return next((flaw for flaw, is_right in _checks_of_rows(frames) if not is_right), "")


def _checks(frame: pl.DataFrame, name: str, column: FrameColumn, heights: Mapping[str, int]) -> Iterator[bool]:
    values = frame[column.name]
    yield column.is_nullable or values.null_count() == 0
    if column.max_chars is not None:
        yield _is_short(values, column.max_chars)
        yield values.dtype != pl.String or (values.str.len_bytes().sum() or 0) <= MAX_TEXTS_BYTES
    if column.least is not None:
        yield bool((values >= column.least).all())
    if column.row_of == name:
        yield bool((values < pl.int_range(frame.height, eager=True)).all())
    elif column.row_of:
        yield bool((values < heights[column.row_of]).all())
    if column.most is not None:
        yield bool((values <= column.most).all())
    if column.is_summed:
        yield float(values.cast(pl.Float64).abs().sum()) <= MAX_SUM


def _is_short(values: pl.Series, max_chars: int) -> bool:
    """Return whether no text is longer; each category is looked at once."""
    texts = values if values.dtype == pl.String else distinct(values).cast(pl.String)
    # The number of bytes is stored with a text, the number of characters is not.
    return bool((texts.str.len_bytes() <= max_chars).all() or (texts.str.len_chars() <= max_chars).all())


def _checks_of_rows(frames: Mapping[str, pl.DataFrame]) -> Iterator[tuple[str, bool]]:
    """Yield what is wrong if rows do not fit to one another, and whether they do."""
    lane, start, parent, depth = (frames["events"][name].to_numpy() for name in ("lane", "start_ns", "parent", "depth"))
    is_inner = parent >= 0
    outer = parent[is_inner]
    yield "invalid depth in events", bool((depth[~is_inner] == 0).all() and (depth[is_inner] == depth[outer] + 1).all())
    yield "invalid parent in events", bool((lane[is_inner] == lane[outer]).all())
    yield "events in a wrong order", _is_in_order(lane, start)
    lane, start = (frames["scopes"][name].to_numpy() for name in ("lane", "start_ns"))
    yield "scopes in a wrong order", _is_in_order(lane, start)
    for name, shown in (("memory", "allocations"), ("tags", "tags"), ("counters", "counters")):
        yield f"{shown} in a wrong order", frames[name]["time_ns"].is_sorted()


def _is_in_order(lane: IntArray, start: IntArray) -> bool:
    """Return whether rows are sorted by lane, and by start within each."""
    return bool(((np.diff(lane) > 0) | ((np.diff(lane) == 0) & (np.diff(start) >= 0))).all())
