"""What the host spent its time in: the time of each op, annotation, Python function and runtime call itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_captures import on_captured_lanes
from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.host.host_nest import NESTED, host_nest
from torchprof_magic.facts.shared import in_category, once_for_the_whole
from torchprof_magic.model.intervals import covered_ns, self_time
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.trace import STEP_PATTERN, DType

if TYPE_CHECKING:
    from torchprof_magic.facts.host.host_nest import HostNest
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import BoolArray
    from torchprof_magic.model.trace import Trace

COLUMNS = (
    Column(
        name="name",
        title="Name",
        unit="code",
        definition="Name as recorded; all steps together are ProfilerStep#*.",
    ),
    Column(name="category", title="Category", unit="text", definition=f"One of {', '.join(NESTED)}."),
    Column(
        name="count", title="Count", unit="count", definition="Number of events that ran within the recorded steps."
    ),
    Column(
        name="self_ns",
        title="Self",
        unit="ns",
        definition="Time in the event itself within the recorded steps, without the ops, annotations, Python functions "
        "and runtime calls directly inside it; summed over threads. It can be waiting rather than work.",
        has_bar=True,
    ),
    Column(
        name="share_ratio",
        title="Share",
        unit="ratio",
        definition="Self time divided by the duration of the recorded steps; threads add up to more than 1.",
    ),
)
_TYPES: dict[str, DType] = {"count": pl.Int64, "self_ns": pl.Int64, "share_ratio": pl.Float64}
SCHEMA: dict[str, DType] = {column.name: _TYPES.get(column.name, pl.String) for column in COLUMNS}
_ALL_STEPS = "ProfilerStep#*"


@once_for_the_whole
def host_table(trace: Trace, part: TimeRange) -> Table:
    """Return one row per name and category of host event with the time in it alone, the longest first.

    Unlike in ``ops``, events of all categories are nested in one another, and only time within the recorded steps
    counts. Threads on which nothing but Python ran are left out: they are parked most of the time. Times are cut at the
    edges of the part; an event counts if any of it lies inside.
    """
    nest, windows = host_nest(trace), windows_of(trace).in_part(part)
    start_ns, dur_ns = part.cut(nest.start_ns, nest.end_ns - nest.start_ns)
    inside_ns = covered_ns(windows.start_ns, windows.end_ns, start_ns, start_ns + dur_ns)
    self_ns = self_time(nest.parent, inside_ns)
    chosen = np.flatnonzero((inside_ns > 0) & _runs_more_than_python(trace, nest) & ~on_captured_lanes(trace)[nest.row])
    times = trace.events.select("name", "category")[nest.row[chosen]].with_columns(self_ns=self_ns[chosen])
    # The names are grouped as numbers first, since a trace has millions of events but few names.
    summed = times.group_by("name", "category").agg(pl.len().alias("count"), pl.col("self_ns").sum())
    name = pl.col("name").cast(pl.String)
    frame = (
        summed.with_columns(
            pl.when(name.str.contains(STEP_PATTERN)).then(pl.lit(_ALL_STEPS)).otherwise(name).alias("name")
        )
        .group_by("name", "category")
        .agg(pl.col("count").sum(), pl.col("self_ns").sum())
        .with_columns((pl.col("self_ns") / max(windows.whole_ns, 1)).alias("share_ratio"))
        .select(SCHEMA.keys())
        .cast(SCHEMA)  # type: ignore[arg-type]
        .sort("self_ns", "name", "category", descending=[True, False, False])
    )
    return Table(frame=frame, columns=COLUMNS, sort_by="self_ns")


def _runs_more_than_python(trace: Trace, nest: HostNest) -> BoolArray:
    """Return which host events are on a thread that has another event than a Python frame."""
    is_python = in_category(trace, "python_function")[nest.row]
    has_more = np.zeros(trace.lanes.height, np.bool_)
    has_more[nest.lane[~is_python]] = True
    return has_more[nest.lane]
