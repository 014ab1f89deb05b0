"""How long the program waits for batches of its DataLoaders, and whether their workers keep up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.busy import any_busy_ns
from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.shared import is_named, once_for_the_whole
from torchprof_magic.facts.source.places import places_of
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.units import counted, format_count

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import DType, Trace

# torch wraps each fetch in a range with the class of the iterator.
_FETCH = r"^enumerate\(DataLoader\)#"
_HAS_WORKERS = r"MultiProcessing"
# A batch that lies ready in the queue of the workers is fetched in less.
READY_NS = 1_000_000
# From this share of fetches on, the workers do not keep up.
MOSTLY_LATE = 0.5
COLUMNS = (
    Column(name="name", title="Range", unit="code", definition="Range that torch puts around each fetch."),
    Column(
        name="loaded_by",
        title="Loaded by",
        unit="text",
        definition="workers: worker processes load, so that a fetch only waits for a batch and unpacks it; caller: the "
        "thread that fetches loads the batch itself.",
    ),
    Column(name="thread", title="Thread", unit="text", definition="Process and thread that fetched."),
    Column(name="file", title="File", unit="text", definition="File of the user's line that fetched, if known."),
    Column(name="line", title="Line", unit="count", definition="That line, or where its function is defined."),
    Column(name="count", title="Fetches", unit="count", definition="Fetches in the recorded steps."),
    Column(name="total_ns", title="Total", unit="ns", definition="Their summed time.", has_bar=True),
    Column(name="median_ns", title="Median", unit="ns", definition="Median of their times."),
    Column(name="longest_ns", title="Longest", unit="ns", definition="Longest of them."),
    Column(name="share_ratio", title="Share", unit="ratio", definition="Total divided by that of the recorded steps."),
    Column(
        name="late",
        title="Not ready",
        unit="count",
        definition="Fetches of more than 1 ms from workers: they had no batch ready. Null without workers.",
    ),
    Column(
        name="device_idle_ns",
        title="Device idle",
        unit="ns",
        definition="Part of the total in which no device worked. Null without a device.",
    ),
)
_TYPES: dict[str, DType] = {
    **dict.fromkeys(("name", "loaded_by", "thread", "file"), pl.String),
    "line": pl.Int32,
    "share_ratio": pl.Float64,
}
SCHEMA: dict[str, DType] = {column.name: _TYPES.get(column.name, pl.Int64) for column in COLUMNS}


@once_for_the_whole
def loaders_table(trace: Trace, part: TimeRange) -> Table:
    """Return one row per kind of DataLoader, thread and line, the longest total first.

    Only fetches that begin within the recorded steps count. Times are cut at the edges of the part; a fetch counts if
    any of it lies inside, as one that was not ready if it is one in the whole recording.
    """
    row = fetch_rows(trace)
    row = row[part.touches(*_times(trace, row))]
    if len(row) == 0:
        return Table(frame=pl.DataFrame(schema=SCHEMA), columns=COLUMNS, sort_by="total_ns")
    _, whole_ns = _times(trace, row)
    start, dur = part.cut(*_times(trace, row))
    lane = trace.events["lane"].gather(row)
    name = trace.events["name"].gather(row).cast(pl.String)
    fetches = pl.DataFrame(
        {
            "name": name,
            "has_workers": name.str.contains(_HAS_WORKERS),
            "thread": (trace.lanes["pid"] + "/" + trace.lanes["tid"]).gather(lane),
            "dur_ns": dur,
            "is_long": whole_ns > READY_NS,
            "device_idle_ns": dur - any_busy_ns(trace, start, start + dur, part),
        }
    ).hstack(list(places_of(trace, row).columns()))
    is_late = pl.col("has_workers") & pl.col("is_long")
    rows = fetches.group_by("name", "has_workers", "thread", "file", "line").agg(
        pl.len().alias("count"),
        pl.col("dur_ns").sum().alias("total_ns"),
        pl.col("dur_ns").median().alias("median_ns"),
        pl.col("dur_ns").max().alias("longest_ns"),
        is_late.sum().alias("late"),
        pl.col("device_idle_ns").sum() if trace.has_device else pl.lit(None).alias("device_idle_ns"),
    )
    described = rows.with_columns(
        pl.when("has_workers").then(pl.lit("workers")).otherwise(pl.lit("caller")).alias("loaded_by"),
        (pl.col("total_ns") / max(windows_of(trace).in_part(part).whole_ns, 1)).alias("share_ratio"),
        pl.when("has_workers").then("late").alias("late"),
    )
    frame = described.select(SCHEMA.keys()).cast(SCHEMA)  # type: ignore[arg-type]
    ordered = frame.sort("total_ns", "name", "thread", descending=[True, False, False])
    return Table(frame=ordered, columns=COLUMNS, sort_by="total_ns")


def _times(trace: Trace, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the starts and durations of some events."""
    return trace.events["start_ns"].to_numpy()[rows], trace.events["dur_ns"].to_numpy()[rows]


def fetch_rows(trace: Trace) -> IntArray:
    """Return the rows of the fetches that begin within the recorded steps."""
    matches = is_named(trace, _FETCH)
    row = np.flatnonzero(matches)
    return row[windows_of(trace).holds(trace.events["start_ns"].to_numpy()[row])]


def has_workers(trace: Trace, rows: IntArray) -> BoolArray:
    """Return for which fetches worker processes load the batches."""
    matches = is_named(trace, _HAS_WORKERS)
    return matches[rows]


def starved_words(trace: Trace) -> str:
    """Return a sentence that says whether the workers of the DataLoaders keep up, empty if there are none."""
    rows = loaders_table(trace).frame.filter(loaded_by="workers")
    count, late = int(rows["count"].sum()), int(rows["late"].sum())
    if count == 0:
        return ""
    times = counted(count, "time")
    if late < MOSTLY_LATE * count:
        return f"The workers had a batch ready {format_count(count - late)} of {times}."
    return f"The workers do not keep up: no batch was ready {format_count(late)} of {times}."
