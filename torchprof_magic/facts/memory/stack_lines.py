"""The line of the user's code that each stack of a memory snapshot leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.source.users_files import is_users_file
from torchprof_magic.model.intervals import BoolArray, IntArray, depth_of, nearest_marked
from torchprof_magic.model.rows import are_known

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

_NODE = r"^torch::autograd::(?:generated::)?(\w+)::apply\("
_OP = r"^at::_ops::(\w+)::(?:call|redispatch)\("


def lines_of(trace: Trace, stack: IntArray) -> pl.DataFrame:
    """Return ``line`` (file:line) and ``function`` of the innermost frame in the user's files, for rows of ``stacks``.

    Without such a frame it is the innermost frame of a library. A stack without any Python frame, as that of a backward
    pass, has no line, and its function is the node of autograd, or else the outermost op. Both are null for row -1.
    """
    chosen = pl.Series(_telling_frame(trace)[stack])
    chosen = chosen.set(chosen < 0, None)
    stacks = trace.stacks.select(
        pl.format("{}:{}", pl.col("file").cast(pl.String), "line").alias("line"),
        frame_titles(trace).alias("function"),
    )
    return pl.DataFrame({name: stacks[name].gather(chosen) for name in stacks.columns})


def frame_titles(trace: Trace) -> pl.Series:
    """Return the function of each stack frame, with nodes and ops of torch by their short names."""
    name = trace.stacks["function"].cast(pl.String)
    distinct = name.unique().to_frame("name")
    op = pl.col("name").str.extract(_OP)
    titles = distinct.select(
        pl.coalesce(pl.col("name").str.extract(_NODE), pl.format("aten::{}", op), "name").alias("title")
    )["title"]
    return name.replace_strict(distinct["name"], titles, return_dtype=pl.String)


@once_per_trace
def _telling_frame(trace: Trace) -> IntArray:
    """Return for each stack the frame that stands for it, or -1; the last entry is for row -1."""
    file, name = trace.stacks["file"], trace.stacks["function"].cast(pl.String)
    parent = trace.stacks["parent"].to_numpy().astype(np.int64)
    depth = depth_of(parent)
    is_op = name.str.contains(_OP).to_numpy()
    found = np.full(len(parent) + 1, -1, np.int64)
    marks = (
        is_users_file(file),
        are_known(file),
        name.str.contains(_NODE).to_numpy(),
        is_op & ~_is_inside(is_op, parent, depth),
    )
    for is_marked in marks:
        found = np.where(found >= 0, found, nearest_marked(parent, depth, is_marked))
    return found


def _is_inside(is_marked: BoolArray, parent: IntArray, depth: IntArray) -> BoolArray:
    """Return which rows have a marked row above them."""
    inside: BoolArray = nearest_marked(parent, depth, is_marked)[parent] >= 0
    return inside
