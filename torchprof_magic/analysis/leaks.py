"""Memory that grows from step to step: what is allocated in each step and never released."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.analysis.block_table import PLACE_COLUMNS, allocations_table
from torchprof_magic.analysis.shared import once_per_trace
from torchprof_magic.model.shapes import Column, Table

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# With fewer complete steps, what one step hands to the next looks like growth.
LEAST_STEPS = 3
# A leak that skips some steps, as one of an occasional log, is still one.
LEAST_SHARE = 0.8
_KEYS = ("device", "category", "module", "op", "file", "line")
COLUMNS = (
    Column(
        name="device", title="Device", unit="text", definition="cpu, or type and number of the device, such as cuda:0."
    ),
    *(column for column in PLACE_COLUMNS if column.name != "name"),
    Column(
        name="bytes_per_step",
        title="Bytes a step",
        unit="bytes",
        definition="Bytes that are still in use at the end of the recording, on average over its complete steps.",
        has_bar=True,
    ),
    Column(
        name="size_bytes",
        title="Size",
        unit="bytes",
        definition="Bytes that the complete steps allocated here and that are in use at the end.",
    ),
    Column(name="blocks", title="Blocks", unit="count", definition="Number of these blocks."),
    Column(
        name="steps", title="Steps", unit="count", definition="Number of complete steps that left at least one of them."
    ),
    Column(name="addresses", title="Addresses", unit="count", definition="Addresses of the blocks.", is_minor=True),
)


@once_per_trace
def leaks_table(trace: Trace) -> Table:
    """Return one row per place whose blocks pile up, by bytes a step.

    Such blocks are allocated in at least four of five complete steps, and are alive at the end of the recording. Each
    cycle is judged by itself. Empty with fewer than three complete steps.
    """
    steps = trace.steps.filter("complete").select(pl.col("number").alias("step"), "cycle")
    count = steps.group_by("cycle").len("of_steps").with_columns(pl.col("of_steps").cast(pl.Int64))
    kept = allocations_table(trace).frame.filter(pl.col("freed_at_ns").is_null())
    kept = kept.join(steps, on=["step", "cycle"], how="inner").join(count, on="cycle")
    found = kept.group_by(*_KEYS, "cycle", "of_steps", maintain_order=True).agg(
        pl.col("size_bytes").sum(),
        pl.len().cast(pl.Int64).alias("blocks"),
        pl.col("step").n_unique().cast(pl.Int64).alias("steps"),
        pl.col("address").alias("addresses"),
    )
    needed = (pl.col("of_steps") * LEAST_SHARE).ceil()
    found = found.filter((pl.col("of_steps") >= LEAST_STEPS) & (pl.col("steps") >= needed))
    found = found.with_columns(
        (pl.col("size_bytes") / pl.col("of_steps")).round().cast(pl.Int64).alias("bytes_per_step")
    )
    frame = found.select(column.name for column in COLUMNS).sort("bytes_per_step", descending=True, maintain_order=True)
    return Table(frame=frame, columns=COLUMNS, sort_by="bytes_per_step")
