"""What to measure to try advice without the user's data: the recorded shapes, types and numbers of calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.findings.advice.rules.attention import attention_calls
from torchprof_magic.findings.advice.rules.optimizer import updates_of
from torchprof_magic.findings.advice.times import rows_named
from torchprof_magic.findings.verdict.accounts import chosen_steps
from torchprof_magic.model.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.findings.advice.kinds import Advice
    from torchprof_magic.model.trace import Trace

# Of the distinct calls those with the most time are tried.
MOST_CALLS = 8
MOST_DIMS = 6
# Elements of all tensors of a trial together, 1 GB of float32.
MOST_ELEMENTS = 2**28
TYPES = {"float": "float32", "double": "float64", "c10::Half": "float16", "c10::BFloat16": "bfloat16"}
_PRODUCTS = r"^aten::(mm|addmm|bmm)$"
_SINGLE = r"^aten::(exp|log|sin|cos|tanh|sigmoid|relu|gelu|silu|sqrt|abs|neg|softmax|_softmax|mul|add|sub|div)$"
_CONVOLUTIONS = r"^aten::convolution$"


class Call(NamedTuple):
    """One op with the shapes of its tensors, their type, its calls in each step, and values of other inputs."""

    op: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    each_step: float
    values: tuple[str, ...] = ()


class TrialPlan(NamedTuple):
    """What to try: ``kind`` chooses how, and ``name`` is that of an optimizer.

    ``threads`` are those of ops in the recording, and ``cores`` those that its process could use; None if unknown.
    """

    kind: str
    calls: tuple[Call, ...]
    name: str = ""
    threads: int | None = None
    cores: int | None = None
    on_device: bool = False


def plan_trial(trace: Trace, advice: Advice) -> TrialPlan:
    """Return what to measure for a piece of advice.

    Raises ``ValueError`` if its rule cannot be tried without the user's data, or if shapes were not recorded.
    """
    plan = _PLANS.get(advice.rule)
    if plan is None:
        raise ValueError(f"{advice.rule} cannot be tried without your data; these can: {', '.join(_PLANS)}")
    if not trace.meta.has_shapes:
        raise ValueError("trying advice needs the shapes of the ops; record them with --shapes")
    found = plan(trace)
    if not found.calls:
        raise ValueError("the recording does not tell the shapes that this needs")
    elements = sum(int(np.prod(shape)) for call in found.calls for shape in call.shapes)
    if elements > MOST_ELEMENTS:
        raise ValueError(
            f"the tensors of this trial have {format_count(elements)} elements; at most "
            f"{format_count(MOST_ELEMENTS)} are tried"
        )
    return found._replace(on_device=trace.has_device, threads=trace.meta.cpu_threads, cores=trace.meta.cpu_cores)


def _optimizer(trace: Trace) -> TrialPlan:
    name, rows = updates_of(trace)
    shapes = [_dims(text)[:1] for text in trace.events["shapes"].gather(rows).cast(pl.String).to_list()]
    known = tuple(shape[0] for shape in shapes if shape)
    return TrialPlan("optimizer", (Call("step", known, "float32", 1.0),) if known else (), name=name)


def _threads(trace: Trace) -> TrialPlan:
    return TrialPlan("threads", _calls(trace, rf"{_PRODUCTS}|{_SINGLE}"))


def _precision(trace: Trace) -> TrialPlan:
    return TrialPlan("autocast", tuple(call for call in _calls(trace, _PRODUCTS) if call.dtype == "float32"))


def _layout(trace: Trace) -> TrialPlan:
    calls = _calls(trace, _CONVOLUTIONS)
    return TrialPlan("channels_last", tuple(call for call in calls if len(call.shapes[0]) == 4))  # noqa: PLR2004 - images


def _attention(trace: Trace) -> TrialPlan:
    first, second = attention_calls(trace)
    pairs = zip(
        *(trace.events["shapes"].gather(rows).cast(pl.String).to_list() for rows in (first, second)), strict=True
    )
    counts: dict[tuple[tuple[int, ...], ...], int] = {}
    for scores, values in pairs:
        left, right = _dims(scores)[:2], _dims(values)[:2]
        if len(left) == len(right) == 2 and len(left[0]) == len(right[1]):  # noqa: PLR2004 - two matrices
            key = (left[0], (*left[1][:-2], left[1][-1], left[1][-2]), right[1])
            counts[key] = counts.get(key, 0) + 1
    steps = chosen_steps(trace).steps
    calls = tuple(Call("attention", shapes, "float32", times / steps) for shapes, times in counts.items())
    return TrialPlan("attention", calls[:MOST_CALLS])


_PLANS: dict[str, Callable[[Trace], TrialPlan]] = {
    "single_tensor_optimizer": _optimizer,
    "oversubscribed_threads": _threads,
    "undersubscribed_threads": _threads,
    "autocast": _precision,
    "channels_last": _layout,
    "attention_unfused": _attention,
}


def _calls(trace: Trace, pattern: str) -> tuple[Call, ...]:
    """Return the distinct calls with the most time, of which shapes and types are known."""
    rows = rows_named(trace, pattern)
    frame = trace.events[rows.tolist()].select(
        *(pl.col(name).cast(pl.String) for name in ("name", "shapes", "dtypes", "concrete_inputs")), "dur_ns"
    )
    keys = ("name", "shapes", "dtypes", "concrete_inputs")
    sums = frame.group_by(keys).agg(pl.len().alias("count"), pl.col("dur_ns").sum()).sort("dur_ns", descending=True)
    steps = chosen_steps(trace).steps
    found = (_call(row, steps) for row in sums.head(MOST_CALLS).iter_rows(named=True))
    return tuple(call for call in found if call is not None)


def _call(row: dict[str, Any], steps: int) -> Call | None:
    shapes, types = _dims(row["shapes"]), _texts(row["dtypes"])
    known = [TYPES[name] for name in types if name in TYPES]
    if not shapes or not known:
        return None
    op = str(row["name"]).removeprefix("aten::")
    return Call(op, shapes, known[0], row["count"] / steps, _texts(row["concrete_inputs"]))


def _dims(text: object) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the tensors in the recorded inputs, without those of other inputs."""
    return tuple(tuple(shape) for shape in _parsed(text) if _is_shape(shape))


def _is_shape(shape: object) -> bool:
    is_list = isinstance(shape, list) and 0 < len(shape) <= MOST_DIMS
    return is_list and all(isinstance(size, int) and size > 0 for size in shape)  # type: ignore[attr-defined]


def _texts(text: object) -> tuple[str, ...]:
    return tuple(str(value) for value in _parsed(text))


def _parsed(text: object) -> list[Any]:
    try:
        found = json.loads(str(text)) if text is not None else []
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []
