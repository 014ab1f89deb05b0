"""FLOPs of each op, from the recorded shapes of its inputs.

The formulas are those of ``torch.utils.flop_counter``, written out because reading a trace must not import torch.
"""

from __future__ import annotations

import json
from math import prod
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_work import is_captured, replayed_calls
from torchprof_magic.facts.ops.calls import op_rows
from torchprof_magic.facts.shared import ask_event_names, in_category, once_for_the_whole, once_per_trace
from torchprof_magic.model.intervals import nearest_marked
from torchprof_magic.model.rows import are_known, filled
from torchprof_magic.model.trace import DEVICE_CATEGORIES, MAX_SUM

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

Dims: TypeAlias = list[int]
_CALL = ("name", "shapes", "concrete_inputs")


class Inputs(NamedTuple):
    """The inputs of one call, by position: ``shapes`` of tensors, and ``values`` of what is not a tensor, as text."""

    shapes: list[object]
    values: list[object]

    def dims(self, place: int, count: int | None = None) -> Dims:
        """Return the dimensions of a tensor; raise ``ValueError`` unless it is one, with ``count`` of them if given."""
        found = self.shapes[place]
        if not isinstance(found, list) or not found or not all(type(each) is int and each >= 0 for each in found):
            raise ValueError(f"input {place} is no tensor")
        if count is not None and len(found) != count:
            raise ValueError(f"input {place} has {len(found)} dimensions")
        return found

    def flags(self, place: int) -> list[bool]:
        """Return one or several values that are true or false; raise ``ValueError`` for others."""
        found = self._value(place)
        each = found if isinstance(found, list) else [found]
        flags = [flag for flag in each if isinstance(flag, bool)]
        if len(flags) != len(each):
            raise ValueError(f"input {place} is not true or false")
        return flags

    def numbers(self, place: int, count: int) -> Dims:
        """Return ``count`` whole numbers, of which one may stand for all; raise ``ValueError`` for others."""
        found = self._value(place)
        if not isinstance(found, list) or not all(type(each) is int for each in found):
            raise ValueError(f"input {place} is no list of numbers")
        if len(found) not in (1, count):
            raise ValueError(f"input {place} has {len(found)} numbers")
        return found * count if len(found) == 1 else found

    def _value(self, place: int) -> object:
        # torch writes them as Python does: [2, 2], False.
        return json.loads(str(self.values[place]).lower())


def _product(left: Dims, right: Dims) -> int:
    """Return the FLOPs of a product of matrices, or of two batches of them."""
    *batch, rows, inner = left
    *other_batch, other_inner, columns = right
    if batch != other_batch or inner != other_inner:
        raise ValueError("the inputs do not fit to one another")
    return prod(batch) * rows * columns * 2 * inner


def _matmul(inputs: Inputs, first: int, count: int) -> int:
    return _product(inputs.dims(first, count), inputs.dims(first + 1, count))


def _output_extent(inputs: Inputs, extent: Dims, kernel: Dims) -> Dims:
    """Return the output of a convolution without its batch and channels."""
    stride, padding, dilation = (inputs.numbers(place, len(extent)) for place in (3, 4, 5))
    sizes = zip(extent, kernel, stride, padding, dilation, strict=True)
    return [(size + 2 * pad - dilate * (taps - 1) - 1) // step + 1 for size, taps, step, pad, dilate in sizes]


def _convolution(inputs: Inputs) -> int:
    """Count each weight once for each point of the output, or of the input if it is transposed."""
    batch, _, *extent = inputs.dims(0)
    weight = inputs.dims(1, len(extent) + 2)
    (is_transposed,) = inputs.flags(6)
    points = extent if is_transposed else _output_extent(inputs, extent, weight[2:])
    if min(points, default=0) < 0:
        raise ValueError("the kernel is larger than the input")
    return 2 * batch * prod(points) * prod(weight)


def _convolution_backward(inputs: Inputs) -> int:
    """Count the gradients that were asked for: of the input, and of the weight."""
    batch, channels, *points = inputs.dims(0)
    input_batch, input_channels, *extent = inputs.dims(1, len(points) + 2)
    weight = inputs.dims(2, len(points) + 2)
    (is_transposed,) = inputs.flags(7)
    needs_input, needs_weight, _ = inputs.flags(10)
    flops = 0
    if needs_input:
        flops += 2 * batch * prod(extent if is_transposed else points) * prod(weight)
    if needs_weight and is_transposed:
        flops += 2 * channels * prod(weight[2:]) * input_batch * input_channels * prod(extent)
    elif needs_weight:
        flops += 2 * input_channels * prod(weight[2:]) * batch * channels * prod(points)
    return flops


def _attention(inputs: Inputs, first: int) -> tuple[int, int, int, int, int]:
    """Return the number of heads of a batch, and the sizes of query, key, and of their and the value's features."""
    query, key, value = (inputs.dims(first + place, 4) for place in range(3))
    batch, heads, queries, features = query
    _, shared_heads, keys, values = value
    if key != [batch, shared_heads, keys, features] or value[0] != batch:
        raise ValueError("the inputs do not fit to one another")
    if shared_heads == 0 or heads % shared_heads:
        raise ValueError("the heads do not fit to one another")
    return batch * heads, queries, keys, features, values


def _attention_forward(inputs: Inputs) -> int:
    """Count the scores, and their product with the value; a mask saves nothing, as in torch."""
    heads, queries, keys, features, values = _attention(inputs, 0)
    return 2 * heads * queries * keys * (features + values)


def _attention_backward(inputs: Inputs) -> int:
    """Count the scores once more, and two products for each of the two of the forward pass."""
    heads, queries, keys, features, values = _attention(inputs, 1)
    return 2 * heads * queries * keys * (3 * features + 2 * values)


_ATTENTION = "aten::_scaled_dot_product_{}_attention{}"
FORMULAS: dict[str, Callable[[Inputs], int]] = {
    "aten::mm": lambda inputs: _matmul(inputs, 0, 2),
    "aten::addmm": lambda inputs: _matmul(inputs, 1, 2),
    "aten::bmm": lambda inputs: _matmul(inputs, 0, 3),
    "aten::baddbmm": lambda inputs: _matmul(inputs, 1, 3),
    "aten::_scaled_mm": lambda inputs: _matmul(inputs, 0, 2),
    "aten::convolution": _convolution,
    "aten::_convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    **{_ATTENTION.format(kind, ""): _attention_forward for kind in ("efficient", "flash", "cudnn")},
    **{_ATTENTION.format(kind, "_backward"): _attention_backward for kind in ("efficient", "flash", "cudnn")},
    # torch's counter lacks those of the CPU, which take the same inputs.
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention_forward,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
}


def flops_of(name: str, shapes: str, concrete_inputs: str | None = None) -> int | None:
    """Return the FLOPs of one call from what was recorded of its inputs; None if they cannot be told."""
    try:
        dims, values = json.loads(shapes), json.loads(concrete_inputs or "[]")
        flops = FORMULAS[name](Inputs(dims, values)) if isinstance(dims, list) and isinstance(values, list) else -1
    except (ValueError, LookupError, ArithmeticError, RecursionError):
        return None
    return flops if 0 <= flops <= MAX_SUM else None


@once_for_the_whole
def flops_in(trace: Trace, part: TimeRange) -> pl.Series:
    """Return the FLOPs of each event that begins in a part, null where they are not known and for events elsewhere.

    An op inside another one with known FLOPs has none of its own, so the sum counts each operation once. An op that
    was captured into a graph has those of the replays that begin in the part, as nothing ran when it was captured.
    """
    flops = flops_of_calls(trace)
    begun = part.holds(trace.events["start_ns"].to_numpy())
    times = np.where(is_captured(trace), replayed_calls(trace, part, any_of_it=False), begun)
    is_beyond = filled(flops, 0) > MAX_SUM // np.maximum(times, 1)
    return _summable(flops.set(pl.Series(is_beyond | (times == 0)), None) * pl.Series(times)).alias("flops")


@once_per_trace
def flops_of_calls(trace: Trace) -> pl.Series:
    """Return the FLOPs of each event, once, null where they are not known; of ops inside others as ``flops_in``."""
    events = trace.events
    has_formula = ask_event_names(trace, pl.col("name").is_in(list(FORMULAS))).astype(np.bool_)
    rows = np.flatnonzero(has_formula & in_category(trace, "cpu_op") & are_known(events["shapes"]))
    found = _flops_of_calls(events.select(_CALL)[rows])
    is_known = are_known(found)
    rows, found = rows[is_known], found.drop_nulls()
    is_outermost = _is_outermost(trace, rows)
    flops = pl.Series("flops", [None], dtype=pl.Int64).new_from_index(0, events.height)
    return flops.scatter(rows[is_outermost], _summable(found.filter(pl.Series(is_outermost))))


def _flops_of_calls(calls: pl.DataFrame) -> pl.Series:
    """Return the FLOPs of each call; a trace has millions of them but few distinct ones."""
    distinct = calls.unique()
    texts = distinct.select(pl.all().cast(pl.String)).rows()
    flops = pl.Series("flops", [flops_of(*each) for each in texts], dtype=pl.Int64)
    known = distinct.with_columns(flops)
    return calls.join(known, on=_CALL, how="left", nulls_equal=True, maintain_order="left")["flops"]


def _is_outermost(trace: Trace, rows: IntArray) -> np.ndarray:
    """Return which of these events lie in none of the others."""
    is_known = np.zeros(trace.events.height, np.bool_)
    is_known[rows] = True
    parent = trace.events["parent"].to_numpy()
    around = nearest_marked(parent, trace.events["depth"].to_numpy(), is_known)
    return around[parent[rows]] < 0


def _summable(flops: pl.Series) -> pl.Series:
    """Return the counts; if damaged ones would make a sum too large, without those that are too large for that."""
    if float(flops.cast(pl.Float64).sum()) <= MAX_SUM:
        return flops
    return flops.set((flops > MAX_SUM // len(flops)).fill_null(value=False), None)


def has_flops(trace: Trace) -> bool:
    """Return whether the FLOPs of any op are known."""
    flops = flops_in(trace)
    return flops.null_count() < len(flops)


def modelled_ratio(trace: Trace) -> float | None:
    """Return the share of time that lies in ops with known FLOPs; None if there are none.

    It is a share of all device work, or of the self CPU time of all ops if no device was recorded.
    """
    if not has_flops(trace):
        return None
    ops = op_rows(trace)
    is_known = are_known(flops_in(trace))[ops.row]
    if trace.has_device:
        whole = trace.events.filter(pl.col("category").is_in(DEVICE_CATEGORIES))["dur_ns"].sum()
        known = ops.total_device_ns[is_known].sum()
    else:
        is_op = in_category(trace, "cpu_op")[ops.row]
        whole, known = ops.self_cpu_ns[is_op].sum(), ops.dur_ns[is_known].sum()
    return min(float(known) / max(float(whole), 1.0), 1.0)
