"""Self time on the host by name, over ops, annotations, Python frames and runtime calls together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.analysis.host_nest import host_nest, lanes_of
from torchprof_magic.analysis.shared import ask_names, once_per_trace
from torchprof_magic.analysis.window import windows_of
from torchprof_magic.model.intervals import IntArray, covered_ns
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.trace import STEP_PATTERN

if TYPE_CHECKING:
    from torchprof_magic.model.trace import DType, Trace

COLUMNS = (
    Column(
        name="name", title="Name", unit="code", definition="Name of the event; all steps together are ProfilerStep#*."
    ),
    Column(
        name="category",
        title="Category",
        unit="text",
        definition="cpu_op, user_annotation, python_function or runtime.",
    ),
    Column(name="count", title="Count", unit="count", definition="How often it occurs in the recorded steps."),
    Column(
        name="self_ns",
        title="Self",
        unit="ns",
        definition="Time in the recorded steps that no event directly inside covers, whatever its category. Events "
        "that outlive the one around them are cut off there. Threads that only run Python are left out.",
        has_bar=True,
    ),
    Column(
        name="share_ratio",
        title="Share",
        unit="ratio",
        definition="Share of the recorded steps' time; threads add up to more than 100 %.",
    ),
)
SCHEMA: dict[str, DType] = {
    "name": pl.String,
    "category": pl.String,
    "count": pl.Int64,
    "self_ns": pl.Int64,
    "share_ratio": pl.Float64,
}


@once_per_trace
def host_table(trace: Trace) -> Table:
    """Return one row per name and category, the most self time first."""
    nest, windows, events = host_nest(trace), windows_of(trace), trace.events
    inside = _inside(nest.start_ns, nest.end_ns, windows.start_ns, windows.end_ns)
    own = inside.copy()
    has_parent = np.flatnonzero(nest.parent >= 0)
    np.subtract.at(own, nest.parent[has_parent], inside[has_parent])
    counted = (own > 0) | (inside > 0)
    counted &= np.isin(nest.lane, _working_lanes(trace))
    row = nest.row[counted]
    names = events["name"].gather(row).cast(pl.String)
    is_step = ask_names(events["name"], pl.col("name").str.contains(STEP_PATTERN)).astype(np.bool_)[row]
    frame = pl.DataFrame(
        {"name": names, "category": events["category"].gather(row).cast(pl.String), "ns": own[counted]}
    )
    frame = frame.with_columns(
        pl.when(pl.Series(is_step)).then(pl.lit("ProfilerStep#*")).otherwise(pl.col("name")).alias("name")
    )
    sums = frame.group_by("name", "category").agg(pl.len().alias("count"), pl.col("ns").sum().alias("self_ns"))
    share = pl.col("self_ns") / max(windows.whole_ns, 1)
    sums = sums.with_columns(share.alias("share_ratio")).select(SCHEMA.keys()).cast(SCHEMA)  # type: ignore[arg-type]
    ordered = sums.sort("self_ns", "name", descending=[True, False])
    return Table(frame=ordered, columns=COLUMNS, sort_by="self_ns")


def _inside(start: IntArray, end: IntArray, window_start: IntArray, window_end: IntArray) -> IntArray:
    if len(window_start) == 0:
        return np.zeros(len(start), np.int64)
    return covered_ns(window_start, window_end, start, end)


def _working_lanes(trace: Trace) -> list[int]:
    """Return the threads that have more than Python frames."""
    nest = host_nest(trace)
    is_python = (trace.events["category"] == "python_function").to_numpy()[nest.row]
    return [lane for lane, rows in lanes_of(nest) if not is_python[rows].all()]
