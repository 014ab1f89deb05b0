"""Reductions, scans, pooling, and losses over classes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from torchprof_magic.facts.ops.formulas.inputs import Inputs, Tensor
from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of
from torchprof_magic.model.dtypes import is_floating, size_of_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.facts.ops.formulas.inputs import Dims

_GROUP = "Reductions"


def _rest(inputs: Inputs, x: Tensor, place: int) -> Dims:
    """Return the dimensions that are left of a tensor; all are reduced where no dimension is given."""
    try:
        found = inputs.value(place)
    except (ValueError, LookupError):
        return []
    chosen = found if isinstance(found, list) else [found]
    if not chosen or not all(type(each) is int and -len(x.dims) <= each < len(x.dims) for each in chosen):
        return []
    reduced = {each % len(x.dims) for each in chosen if isinstance(each, int)}
    return [size for place, size in enumerate(x.dims) if place not in reduced]


def _reduction(
    flops: int = 1, *, dims_at: int = 1, out_dtype: str = "", has_indices: bool = False, is_sum: bool = False
) -> Callable[[Inputs], Work]:
    def work(inputs: Inputs) -> Work:
        x = inputs.tensor(0)
        rest = _rest(inputs, x, dims_at)
        outs = [Tensor(rest, out_dtype or (_summed(x.dtype) if is_sum else x.dtype))]
        if has_indices and rest:
            outs.append(Tensor(rest, "long int"))
        return Work(flops * x.numel, bytes_of([x, *outs]), x.dtype)

    return work


def _summed(dtype: str) -> str:
    """Return the type of a sum: that of its summands, unless these are whole numbers, whose sum has 64 bits."""
    return dtype if is_floating(dtype) or not size_of_type(dtype) else "long int"


def _scan(inputs: Inputs, *, has_indices: bool = False) -> Work:
    x = inputs.tensor(0)
    return Work(x.numel, bytes_of([x, x, *[Tensor(x.dims, "long int")] * has_indices]), x.dtype)


def _norms(inputs: Inputs) -> Work:
    tensors = inputs.listed(0)
    outs = Tensor([len(tensors)], tensors[0].dtype)
    return Work(2 * sum(tensor.numel for tensor in tensors), bytes_of([*tensors, outs]), tensors[0].dtype)


def _pool(inputs: Inputs, *, has_indices: bool, spread: int = 2) -> Work:
    """Return the work of a window over each point of the output, in ``spread`` dimensions."""
    x = inputs.tensor(0)
    spread = min(len(x.dims) - 1, spread)
    kernel = inputs.numbers(1, spread)
    try:
        step = inputs.numbers(2, spread)
    except ValueError:
        step = kernel
    padding = inputs.numbers(3, spread)
    extent = zip(x.dims[-spread:], kernel, step, padding, strict=True)
    points = [(size + 2 * pad - taps) // each + 1 for size, taps, each, pad in extent]
    out = Tensor([*x.dims[:-spread], *points], x.dtype)
    outs = [out, Tensor(out.dims, "long int")] if has_indices else [out]
    return Work(out.numel * prod(kernel), bytes_of([x, *outs]), x.dtype)


def _pool_backward(inputs: Inputs) -> Work:
    gradient, x = inputs.tensor(0), inputs.tensor(1)
    indices = [Tensor(gradient.dims, "long int")]
    return Work(gradient.numel, bytes_of([gradient, *indices, x]), x.dtype)


def _adaptive(inputs: Inputs) -> Work:
    x = inputs.tensor(0)
    points = inputs.value(1)
    if not isinstance(points, list) or not 0 < len(points) < len(x.dims):
        raise ValueError("the size of the output was not recorded")
    return Work(x.numel, bytes_of([x, Tensor([*x.dims[: -len(points)], *points], x.dtype)]), x.dtype)


def _averaged_backward(inputs: Inputs) -> Work:
    gradient, x = inputs.tensor(0), inputs.tensor(1)
    return Work(x.numel, bytes_of([gradient, x]), gradient.dtype)


def _extremes(inputs: Inputs) -> Work:
    x = inputs.tensor(0)
    return Work(2 * x.numel, bytes_of([x, Tensor([2], x.dtype)]), x.dtype)


def _distances(inputs: Inputs) -> Work:
    """Return the work of the distance of each point of the first input from each of the second."""
    one, other = inputs.tensor(0), inputs.tensor(1)
    out = Tensor([*one.dims[:-1], other.dims[-2]], one.dtype)
    return Work(3 * out.numel * one.dims[-1], bytes_of([one, other, out]), one.dtype)


def _nll(inputs: Inputs) -> Work:
    """Return the work of a loss that looks up one element a row."""
    x, target = inputs.tensor(0), inputs.tensor(1)
    return Work(target.numel, bytes_of([Tensor([target.numel], x.dtype), target]), x.dtype)


def _nll_backward(inputs: Inputs) -> Work:
    x, target = inputs.tensor(1), inputs.tensor(2)
    return Work(target.numel, bytes_of([x, target]), x.dtype)


def _row(ops: tuple[str, ...], flops: str, moves: str, work: Callable[[Inputs], Work]) -> Formula:
    return Formula(group=_GROUP, ops=ops, flops=flops, moves=moves, work=work)


_ONCE = "1 an element of the input"
_MOVES, _INDICES = "input and output", "and indices of 8 bytes"
FORMULAS = (
    _row(
        ("aten::sum", "aten::prod", "aten::nansum"),
        _ONCE,
        "input and output, which has 8 bytes an element for whole numbers",
        _reduction(is_sum=True),
    ),
    _row(("aten::mean", "aten::amax", "aten::amin", "aten::logsumexp"), _ONCE, _MOVES, _reduction()),
    _row(
        ("aten::max", "aten::min", "aten::median", "aten::nanmedian"),
        _ONCE,
        "input, output, and indices of 8 bytes",
        _reduction(has_indices=True),
    ),
    _row(("aten::any", "aten::all"), _ONCE, "input, and an output of 1 byte each", _reduction(out_dtype="bool")),
    _row(
        ("aten::argmax", "aten::argmin", "aten::count_nonzero"),
        _ONCE,
        "input, and indices of 8 bytes",
        _reduction(out_dtype="long int"),
    ),
    _row(("aten::norm", "aten::linalg_vector_norm"), "2 an element of the input", _MOVES, _reduction(2, dims_at=2)),
    _row(
        ("aten::var", "aten::std", "aten::var_mean", "aten::std_mean"),
        "4 an element of the input",
        _MOVES,
        _reduction(4),
    ),
    _row(("aten::cumsum", "aten::cumprod", "aten::logcumsumexp"), _ONCE, _MOVES, _scan),
    _row(
        ("aten::cummax", "aten::cummin", "aten::_cummax_helper", "aten::_cummin_helper"),
        _ONCE,
        "input, output, and indices of 8 bytes",
        lambda inputs: _scan(inputs, has_indices=True),
    ),
    _row(("aten::aminmax",), "2 an element of the input", "input and both results", _extremes),
    _row(("aten::_cdist_forward",), "3 for each feature of each pair", "both inputs and the output", _distances),
    _row(
        ("aten::max_pool3d_with_indices",),
        "elements of the window for each element of the output",
        "input, output, and indices of 8 bytes",
        lambda inputs: _pool(inputs, has_indices=True, spread=3),
    ),
    _row(
        ("aten::avg_pool3d",),
        "elements of the window for each element of the output",
        _MOVES,
        lambda inputs: _pool(inputs, has_indices=False, spread=3),
    ),
    _row(
        (
            "aten::avg_pool2d_backward",
            "aten::avg_pool3d_backward",
            "aten::_adaptive_avg_pool2d_backward",
            "aten::_adaptive_avg_pool3d_backward",
        ),
        "1 an element of the gradient of the input",
        "the gradients of output and input",
        _averaged_backward,
    ),
    _row(("aten::_foreach_norm",), "2 an element of the input", "all inputs, and one number each", _norms),
    _row(
        ("aten::max_pool2d_with_indices",),
        "elements of the window for each element of the output",
        "input, output, and indices of 8 bytes",
        lambda inputs: _pool(inputs, has_indices=True),
    ),
    _row(
        ("aten::avg_pool2d",),
        "elements of the window for each element of the output",
        _MOVES,
        lambda inputs: _pool(inputs, has_indices=False),
    ),
    _row(
        ("aten::max_pool2d_with_indices_backward", "aten::max_pool3d_with_indices_backward"),
        "1 an element of the gradient of the output",
        "the gradients of output and input, and indices of 8 bytes",
        _pool_backward,
    ),
    _row(("aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d"), _ONCE, _MOVES, _adaptive),
    _row(("aten::nll_loss_forward", "aten::nll_loss2d_forward"), "1 a row", "one element a row, and the targets", _nll),
    _row(
        ("aten::nll_loss_backward", "aten::nll_loss2d_backward"),
        "1 a row",
        "the gradient of the input, and the targets",
        _nll_backward,
    ),
)
