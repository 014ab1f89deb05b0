"""What one rank sends to be joined with the others: a few small frames in place of its trace."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_part, counted_steps, strictly_counted, whole_steps
from torchprof_magic.facts.device.believable import believable
from torchprof_magic.facts.device.collectives import SCHEMA, collectives_of
from torchprof_magic.facts.device.window import Windows, windows_of
from torchprof_magic.facts.shared import (
    device_numbers,
    device_rows,
    in_category,
    is_named,
    name_numbers,
    once_per_trace,
)
from torchprof_magic.facts.source.fused_titles import fused_titles, shown_title
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.findings.verdict.accounts import named_pieces
from torchprof_magic.findings.verdict.diagnosis import all_problems
from torchprof_magic.model.intervals import BoolArray, IntArray, covered_ns, merge
from torchprof_magic.model.rows import are_known, filled, frame_of, values_at
from torchprof_magic.model.vendors import COLLECTIVE_KERNEL
from torchprof_magic.tables.devices import devices_table
from torchprof_magic.tables.memory.in_use import memory_frame
from torchprof_magic.tables.steps import counted_rows
from torchprof_magic.tables.waiting.idle import idle_sums
from torchprof_magic.tables.waiting.waits import waiting_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.model.trace import DType, Trace

# Rows of a rank's doings, of the stretches of its picture, and of its collectives. They bound what it sends.
MOST_DOINGS = 48
MOST_SPANS = 300
MOST_COLLECTIVES = 200_000
_IDLE_PHASES = ("idle", "waiting")
RANK_SCHEMA: dict[str, DType] = {
    "rank": pl.Int32,
    "world_size": pl.Int32,
    "backend": pl.String,
    "device": pl.String,
    "start_unix_ns": pl.Int64,
    "window_start_ns": pl.Int64,
    "window_end_ns": pl.Int64,
    "first_step": pl.Int32,
    "last_step": pl.Int32,
    "steps": pl.Int32,
    "step_ns": pl.Int64,
    "compute_ns": pl.Int64,
    "hidden_comm_ns": pl.Int64,
    "exposed_comm_ns": pl.Int64,
    "copy_ns": pl.Int64,
    "idle_ns": pl.Int64,
    "host_wait_ns": pl.Int64,
    "memory_peak_bytes": pl.Int64,
    "events": pl.Int64,
    "is_partial": pl.Boolean,
    "has_device": pl.Boolean,
}
COLLECTIVES_SCHEMA: dict[str, DType] = {**SCHEMA, "counts": pl.Boolean}
DOINGS_SCHEMA: dict[str, DType] = {
    "cause": pl.String,
    "name": pl.String,
    "file": pl.String,
    "line": pl.Int32,
    "source": pl.String,
    "ns": pl.Int64,
}
_DOING = [name for name in DOINGS_SCHEMA if name != "ns"]
SPANS_SCHEMA: dict[str, DType] = {"kind": pl.String, "name": pl.String, "start_ns": pl.Int64, "dur_ns": pl.Int64}
PROBLEMS_SCHEMA: dict[str, DType] = {
    "code": pl.String,
    "severity": pl.String,
    "count": pl.Int64,
    "message": pl.String,
    "fix": pl.String,
}


class RankFrames(NamedTuple):
    """What one rank sends.

    ``summary`` has one row with ``RANK_SCHEMA``: times are ns per step, the mean of the steps that count.
    ``collectives`` are its collectives, and whether each ``counts``, as the steps do. ``doings`` is what it did while
    no collective ran, in ns over all steps that count, the most first.
    ``spans`` are its steps and a picture of when it computed. ``problems`` are those of its own report.
    """

    summary: pl.DataFrame
    collectives: pl.DataFrame
    doings: pl.DataFrame
    spans: pl.DataFrame
    problems: pl.DataFrame


class _Times(NamedTuple):
    """How the steps of a rank that count divide, in ns; all but ``hidden_comm`` add up to them."""

    compute: int
    hidden_comm: int
    exposed_comm: int
    copy: int
    idle: int


def rank_frames(trace: Trace) -> RankFrames:
    """Return the frames of one rank, of its recording as far as that can be believed."""
    trace = believable(trace)
    collectives = collectives_of(trace)
    first = collectives.head(MOST_COLLECTIVES)
    return RankFrames(
        summary=_summary(trace, collectives),
        collectives=first.hstack([pl.Series("counts", _count(trace, first), dtype=pl.Boolean)]),
        doings=_doings(trace, collectives),
        spans=_spans(trace),
        problems=_problems(trace),
    )


@once_per_trace
def _counted(trace: Trace) -> Windows:
    """Return the time of the steps that count; without steps that of the recording."""
    counted = counted_steps(trace)
    return Windows(*merge(counted.start_ns, counted.end_ns), has_steps=len(counted.row) > 0)


def _count(trace: Trace, collectives: pl.DataFrame) -> BoolArray:
    """Return which collectives belong to steps that count, by where they were launched, or else began."""
    numbers = trace.steps["number"].to_numpy()[counted_steps(trace).row]
    begins, step = counted_part(trace).holds(collectives["start_ns"].to_numpy()), collectives["step"]
    if len(numbers) == 0:
        return begins
    return np.where(are_known(step), np.isin(filled(step, 0), numbers), begins)


def _summary(trace: Trace, collectives: pl.DataFrame) -> pl.DataFrame:
    windows, steps, counted = windows_of(trace), whole_steps(trace), counted_steps(trace)
    times = _device_times(trace, _counted(trace)) if trace.has_device else _host_times(trace, collectives)
    count, meta = counted.steps, trace.meta
    values = {f"{name}_ns": round(value / count) for name, value in times._asdict().items()}
    row = {
        "rank": meta.rank,
        "world_size": meta.world_size,
        "backend": meta.backend,
        "device": _device_name(trace),
        "start_unix_ns": meta.start_unix_ns,
        "window_start_ns": int(windows.start_ns.min(initial=2**62)) if len(windows.start_ns) else 0,
        "window_end_ns": int(windows.end_ns.max(initial=0)),
        "first_step": steps["number"].min(),
        "last_step": steps["number"].max(),
        "steps": len(counted.row),
        "step_ns": round(counted.mean_ns),
        **values,
        "host_wait_ns": round(waiting_ns(trace, counted_part(trace)) / count),
        "memory_peak_bytes": _memory_peak(trace),
        "events": trace.events.height,
        "is_partial": meta.is_partial,
        "has_device": trace.has_device,
    }
    return frame_of(RANK_SCHEMA, {name: [value] for name, value in row.items()})


def _device_name(trace: Trace) -> str:
    busiest = _busiest(trace)
    names = dict(trace.meta.devices)
    return names.get(busiest, "") or next(iter(trace.meta.device_names), "") if trace.has_device else ""


@once_per_trace
def _busiest(trace: Trace) -> int:
    """Return the number of the device that works most; a rank usually has one."""
    numbers = np.unique(device_numbers(trace)[device_rows(trace)])
    if len(numbers) <= 1:
        return int(numbers.max(initial=0))
    devices = devices_table(trace).frame
    return int(devices["device"].to_numpy()[devices["busy_ns"].to_numpy().argmax()])


class _Work(NamedTuple):
    """The work of the rank's device: rows of events, times in ns, and whether it is a kernel and a collective."""

    row: IntArray
    start_ns: IntArray
    end_ns: IntArray
    is_kernel: BoolArray
    is_comm: BoolArray

    def only(self, which: BoolArray) -> _Work:
        """Return some of the work."""
        times = (self.row[which], self.start_ns[which], self.end_ns[which])
        return _Work(*times, self.is_kernel[which], self.is_comm[which])


@once_per_trace
def _work(trace: Trace) -> _Work:
    row = device_rows(trace)
    row = row[device_numbers(trace)[row] == _busiest(trace)]
    start, dur = (trace.events[name].to_numpy()[row] for name in ("start_ns", "dur_ns"))
    is_kernel = in_category(trace, "kernel")[row]
    return _Work(row, start, start + dur, is_kernel, is_kernel & is_named(trace, COLLECTIVE_KERNEL)[row])


def _inside(work: _Work, windows: Windows) -> int:
    """Return how many ns of the windows the work covers."""
    return int(covered_ns(work.start_ns, work.end_ns, windows.start_ns, windows.end_ns).sum())


def _device_times(trace: Trace, windows: Windows) -> _Times:
    work = _work(trace)
    compute = _inside(work.only(work.is_kernel & ~work.is_comm), windows)
    comm = _inside(work.only(work.is_comm), windows)
    all_kernels, busy = _inside(work.only(work.is_kernel), windows), _inside(work, windows)
    exposed = all_kernels - compute
    return _Times(compute, comm - exposed, exposed, busy - all_kernels, windows.whole_ns - busy)


def _host_times(trace: Trace, collectives: pl.DataFrame) -> _Times:
    windows = _counted(trace)
    start = collectives["start_ns"].to_numpy()
    comm = int(covered_ns(start, start + collectives["dur_ns"].to_numpy(), windows.start_ns, windows.end_ns).sum())
    steps = counted_rows(trace)
    if steps.height == 0:
        return _Times(windows.whole_ns - comm, 0, comm, 0, 0)
    exposed = int(steps["communication_ns"].sum())
    idle = sum(int(steps[f"{phase}_ns"].sum()) for phase in _IDLE_PHASES)
    return _Times(windows.whole_ns - exposed - idle, max(comm - exposed, 0), exposed, 0, idle)


def _memory_peak(trace: Trace) -> int | None:
    """Return the peak of memory of the device, or of the host if no device allocated; None if not recorded."""
    if trace.memory.height == 0:
        return None
    frame = memory_frame(trace)
    peaks = dict(frame.group_by("device").agg(pl.col("total_bytes").max()).iter_rows())
    on_device = {device: peak for device, peak in peaks.items() if device != "cpu"}
    return max((on_device or peaks).values())


def _doings(trace: Trace, collectives: pl.DataFrame) -> pl.DataFrame:
    """Return what the rank did while no collective ran: device work by name, idle or host time by cause and line."""
    parts = [_device_doings(trace, collectives), _idle_doings(trace)] if trace.has_device else [_host_doings(trace)]
    sums = reduce(pl.DataFrame.vstack, parts)
    order = [True, *(False for _ in _DOING)]
    return sums.sort("ns", *_DOING, descending=order, nulls_last=True).head(MOST_DOINGS)


def _device_doings(trace: Trace, collectives: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels, copies and fills by name, without what ran beside a collective."""
    windows, work = _counted(trace), _work(trace)
    work = work.only(~work.is_comm)
    start, dur = (collectives[name].to_numpy()[~collectives["on_host"].to_numpy()] for name in ("start_ns", "dur_ns"))
    free = windows.without(*merge(start, start + dur))
    ns = covered_ns(*free, work.start_ns, work.end_ns) if len(work.row) else np.empty(0, np.int64)
    _, first, of_name = np.unique(name_numbers(trace)[work.row], return_index=True, return_inverse=True)
    names = values_at(trace.events["name"], work.row[first]).to_list()
    titles = [shown_title(trace, name, is_kernel=True) for name in names]
    sums: dict[str, int] = {}
    for title, of_title in zip(titles, sum_by(of_name, ns, len(first)).tolist(), strict=True):
        sums[title] = sums.get(title, 0) + of_title
    sums = {title: total for title, total in sums.items() if total > 0}
    columns: dict[str, object] = dict.fromkeys(DOINGS_SCHEMA, [None] * len(sums))
    columns |= {"cause": ["compute"] * len(sums), "name": list(sums), "ns": list(sums.values())}
    return frame_of(DOINGS_SCHEMA, columns)


def _idle_doings(trace: Trace) -> pl.DataFrame:
    """Return the idle time of the rank's device by what the host did then."""
    rows = idle_sums(trace, _busiest(trace), strictly_counted(trace))
    if titles := fused_titles(trace):
        rows = rows.with_columns(pl.col("name").replace(titles))
    return rows.insert_column(rows.width - 1, _source(trace, rows))


def _column(name: str, values: Sequence[object] | IntArray) -> pl.Series:
    return pl.Series(name, values, dtype=DOINGS_SCHEMA[name])


def _host_doings(trace: Trace) -> pl.DataFrame:
    """Return what the thread that runs the steps did, but for communication."""
    pieces = named_pieces(trace)
    is_counted = np.isin(np.arange(trace.steps.height), counted_steps(trace).row)
    is_listed = (pieces["phase"] != "communication") & pl.Series(is_counted).gather(pieces["step"])
    rows = pieces.filter(is_listed & (pieces["dur_ns"] > 0))
    found = rows.select(
        pl.col("phase").alias("cause"),
        pl.col("name").cast(pl.String).replace(fused_titles(trace)),
        pl.col("file").cast(pl.String),
        pl.col("line").cast(pl.Int32),
        _source(trace, rows),
        pl.col("dur_ns").alias("ns"),
    )
    return found.group_by(_DOING).agg(pl.col("ns").sum())


def _source(trace: Trace, rows: pl.DataFrame) -> pl.Series:
    """Return the text of each line, null if it was not watched."""
    if trace.sites.height == 0:
        return _column("source", [None] * rows.height)
    lines = trace.sites.filter(trace.sites["kind"] == "line")
    key = {(file, line): name for file, line, name in lines.select("file", "line", "name").rows()}
    at = zip(rows["file"].to_list(), rows["line"].to_list(), strict=True)
    return _column("source", [key.get(place) for place in at])


def _spans(trace: Trace) -> pl.DataFrame:
    """Return the steps, and when the rank computed; stretches that are too short for the picture are merged."""
    steps = trace.steps.head(MOST_SPANS)
    start, end = _coarse(*(_computing(trace) if trace.has_device else _ops(trace)))
    start = np.concatenate((steps["start_ns"].to_numpy(), start))
    columns = {
        "kind": ["step"] * steps.height + ["compute"] * (len(start) - steps.height),
        "name": [f"step {number}" for number in steps["number"].to_list()] + ["compute"] * (len(start) - steps.height),
        "start_ns": start,
        "dur_ns": np.concatenate((steps["end_ns"].to_numpy(), end)) - start,
    }
    return frame_of(SPANS_SCHEMA, columns)


def _computing(trace: Trace) -> tuple[IntArray, IntArray]:
    work = _work(trace)
    return work.start_ns[~work.is_comm], work.end_ns[~work.is_comm]


def _ops(trace: Trace) -> tuple[IntArray, IntArray]:
    events = trace.events
    is_op = in_category(trace, "cpu_op") & (events["depth"].to_numpy() <= 1)
    start, dur = (events[name].to_numpy()[is_op] for name in ("start_ns", "dur_ns"))
    return start, start + dur


def _coarse(start: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """Return at most ``MOST_SPANS`` intervals that cover all of these; the shortest gaps between them are closed."""
    first, last = merge(start, end)
    if len(first) <= MOST_SPANS:
        return first, last
    gaps = first[1:] - last[:-1]
    least = np.partition(gaps, len(gaps) - MOST_SPANS + 1)[len(gaps) - MOST_SPANS + 1]
    is_gap = gaps > least
    return first[np.concatenate(([True], is_gap))], last[np.concatenate((is_gap, [True]))]


def _problems(trace: Trace) -> pl.DataFrame:
    problems = all_problems(trace)
    return frame_of(PROBLEMS_SCHEMA, {name: [getattr(each, name) for each in problems] for name in PROBLEMS_SCHEMA})
