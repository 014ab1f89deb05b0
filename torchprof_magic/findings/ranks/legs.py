"""What a rank has of the critical path of its job: what it does between collectives, and to the end of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.device.believable import believable
from torchprof_magic.facts.device.collectives import collective_rows
from torchprof_magic.facts.source.places import places_of
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.facts.step_graph.on_path import is_path_shown
from torchprof_magic.facts.step_graph.path import legs_of, replay_as_recorded
from torchprof_magic.facts.step_graph.spans import spans_of_steps
from torchprof_magic.findings.what_if.limits import GROUPS, groups_of, names_of_pieces
from torchprof_magic.findings.what_if.selection import with_all_inside
from torchprof_magic.model.intervals import NO_PARENT
from torchprof_magic.model.rows import frame_of, values_at

if TYPE_CHECKING:
    from torchprof_magic.facts.step_graph.path import Legs
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import DType, Trace

# Legs of a rank. They bound how long their paths take.
MOST_LEGS = 5_000
SCHEMA: dict[str, DType] = {
    "step": pl.Int32,
    "collective": pl.Int32,
    "before": pl.Int32,
    "end_ns": pl.Int64,
    "kind": pl.String,
    "name": pl.String,
    "file": pl.String,
    "line": pl.Int32,
    "ns": pl.Int64,
}


def legs_of_rank(trace: Trace) -> pl.DataFrame:
    """Return what decides when each collective begins and each step that counts ends, since the collective before.

    One row per leg and group of the critical path, with what takes most of it. ``collective`` is a row of
    ``collectives_of``, null for the end of a step; ``before`` is the one that the leg follows on, null for the begin of
    the step. A leg without any time has one row without a kind. Times are ns from ``meta.start_unix_ns``.
    """
    trace = believable(trace)
    if not is_path_shown(trace) or trace.steps.height == 0:
        return pl.DataFrame(schema=SCHEMA)
    graph, spans = step_graph(trace), spans_of_steps(trace)
    number, piece = _collectives(trace)
    of = _span_at(trace, graph.pieces.start_ns[piece])
    ends = np.flatnonzero(np.isin(spans.step, counted_steps(trace).row))
    known = np.flatnonzero(np.isin(of, ends))[:MOST_LEGS]
    collective = np.concatenate((number[known], np.full(len(ends), NO_PARENT)))
    span = np.concatenate((of[known], ends))
    pieces = np.concatenate((piece[known], spans.last[ends]))
    shares = np.concatenate((np.zeros(len(known)), spans.last_share[ends]))
    at = _numbers_of_pieces(trace)
    found = legs_of(graph, replay_as_recorded(trace), spans.chosen(span), (pieces, shares), stops=at >= 0)
    heads = pl.DataFrame(
        {
            "leg": np.arange(len(span)),
            "step": values_at(trace.steps["number"], spans.step[span]),
            "collective": _nullable(collective),
            "before": _nullable(np.append(at, NO_PARENT)[found.before]),
            "end_ns": spans.end_ns[span],
        }
    )
    rows = heads.join(_parts(trace, found), on="leg", how="left", maintain_order="left_right")
    return frame_of(SCHEMA, {name: rows[name] for name in SCHEMA})


def _collectives(trace: Trace) -> tuple[IntArray, IntArray]:
    """Return the number of each collective that is in the graph, and its first piece."""
    at = _numbers_of_pieces(trace)
    known = np.flatnonzero(at >= 0)
    number, first = np.unique(at[known], return_index=True)
    return number, known[first]


def _numbers_of_pieces(trace: Trace) -> IntArray:
    """Return for each piece the collective that it is of, or -1."""
    row, _ = collective_rows(trace)
    number = np.full(trace.events.height + 1, NO_PARENT, np.int64)
    number[row] = np.arange(len(row))
    pieces = step_graph(trace).pieces
    found = number[pieces.row]
    # What runs inside of a range of the host is of it; a piece there follows on one of the range itself.
    marked = np.zeros(trace.events.height, np.bool_)
    marked[row] = True
    inside = np.append(with_all_inside(trace, marked), False)[pieces.row] & ~pieces.is_work
    last = np.maximum.accumulate(np.where(found >= 0, np.arange(len(found)), NO_PARENT)) if len(found) else found
    filled: IntArray = np.where(inside & (found < 0) & (last >= 0), found[last], found)
    return filled


def _span_at(trace: Trace, time_ns: IntArray) -> IntArray:
    """Return the step in the graph that holds each moment, or -1."""
    spans = spans_of_steps(trace)
    order = np.argsort(spans.start_ns, kind="stable")
    place = np.searchsorted(spans.start_ns[order], time_ns, side="right") - 1
    at = np.append(order, NO_PARENT)[place]
    return np.where((place >= 0) & (time_ns < np.append(spans.end_ns, 0)[at]), at, NO_PARENT)


def _parts(trace: Trace, found: Legs) -> pl.DataFrame:
    """Return the time of each group in each leg, with the name that takes most of it, and its line."""
    path, pieces = found.path, step_graph(trace).pieces
    row = np.where(path.piece >= 0, np.append(pieces.row, NO_PARENT)[path.piece], NO_PARENT)
    file, line = places_of(trace, row).columns()
    parts = pl.DataFrame(
        {
            "leg": path.span,
            "kind": values_at(pl.Series([*GROUPS]), groups_of(trace, path)),
            "name": names_of_pieces(trace, path.piece),
            "file": pl.Series(file, dtype=pl.String),
            "line": pl.Series(line, dtype=pl.Int32),
            "ns": path.dur_ns,
        }
    )
    sums = parts.group_by("leg", "kind", "name", "file", "line").agg(pl.col("ns").sum())
    sums = sums.sort("leg", "ns", "name", descending=[False, True, False])
    return sums.group_by("leg", "kind", maintain_order=True).agg(
        pl.col("name", "file", "line").first(), pl.col("ns").sum()
    )


def _nullable(numbers: IntArray) -> pl.Series:
    return pl.Series(numbers).set(pl.Series(numbers < 0), None)
