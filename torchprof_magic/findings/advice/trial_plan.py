"""What to measure to try advice without the user's data: the recorded shapes, types and numbers of calls."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.findings.advice.rules.attention import attention_calls
from torchprof_magic.findings.advice.rules.optimizer import updates_at
from torchprof_magic.findings.advice.times import rows_named
from torchprof_magic.model.intervals import nearest_marked
from torchprof_magic.model.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.findings.advice.kinds import Advice
    from torchprof_magic.model.trace import Trace

# Of the distinct calls those with the most time are tried.
MOST_CALLS = 8
# Elements of all tensors of a trial together, 1 GB of float32.
MOST_ELEMENTS = 2**28
FLOAT = "float"
_PRODUCTS = r"^aten::(mm|addmm|bmm|baddbmm)$"
# Whatever a program calls of these, and what they call, is tried as the outermost of them.
_HEAVY = (
    r"^aten::(mm|addmm|bmm|baddbmm|mv|convolution|convolution_backward|native_layer_norm|native_batch_norm|softmax|"
    r"_softmax|log_softmax|_log_softmax|sum|mean|exp|log|sin|cos|tanh|sigmoid|relu|clamp_min|gelu|silu|sqrt|rsqrt|abs|"
    r"neg|pow|erf|clamp|where|addcmul|addcdiv|lerp|maximum|minimum|mul|add|sub|rsub|div)_?$"
)
_CONVOLUTIONS = r"^aten::convolution$"
_TRANSPOSED = 6  # its place among the inputs of a convolution


class Input(NamedTuple):
    """What was recorded of one input of an op: the type's name, the shape of a tensor, and the value as text.

    A list of tensors, and what torch does not record, such as a text, has the shape None.
    """

    dtype: str
    shape: tuple[int, ...] | None
    value: str = ""


class Call(NamedTuple):
    """One op with its inputs as they were recorded, its calls in each step, and the time of these in ns."""

    op: str
    inputs: tuple[Input, ...]
    each_step: float
    ns: float = 0.0

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the tensors with elements that are numbered by at least one dimension."""
        return tuple(each.shape for each in self.inputs if each.shape)


def tensors(*shapes: tuple[int, ...], dtype: str = FLOAT) -> tuple[Input, ...]:
    """Return inputs that are tensors of one type."""
    return tuple(Input(dtype, shape) for shape in shapes)


class TrialPlan(NamedTuple):
    """What to try: ``kind`` chooses how, and ``name`` is that of an optimizer, with its ``settings``.

    ``threads`` are those of ops in the recording, and ``cores`` those that its process could use; None if unknown.
    ``has_backward`` is set if the recorded steps have a backward pass.
    """

    kind: str
    calls: tuple[Call, ...]
    name: str = ""
    settings: tuple[tuple[str, float], ...] = ()
    threads: int | None = None
    cores: int | None = None
    on_device: bool = False
    has_backward: bool = True


def tries(trace: Trace, advice: Advice) -> bool:
    """Return whether advice may be tried with what was recorded; ``plan_trial`` knows whether it can."""
    return advice.rule in _PLANS and trace.meta.has_shapes and advice.certainty != "measured here"


def plan_trial(trace: Trace, advice: Advice) -> TrialPlan:
    """Return what to measure for a piece of advice.

    Raises ``ValueError`` if its rule cannot be tried without the user's data, or if shapes were not recorded.
    """
    plan = _PLANS.get(advice.rule)
    if plan is None:
        raise ValueError(f"{advice.rule} cannot be tried without your data; these can: {', '.join(_PLANS)}")
    if not trace.meta.has_shapes:
        raise ValueError("trying advice needs the shapes of the ops; record them with --shapes")
    found = plan(trace, advice)
    if not found.calls:
        raise ValueError("the recording does not tell the shapes that this needs")
    elements = sum(math.prod(shape) for call in found.calls for shape in call.shapes)
    if elements > MOST_ELEMENTS:
        raise ValueError(
            f"the tensors of this trial have {format_count(elements)} elements; at most "
            f"{format_count(MOST_ELEMENTS)} are tried"
        )
    return found._replace(
        on_device=trace.has_device,
        threads=trace.meta.cpu_threads,
        cores=trace.meta.cpu_cores,
        has_backward=_has_backward(trace),
    )


def _optimizer(trace: Trace, advice: Advice) -> TrialPlan:
    updates = updates_at(trace, advice)
    if updates is None:
        return TrialPlan("optimizer", ())
    found = trace.events[updates.rows.tolist()].select(*(pl.col(name).cast(pl.String) for name in _RECORDED))
    inputs = tuple(_inputs(row)[0] for row in found.iter_rows(named=True) if _inputs(row))
    calls = (Call("step", inputs, 1.0),) if inputs else ()
    return TrialPlan("optimizer", calls, name=updates.name, settings=updates.settings)


def _threads(trace: Trace, _: Advice) -> TrialPlan:
    return TrialPlan("threads", _calls(trace, _HEAVY))


def _precision(trace: Trace, _: Advice) -> TrialPlan:
    calls = _calls(trace, _PRODUCTS)
    return TrialPlan("autocast", tuple(call for call in calls if {each.dtype for each in call.inputs[:2]} == {FLOAT}))


def _layout(trace: Trace, _: Advice) -> TrialPlan:
    calls = (call for call in _calls(trace, _CONVOLUTIONS) if _is_of_images(call))
    # The recorded time is that of the forward pass, which the trial compares only without a backward pass.
    return TrialPlan("channels_last", tuple(each._replace(ns=0.0) if _has_backward(trace) else each for each in calls))


def _has_backward(trace: Trace) -> bool:
    return len(rows_named(trace, _BACKWARD)) > 0


def _is_of_images(call: Call) -> bool:
    """Return whether a convolution is of images, and not transposed."""
    is_plain = len(call.inputs) <= _TRANSPOSED or call.inputs[_TRANSPOSED].value != "True"
    return is_plain and len(call.shapes) > 1 and len(call.shapes[0]) == 4  # noqa: PLR2004 - images


def _attention(trace: Trace, advice: Advice) -> TrialPlan:
    first, second = attention_calls(trace, advice.file, advice.line)
    rows = np.concatenate((first, second)).tolist()
    frame = trace.events[rows].select(*(pl.col(name).cast(pl.String) for name in _RECORDED))
    inputs = [_inputs(row) for row in frame.iter_rows(named=True)]
    counts: dict[tuple[Input, ...], int] = {}
    for scores, values in zip(inputs[: len(first)], inputs[len(first) :], strict=True):
        key = _query_key_value(scores, values)
        if key is not None:
            counts[key] = counts.get(key, 0) + 1
    steps = counted_steps(trace).steps
    calls = tuple(Call("attention", key, times / steps) for key, times in counts.items())
    return TrialPlan("attention", calls[:MOST_CALLS])


def _query_key_value(scores: tuple[Input, ...], values: tuple[Input, ...]) -> tuple[Input, ...] | None:
    """Return the inputs of fused attention, from those of the product before the softmax and of that after it."""
    (left, right), weighed = (each[:2] if len(each) > 1 else (None, None) for each in (scores, values))
    value = weighed[1]
    if left is None or right is None or value is None or not (left.shape and right.shape and value.shape):
        return None
    if len(right.shape) < 2 or len(left.shape) != len(value.shape):  # noqa: PLR2004 - matrices
        return None
    key = (*right.shape[:-2], right.shape[-1], right.shape[-2])
    return (left, right._replace(shape=key), value)


_BACKWARD = r"^autograd::engine"
_RECORDED = ("name", "shapes", "dtypes", "concrete_inputs")
_PLANS: dict[str, Callable[[Trace, Advice], TrialPlan]] = {
    "single_tensor_optimizer": _optimizer,
    "oversubscribed_threads": _threads,
    "undersubscribed_threads": _threads,
    "autocast": _precision,
    "channels_last": _layout,
    "attention_unfused": _attention,
}


def _calls(trace: Trace, pattern: str) -> tuple[Call, ...]:
    """Return the distinct calls with the most time; of those inside each other only the outer ones."""
    rows = rows_named(trace, pattern)
    is_heavy = np.zeros(trace.events.height, np.bool_)
    is_heavy[rows] = True
    parent, depth = (trace.events[name].to_numpy() for name in ("parent", "depth"))
    rows = rows[nearest_marked(parent, depth, is_heavy)[parent[rows]] < 0]
    frame = trace.events[rows.tolist()].select(*(pl.col(name).cast(pl.String) for name in _RECORDED), "dur_ns")
    sums = frame.group_by(_RECORDED).agg(pl.len().alias("count"), pl.col("dur_ns").sum())
    sums = sums.sort("dur_ns", *_RECORDED, descending=[True, *(False for _ in _RECORDED)])
    steps = counted_steps(trace).steps
    return tuple(
        Call(row["name"].removeprefix("aten::"), _inputs(row), row["count"] / steps, row["dur_ns"] / steps)
        for row in sums.head(MOST_CALLS).iter_rows(named=True)
        if _inputs(row)
    )


def _inputs(row: dict[str, Any]) -> tuple[Input, ...]:
    """Return the inputs of a recorded call; empty if they were not recorded."""
    shapes, types = _parsed(row["shapes"]), _parsed(row["dtypes"])
    values = _parsed(row["concrete_inputs"]) or [""] * len(types)
    if not len(shapes) == len(types) == len(values):
        return ()
    return tuple(
        Input(str(dtype), tuple(shape) if _is_shape(shape) else None, str(value))
        for dtype, shape, value in zip(types, shapes, values, strict=True)
    )


def _is_shape(shape: object) -> bool:
    return isinstance(shape, list) and all(isinstance(size, int) and size >= 0 for size in shape)


def _parsed(text: object) -> list[Any]:
    try:
        found = json.loads(str(text)) if text is not None else []
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []
