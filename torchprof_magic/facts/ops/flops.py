"""FLOPs of each op, from the recorded shapes of its inputs.

They are those of ``torch.utils.flop_counter``: what the table of formulas counts more has columns of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_work import is_captured, replayed_calls
from torchprof_magic.facts.ops.calls import op_rows
from torchprof_magic.facts.ops.formulas import COUNTED, read_inputs, work_of
from torchprof_magic.facts.ops.hints import gradients_of_results
from torchprof_magic.facts.shared import ask_event_names, in_category, once_for_the_whole, once_per_trace
from torchprof_magic.model.intervals import nearest_marked
from torchprof_magic.model.rows import are_known, filled
from torchprof_magic.model.trace import DEVICE_CATEGORIES, MAX_SUM

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

_CALL = ("name", "shapes", "concrete_inputs")
# What torch counts has one table with everything else that ops do.
FORMULAS = COUNTED


def flops_of(name: str, shapes: str, concrete_inputs: str | None = None, gradient: str = "") -> int | None:
    """Return the FLOPs of one call from what was recorded of its inputs; None if they cannot be told.

    ``gradient`` are the dimensions of what its backward pass gets, for calls of which no values were recorded.
    """
    if name not in FORMULAS:
        return None
    work = work_of(name, read_inputs(shapes, None, concrete_inputs, gradient=gradient))
    return None if work is None else work.counted


@once_for_the_whole
def flops_in(trace: Trace, part: TimeRange) -> pl.Series:
    """Return the FLOPs of each event that begins in a part, null where they are not known and for events elsewhere.

    An op inside another one with known FLOPs has none of its own, so the sum counts each operation once. An op that
    was captured into a graph has those of the replays that begin in the part, as nothing ran when it was captured.
    """
    flops = flops_of_calls(trace)
    begun = part.holds(trace.events["start_ns"].to_numpy())
    times = np.where(is_captured(trace), replayed_calls(trace, part, any_of_it=False), begun)
    is_beyond = filled(flops, 0) > MAX_SUM // np.maximum(times, 1)
    return _summable(flops.set(pl.Series(is_beyond | (times == 0)), None) * pl.Series(times)).alias("flops")


@once_per_trace
def flops_of_calls(trace: Trace) -> pl.Series:
    """Return the FLOPs of each event, once, null where they are not known; of ops inside others as ``flops_in``."""
    events = trace.events
    has_formula = ask_event_names(trace, pl.col("name").is_in(list(FORMULAS))).astype(np.bool_)
    rows = np.flatnonzero(has_formula & in_category(trace, "cpu_op") & are_known(events["shapes"]))
    found = _flops_of_calls(events.select(_CALL)[rows].with_columns(gradients_of_results(trace, rows)))
    is_known = are_known(found)
    rows, found = rows[is_known], found.drop_nulls()
    is_outermost = _is_outermost(trace, rows)
    flops = pl.Series("flops", [None], dtype=pl.Int64).new_from_index(0, events.height)
    return flops.scatter(rows[is_outermost], _summable(found.filter(pl.Series(is_outermost))))


def _flops_of_calls(calls: pl.DataFrame) -> pl.Series:
    """Return the FLOPs of each call; a trace has millions of them but few distinct ones."""
    distinct = calls.unique()
    texts = distinct.select(pl.all().cast(pl.String)).rows()
    flops = pl.Series("flops", [flops_of(*each) for each in texts], dtype=pl.Int64)
    known = distinct.with_columns(flops)
    return calls.join(known, on=calls.columns, how="left", nulls_equal=True, maintain_order="left")["flops"]


def _is_outermost(trace: Trace, rows: IntArray) -> np.ndarray:
    """Return which of these events lie in none of the others."""
    is_known = np.zeros(trace.events.height, np.bool_)
    is_known[rows] = True
    parent = trace.events["parent"].to_numpy()
    around = nearest_marked(parent, trace.events["depth"].to_numpy(), is_known)
    return around[parent[rows]] < 0


def _summable(flops: pl.Series) -> pl.Series:
    """Return the counts; if damaged ones would make a sum too large, without those that are too large for that."""
    if float(flops.cast(pl.Float64).sum()) <= MAX_SUM:
        return flops
    return flops.set((flops > MAX_SUM // len(flops)).fill_null(value=False), None)


def has_flops(trace: Trace) -> bool:
    """Return whether the FLOPs of any op are known."""
    flops = flops_in(trace)
    return flops.null_count() < len(flops)


def modelled_ratio(trace: Trace) -> float | None:
    """Return the share of time that lies in ops with known FLOPs; None if there are none.

    It is a share of all device work, or of the self CPU time of all ops if no device was recorded.
    """
    if not has_flops(trace):
        return None
    ops = op_rows(trace)
    is_known = are_known(flops_in(trace))[ops.row]
    if trace.has_device:
        whole = trace.events.filter(pl.col("category").is_in(DEVICE_CATEGORIES))["dur_ns"].sum()
        known = ops.total_device_ns[is_known].sum()
    else:
        is_op = in_category(trace, "cpu_op")[ops.row]
        whole, known = ops.self_cpu_ns[is_op].sum(), ops.dur_ns[is_known].sum()
    return min(float(known) / max(float(whole), 1.0), 1.0)
