"""Columns of how fast work ran, and how near the roof that is: the same for ops, kernels, modules and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.ops.roofline import roofline, sums_of_work
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.model.shapes import Column

if TYPE_CHECKING:
    from torchprof_magic.facts.ops.roofline import WorkSums
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import DType, Trace

COMPUTE, MEMORY = "compute", "memory"
SUMS = (
    Column(
        name="work_flops",
        title="Operations",
        unit="flop",
        definition="Operations that the work needs, by the table of formulas from recorded shapes and types: also "
        "those that `flops` leaves out, such as those of elementwise ops, and half of what a causal mask leaves out. "
        "Null without known work.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="moved_bytes",
        title="Moved",
        unit="bytes",
        definition="Bytes that the work has to read and write, each tensor once, by the same formulas; null where the "
        "type of a tensor is not known.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="worked_ns",
        title="Work time",
        unit="ns",
        definition="Time of the kernels with known work, or without a device of the ops with known work on the host. "
        "Operations and bytes per second are by this time.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="roof_ns",
        title="At the roof",
        unit="ns",
        definition="How long this work would take at the peak of the device: the longer of the time of its operations "
        "and of that of its bytes.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="above_ns",
        title="Could gain",
        unit="ns",
        definition="What it took longer than at the roof: what faster kernels could save at most. Calls that are "
        "faster than their roof make up for none of it.",
        is_minor=True,
        is_sum=True,
    ),
)
RATES = (
    Column(
        name="flops_per_s",
        title="FLOP/s",
        unit="flop",
        definition="Operations per second while it worked.",
        is_minor=True,
    ),
    Column(
        name="moved_bytes_per_s",
        title="Bytes/s",
        unit="bytes",
        definition="Bytes per second that it moved, at least: what caches hold is not moved twice.",
        is_minor=True,
    ),
    Column(
        name="flops_per_byte",
        title="FLOP/B",
        unit="flop",
        definition="Arithmetic intensity: operations divided by bytes. Where it is low, the memory is the limit.",
        is_minor=True,
    ),
    Column(
        name="roof_ratio",
        title="Of the roof",
        unit="ratio",
        definition="The time that it took less what it could gain, as a share of that time, of work whose device has a "
        "known peak. Calls that are faster than their roof count as at it.",
    ),
    Column(
        name="roof",
        title="Roof",
        unit="text",
        definition="What limits it: compute where the operations take longer at the peak, memory where the bytes do.",
        is_minor=True,
    ),
)
COLUMNS = (*SUMS, *RATES)
_OF_ROOF = ("roof_ns", "above_ns", "roof_ratio", "roof")
# What the rates are computed from besides.
HIDDEN = ("rated_ns", "compute_ns")
TYPES: dict[str, DType] = {
    **dict.fromkeys((*(column.name for column in SUMS), *HIDDEN), pl.Int64),
    **dict.fromkeys((column.name for column in RATES), pl.Float64),
    "roof": pl.String,
}
SUMMED = (*(column.name for column in SUMS), *HIDDEN)


@once_per_trace
def has_work(trace: Trace) -> bool:
    """Return whether the work of anything is known."""
    return len(roofline(trace).row) > 0


@once_per_trace
def has_roof(trace: Trace) -> bool:
    """Return whether the roof of any work is known."""
    return bool((~np.isnan(roofline(trace).roof_ns)).any())


def rate_columns(trace: Trace) -> tuple[Column, ...]:
    """Return the columns that a trace has: none without known work, and none of the roof without a known peak."""
    if not has_work(trace):
        return ()
    return COLUMNS if has_roof(trace) else tuple(column for column in COLUMNS if column.name not in _OF_ROOF)


def work_columns(trace: Trace, part: TimeRange, group: IntArray, count: int) -> dict[str, pl.Series]:
    """Return the sums of known work by group, of which ``with_rates`` makes all columns; empty without any.

    ``group`` is that of each piece of ``roofline``, or -1.
    """
    if not has_work(trace):
        return {}
    return series_of(sums_of_work(trace, part, group, count))


def series_of(sums: WorkSums) -> dict[str, pl.Series]:
    """Return sums of work as columns, null where there is none."""
    has_none, is_unrated = pl.Series(sums.timed_ns == 0), pl.Series(sums.rated_ns == 0)
    values = {
        "work_flops": (sums.flops, has_none),
        "moved_bytes": (sums.bytes, has_none | pl.Series(sums.bytes_known == 0)),
        "worked_ns": (sums.timed_ns, has_none),
        "roof_ns": (sums.roof_ns, is_unrated),
        "above_ns": (sums.above_ns, is_unrated),
        "rated_ns": (sums.rated_ns, is_unrated),
        "compute_ns": (sums.compute_ns, is_unrated),
    }
    return {name: pl.Series(name, value).set(is_null, None) for name, (value, is_null) in values.items()}


def with_rates(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with the rates, from its sums; rates that it has are computed anew."""
    if "rated_ns" not in frame.columns:
        return frame
    worked, rated = pl.col("worked_ns"), pl.col("rated_ns")
    return frame.with_columns(
        pl.when((worked > 0) & (pl.col("work_flops") > 0))
        .then(pl.col("work_flops") / worked * 1e9)
        .alias("flops_per_s"),
        pl.when(worked > 0).then(pl.col("moved_bytes") / worked * 1e9).alias("moved_bytes_per_s"),
        pl.when(pl.col("moved_bytes") > 0).then(pl.col("work_flops") / pl.col("moved_bytes")).alias("flops_per_byte"),
        pl.when(rated > 0).then(1 - pl.col("above_ns") / rated).alias("roof_ratio"),
        pl.when(rated > 0)
        .then(pl.when(2 * pl.col("compute_ns") > pl.col("roof_ns")).then(pl.lit(COMPUTE)).otherwise(pl.lit(MEMORY)))
        .alias("roof"),
    )


def without_hidden(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame without the sums that only rates are computed from."""
    return frame.drop(name for name in HIDDEN if name in frame.columns)
