"""Advice about the optimizer: one kernel in place of many small ops, and gradients that need not be cleared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.findings.advice.kinds import Advice
from torchprof_magic.findings.advice.times import (
    by_place,
    cost_of,
    each,
    joined,
    ns_in_steps,
    overlap,
    rows_named,
    spans_of,
)
from torchprof_magic.findings.verdict.accounts import chosen_steps
from torchprof_magic.model.units import counted, format_count, format_ns, format_ratio

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# Which part of the time of its ops a fused step takes: how often each reads or writes a parameter, a gradient or a
# state. Adam by single ops 18 times and fused 7 times, with roots and divisions done in passing; SGD 8 and 5 times.
ANNOTATIONS = ("user_annotation", "cpu_op")
FUSED_SHARE = {"Adam": 0.3, "AdamW": 0.3, "SGD": 0.6, "Adagrad": 0.5}
# torch fuses their steps only on the CPU.
CPU_ONLY = ("Adagrad",)
# The op that changes a parameter.
LAST_OP = {"SGD": "aten::add_", "Adam": "aten::addcdiv_"}
LEAST_PARAMETERS = 2
FUSED_LINK = "https://docs.pytorch.org/docs/stable/optim.html#algorithms"
NONE_LINK = "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html"
_STEP = r"^Optimizer\.step#"
_ZERO_GRAD = r"^Optimizer\.zero_grad#"


def single_tensor_optimizer(trace: Trace) -> list[Advice]:
    """Advise ``fused=True`` for an optimizer that updates its parameters one by one."""
    steps = rows_named(trace, _STEP, *ANNOTATIONS)
    found = []
    for file, line, rows in by_place(trace, steps):
        advice = _fused(trace, file, line, rows)
        found += [advice] if advice else []
    return found


def _fused(trace: Trace, file: str, line: int | None, rows: IntArray) -> Advice | None:
    name = _class_of(trace, int(rows[0]))
    inside = _ops_in(trace, rows)
    ops = trace.events["name"].gather(inside).cast(pl.String)
    if (
        name not in FUSED_SHARE
        or (trace.has_device and name in CPU_ONLY)
        or ops.str.contains(r"^aten::_(foreach|fused)_").any()
    ):
        return None
    parameters = int((ops == LAST_OP.get(name, LAST_OP["Adam"])).sum()) / max(len(rows), 1)
    if parameters < LEAST_PARAMETERS:
        return None
    cost = cost_of(trace, spans_of(trace, rows))
    ops_ns = ns_in_steps(trace, overlap(cost.spans, spans_of(trace, inside)))
    whole_ns = ns_in_steps(trace, spans_of(trace, rows))
    # What recording adds is in the ops and between them alike.
    left_ns = FUSED_SHARE[name] * ops_ns * min(cost.ns / max(whole_ns, 1.0), 1.0)
    return Advice(
        rule="single_tensor_optimizer",
        title="Let the optimizer update all parameters at once",
        fix=f"`torch.optim.{name}(..., fused=True)`",
        evidence=f"`{name}.step` takes {format_ns(cost.ns)} {each(trace)} for "
        f"{format_count(len(ops) / max(len(rows), 1))} ops, "
        f"one parameter after the other. Fused, it takes no calls, and {format_ratio(FUSED_SHARE[name])} of the ops' "
        f"own {format_ns(ops_ns)}, because it reads and writes each tensor once.",
        file=file,
        line=line,
        op=f"Optimizer.step#{name}.step",
        saving_ns=round(max(cost.ns - left_ns, 0.0)),
        certainty="estimated",
        link=FUSED_LINK,
        spans=cost.spans,
    )


def updates_of(trace: Trace) -> tuple[str, IntArray]:
    """Return the class of the optimizer and the ops that update each parameter in its first recorded step."""
    steps = rows_named(trace, _STEP, *ANNOTATIONS)
    if len(steps) == 0:
        return "", steps
    name = _class_of(trace, int(steps[0]))
    inside = _ops_in(trace, steps[:1])
    names = trace.events["name"].gather(inside).cast(pl.String)
    return name, inside[(names == LAST_OP.get(name, LAST_OP["Adam"])).to_numpy()]


def _class_of(trace: Trace, row: int) -> str:
    return str(trace.events["name"][row]).removeprefix("Optimizer.step#").partition(".")[0]


def zero_grad_set_to_none(trace: Trace) -> list[Advice]:
    """Advise to drop gradients in place of filling them with zeros, to which backward then adds."""
    zeros = _outermost(trace, rows_named(trace, r"^aten::(zero_|_foreach_zero_)$"))
    ranges = rows_named(trace, _ZERO_GRAD, *ANNOTATIONS)
    added = rows_named(trace, r"^torch::autograd::AccumulateGrad$")
    found = []
    for file, line, rows in by_place(trace, ranges):
        mine = zeros[_is_in(trace, zeros, rows)]
        if len(mine) == 0:
            continue
        adds = (
            _adds_in(trace, added) if len(ranges) == len(rows) and len(rows) >= chosen_steps(trace).steps else added[:0]
        )
        cost = cost_of(trace, joined(spans_of(trace, rows), spans_of(trace, adds)))
        times = counted(round(len(adds) / chosen_steps(trace).steps), "time")
        also = f", and backward adds to zeros {times}" if len(adds) else ""
        found.append(
            Advice(
                rule="zero_grad_set_to_none",
                title="Set gradients to None instead of zeroing them",
                fix="`optimizer.zero_grad(set_to_none=True)`, the default",
                evidence=f"Gradients are filled with zeros{also}: {format_ns(cost.ns)} {each(trace)}.",
                file=file,
                line=line,
                op="aten::zero_",
                saving_ns=round(cost.ns),
                certainty="measured",
                link=NONE_LINK,
                spans=cost.spans,
            )
        )
    return found


def _adds_in(trace: Trace, nodes: IntArray) -> IntArray:
    """Return the ops that add a gradient to the one that is there."""
    adds = rows_named(trace, r"^aten::add_$")
    return adds[np.isin(trace.events["parent"].to_numpy()[adds], nodes)]


def _outermost(trace: Trace, rows: IntArray) -> IntArray:
    return rows[~np.isin(trace.events["parent"].to_numpy()[rows], rows)]


def _is_in(trace: Trace, rows: IntArray, ranges: IntArray) -> np.ndarray:
    """Return which rows begin in one of the ranges, on the same thread."""
    start, dur, lane = (trace.events[name].to_numpy() for name in ("start_ns", "dur_ns", "lane"))
    order = ranges[np.argsort(start[ranges], kind="stable")]
    at = np.searchsorted(start[order], start[rows], side="right") - 1
    around = np.append(order, -1)[at]
    end = np.append(start + dur, 0)[around]
    return (at >= 0) & (start[rows] < end) & (lane[rows] == np.append(lane, -1)[around])


@once_per_trace
def _top_ops(trace: Trace) -> IntArray:
    """Return the ops that no other op calls."""
    rows = rows_named(trace, "^aten::|^[a-z_]+$")
    is_op = np.append((trace.events["category"] == "cpu_op").to_numpy(), False)
    return rows[~is_op[trace.events["parent"].to_numpy()[rows]]]


def _ops_in(trace: Trace, ranges: IntArray) -> IntArray:
    """Return the ops that the program calls directly in some ranges."""
    rows = _top_ops(trace)
    return rows[_is_in(trace, rows, ranges)]
