"""Waiting: the calls that hold the host, and what caused each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.busy import any_busy_ns
from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.host.blocking import RULE, RULES, blocking_calls
from torchprof_magic.facts.host.host_nest import above_marked, host_nest, indexes_of
from torchprof_magic.facts.shared import is_named, once_for_the_whole, once_per_trace
from torchprof_magic.facts.source.places import module_of_events, places_of
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.trace import STEP_PATTERN, DType

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

COLUMNS = (
    Column(name="call", title="Call", unit="code", definition="Name of the runtime call that held its thread."),
    Column(
        name="rule",
        title="Rule",
        unit="text",
        definition=" ".join(f"{rule}: {text}" for rule, text in RULES.items() if rule != "profiler"),
    ),
    Column(name="thread", title="Thread", unit="text", definition="Process and thread id of the waiting thread."),
    Column(name="op", title="Op", unit="code", definition="Innermost op around the call; null for none."),
    Column(
        name="annotation",
        title="Annotation",
        unit="code",
        definition="Innermost annotation around the call, other than a step; null for none.",
        is_minor=True,
    ),
    Column(name="module", title="Module", unit="code", definition="Innermost nn.Module around the call, if known."),
    Column(
        name="file",
        title="File",
        unit="text",
        definition="File of the line, or of the user's function, that made the call, if known.",
    ),
    Column(
        name="line",
        title="Line",
        unit="count",
        definition="The line that ran, where lines were watched; otherwise the line at which the function is defined.",
    ),
    Column(name="count", title="Calls", unit="count", definition="Number of calls."),
    Column(
        name="total_ns",
        title="Waiting",
        unit="ns",
        definition="Time in these calls, within the recorded steps.",
        has_bar=True,
    ),
    Column(
        name="device_busy_ns",
        title="Device busy",
        unit="ns",
        definition="Part of it in which some device worked. Only the rest can be what limits the program.",
    ),
    Column(name="longest_ns", title="Longest", unit="ns", definition="Longest single call."),
)
_KEYS = ("call", "rule", "thread", "op", "annotation", "module", "file", "line")
_TYPES: dict[str, DType] = {
    "rule": RULE,
    "line": pl.Int32,
    **dict.fromkeys(("count", "total_ns", "device_busy_ns", "longest_ns"), pl.Int64),
}
SCHEMA: dict[str, DType] = {column.name: _TYPES.get(column.name, pl.String) for column in COLUMNS}


@once_for_the_whole
def waits_table(trace: Trace, part: TimeRange) -> Table:
    """Return the blocking calls within the recorded steps, grouped by what caused them, the longest total first.

    The profiler's own waits are left out. Times are cut at the edges of the part; a call counts if any of it lies
    inside.
    """
    calls = _calls_in(trace, part)
    if calls.height == 0:
        return Table(frame=pl.DataFrame(schema=SCHEMA), columns=COLUMNS, sort_by="total_ns")
    described = calls.hstack(_causes(trace, calls["row"].to_numpy()))
    frame = described.group_by(_KEYS, maintain_order=True).agg(
        pl.len().alias("count"),
        pl.col("dur_ns").sum().alias("total_ns"),
        pl.col("device_busy_ns").sum(),
        pl.col("dur_ns").max().alias("longest_ns"),
    )
    frame = frame.select(SCHEMA.keys()).cast(SCHEMA)  # type: ignore[arg-type]
    frame = frame.sort("total_ns", "call", "op", descending=[True, False, False], maintain_order=True)
    return Table(frame=frame, columns=COLUMNS, sort_by="total_ns")


def _calls_in(trace: Trace, part: TimeRange) -> pl.DataFrame:
    """Return the calls of the program that wait in a part, with the time in it, and how long a device worked then."""
    calls = _in_windows(trace)
    start, dur = part.cut(calls["start_ns"].to_numpy(), calls["dur_ns"].to_numpy())
    busy = any_busy_ns(trace, start, start + dur)
    calls = calls.with_columns(
        pl.Series("start_ns", start), pl.Series("dur_ns", dur), pl.Series("device_busy_ns", busy)
    )
    return calls.filter(pl.col("dur_ns") > 0)


@once_per_trace
def _in_windows(trace: Trace) -> pl.DataFrame:
    """Return the blocking calls of the program, cut off at the ends of the windows."""
    calls, windows = blocking_calls(trace).filter(pl.col("rule") != "profiler"), windows_of(trace)
    start = calls["start_ns"].to_numpy()
    end = start + calls["dur_ns"].to_numpy()
    at = np.searchsorted(windows.start_ns, end, side="left") - 1
    is_known = (at >= 0) & (len(windows.start_ns) > 0)
    low = np.append(windows.start_ns, 0)[at]
    high = np.append(windows.end_ns, 0)[at]
    start, end = np.maximum(start, low), np.minimum(end, high)
    calls = calls.with_columns(pl.Series("start_ns", start), pl.Series("dur_ns", end - start))
    return calls.filter(pl.Series(is_known & (end > start)))


def _causes(trace: Trace, rows: IntArray) -> list[pl.Series]:
    """Return what each call was made for, as columns."""
    events, nest = trace.events, host_nest(trace)
    names = events["name"].cast(pl.String)
    index = indexes_of(nest, rows)
    category = events["category"]
    is_step = is_named(trace, STEP_PATTERN)
    is_op = (category == "cpu_op").to_numpy()[nest.row]
    is_annotation = ((category == "user_annotation").to_numpy() & ~is_step)[nest.row]
    lanes = events["lane"].to_numpy()[rows]
    thread = (trace.lanes["pid"] + "/" + trace.lanes["tid"]).gather(lanes)
    return [
        names.gather(rows).alias("call"),
        thread.alias("thread"),
        _named(names, nest.row, above_marked(nest, is_op)[index], "op"),
        _named(names, nest.row, above_marked(nest, is_annotation)[index], "annotation"),
        module_of_events(trace, rows).alias("module"),
        *places_of(trace, rows).columns(),
    ]


def _named(names: pl.Series, row: IntArray, index: IntArray, column: str) -> pl.Series:
    at = pl.Series(np.append(row, 0)[index])
    return names.gather(at.set(pl.Series(index < 0), None)).alias(column)
