"""A run that was watched as a whole: all its steps, and those that took far longer than usual."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.source.step_places import placed_pieces
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.tables.steps import steps_table

if TYPE_CHECKING:
    from torchprof_magic.model.meta import Stretch
    from torchprof_magic.model.trace import DType, Trace

STRIP_COLUMNS = (
    Column(name="step", title="Step", unit="step", definition="The first step of the stretch, counted from 0."),
    Column(
        name="steps",
        title="Steps",
        unit="count",
        definition="How many steps the stretch has: one, or as many as keep a long run at 1,000 stretches.",
    ),
    Column(name="start_ns", title="Start", unit="ns", definition="When it began, since the first step did."),
    Column(name="step_ns", title="Step time", unit="ns", definition="Mean wall time of its steps."),
    Column(name="longest_ns", title="Longest", unit="ns", definition="Wall time of its longest step."),
    Column(
        name="data_ns",
        title="Data",
        unit="ns",
        definition="Mean time that the loop waited for its item; null where that was not measured.",
    ),
    Column(
        name="memory_bytes",
        title="Memory",
        unit="bytes",
        definition="Most memory in use: of tensors on the current CUDA device, without one of the process. It is asked "
        "for at most every 100 ms, at the end of a step.",
    ),
    Column(
        name="device_busy_ratio",
        title="Device busy",
        unit="ratio",
        definition="Share of the time of its recorded steps in which a device worked; null without such steps.",
    ),
    Column(name="recorded", title="Recorded", unit="count", definition="How many of its steps were recorded."),
)
SLOW_COLUMNS = (
    Column(name="step", title="Step", unit="step", definition="Number of the step, counted from 0."),
    Column(name="step_ns", title="Step time", unit="ns", definition="Wall time of the step."),
    Column(
        name="usual_ns",
        title="Usual",
        unit="ns",
        definition="Median of the up to 64 steps before it that were not recorded.",
    ),
    Column(
        name="file",
        title="File",
        unit="text",
        definition="File of the user's line that was seen most often since the step was overdue, or that had the most "
        "time in a step that was recorded; null if none is known.",
    ),
    Column(name="line", title="Line", unit="count", definition="Number of that line."),
    Column(name="call", title="Call", unit="code", definition="What the line called meanwhile; empty if unknown."),
    Column(
        name="seen_ratio",
        title="Seen",
        unit="ratio",
        definition="Share of the looks at the step, since it was overdue, in which it was in this line; null for one "
        "that was recorded.",
    ),
)
_STRIP_SCHEMA: dict[str, DType] = {
    "step": pl.Int64,
    "steps": pl.Int64,
    "start_ns": pl.Int64,
    "step_ns": pl.Int64,
    "longest_ns": pl.Int64,
    "data_ns": pl.Int64,
    "memory_bytes": pl.Int64,
    "device_busy_ratio": pl.Float64,
    "recorded": pl.Int64,
}
_SLOW_SCHEMA: dict[str, DType] = {
    "step": pl.Int64,
    "step_ns": pl.Int64,
    "usual_ns": pl.Int64,
    "file": pl.String,
    "line": pl.Int64,
    "call": pl.String,
    "seen_ratio": pl.Float64,
}


def strip_table(trace: Trace) -> Table:
    """Return one row per step of a watched run, or stretch of steps, in order."""
    watched = trace.meta.watched
    stretches = watched.stretches if watched is not None else ()
    busy = _busy_by_step(trace)
    rows = [
        {
            "step": each.step,
            "steps": each.steps,
            "start_ns": each.start_ns,
            "step_ns": round(each.sum_ns / each.steps),
            "longest_ns": each.longest_ns,
            "data_ns": None if each.data_ns is None else round(each.data_ns / each.steps),
            "memory_bytes": each.memory_bytes,
            "device_busy_ratio": _busy_ratio(busy, each),
            "recorded": each.recorded,
        }
        for each in stretches
    ]
    return Table(frame=pl.DataFrame(rows, schema=_STRIP_SCHEMA), columns=STRIP_COLUMNS)


def slow_steps_table(trace: Trace) -> Table:
    """Return one row per step that took far longer than usual, in order, with the line that ran in it."""
    watched = trace.meta.watched
    rows = []
    for slow in watched.slow if watched is not None else ():
        seen = slow.lines[0] if slow.lines else None
        file, line = (seen.file, seen.line) if seen is not None else _longest_line(trace, slow.step)
        rows.append(
            {
                "step": slow.step,
                "step_ns": slow.step_ns,
                "usual_ns": slow.usual_ns,
                "file": file,
                "line": line,
                "call": seen.call if seen is not None else "",
                "seen_ratio": seen.share if seen is not None else None,
            }
        )
    return Table(frame=pl.DataFrame(rows, schema=_SLOW_SCHEMA), columns=SLOW_COLUMNS)


def _longest_line(trace: Trace, number: int) -> tuple[str | None, int | None]:
    """Return the file and the line with the most time of a recorded step; None for both if it is not known."""
    at = np.flatnonzero(trace.steps["number"].to_numpy() == number)
    if len(at) == 0:
        return None, None
    placed = placed_pieces(trace)
    here = np.flatnonzero(placed.pieces.step == at[0])
    ran = placed.ran._replace(file=placed.ran.file[here], line=placed.ran.line[here])
    file, line = ran.columns()
    frame = pl.DataFrame({"file": file, "line": line, "dur_ns": placed.pieces.dur_ns[here]})
    sums = frame.drop_nulls("file").group_by("file", "line").agg(pl.col("dur_ns").sum())
    longest = sums.sort("dur_ns", "file", "line", descending=[True, False, False]).head(1)
    return longest.row(0)[:2] if longest.height else (None, None)


def _busy_by_step(trace: Trace) -> dict[int, tuple[int, int]]:
    """Return the busy time of the device and the whole time of each recorded step, by its number."""
    frame = steps_table(trace).frame
    if "device_busy_ns" not in frame.columns:
        return {}
    return {number: (busy, dur) for number, busy, dur in frame.select("number", "device_busy_ns", "dur_ns").iter_rows()}


def _busy_ratio(by_step: dict[int, tuple[int, int]], stretch: Stretch) -> float | None:
    steps = range(stretch.step, stretch.step + stretch.steps)
    times = [by_step[step] for step in steps if step in by_step] if stretch.recorded else []
    whole = sum(dur for _, dur in times)
    return sum(busy for busy, _ in times) / whole if whole else None
