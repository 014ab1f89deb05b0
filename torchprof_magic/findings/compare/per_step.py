"""What each step spends on every op, kernel, line and module, which two runs are compared by."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from torchprof_magic.facts.host.crowding import crowding
from torchprof_magic.facts.ops.calls import op_rows
from torchprof_magic.facts.shared import device_rows, once_per_trace
from torchprof_magic.facts.source.attribution import Runs, sites_of_events
from torchprof_magic.facts.source.forward_of import backward_nodes
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.findings.compare.input_sizes import sizes_of_inputs, sizes_of_ops
from torchprof_magic.findings.compare.setting_changes import DETAILS, input_shapes
from torchprof_magic.model.intervals import NO_PARENT, IntArray, interval_at, nest, own_time
from torchprof_magic.model.trace import STEP_PATTERN
from torchprof_magic.tables.source.lines import line_runs
from torchprof_magic.tables.source.modules import module_runs
from torchprof_magic.tables.steps import complete_steps, steps_table

if TYPE_CHECKING:
    from torchprof_magic.findings.compare.input_sizes import Sizes
    from torchprof_magic.model.trace import Trace

FloatArray = npt.NDArray[np.float64]
QUARTER = 4


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
    steps = complete_steps(trace.steps).sort("start_ns")
    return _Steps(steps["start_ns"].to_numpy().astype(np.int64), steps["end_ns"].to_numpy().astype(np.int64))


@once_per_trace
def step_durations(trace: Trace) -> tuple[int, ...]:
    """Return the durations of the complete steps in ns, in order of time."""
    steps = trace.steps.filter("complete").sort("start_ns")
    return tuple((steps["end_ns"] - steps["start_ns"]).to_list())


@once_per_trace
def op_cells(trace: Trace) -> Cells:
    """Return the ops and annotations: calls, own host time, and time of the device work that they launched."""
    ops = op_rows(trace)
    names = trace.events["name"].gather(ops.row).cast(pl.String)
    is_op = ~names.str.contains(STEP_PATTERN).to_numpy()
    rows = np.flatnonzero(is_op)
    step = _steps(trace).at(ops.start_ns[rows].astype(np.int64))
    one = np.ones(len(rows), np.int64)
    return _summed(trace, names.gather(rows).alias("name").to_frame(), step, one, ops.self_cpu_ns[rows],
                   ops.self_device_ns[rows])  # fmt: skip


@once_per_trace
def kernel_cells(trace: Trace) -> Cells:
    """Return the kernels, copies and fills: their runs and summed time, by the step in which they were launched."""
    rows = device_rows(trace)
    events = trace.events[rows]
    numbers = complete_steps(trace.steps).sort("start_ns")["number"].to_list()
    order = {number: at for at, number in enumerate(numbers)}
    launched = events["step"].replace_strict(order, default=NO_PARENT, return_dtype=pl.Int64).fill_null(NO_PARENT)
    step = launched.to_numpy() if numbers else np.zeros(len(rows), np.int64)
    names = events["name"].cast(pl.String).alias("name").to_frame()
    dur, one = events["dur_ns"].to_numpy(), np.ones(len(rows), np.int64)
    return _summed(trace, names, step, one, np.zeros(len(rows), np.int64), dur)


@once_per_trace
def line_cells(trace: Trace) -> Cells:
    """Return the lines of the program: how often they began, their own time, and that of the work they launched."""
    sites, runs = line_runs(trace)
    keys = sites.select(pl.col("file").cast(pl.String), "line", pl.col("name").cast(pl.String).alias("source"))
    return _of_runs(trace, keys, runs, with_backward=False)


@once_per_trace
def module_cells(trace: Trace) -> Cells:
    """Return the modules: calls, own time of forward and backward, and that of the device work they launched."""
    sites, runs = module_runs(trace)
    keys = sites.select(
        pl.col("name").cast(pl.String).alias("path"), pl.col("class_name").cast(pl.String).fill_null("")
    )
    return _of_runs(trace, keys, runs, with_backward=True)


class RunSample(NamedTuple):
    """What is needed of a run to compare its steps with those of another, far smaller than its trace.

    ``plain_durations`` are those of the steps that ran without the profiler, in ns, and ``details`` what was recorded
    beyond times, which makes recorded steps longer. ``inputs`` are the shapes that each outermost module got, if known.
    ``others_share`` is what other programs took of the machine, and ``crowding`` the part of the threads of this one
    that had no core for themselves by that; None if not known. ``input_sizes`` are the elements that each outermost
    module got, and ``op_sizes`` the bytes of the inputs of each op in a step; empty if not known.
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
    )


def typical(values: IntArray) -> FloatArray:
    """Return the mean of the middle half of the steps for each row; single long steps do not count."""
    count = values.shape[1]
    cut = count // QUARTER
    ordered = np.sort(values.astype(np.float64), axis=1)
    return ordered[:, cut : count - cut].mean(axis=1)


def _of_runs(trace: Trace, keys: pl.DataFrame, runs: Runs, *, with_backward: bool) -> Cells:
    if len(runs.site) == 0:
        nothing = np.empty(0, np.int64)
        return _summed(trace, keys.clear(), nothing, nothing, nothing, nothing)
    steps = _steps(trace)
    parent, _, overlaps = nest(runs.lane, runs.start_ns, runs.dur_ns)
    own_ns = own_time(parent, runs.start_ns, runs.dur_ns, overlaps)
    site, at = [runs.site], [steps.at(runs.start_ns)]
    calls, cpu, device = [np.ones(len(runs.site), np.int64)], [own_ns], [np.zeros(len(runs.site), np.int64)]
    of_event = sites_of_events(trace, runs)
    start = trace.events["start_ns"].to_numpy().astype(np.int64)
    dur = trace.events["dur_ns"].to_numpy().astype(np.int64)
    work = device_rows(trace)
    nodes = node_ns = np.empty(0, np.int64)
    if with_backward:
        nodes, node_ns = backward_nodes(trace).row, backward_nodes(trace).own_ns(dur)
    for rows, cpu_ns, device_ns in ((work, np.zeros(len(work), np.int64), dur[work]), (nodes, node_ns, None)):
        site.append(of_event[rows])
        at.append(steps.at(start[rows]))
        calls.append(np.zeros(len(rows), np.int64))
        cpu.append(cpu_ns)
        device.append(np.zeros(len(rows), np.int64) if device_ns is None else device_ns)
    rows = np.concatenate(site)
    known = rows >= 0
    return _summed(
        trace,
        keys[rows[known]],
        np.concatenate(at)[known],
        *(np.concatenate(parts)[known] for parts in (calls, cpu, device)),
    )


def _summed(
    trace: Trace, keys: pl.DataFrame, step: IntArray, calls: IntArray, cpu: IntArray, device: IntArray
) -> Cells:
    """Return the sums of the rows by key and step; rows outside of the steps do not count."""
    count = _steps(trace).columns
    names = keys.columns
    distinct = keys.unique(maintain_order=True).with_row_index("key")
    key = keys.join(distinct, on=names, how="left", nulls_equal=True, maintain_order="left")["key"]
    inside = step >= 0
    cell = np.where(inside, key.to_numpy().astype(np.int64) * count + step, NO_PARENT)
    shape = (distinct.height, count)
    sums = [sum_by(cell, values, distinct.height * count).reshape(shape) for values in (calls, cpu, device)]
    return Cells(distinct.drop("key"), *sums)
