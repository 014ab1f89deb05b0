"""Waiting: the calls that hold the host, the host's own waits, and what caused each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.busy import any_busy_ns
from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.host.blocking import RULES, BlockingCalls, calls_that_block, rules_named
from torchprof_magic.facts.host.blocking import SCHEMA as CALLS_SCHEMA
from torchprof_magic.facts.host.host_nest import above_marked, host_nest, indexes_of
from torchprof_magic.facts.host.lanes_of_steps import lanes_of_steps
from torchprof_magic.facts.host.seen_waits import seen_waits
from torchprof_magic.facts.shared import in_category, is_named, once_for_the_whole, once_per_trace
from torchprof_magic.facts.source.places import module_of_events, places_of
from torchprof_magic.model.rows import frame_of, rows_where
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.trace import STEP_PATTERN, DType

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# What holds the host without a device, as a live run sees it.
HOST_RULES = {
    "wait": "In a live run: the thread of the steps used no CPU between ops, because it slept, or waited for a lock, a "
    "queue, a file, the network or another program.",
    "garbage": "In a live run: Python collected garbage.",
}
WAIT_RULE = pl.Enum((*RULES, *HOST_RULES))
_RULE_OF_KIND = {"wait": "wait", "collection": "garbage"}
COLUMNS = (
    Column(
        name="call",
        title="Call",
        unit="code",
        definition="Name of the runtime call that held its thread; of a wait what the user's line called, such as "
        "time.sleep or Queue.get, null if not known.",
    ),
    Column(
        name="rule",
        title="Rule",
        unit="text",
        definition=" ".join(f"{rule}: {text}" for rule, text in (RULES | HOST_RULES).items() if rule != "profiler"),
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
        definition="The line that ran, for waits of the host, and where lines were watched; otherwise the line at "
        "which the function is defined.",
    ),
    Column(
        name="count",
        title="Calls",
        unit="count",
        definition="Number of calls. Waits are looked for each millisecond; of those that were not seen, as many are "
        "counted as the time that they took tells.",
    ),
    Column(
        name="total_ns",
        title="Waiting",
        unit="ns",
        definition="Time in these calls, within the recorded steps. What a step waited, by the CPU time of its thread, "
        "beyond the waits that were seen is of lines that wait in other steps; the rest is shared among those of the "
        "step, or else of other steps.",
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
    "rule": WAIT_RULE,
    "line": pl.Int32,
    **dict.fromkeys(("count", "total_ns", "device_busy_ns", "longest_ns"), pl.Int64),
}
SCHEMA: dict[str, DType] = {column.name: _TYPES.get(column.name, pl.String) for column in COLUMNS}
# A wait that was seen may stand for some that were not, so for more than one.
_DESCRIBED: dict[str, DType] = {**SCHEMA, "count": pl.Float64}


@once_for_the_whole
def waits_table(trace: Trace, part: TimeRange) -> Table:
    """Return what held the host within the recorded steps, grouped by what caused it, the longest total first.

    These are blocking calls, and in a live run the waits and the garbage collection of the thread that runs the steps.
    Those of the profiler, and those inside ops, are left out. Times are cut at the edges of the part; a call counts if
    any of it lies inside.
    """
    described = pl.concat([_described_calls(trace, part), _host_waits(trace, part)])
    frame = described.group_by(_KEYS, maintain_order=True).agg(
        pl.col("count").sum().round().clip(lower_bound=1).cast(pl.Int64),
        pl.col("total_ns").sum(),
        pl.col("device_busy_ns").sum(),
        pl.col("longest_ns").max(),
    )
    frame = frame.select(SCHEMA.keys())
    frame = frame.sort("total_ns", "call", "op", descending=[True, False, False], maintain_order=True)
    return Table(frame=frame, columns=COLUMNS, sort_by="total_ns")


def _described_calls(trace: Trace, part: TimeRange) -> pl.DataFrame:
    """Return a row per blocking call."""
    calls = _calls_in(trace, part)
    if calls.height == 0:
        return pl.DataFrame(schema=_DESCRIBED)
    described = calls.hstack(_causes(trace, calls["row"].to_numpy()))
    dur = pl.col("dur_ns")
    described = described.with_columns(dur.alias("total_ns"), dur.alias("longest_ns"), pl.lit(1.0).alias("count"))
    return _rows(described)


def _host_waits(trace: Trace, part: TimeRange) -> pl.DataFrame:
    """Return a row per wait of the host, with what all waiting of its step adds to it."""
    seen = seen_waits(trace)
    if len(seen.row) == 0:
        return pl.DataFrame(schema=_DESCRIBED)
    start, dur = part.cut(seen.start_ns, seen.end_ns - seen.start_ns)
    # So that what it is in two parts adds up, the ends are moved and not the length.
    ahead_ns = np.minimum(np.maximum(part.start_ns, seen.start_ns), seen.end_ns) - seen.start_ns
    from_ns, to_ns = ((ns * seen.scale).astype(np.int64) for ns in (ahead_ns, ahead_ns + dur))
    waits = trace.waits.select("kind", "call", "file", "line")[seen.row.tolist()].with_columns(
        pl.Series("wait", np.where(seen.is_seen, seen.row, -1 - np.arange(len(seen.row)))),
        pl.Series("longest_ns", np.where(seen.is_seen, dur, 0)),
        pl.Series("dur_ns", dur),
        pl.Series("total_ns", to_ns - from_ns),
        pl.Series("count", seen.times),
        pl.Series("device_busy_ns", any_busy_ns(trace, start, start + dur, part)),
    )
    each = waits.filter(pl.col("dur_ns") > 0).group_by("wait", maintain_order=True)
    whole = each.agg(
        pl.col("kind", "call", "file", "line").first(),
        pl.col("total_ns", "device_busy_ns", "longest_ns", "count").sum(),
    )
    nothing = (pl.lit(None, pl.String).alias(name) for name in ("op", "annotation", "module"))
    rule = pl.col("kind").cast(pl.String).replace_strict(_RULE_OF_KIND, return_dtype=pl.String).alias("rule")
    return _rows(whole.with_columns(rule, pl.lit(_thread_of_steps(trace)).alias("thread"), *nothing))


def _thread_of_steps(trace: Trace) -> str:
    lane = int(lanes_of_steps(trace).max(initial=-1))
    return "/".join(trace.lanes.select("pid", "tid").row(lane)) if lane >= 0 else ""


def _rows(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(_DESCRIBED.keys()).cast(_DESCRIBED)  # type: ignore[arg-type]


def waiting_ns(trace: Trace, part: TimeRange) -> int:
    """Return how long all blocking calls of the program took within a part, without waits of the host."""
    calls = _in_windows(trace)
    return int(part.cut(calls.start_ns, calls.end_ns - calls.start_ns)[1].sum())


def _calls_in(trace: Trace, part: TimeRange) -> pl.DataFrame:
    """Return the calls of the program that wait in a part, with the time in it, and how long a device worked then."""
    calls = _in_windows(trace)
    start, dur = part.cut(calls.start_ns, calls.end_ns - calls.start_ns)
    columns = {
        "row": calls.row,
        "rule": rules_named(calls.rule),
        "start_ns": start,
        "dur_ns": dur,
        "device_busy_ns": any_busy_ns(trace, start, start + dur, part),
    }
    return rows_where(frame_of(CALLS_SCHEMA, columns), dur > 0)


@once_per_trace
def _in_windows(trace: Trace) -> BlockingCalls:
    """Return the blocking calls of the program, cut off at the ends of the windows."""
    calls, windows = calls_that_block(trace), windows_of(trace)
    at = np.searchsorted(windows.start_ns, calls.end_ns, side="left") - 1
    is_known = (at >= 0) & (len(windows.start_ns) > 0)
    start = np.maximum(calls.start_ns, np.append(windows.start_ns, 0)[at])
    end = np.minimum(calls.end_ns, np.append(windows.end_ns, 0)[at])
    chosen = np.flatnonzero(~calls.meet("profiler") & is_known & (end > start))
    return BlockingCalls(calls.row[chosen], calls.rule[chosen], start[chosen], end[chosen])


def _causes(trace: Trace, rows: IntArray) -> list[pl.Series]:
    """Return what each call was made for, as columns."""
    events, nest = trace.events, host_nest(trace)
    names = events["name"].cast(pl.String)
    index = indexes_of(nest, rows)
    is_step = is_named(trace, STEP_PATTERN)
    is_op = in_category(trace, "cpu_op")[nest.row]
    is_annotation = (in_category(trace, "user_annotation") & ~is_step)[nest.row]
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
