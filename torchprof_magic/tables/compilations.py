"""What torch.compile compiled during a run: why, where, and how long it took."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.model.compile_ids import times_before
from torchprof_magic.model.guards import FailedGuard, failed_guard
from torchprof_magic.model.shapes import Column, Table

if TYPE_CHECKING:
    from torchprof_magic.model.meta import Compilation
    from torchprof_magic.model.trace import DType, Trace

COLUMNS = (
    Column(
        name="function",
        title="Function",
        unit="code",
        definition="Name of the compiled function, as torch gives it: `torch_dynamo_resume_in_f_at_7` is what follows "
        "the graph break in line 7 of `f`. Empty where torch does not tell.",
    ),
    Column(name="file", title="File", unit="text", definition="File of the function.", is_minor=True),
    Column(name="line", title="Line", unit="count", definition="First line of the function; null if unknown."),
    Column(
        name="region",
        title="Region",
        unit="text",
        definition="Its number in traces (`Torch-Compiled Region: 3/0`): `3/0` is the first compilation of the fourth "
        "function.",
        is_minor=True,
    ),
    Column(
        name="direction",
        title="Direction",
        unit="text",
        definition="`forward`, or `backward` for a graph of a backward pass that is compiled when it first runs. torch "
        "before 2.6 does not tell of the latter.",
        is_minor=True,
    ),
    Column(
        name="step",
        title="Step",
        unit="step",
        definition="Step of the run in which it was compiled, recorded or not; null before the first step and after "
        "the last one.",
    ),
    Column(
        name="start_ns",
        title="Start",
        unit="ns",
        definition="When it began, relative to the first recorded event; negative before the recording.",
        is_minor=True,
    ),
    Column(
        name="dur_ns",
        title="Duration",
        unit="ns",
        definition="Wall time of the compilation, by torch's own clock; its four parts add up to it. Null where torch "
        "does not tell, as of frames that torch 2.4 left alone.",
    ),
    Column(
        name="dynamo_ns",
        title="Dynamo",
        unit="ns",
        definition="Part in which Dynamo read the function and made its graph and guards.",
        is_minor=True,
    ),
    Column(
        name="backend_ns",
        title="Backend",
        unit="ns",
        definition="Part of the backend without Inductor: AOTAutograd, or a backend of another name.",
        is_minor=True,
    ),
    Column(
        name="inductor_ns",
        title="Inductor",
        unit="ns",
        definition="Part of Inductor without the generation of code.",
        is_minor=True,
    ),
    Column(
        name="codegen_ns",
        title="Codegen",
        unit="ns",
        definition="Part in which Inductor generated code and compiled it.",
        is_minor=True,
    ),
    Column(
        name="step_ratio",
        title="Of the step",
        unit="ratio",
        definition="Share of the step that the compilation took; null outside of steps.",
    ),
    Column(
        name="again",
        title="Again",
        unit="bool",
        definition="True if the function had been compiled before, so that this is a recompilation, or the backward "
        "pass of one.",
    ),
    Column(
        name="cause",
        title="Cause",
        unit="text",
        definition="Kind of what differed, from the words of the guard: `size`, `dtype`, `device`, `requires_grad`, "
        "`mode` (such as `no_grad` or autocast), `module`, `length`, `global`, `attribute`, `type`, `backend`, "
        "`value`, or `other`; empty the first time, and where torch gives no reason.",
    ),
    Column(
        name="guard",
        title="Guard",
        unit="code",
        definition="First guard that failed, of the code that torch tried first, in torch's words.",
    ),
    Column(
        name="value",
        title="Value",
        unit="code",
        definition="What torch says of its values, such as `expected 3, actual 4`. Empty where the guard is a "
        "condition that did not hold: torch does not tell the new value of `n == 3`.",
    ),
    Column(
        name="guard_line",
        title="Guard's line",
        unit="count",
        definition="Line of the code for which the guard was made; null where torch does not tell: of tensors, and "
        "with torch 2.4 to 2.6.",
        is_minor=True,
    ),
    Column(
        name="reason", title="Reason", unit="code", definition="The whole reason, as torch writes it.", is_minor=True
    ),
    Column(
        name="breaks",
        title="Graph breaks",
        unit="count",
        definition="How often its graph broke. After a break, the rest of the function is compiled as another one.",
    ),
    Column(
        name="break_reason",
        title="Why it broke",
        unit="text",
        definition="torch's reason of the first break, by its explanation where it gives one.",
    ),
    Column(name="break_file", title="File of the break", unit="text", definition="File of that break.", is_minor=True),
    Column(
        name="break_line",
        title="Line of the break",
        unit="count",
        definition="Line of that break, in the function or in one that it calls.",
    ),
    Column(
        name="failed",
        title="Not compiled",
        unit="text",
        definition="Why torch gave the function up and runs it as plain Python, such as the limit of recompilations; "
        "empty if it was compiled.",
    ),
)
_SCHEMA: dict[str, DType] = {
    "function": pl.String,
    "file": pl.String,
    "line": pl.Int64,
    "region": pl.String,
    "direction": pl.String,
    "step": pl.Int64,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "dynamo_ns": pl.Int64,
    "backend_ns": pl.Int64,
    "inductor_ns": pl.Int64,
    "codegen_ns": pl.Int64,
    "step_ratio": pl.Float64,
    "again": pl.Boolean,
    "cause": pl.String,
    "guard": pl.String,
    "value": pl.String,
    "guard_line": pl.Int64,
    "reason": pl.String,
    "breaks": pl.Int64,
    "break_reason": pl.String,
    "break_file": pl.String,
    "break_line": pl.Int64,
    "failed": pl.String,
}


@once_per_trace
def compilations_table(trace: Trace) -> Table:
    """Return one row per compilation of the run, in order."""
    rows = [_row(trace, each) for each in trace.meta.compilations]  # at most 1,000
    return Table(frame=pl.DataFrame(rows, schema=_SCHEMA), columns=COLUMNS)


def has_compilations(trace: Trace) -> bool:
    """Return whether something was compiled during the run."""
    return bool(trace.meta.compilations)


def _row(trace: Trace, each: Compilation) -> dict[str, object]:
    start_ns = each.start_unix_ns - trace.meta.start_unix_ns
    step, step_ns = _step_of(trace, each, start_ns)
    guard, first = _guard_of(each), each.breaks[0] if each.breaks else None
    return {
        "function": each.name,
        "file": each.file,
        "line": each.line,
        "region": each.region,
        "direction": "backward" if each.is_backward else "forward",
        "step": step,
        "start_ns": start_ns,
        "dur_ns": each.dur_ns,
        **phases_of(each),
        "step_ratio": None if each.dur_ns is None or not step_ns else min(each.dur_ns / step_ns, 1.0),
        "again": is_again(each),
        "cause": guard.cause,
        "guard": guard.text,
        "value": guard.value,
        "guard_line": guard.line,
        "reason": each.reason,
        "breaks": len(each.breaks),
        "break_reason": first.reason if first is not None else "",
        "break_file": first.file if first is not None else "",
        "break_line": first.line if first is not None else None,
        "failed": each.failed,
    }


def is_again(each: Compilation) -> bool:
    """Return whether the function had been compiled before; its backward pass is compiled with each of its graphs."""
    return times_before(each.region) > 0


def phases_of(each: Compilation) -> dict[str, int | None]:
    """Return the parts of a compilation, which add up to it; each is cut to what it is a part of."""
    whole = each.dur_ns
    if whole is None:
        return dict.fromkeys(("dynamo_ns", "backend_ns", "inductor_ns", "codegen_ns"))
    inductor = min(each.inductor_ns or 0, whole)
    # A backward pass has no part of Dynamo.
    backend = whole if each.is_backward else min(max(each.backend_ns or 0, inductor), whole)
    codegen = min(each.codegen_ns or 0, inductor)
    return {
        "dynamo_ns": whole - backend,
        "backend_ns": backend - inductor,
        "inductor_ns": inductor - codegen,
        "codegen_ns": codegen,
    }


def _guard_of(each: Compilation) -> FailedGuard:
    return failed_guard(each.reason)


def _step_of(trace: Trace, each: Compilation, start_ns: int) -> tuple[int | None, int | None]:
    """Return the number and the length of the step: of the recorded one around it, or as the run measured them."""
    start, end = (trace.steps[name].to_numpy() for name in ("start_ns", "end_ns"))
    inside = np.flatnonzero((start <= start_ns) & (start_ns < end))
    if len(inside) == 0:
        return each.step, each.step_ns
    at = int(inside[0])
    return int(trace.steps["number"][at]), int(end[at] - start[at])
