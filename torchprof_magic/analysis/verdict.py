"""The verdict: what limits the program, in one sentence with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from torchprof_magic.analysis.devices import devices_table
from torchprof_magic.analysis.kernels import kernels_table
from torchprof_magic.analysis.memory import memory_peaks, memory_series
from torchprof_magic.analysis.ops import ops_table
from torchprof_magic.analysis.steps import complete_steps, steps_table
from torchprof_magic.model.intervals import IntArray, covered_ns
from torchprof_magic.model.trace import DEVICE_CATEGORIES, STEP_PATTERN
from torchprof_magic.model.vendors import COLLECTIVE_KERNEL
from torchprof_magic.units import counted, format_count, format_ns, format_ratio, printable

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# Shares of a step that make something the limit.
STARVED_DEVICE = 0.6  # a device that is busy for less than this waits for the host
LOUD_COMMUNICATION = 0.25
LOUD_DATA = 0.25
LOUD_PYTHON = 0.4
LOUD_OPTIMIZER = 0.35
# If ops have less than this share of the device time, the verdict names a kernel instead.
MOSTLY_UNDER_OPS = 0.5

# The title, and the text before and after the time.
_PHASE_TEXTS = {
    "communication": ("Communication-bound", "Collectives take ", "."),
    "data": (
        "Data-bound",
        "Loading data takes ",
        ". Check what the dataset does for each item, or use more DataLoader workers.",
    ),
    "optimizer": ("Optimizer-bound", "The optimizer takes ", "."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of text. Pieces with the style ``code`` are names."""

    text: str
    style: Literal["", "strong", "code"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What limits the program, as a title and a sentence of evidence."""

    title: str
    text: tuple[Span, ...]

    def __str__(self) -> str:
        return printable(f"{self.title}. {''.join(span.text for span in self.text)}")


def find_verdict(trace: Trace) -> Verdict:
    """Return what limits the recorded steps, or what was not recorded to tell."""
    ops = ops_table(trace).frame
    if ops.height == 0:
        return _nothing(trace)
    steps = complete_steps(steps_table(trace).frame)
    if steps.height == 0:
        return _without_steps(ops, trace)
    whole = float(steps["dur_ns"].sum() or 1)
    if trace.has_device:
        return _with_device(trace, ops, steps, whole)
    return _on_host(trace, ops, steps, whole)


def _nothing(trace: Trace) -> Verdict:
    lost = [problem.message for problem in trace.problems if problem.severity == "data_loss"]
    if lost:
        return _say("Nothing recorded", lost[0])
    if trace.has_device:
        return _say(
            "Only device work",
            "Kernels were recorded, but no ops. Record the cpu activity too, to see which ops launched them.",
        )
    if trace.events.filter(~pl.col("name").cast(pl.String).str.contains(STEP_PATTERN)).height:
        return _say("No ops", "No torch op was recorded on the profiled threads.")
    if peaks := memory_peaks(memory_series(trace)):
        found = ", ".join(f"{mark.label} on {mark.lane}" for mark in peaks)
        return _say("Memory only", f"No ops were recorded, only allocations: {found}.")
    return _say("Nothing recorded", "No torch op ran during the recording.")


def _on_host(trace: Trace, ops: pl.DataFrame, steps: pl.DataFrame, whole: float) -> Verdict:
    """Return the largest part of the steps above its threshold, or else the ops themselves."""
    limits = {
        "communication": LOUD_COMMUNICATION,
        "data": LOUD_DATA,
        "other": LOUD_PYTHON,
        "optimizer": LOUD_OPTIMIZER,
    }
    shares = {name: float(steps[f"{name}_ns"].sum()) / whole for name in limits}
    loud = [name for name, share in shares.items() if share > limits[name]]
    if not loud:
        return _compute_bound(ops, "self_cpu_ns", "CPU")
    worst = max(loud, key=shares.__getitem__)
    if worst == "other":
        return _python_bound(trace, steps, shares["other"])
    title, before, after = _PHASE_TEXTS[worst]
    return _phase(title, worst, shares[worst], steps, before, after)


def _with_device(trace: Trace, ops: pl.DataFrame, steps: pl.DataFrame, whole: float) -> Verdict:
    busy = float(steps["device_busy_ns"].sum()) / whole
    exposed = _exposed_communication_ns(trace, steps) / whole
    if exposed > LOUD_COMMUNICATION:
        mean = format_ns(exposed * whole / steps.height)
        return Verdict(
            title="Communication-bound",
            text=(
                Span(text="Collectives run alone on the device for "),
                Span(text=f"{mean} of {_mean(steps, 'dur_ns')}", style="strong"),
                Span(text=f" per step ({format_ratio(exposed)}), with no other work to overlap with."),
            ),
        )
    data = float(steps["data_ns"].sum()) / whole
    if busy < STARVED_DEVICE and data > LOUD_DATA:
        title, before, after = _PHASE_TEXTS["data"]
        return _phase(title, "data", data, steps, before, after)
    if busy >= STARVED_DEVICE:
        return _device_bound(ops, trace)
    return Verdict(
        title="Host-bound",
        text=(
            Span(text="The device is busy "),
            Span(text=f"{_mean(steps, 'device_busy_ns')} of {_mean(steps, 'dur_ns')}", style="strong"),
            Span(text=f" per step ({format_ratio(busy)}) and waits for the host otherwise. Most host time is in "),
            *_top_ops(ops, "self_cpu_ns"),
            Span(text=f"; {_per_step(trace, steps, 'kernel')} kernels a step."),
        ),
    )


def _exposed_communication_ns(trace: Trace, steps: pl.DataFrame) -> int:
    """Return the device time within ``steps`` in which collectives ran and nothing else did.

    In each step only the device with the most of it counts: the sum over devices could exceed the step.
    """
    start = steps["start_ns"].to_numpy()
    end = start + steps["dur_ns"].to_numpy()
    work = trace.events.filter(pl.col("category").is_in(DEVICE_CATEGORIES)).with_columns(pl.col("device").fill_null(0))
    is_comm = pl.col("name").cast(pl.String).str.contains(COLLECTIVE_KERNEL)
    exposed = [np.zeros(steps.height, np.int64)]
    for _, rows in work.group_by("device"):
        exposed.append(_covered(rows, start, end) - _covered(rows.filter(~is_comm), start, end))
    return int(np.max(exposed, axis=0).sum())


def _covered(rows: pl.DataFrame, start: IntArray, end: IntArray) -> IntArray:
    from_ns = rows["start_ns"].to_numpy()
    return covered_ns(from_ns, from_ns + rows["dur_ns"].to_numpy(), start, end)


def _device_bound(ops: pl.DataFrame, trace: Trace) -> Verdict:
    """Return the op with the most device time, or the kernel if most work belongs to no op, as in CUDA graphs."""
    kernels = kernels_table(trace).frame
    under_ops = float(ops.filter(pl.col("kind") == "cpu_op")["self_device_ns"].sum() or 0)
    if kernels.height == 0 or under_ops >= MOSTLY_UNDER_OPS * float(kernels["sum_ns"].sum()):
        return _compute_bound(ops, "self_device_ns", "device")
    top = kernels.row(0, named=True)
    return Verdict(
        title="Compute-bound",
        text=(
            Span(text=top["name"], style="code"),
            Span(text=" takes "),
            Span(text=f"{format_ratio(top['sum_ratio'])} of device time", style="strong"),
            Span(text=f" ({format_ns(top['sum_ns'])} in {counted(top['calls'], 'run')}); most work belongs to no op."),
        ),
    )


def _compute_bound(ops: pl.DataFrame, by: str, where: str) -> Verdict:
    total = float(ops[by].sum() or 1)
    # The self time of an annotation is Python or waiting, so it is named only if there is nothing else.
    own = ops.filter(pl.col("kind") == "cpu_op")
    ops = own if own.height and float(own[by].sum() or 0) > 0 else ops
    top = ops.sort(by, descending=True).row(0, named=True)
    return Verdict(
        title="Compute-bound" if where == "device" else "Bound by CPU ops",
        text=(
            Span(text=top["name"], style="code"),
            Span(text=" takes "),
            Span(text=f"{format_ratio(top[by] / total)} of {where} time", style="strong"),
            Span(text=f" ({format_ns(top[by])} in {counted(top['calls'], 'call')})"),
            *_followed_by(ops, by, top["name"]),
        ),
    )


def _followed_by(ops: pl.DataFrame, by: str, first: str) -> tuple[Span, ...]:
    others = ops.filter((pl.col("name") != first) & (pl.col(by) > 0)).sort(by, descending=True).head(2)
    if others.height == 0:
        return (Span(text="."),)
    return (Span(text=", then "), *_joined(others["name"].to_list()), Span(text="."))


def _python_bound(trace: Trace, steps: pl.DataFrame, share: float) -> Verdict:
    found = (
        Span(text="No op runs for "),
        Span(text=f"{_mean(steps, 'other_ns')} of {_mean(steps, 'dur_ns')}", style="strong"),
        Span(text=f" per step ({format_ratio(share)})"),
    )
    paused_ns = _paused_ns(trace, steps)
    if paused_ns:
        other, whole = float(steps["other_ns"].sum()) - paused_ns, float(steps["dur_ns"].sum()) - paused_ns
        if other <= LOUD_PYTHON * whole:
            mean = format_ns(paused_ns / steps.height)
            left_out = f": the recording was paused for {mean} of it. Record without paused() to see what limits it."
            return Verdict(title="Partly paused", text=(*found, Span(text=left_out)))
    ops = _per_step(trace, steps, "cpu_op")
    where = Span(text=f": this time goes to Python code or waiting (ops per step: {ops}). ")
    return Verdict(title="Python-bound", text=(*found, where, *_which_functions(trace)))


def _paused_ns(trace: Trace, steps: pl.DataFrame) -> int:
    """Return for how long the recording of these steps was paused, in ns."""
    numbers = set(steps.select("cycle", "number").rows())
    return sum(mark.paused_ns for mark in trace.meta.recorded_steps if (mark.cycle, mark.number) in numbers)


def _which_functions(trace: Trace) -> tuple[Span, ...]:
    if trace.meta.has_stacks and trace.meta.two_pass is not None and trace.meta.two_pass.detail_steps:
        return (Span(text="report.ops_by('stack')", style="code"), Span(text=" shows which functions call the ops."))
    if trace.meta.has_stacks:
        return (Span(text="The flame graph shows which functions take it."),)
    return (
        Span(text="Record with "),
        Span(text="--stack", style="code"),
        Span(text=" to see which functions take it."),
    )


def _phase(title: str, phase: str, share: float, steps: pl.DataFrame, before: str, after: str) -> Verdict:
    amount = f"{_mean(steps, f'{phase}_ns')} of {_mean(steps, 'dur_ns')}"
    return Verdict(
        title=title,
        text=(
            Span(text=before),
            Span(text=amount, style="strong"),
            Span(text=f" per step ({format_ratio(share)}){after}"),
        ),
    )


def _without_steps(ops: pl.DataFrame, trace: Trace) -> Verdict:
    if not trace.has_device:
        return _compute_bound(ops, "self_cpu_ns", "CPU")
    busy, window = max(devices_table(trace).frame.select("busy_ns", "window_ns").rows())
    if busy / max(window, 1) >= STARVED_DEVICE:
        return _device_bound(ops, trace)
    return Verdict(
        title="Host-bound",
        text=(
            Span(text="The device is busy "),
            Span(text=f"{format_ns(busy)} of {format_ns(window)}", style="strong"),
            Span(
                text=f" ({format_ratio(busy / max(window, 1))}) and waits for the host otherwise. Most host time is in "
            ),
            *_top_ops(ops, "self_cpu_ns"),
            Span(text="."),
        ),
    )


def _top_ops(ops: pl.DataFrame, by: str) -> tuple[Span, ...]:
    names = ops.filter(pl.col("kind") == "cpu_op").sort(by, descending=True)["name"].head(2).to_list()
    return _joined(names or ops["name"].head(1).to_list())


def _joined(names: list[str]) -> tuple[Span, ...]:
    spans = [Span(text=names[0], style="code")]
    for name in names[1:]:
        spans += [Span(text=" and "), Span(text=name, style="code")]
    return tuple(spans)


def _mean(steps: pl.DataFrame, column: str) -> str:
    return format_ns(float(steps[column].mean() or 0))  # type: ignore[arg-type]


def _per_step(trace: Trace, steps: pl.DataFrame, category: str) -> str:
    """Return the average number of events of a category in each of ``steps``."""
    events = trace.events.filter(pl.col("category") == category)
    within = events.join(steps, left_on=["step", "cycle"], right_on=["number", "cycle"], how="semi")
    return format_count(within.height / steps.height)


def _say(title: str, text: str) -> Verdict:
    return Verdict(title=title, text=(Span(text=text),))
