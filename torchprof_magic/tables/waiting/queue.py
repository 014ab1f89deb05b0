"""The launch queue: how much launched work had not begun, over time, and how long work waited in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.launches import launching_calls
from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.shared import device_rows, launch_sources, once_for_the_whole, once_per_trace
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.model.intervals import all_moments
from torchprof_magic.model.shapes import EVERY_LANE, Column, Mark, Series, Table

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import DType, Trace

# Kernels of less than this take about as long to launch as to run.
SHORT_NS = 10_000
ALL_STREAMS = "all streams"
BANDS = (
    Column(
        name="work",
        title="Work",
        unit="count",
        definition="Kernels, copies and fills that had been launched and had not begun.",
    ),
    Column(
        name="calls",
        title="Calls",
        unit="count",
        definition="Launch calls of which no work had begun; a graph launch counts once.",
    ),
)
FRAME_COLUMNS = (
    Column(name="time_ns", title="Time", unit="ns", definition="When the numbers change, from the first event."),
    Column(
        name="lane",
        title="Stream",
        unit="text",
        definition=f"Name of the stream, or {ALL_STREAMS!r}.",
    ),
    *BANDS,
)
LAUNCH_COLUMNS = (
    Column(name="name", title="Kernel", unit="code", definition="Name of the kernel."),
    Column(name="count", title="Runs", unit="count", definition="How often it began in the recorded steps."),
    Column(
        name="mean_delay_ns",
        title="Mean delay",
        unit="ns",
        definition="Average time from the start of its launch call to its own; null without launches in the file.",
        has_bar=True,
    ),
    Column(name="median_delay_ns", title="Median delay", unit="ns", definition="Median of the same."),
    Column(name="max_delay_ns", title="Longest delay", unit="ns", definition="Largest of the same."),
    Column(
        name="short_ratio",
        title="Short",
        unit="ratio",
        definition="Share of runs of less than 10 us, which take about as long to launch as to run.",
    ),
)
LAUNCH_SCHEMA: dict[str, DType] = {
    "name": pl.String,
    "count": pl.Int64,
    "mean_delay_ns": pl.Float64,
    "median_delay_ns": pl.Float64,
    "max_delay_ns": pl.Int64,
    "short_ratio": pl.Float64,
}


class Depths(NamedTuple):
    """A number of things over time: from each moment to the next."""

    time_ns: IntArray
    depth: IntArray

    def at(self, time_ns: IntArray) -> IntArray:
        """Return the number at some moments."""
        found: IntArray = np.append(self.depth, 0)[np.searchsorted(self.time_ns, time_ns, side="right") - 1]
        return found


def depths(begun_ns: IntArray, ended_ns: IntArray) -> Depths:
    """Return how many things had begun and not ended, over time. What ends before it begins never counts."""
    time = np.concatenate((begun_ns, np.maximum(ended_ns, begun_ns)))
    change = np.concatenate((np.ones(len(begun_ns), np.int64), -np.ones(len(ended_ns), np.int64)))
    order = np.argsort(time, kind="stable")
    time, depth = time[order], np.cumsum(change[order])
    is_last = np.append(time[1:] != time[:-1], [True]) if len(time) else np.empty(0, np.bool_)
    return Depths(time[is_last], depth[is_last])


@once_per_trace
def whole_queue(trace: Trace) -> pl.DataFrame:
    """Return the depth of the queue of all streams together, over time."""
    row, call = _launched(trace)
    start = trace.events["start_ns"].to_numpy()
    work, calls = depths(start[call], start[row]), _depths_of_calls(trace)
    time_ns = all_moments(work.time_ns, calls.time_ns)
    return _lane(ALL_STREAMS, time_ns, work.at(time_ns), calls.at(time_ns))


@once_per_trace
def queue_series(trace: Trace) -> Series:
    """Return the depth of the queue of each stream and of all together, over time."""
    row, call = _launched(trace)
    start, lane = trace.events["start_ns"].to_numpy(), trace.events["lane"].to_numpy()
    parts = [whole_queue(trace)]
    for number in np.unique(lane[row]).tolist():
        here = np.flatnonzero(lane[row] == number)
        name = str(trace.lanes["name"][number])
        work = depths(start[call[here]], start[row[here]])
        unknown = pl.Series([None], dtype=pl.Int64).new_from_index(0, len(work.depth))
        parts.append(_lane(name, work.time_ns, work.depth, unknown))
    frame = pl.concat(parts) if len(row) else parts[0].head(0)
    steps = trace.steps.select("number", "start_ns").rows()
    marks = tuple(Mark(lane=EVERY_LANE, time_ns=at, label=f"step {number}", kind="step") for number, at in steps)
    return Series(frame=frame, bands=BANDS, marks=marks if frame.height else ())


def _launched(trace: Trace) -> tuple[IntArray, IntArray]:
    """Return the rows of all work whose launch is in the file, and of its launch calls."""
    sources = launch_sources(trace).astype(np.int64)
    work = device_rows(trace)
    row = work[sources[work] >= 0]
    return row, sources[row]


def _depths_of_calls(trace: Trace) -> Depths:
    calls = launching_calls(trace)
    return depths(calls.start_ns, calls.work_start_ns)


def _lane(name: str, time_ns: IntArray, work: IntArray, calls: IntArray | pl.Series) -> pl.DataFrame:
    lane = pl.Series([name]).new_from_index(0, len(time_ns))
    return pl.DataFrame({"lane": lane, "time_ns": time_ns, "work": work, "calls": calls})


class LaunchTotals(NamedTuple):
    """Launches and the queue in the recorded steps, over all devices; times are ns, ``None`` without launches."""

    kernels: int
    with_launch: int
    delay_mean_ns: float | None
    delay_median_ns: float | None
    delay_p90_ns: float | None
    delay_max_ns: int | None
    kernel_before_launch: int
    queue_max: int
    queue_max_at_ns: int
    queue_mean: float
    queue_calls_max: int
    queue_calls_mean: float
    short_kernels: int
    short_share: float | None
    short_time_share: float | None


@once_per_trace
def launch_totals(trace: Trace) -> LaunchTotals:
    """Return how long kernels waited for their start, how long the queue was, and how many kernels are short."""
    kernels = _kernels(trace)
    delay = kernels.filter(pl.col("call") >= 0)["delay"].to_numpy()
    row, call = _launched(trace)
    start = trace.events["start_ns"].to_numpy()
    work, calls = _in_windows(trace, depths(start[call], start[row])), _in_windows(trace, _depths_of_calls(trace))
    short = kernels.filter(pl.col("dur_ns") < SHORT_NS)
    whole_ns = int(kernels["dur_ns"].sum())
    return LaunchTotals(
        kernels=kernels.height,
        with_launch=len(delay),
        delay_mean_ns=float(delay.mean()) if len(delay) else None,
        delay_median_ns=float(np.median(delay)) if len(delay) else None,
        delay_p90_ns=float(np.percentile(delay, 90, method="higher")) if len(delay) else None,
        delay_max_ns=int(delay.max()) if len(delay) else None,
        kernel_before_launch=int((delay < 0).sum()),
        queue_max=work.most,
        queue_max_at_ns=work.most_at_ns,
        queue_mean=work.mean,
        queue_calls_max=calls.most,
        queue_calls_mean=calls.mean,
        short_kernels=short.height,
        short_share=short.height / kernels.height if kernels.height else None,
        short_time_share=int(short["dur_ns"].sum()) / whole_ns if whole_ns else None,
    )


class _Level(NamedTuple):
    most: int
    most_at_ns: int
    mean: float


def _in_windows(trace: Trace, depth: Depths) -> _Level:
    """Return the largest depth within the recorded steps, its first moment from their start, and the mean over time."""
    windows = windows_of(trace)
    if len(depth.time_ns) == 0 or windows.whole_ns == 0:
        return _Level(0, 0, 0.0)
    most, at_ns, area = 0, 0, 0
    first_ns = int(windows.start_ns[0])
    for from_ns, to_ns in zip(windows.start_ns.tolist(), windows.end_ns.tolist(), strict=True):
        at = np.searchsorted(depth.time_ns, [from_ns, to_ns], side="right") - 1
        inside = slice(int(at[0]) + 1, int(at[1]) + 1)
        before = int(depth.depth[at[0]]) if at[0] >= 0 else 0
        time = np.concatenate(([from_ns], depth.time_ns[inside], [to_ns]))
        level = np.concatenate(([before], depth.depth[inside]))
        area += int((level * np.diff(time)).sum())
        highest = int(level.argmax())
        if int(level[highest]) > most:
            most, at_ns = int(level[highest]), int(time[highest]) - first_ns
    return _Level(most, at_ns, area / windows.whole_ns)


def _kernels(trace: Trace, part: TimeRange = WHOLE) -> pl.DataFrame:
    """Return the kernels that began in the recorded steps and a part, with launch calls, -1 for none, and delays."""
    events = trace.events.select("name", "category", "start_ns", "dur_ns").with_row_index("row")
    kernels = events.filter(pl.col("category") == "kernel")
    start = kernels["start_ns"].to_numpy()
    kernels = kernels.filter(pl.Series(windows_of(trace).holds(start) & part.holds(start)))
    call = launch_sources(trace).astype(np.int64)[kernels["row"].to_numpy()]
    called_ns = np.append(events["start_ns"].to_numpy(), 0)[call]
    return kernels.with_columns(pl.Series("call", call), pl.Series("delay", kernels["start_ns"].to_numpy() - called_ns))


@once_for_the_whole
def launches_table(trace: Trace, part: TimeRange) -> Table:
    """Return one row per kernel name with its launch delay, the largest sum of delays first.

    A kernel belongs to the part in which it begins, with all of its delay.
    """
    kernels = _kernels(trace, part)
    delay = pl.col("delay").filter(pl.col("call") >= 0)
    frame = kernels.group_by("name").agg(
        pl.len().alias("count"),
        delay.mean().alias("mean_delay_ns"),
        delay.median().alias("median_delay_ns"),
        delay.max().alias("max_delay_ns"),
        (pl.col("dur_ns") < SHORT_NS).mean().alias("short_ratio"),
        delay.sum().alias("sum"),
    )
    frame = frame.with_columns(pl.col("name").cast(pl.String)).sort("sum", "name", descending=[True, False])
    frame = frame.select(LAUNCH_SCHEMA.keys())
    return Table(frame=frame.cast(LAUNCH_SCHEMA), columns=LAUNCH_COLUMNS)  # type: ignore[arg-type]
