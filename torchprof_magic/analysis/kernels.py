"""The kernels, copies and fills that keep the device busy."""

from __future__ import annotations

import polars as pl

from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.trace import DEVICE_CATEGORIES, Trace

COLUMNS = (
    Column(name="name", title="Kernel", unit="code", definition="Name of the kernel, copy or fill."),
    Column(name="kind", title="Kind", unit="text", definition="kernel, memcpy or memset.", is_minor=True),
    Column(name="calls", title="Calls", unit="count", definition="How often it ran in the recorded steps."),
    Column(
        name="sum_ns",
        title="Time",
        unit="ns",
        definition="Summed duration over all streams and devices; concurrent work adds up.",
        has_bar=True,
    ),
    Column(name="sum_ratio", title="Time %", unit="ratio", definition="Share of the summed time of all device work."),
    Column(name="mean_ns", title="Mean", unit="ns", definition="Average duration of a single run."),
    Column(name="max_ns", title="Longest", unit="ns", definition="Longest duration of a single run.", is_minor=True),
)


def kernels_table(trace: Trace) -> Table:
    """Return one row per kernel name with its summed time, longest first."""
    work = trace.events.filter(pl.col("category").is_in(DEVICE_CATEGORIES))
    frame = work.group_by(pl.col("name").cast(pl.String), pl.col("category").cast(pl.String).alias("kind")).agg(
        pl.len().alias("calls"),
        pl.col("dur_ns").sum().alias("sum_ns"),
        pl.col("dur_ns").mean().alias("mean_ns"),
        pl.col("dur_ns").max().alias("max_ns"),
    )
    share = pl.col("sum_ns") / pl.col("sum_ns").sum().clip(lower_bound=1)
    frame = frame.with_columns(share.alias("sum_ratio")).select(column.name for column in COLUMNS)
    return Table(frame=frame.sort("sum_ns", "name", descending=[True, False]), columns=COLUMNS, sort_by="sum_ns")
