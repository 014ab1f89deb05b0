"""The critical paths of the steps as slices: what decided at every moment, in one lane."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.host.host_nest import host_nest, indexes_of
from torchprof_magic.facts.host.host_states import called_ops
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.facts.step_graph.on_path import is_path_shown
from torchprof_magic.facts.step_graph.path import critical_path
from torchprof_magic.model.intervals import NO_PARENT, IntArray
from torchprof_magic.model.rows import values_at

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


class PathSlices(NamedTuple):
    """The parts of the paths, those of one op joined: the op or the work, or -1; the lane, and times in ns."""

    row: IntArray
    lane: IntArray
    start_ns: IntArray
    end_ns: IntArray


def path_slices(trace: Trace) -> PathSlices:
    """Return the critical paths; none if they stay on one thread, which shows them as it is."""
    nothing = PathSlices(*(np.empty(0, np.int64) for _ in PathSlices._fields))
    if not is_path_shown(trace):
        return nothing
    pieces, path = step_graph(trace).pieces, critical_path(trace)
    ran = path.piece >= 0
    piece = path.piece[ran]
    row, lane = _called(trace, pieces.row[piece], pieces.is_work[piece]), pieces.lane[piece]
    if len(lane) == 0 or (lane == lane[0]).all():
        return nothing
    start, end, span = path.start_ns[ran], path.end_ns[ran], path.span[ran]
    begins = np.ones(len(row), np.bool_)
    same = (row[1:] == row[:-1]) & (lane[1:] == lane[:-1]) & (span[1:] == span[:-1])
    begins[1:] = ~(same & (start[1:] == end[:-1]))
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(row)) - 1
    return PathSlices(row[first], lane[first], start[first], end[last])


def _called(trace: Trace, row: IntArray, is_work: np.ndarray) -> IntArray:
    """Return the op that the program called around each event of the host, -1 for none; work as it is."""
    nest = host_nest(trace)
    is_host = (row >= 0) & ~is_work
    found = np.where(is_work, row, NO_PARENT)
    if is_host.any():
        outer = np.append(called_ops(trace), NO_PARENT)[indexes_of(nest, row[is_host])]
        found[is_host] = np.append(nest.row, NO_PARENT)[outer]
    return found


def names_of(trace: Trace, slices: PathSlices) -> pl.Series:
    """Return what each part is called: its op or its work, else Python."""
    return values_at(trace.events["name"], slices.row).cast(pl.String).fill_null("Python")
