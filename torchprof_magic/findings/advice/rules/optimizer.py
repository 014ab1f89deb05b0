"""Advice about the optimizer: one kernel in place of many small ops, and gradients that need not be cleared."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.host.closures import in_closures, own_starts
from torchprof_magic.facts.shared import in_category, once_per_trace
from torchprof_magic.findings.advice.kinds import Advice, Edit, Effect, Spans
from torchprof_magic.findings.advice.times import (
    by_place,
    cost_of,
    cost_words,
    joined,
    ns_in_steps,
    rows_named,
    spans_of,
)
from torchprof_magic.model.units import counted, format_count, format_ns

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

ANNOTATIONS = ("user_annotation", "cpu_op")
# Which part of the time of its ops a fused step takes, measured on large parameters (benchmarks/optimizers.py). Plain
# SGD is one op that reads and writes each tensor once, as the fused one does.
FUSED_SHARE = {"Adam": 0.35, "AdamW": 0.35, "SGD": 1.0, "Adagrad": 0.4}
# SGD with momentum, and with weight decay or Nesterov's momentum as well.
MOMENTUM_SHARE, MORE_SHARE = 0.7, 0.6
# What a fused step costs besides the wrapper of the optimizer, in ns: its call, and the grouping and checking of each
# parameter. On the CPU each is divided among threads, whatever its size.
FUSED_CALL_NS, FUSED_PARAMETER_NS, DIVIDED_NS = 5_000, 700, 2_000
# torch fuses their steps only on the CPU.
CPU_ONLY = ("Adagrad",)
# The op that changes a parameter.
LAST_OP = {"SGD": "aten::add_", "Adam": "aten::addcdiv_"}
LEAST_PARAMETERS = 2
FUSED_LINK = "https://docs.pytorch.org/docs/stable/optim.html#algorithms"
NONE_LINK = "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html"
_STEP = r"^Optimizer\.step#"
_ZERO_GRAD = r"^Optimizer\.zero_grad#"


class Updates(NamedTuple):
    """How an optimizer updates its parameters: the ops that change each of them, and settings that its ops show."""

    name: str
    rows: IntArray
    settings: tuple[tuple[str, float], ...]

    @property
    def fused_share(self) -> float:
        """Which part of the time of its ops a fused step takes."""
        if self.name != "SGD" or not self.settings:
            return FUSED_SHARE[self.name]
        return MOMENTUM_SHARE if len(self.settings) == 1 else MORE_SHARE


class _Usual(NamedTuple):
    """What a step of an optimizer usually takes, in ns: ops, the Python between them, and what comes before and after.

    Each part is the shortest of all steps, because the others may have lost the core in it.
    """

    ops_ns: float
    between_ns: float
    around_ns: float


def single_tensor_optimizer(trace: Trace) -> list[Advice]:
    """Advise ``fused=True`` for an optimizer that updates its parameters one by one."""
    found = (_fused(trace, file, line, rows) for file, line, rows in _steps_by_place(trace))
    return [advice for advice in found if advice is not None]


def _steps_by_place(trace: Trace) -> list[tuple[str, int | None, IntArray]]:
    """Return the steps of each class of optimizers on each line."""
    steps = rows_named(trace, _STEP, *ANNOTATIONS)
    names = trace.events["name"].gather(steps).cast(pl.String)
    classes = names.unique(maintain_order=True).to_list()
    return [place for name in classes for place in by_place(trace, steps[(names == name).to_numpy()])]


def _fused(trace: Trace, file: str, line: int | None, rows: IntArray) -> Advice | None:
    updates = _updates(trace, rows)
    if updates is None or len(updates.rows) < LEAST_PARAMETERS:
        return None
    spans = _own_spans(trace, rows)
    cost, usual = cost_of(trace, spans), _usual(trace, rows)
    now_ns = usual.ops_ns + usual.between_ns + usual.around_ns
    ops = len(_ops_in(trace, rows)) / len(rows)
    parameters = ops * len(updates.rows) / len(_ops_in(trace, rows[:1]))
    fixed_ns = usual.around_ns + FUSED_CALL_NS + _parameter_ns(trace) * parameters
    fused_ns = fixed_ns + updates.fused_share * usual.ops_ns
    # What recording adds is in all parts alike, and what is hidden behind a device saves nothing.
    whole_ns = ns_in_steps(trace, spans)
    per_step = len(rows) / counted_steps(trace).steps
    scale = min(cost.ns / max(whole_ns, 1.0), 1.0) * per_step
    told_ns = min(now_ns * scale, cost.ns)
    return Advice(
        rule="single_tensor_optimizer",
        title="Let the optimizer update all parameters at once",
        fix=f"`torch.optim.{updates.name}(..., fused=True)`",
        evidence=f"`{updates.name}.step` calls {format_count(ops)} ops, one parameter after the other, which takes "
        f"{cost_words(trace, cost._replace(ns=told_ns, how='with each op at its quickest'))}. Fused it would take "
        f"about {format_ns(fused_ns * scale)}.",
        file=file,
        line=line,
        op=f"Optimizer.step#{updates.name}.step",
        certainty="estimated",
        link=FUSED_LINK,
        spans=cost.spans,
        # What its slower steps take beyond the fastest remains, too.
        effect=Effect(
            left=1 - max(now_ns - fused_ns, 0.0) * per_step / max(whole_ns, 1.0),
            most_ns=max(told_ns - fused_ns * scale, 0.0),
        ),
        edits=(Edit((updates.name,), "fused", "True"),),
    )


def _parameter_ns(trace: Trace) -> int:
    is_divided = not trace.has_device and (trace.meta.cpu_threads or 1) > 1
    return FUSED_PARAMETER_NS + (DIVIDED_NS if is_divided else 0)


def _usual(trace: Trace, rows: IntArray) -> _Usual:
    """Return what a step takes on average, of those that call equally many ops as long as the shortest of them."""
    ops = _top_ops(trace)
    step = _range_around(trace, ops, rows)
    order = np.lexsort((ops, step))
    counts = np.bincount(step[step >= 0], minlength=len(rows))
    calls = np.split(ops[order][len(ops) - int(counts.sum()) :], np.cumsum(counts)[:-1])
    alike = [np.flatnonzero(counts == count) for count in np.unique(counts[counts > 0])]
    parts = [(len(at), _shortest(trace, rows[at], np.stack([calls[each_one] for each_one in at]))) for at in alike]
    whole = max(sum(count for count, _ in parts), 1)
    return _Usual(*(sum(count * part[place] for count, part in parts) / whole for place in range(3)))


def _shortest(trace: Trace, rows: IntArray, ops: IntArray) -> _Usual:
    """Return the shortest of each part of some steps, whose ops stand in one row each."""
    start, dur = (trace.events[name].to_numpy() for name in ("start_ns", "dur_ns"))
    begin, end = start[ops], start[ops] + dur[ops]
    around = (begin[:, 0] - own_starts(trace, rows)) + (start[rows] + dur[rows] - end[:, -1])
    between = (begin[:, 1:] - end[:, :-1]).min(axis=0)
    return _Usual(float(dur[ops].min(axis=0).sum()), float(between.sum()), float(around.min()))


def updates_at(trace: Trace, advice: Advice) -> Updates | None:
    """Return how the optimizer of some advice updates its parameters; None if that is not known."""
    wanted = (advice.op, advice.file, advice.line)
    for file, line, rows in _steps_by_place(trace):
        if (trace.events["name"][int(rows[0])], file, line) == wanted:
            return _updates(trace, rows)
    return None


def _updates(trace: Trace, rows: IntArray) -> Updates | None:
    """Return how the first of some steps updates the parameters; None if it does so at once, or is not known."""
    name, inside = _class_of(trace, int(rows[0])), _ops_in(trace, rows[:1])
    ops = trace.events["name"].gather(inside).cast(pl.String)
    if name not in FUSED_SHARE or (trace.has_device and name in CPU_ONLY):
        return None
    if len(inside) == 0 or ops.str.contains(r"^aten::_(foreach|fused)_").any():
        return None
    settings = _settings(name, ops)
    is_update = (ops == LAST_OP.get(name, LAST_OP["Adam"])).to_numpy()
    if "momentum" in dict(settings):  # the op before the update is one of the momentum
        is_update &= ~(ops.shift(1) == "aten::mul_").fill_null(value=False).to_numpy()
    return Updates(name, inside[is_update], settings)


def _settings(name: str, ops: pl.Series) -> tuple[tuple[str, float], ...]:
    """Return the settings of an optimizer that its ops show, with usual values."""
    has = set(ops.to_list())
    shown = {
        "momentum": (name == "SGD" and "aten::mul_" in has, 0.9),
        "weight_decay": ("aten::add" in has and (name != "SGD" or not _is_nesterov(ops)), 0.01),
        "nesterov": (name == "SGD" and _is_nesterov(ops), 1.0),
        "amsgrad": (name in ("Adam", "AdamW") and "aten::maximum" in has, 1.0),
    }
    return tuple((setting, value) for setting, (is_set, value) in shown.items() if is_set)


def _is_nesterov(ops: pl.Series) -> bool:
    """Return whether SGD looks ahead: it then adds the momentum to the gradient just before the update."""
    return bool(((ops == "aten::add") & (ops.shift(-1) == "aten::add_") & (ops.shift(1) == "aten::add_")).any())


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
            _adds_in(trace, added)
            if len(ranges) == len(rows) and len(rows) >= counted_steps(trace).steps
            else added[:0]
        )
        cost = cost_of(trace, joined(spans_of(trace, mine), spans_of(trace, adds)))
        times = counted(round(len(adds) / counted_steps(trace).steps), "time")
        also = f", and backward adds to zeros {times}" if len(adds) else ""
        found.append(
            Advice(
                rule="zero_grad_set_to_none",
                title="Set gradients to None instead of zeroing them",
                fix="`optimizer.zero_grad(set_to_none=True)`, the default since torch 2.0",
                evidence=f"Gradients are filled with zeros{also}: {cost_words(trace, cost)}.",
                file=file,
                line=line,
                op="aten::zero_",
                certainty="measured",
                link=NONE_LINK,
                spans=cost.spans,
                effect=Effect(),
                edits=(Edit(("zero_grad",), "set_to_none", "True", position=0, is_here=True, only_given=True),),
            )
        )
    return found


def _adds_in(trace: Trace, nodes: IntArray) -> IntArray:
    """Return the ops that add a gradient to the one that is there."""
    adds = rows_named(trace, r"^aten::add_$")
    return adds[np.isin(trace.events["parent"].to_numpy()[adds], nodes)]


def _outermost(trace: Trace, rows: IntArray) -> IntArray:
    return rows[~np.isin(trace.events["parent"].to_numpy()[rows], rows)]


def _range_around(trace: Trace, rows: IntArray, ranges: IntArray) -> IntArray:
    """Return in which of the ranges, by their place in ``ranges``, each row begins, on the same thread; or -1."""
    start, dur, lane = (trace.events[name].to_numpy() for name in ("start_ns", "dur_ns", "lane"))
    order = np.append(np.argsort(start[ranges], kind="stable"), -1)
    place = order[np.searchsorted(start[ranges][order[:-1]], start[rows], side="right") - 1]
    around = np.append(ranges, 0)[place]
    is_in = (start[rows] < start[around] + dur[around]) & (lane[rows] == lane[around])
    return np.where((place >= 0) & is_in, place, -1)


def _is_in(trace: Trace, rows: IntArray, ranges: IntArray) -> np.ndarray:
    """Return which rows begin in one of the ranges, on the same thread."""
    return _range_around(trace, rows, ranges) >= 0


@once_per_trace
def _top_ops(trace: Trace) -> IntArray:
    """Return the ops that no other op calls."""
    rows = rows_named(trace, "^aten::|^[a-z_]+$")
    rows = rows[~in_closures(trace)[rows]]
    is_op = np.append(in_category(trace, "cpu_op"), False)
    return rows[~is_op[trace.events["parent"].to_numpy()[rows]]]


def _ops_in(trace: Trace, ranges: IntArray) -> IntArray:
    """Return the ops that the program calls directly in some ranges, without those of closures."""
    rows = _top_ops(trace)
    return rows[_is_in(trace, rows, ranges)]


def _own_spans(trace: Trace, steps: IntArray) -> Spans:
    """Return when optimizers are at work in their steps, after what they call as closures."""
    return Spans(own_starts(trace, steps), spans_of(trace, steps)[1])
