"""The duration of each step and its split by training phase."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from torchprof_magic.analysis.phases import PHASES, phase_of_events
from torchprof_magic.analysis.shared import once_per_trace
from torchprof_magic.model.intervals import covered_ns
from torchprof_magic.model.shapes import Bars, Column, Table
from torchprof_magic.model.trace import DEVICE_CATEGORIES, Trace

# Where phases overlap (two threads), the time counts for the first of these; uncovered time is "other".
PRIORITY = ("communication", "optimizer", "backward", "data", "forward")

_PHASE_TEXT = {
    "forward": "Host time in ops and annotations that belong to no other phase.",
    "backward": "Host time in autograd nodes and in annotations whose name contains backward.",
    "optimizer": "Host time in Optimizer.step and Optimizer.zero_grad.",
    "communication": "Host time in collectives.",
    "data": "Host time in the iterator of a DataLoader.",
    "other": "The rest of the step: Python code between ops, and waiting. All phases add up to the step.",
}
COLUMNS = (
    Column(name="number", title="Step", unit="step", definition="Number of the step, counted from the first step()."),
    Column(name="cycle", title="Cycle", unit="step", definition="Recording cycle of the schedule.", is_minor=True),
    Column(
        name="complete", title="Complete", unit="bool", definition="False if the step was interrupted.", is_minor=True
    ),
    Column(
        name="start_ns",
        title="Start",
        unit="ns",
        definition="Start time, relative to the first recorded event.",
        is_minor=True,
    ),
    Column(name="dur_ns", title="Duration", unit="ns", definition="Wall time from the step's start to its end."),
    *(Column(name=f"{p}_ns", title=p.capitalize(), unit="ns", definition=_PHASE_TEXT[p]) for p in PHASES),
    Column(
        name="device_busy_ns",
        title="Device busy",
        unit="ns",
        definition="Part of the step's wall time in which a kernel, copy or fill ran, on the busiest device.",
    ),
)
BARS = Bars(number="number", total="dur_ns", complete="complete", parts={phase: f"{phase}_ns" for phase in PHASES})


@once_per_trace
def steps_table(trace: Trace) -> Table:
    """Return one row per recorded step with its wall time split by phase; the phases add up to the step exactly."""
    start = trace.steps["start_ns"].to_numpy()
    end = trace.steps["end_ns"].to_numpy()
    split = _split_by_phase(trace, start, end)
    frame = trace.steps.select(
        "number", "cycle", "complete", "start_ns", (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns")
    ).with_columns(pl.Series(f"{phase}_ns", split[phase], dtype=pl.Int64) for phase in PHASES)
    if not trace.has_device:
        return Table(frame=frame, columns=COLUMNS[:-1], bars=BARS)
    frame = frame.with_columns(pl.Series("device_busy_ns", _busiest(trace, start, end), dtype=pl.Int64))
    return Table(frame=frame, columns=COLUMNS, bars=replace(BARS, line="device_busy_ns"))


def complete_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """Return the complete steps, or all of them if none is complete; averages are taken over these."""
    complete = steps.filter("complete")
    return complete if complete.height else steps


def _split_by_phase(trace: Trace, start: np.ndarray, end: np.ndarray) -> dict[str, np.ndarray]:
    phase = phase_of_events(trace)
    is_op = trace.events["category"].is_in(("cpu_op", "user_annotation")).to_numpy()
    from_ns = trace.events["start_ns"].to_numpy()
    to_ns = from_ns + trace.events["dur_ns"].to_numpy()
    split, covered, taken = {}, np.zeros(len(start), np.int64), np.zeros(len(phase), np.bool_)
    for name in PRIORITY:
        taken |= is_op & (phase == PHASES.index(name))
        together = covered_ns(from_ns[taken], to_ns[taken], start, end)
        split[name] = together - covered
        covered = together
    split["other"] = (end - start) - covered
    return split


def _busiest(trace: Trace, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return per step the largest busy time of any single device; devices are never added up."""
    busy = [np.zeros(len(start), np.int64)]
    for device, from_ns, to_ns in device_intervals(trace):
        del device
        busy.append(covered_ns(from_ns, to_ns, start, end))
    return np.max(busy, axis=0)


def device_intervals(trace: Trace) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Return for each device its number and the start and end of everything that ran on it, in ns."""
    work = trace.events.filter(pl.col("category").is_in(DEVICE_CATEGORIES)).with_columns(pl.col("device").fill_null(0))
    found = []
    for (device,), rows in work.group_by("device", maintain_order=True):
        start = rows["start_ns"].to_numpy()
        found.append((int(device), start, start + rows["dur_ns"].to_numpy()))
    return sorted(found, key=lambda item: item[0])
