"""The duration of each step and its split by training phase."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.device.busy import device_intervals
from torchprof_magic.facts.device.coverage import launches_of, launches_per_step
from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.host.step_pieces import step_pieces
from torchprof_magic.facts.host.transitions import transitions_ns
from torchprof_magic.facts.host.unseen_waits import idle_of_steps
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.model.intervals import NO_PARENT, covered_ns
from torchprof_magic.model.shapes import Bars, Column, Table, Weight
from torchprof_magic.model.units import format_count

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

_Measure = TypeVar("_Measure", Column, Weight)

_PHASE_TEXT = {
    "forward": "Host time in ops that belong to no other phase.",
    "backward": "Host time in autograd nodes, and in ops of ranges whose name contains backward that make no node.",
    "optimizer": "Host time in Optimizer.step and Optimizer.zero_grad, and in ops of ranges with such names.",
    "communication": "Host time in collectives, when the thread that runs the step does nothing else.",
    "data": "Host time in the iterator of a DataLoader, in a range named after data loading, or until the loop that "
    "makes the steps has its next item, where lines were watched.",
    "waiting": "Host time in blocking calls, which `report.waits` lists.",
    "compile": "Host time in compilation and in the capture of graphs.",
    "initialisation": "Host time in other work that is done once: imports, starting the driver and worker processes, "
    "loading code for the device, and the first call of an op.",
    "python": "Host time between ops: Python code, and whatever was not recorded.",
    "idle": "Host time between ops in which the thread slept or waited: as a live run saw it (`report.waits`), in "
    "Python functions that only wait, where stacks were recorded, and where it used no CPU, if this was measured; and "
    "what the recording itself takes between steps, where a device works meanwhile. All phases add up to the step.",
}
COLUMNS = (
    Column(name="number", title="Step", unit="step", definition="Number of the step, counted from the first step()."),
    Column(name="cycle", title="Cycle", unit="step", definition="Recording cycle of the schedule.", is_minor=True),
    Column(
        name="complete", title="Complete", unit="bool", definition="False if the step was interrupted.", is_minor=True
    ),
    Column(
        name="left_out",
        title="Left out",
        unit="text",
        definition="Why the step does not count in what is given per step; empty if it does. Outliers, and steps that "
        "are not complete or launch far less than others, do not count.",
        is_minor=True,
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
        name="recording_ns",
        title="Recording",
        unit="ns",
        definition="Time beside the step that the recording took to begin and end it, in torch's range of the step; no "
        "phase has it. Only in live runs without work of a device.",
    ),
    Column(
        name="device_busy_ns",
        title="Device busy",
        unit="ns",
        definition="Part of the step's wall time in which a kernel, copy or fill ran, on the busiest device.",
    ),
    Column(
        name="missing",
        title="Missing work",
        unit="count",
        definition="Launches in the step of which work is missing in the file, as `report.coverage` counts them.",
        is_minor=True,
    ),
)
OF_DEVICE = ("device_busy_ns", "missing")
OF_LIVE_RUNS = ("recording_ns",)
BARS = Bars(
    number="number",
    start="start_ns",
    total="dur_ns",
    complete="complete",
    left_out="left_out",
    parts={phase: f"{phase}_ns" for phase in PHASES},
)


@once_per_trace
def steps_table(trace: Trace) -> Table:
    """Return one row per recorded step with its wall time split by phase; the phases add up to the step exactly."""
    start = trace.steps["start_ns"].to_numpy()
    end = trace.steps["end_ns"].to_numpy()
    split = _split_by_phase(trace)
    frame = trace.steps.select(
        "number",
        "cycle",
        "complete",
        _reasons(trace).alias("left_out"),
        "start_ns",
        (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"),
    ).with_columns(pl.Series(f"{phase}_ns", split[phase], dtype=pl.Int64) for phase in PHASES)
    if not trace.has_device:
        return _of_host(frame, transitions_ns(trace))
    lost = launches_per_step(trace, launches_of(trace).is_lossy)
    frame = frame.with_columns(
        pl.Series("device_busy_ns", _busiest(trace, start, end), dtype=pl.Int64),
        pl.Series("missing", lost, dtype=pl.Int64),
    )
    bars = replace(BARS, line="device_busy_ns", lost="missing" if lost.any() else None)
    columns = tuple(column for column in COLUMNS if column.name not in OF_LIVE_RUNS)
    return Table(frame=frame, columns=columns, bars=bars)


def _of_host(frame: pl.DataFrame, recording_ns: IntArray) -> Table:
    """Return the table of a recording without work of a device, with what the recording took where that is known."""
    columns = COLUMNS[: -len(OF_DEVICE)]
    if not recording_ns.any():
        return Table(frame=frame, columns=columns[: -len(OF_LIVE_RUNS)], bars=BARS)
    return Table(frame=frame.with_columns(pl.Series("recording_ns", recording_ns)), columns=columns, bars=BARS)


def counted_rows(trace: Trace) -> pl.DataFrame:
    """Return the rows of ``steps_table`` of the steps that count; none for a recording without steps."""
    return steps_table(trace).frame[counted_steps(trace).row.tolist()]


def phases_in(trace: Trace, part: TimeRange) -> dict[str, int]:
    """Return the time of each phase in a part; that of whole steps is that of their rows."""
    frame, pieces = steps_table(trace).frame, step_pieces(trace)
    start, dur = (frame[name].to_numpy() for name in ("start_ns", "dur_ns"))
    is_whole = part.cut(start, dur)[1] == dur
    cut_ns = part.cut(pieces.start_ns, pieces.dur_ns)[1]
    rest = sum_by(np.where(is_whole[pieces.step], NO_PARENT, pieces.phase), cut_ns, len(PHASES))
    whole = frame.filter(pl.Series(is_whole, dtype=pl.Boolean))
    return {phase: int(whole[f"{phase}_ns"].sum()) + int(rest[number]) for number, phase in enumerate(PHASES)}


def of_memory_steps(trace: Trace, columns: tuple[_Measure, ...]) -> tuple[_Measure, ...]:
    """Return columns or weights of which those of memory say how large a part of the steps has some."""
    counted = counted_steps(trace)
    if counted.with_memory is None:
        return columns
    share = counted.memory_steps / counted.steps
    return tuple(replace(each, share=share) if each.unit == "bytes" else each for each in columns)


def _reasons(trace: Trace) -> pl.Series:
    """Return for each step why it does not count, in a few words; empty for those that do."""
    counted, steps = counted_steps(trace), trace.steps
    reasons = ["left out by you" if trace.meta.chosen_steps else "not complete"] * steps.height
    dur = (steps["end_ns"] - steps["start_ns"]).to_numpy()
    usual = float(np.median(dur[counted.row])) if len(counted.row) else 0.0
    for row in counted.outliers.tolist():
        reasons[row] = f"{format_count(dur[row] / max(usual, 1))} times the median"
    for row in counted.sparse.tolist():
        reasons[row] = "launches far less than others"
    for row in counted.without_details.tolist():
        reasons[row] = "no details were recorded for it"
    for row in counted.with_details.tolist():
        reasons[row] = "recorded with details"
    for row in counted.row.tolist():
        reasons[row] = ""
    return pl.Series(reasons, dtype=pl.String)


def _split_by_phase(trace: Trace) -> dict[str, np.ndarray]:
    pieces = step_pieces(trace)
    cell = pieces.step * len(PHASES) + pieces.phase
    table = sum_by(cell, pieces.dur_ns, trace.steps.height * len(PHASES)).reshape(-1, len(PHASES))
    split = {name: table[:, number] for number, name in enumerate(PHASES)}
    asleep = idle_of_steps(trace)
    return split | {"python": split["python"] - asleep, "idle": split["idle"] + asleep}


def _busiest(trace: Trace, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return per step the largest busy time of any single device; devices are never added up."""
    busy = [np.zeros(len(start), np.int64)]
    for device, from_ns, to_ns in device_intervals(trace):
        del device
        busy.append(covered_ns(from_ns, to_ns, start, end))
    return np.max(busy, axis=0)
