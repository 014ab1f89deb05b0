"""What each step spends on every op, kernel, line and module, which two runs are compared by."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from torchprof_magic.facts.counted_steps import step_ns_of, whole_steps
from torchprof_magic.facts.host.crowding import crowding
from torchprof_magic.facts.ops.calls import op_rows
from torchprof_magic.facts.shared import device_rows, is_named, name_numbers, once_per_trace
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.findings.compare.input_sizes import sizes_of_inputs, sizes_of_ops
from torchprof_magic.findings.compare.setting_changes import DETAILS, input_shapes
from torchprof_magic.model.intervals import NO_PARENT, IntArray, interval_at
from torchprof_magic.model.trace import STEP_PATTERN
from torchprof_magic.tables.steps import steps_table

if TYPE_CHECKING:
    from torchprof_magic.findings.compare.input_sizes import Sizes
    from torchprof_magic.model.trace import Trace

FloatArray = npt.NDArray[np.float64]


class Cells(NamedTuple):
    """Calls, host time and device time in ns of each key (row) in each step (column).

    A recording without steps counts as one step. ``keys`` has the columns that name a row, all different.
    """

    keys: pl.DataFrame
    calls: IntArray
    cpu_ns: IntArray
    device_ns: IntArray


class _Steps(NamedTuple):
    """The steps that count: their times; none for a recording without steps."""

    start_ns: IntArray
    end_ns: IntArray

    @property
    def columns(self) -> int:
        """How many columns cells have: 1 for a recording without steps."""
        return max(len(self.start_ns), 1)

    def at(self, time_ns: IntArray) -> IntArray:
        """Return the step in which each moment lies, or -1."""
        if len(self.start_ns) == 0:
            return np.zeros(len(time_ns), np.int64)
        return interval_at(self.start_ns, self.end_ns, time_ns)


@once_per_trace
def _steps(trace: Trace) -> _Steps:
    steps = whole_steps(trace)
    return _Steps(steps["start_ns"].to_numpy().astype(np.int64), steps["end_ns"].to_numpy().astype(np.int64))


@once_per_trace
def step_durations(trace: Trace) -> tuple[int, ...]:
    """Return the durations of the complete steps in ns, in order of time; none if none is complete."""
    steps = whole_steps(trace)
    return () if math.isnan(step_ns_of(trace)) else tuple((steps["end_ns"] - steps["start_ns"]).to_list())


@once_per_trace
def op_cells(trace: Trace) -> Cells:
    """Return the ops and annotations: calls, own host time, and time of the device work that they launched."""
    ops = op_rows(trace)
    rows = np.flatnonzero(~is_named(trace, STEP_PATTERN)[ops.row])
    step = _steps(trace).at(ops.start_ns[rows].astype(np.int64))
    one = np.ones(len(rows), np.int64)
    return _summed(trace, ops.row[rows], step, one, ops.self_cpu_ns[rows], ops.self_device_ns[rows])


@once_per_trace
def kernel_cells(trace: Trace) -> Cells:
    """Return the kernels, copies and fills: their runs and summed time, by the step in which they were launched."""
    rows = device_rows(trace)
    events = trace.events[rows]
    numbers = whole_steps(trace)["number"].to_list()
    order = {number: at for at, number in enumerate(numbers)}
    launched = events["step"].replace_strict(order, default=NO_PARENT, return_dtype=pl.Int64).fill_null(NO_PARENT)
    step = launched.to_numpy() if numbers else np.zeros(len(rows), np.int64)
    dur, one = events["dur_ns"].to_numpy(), np.ones(len(rows), np.int64)
    return _summed(trace, rows, step, one, np.zeros(len(rows), np.int64), dur)


class RunSample(NamedTuple):
    """What is needed of a run to compare its steps with those of another, far smaller than its trace.

    ``plain_durations`` are those of the steps that ran without the profiler, in ns, and ``details`` what was recorded
    beyond times, which makes recorded steps longer. ``inputs`` are the shapes that each outermost module got, if known.
    ``others_share`` is what other programs took of the machine, and ``crowding`` the part of the threads of this one
    that had no core for themselves by that; None if not known. ``input_sizes`` are the elements that each outermost
    module got, and ``op_sizes`` the bytes of the inputs of each op in a step; empty if not known. ``step_ns`` is the
    typical step, nan if no step is complete.
    """

    durations: tuple[int, ...]
    ops: Cells
    kernels: Cells
    idle_ns: tuple[int, ...]
    has_device: bool
    plain_durations: tuple[int, ...] = ()
    details: frozenset[str] = frozenset()
    inputs: frozenset[tuple[str, str]] = frozenset()
    others_share: float | None = None
    crowding: float | None = None
    input_sizes: Sizes = ()
    op_sizes: Sizes = ()
    step_ns: float = math.nan


@once_per_trace
def sample_of(trace: Trace) -> RunSample:
    """Return the sample of a run; ``idle_ns`` is how long the thread of each complete step slept or waited."""
    idle = steps_table(trace).frame.filter("complete").sort("start_ns")["idle_ns"]
    return RunSample(
        durations=step_durations(trace),
        ops=op_cells(trace),
        kernels=kernel_cells(trace),
        idle_ns=tuple(idle.to_list()),
        has_device=trace.has_device,
        plain_durations=trace.meta.plain_step_ns,
        details=frozenset(name for name, _, _ in DETAILS if getattr(trace.meta, name)),
        inputs=frozenset(input_shapes(trace).items()),
        others_share=trace.meta.others_share,
        crowding=crowding(trace.meta),
        input_sizes=sizes_of_inputs(trace),
        op_sizes=sizes_of_ops(trace),
        step_ns=step_ns_of(trace),
    )


def _summed(trace: Trace, rows: IntArray, step: IntArray, calls: IntArray, cpu: IntArray, device: IntArray) -> Cells:
    """Return the sums of event rows by name and step; rows outside of the steps do not count."""
    count = _steps(trace).columns
    _, first, key = np.unique(name_numbers(trace)[rows], return_index=True, return_inverse=True)
    cell = np.where(step >= 0, key * count + step, NO_PARENT)
    order, shape = np.argsort(first), (len(first), count)  # by first appearance
    sums = [sum_by(cell, values, len(first) * count).reshape(shape)[order] for values in (calls, cpu, device)]
    return Cells(trace.events["name"][rows[first[order]]].cast(pl.String).to_frame(), *sums)
