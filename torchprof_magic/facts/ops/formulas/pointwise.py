"""Elementwise ops, copies and fills: one operation for each element of the output, and each tensor moved once."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from torchprof_magic.facts.ops.formulas.inputs import Inputs, Tensor
from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of
from torchprof_magic.model.dtypes import is_floating, size_of_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchprof_magic.facts.ops.formulas.inputs import Dims

_GROUP = "Elementwise ops, copies and fills"
_ONE = (
    "abs acos acosh angle asin asinh atan atanh bitwise_not ceil cos cosh deg2rad "
    "digamma elu erf erfc erfinv exp exp2 expm1 floor frac gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu "
    "lgamma log log10 log1p log2 log_sigmoid_forward logit mish nan_to_num neg pow reciprocal relu relu6 round rsqrt "
    "sgn sigmoid sign silu sin sinc sinh softplus softshrink sqrt square tan tanh threshold trunc tril triu rrelu "
    "celu selu i0 rad2deg special_entr special_erfcx special_i0e special_i1 special_i1e special_log_ndtr "
    "special_ndtri special_bessel_j0 special_bessel_j1 _conj_physical"
)
_TWO = (
    "clamp_max clamp_min add sub rsub mul div true_divide floor_divide fmod remainder maximum minimum fmax fmin "
    "atan2 hypot logaddexp bitwise_and bitwise_or bitwise_xor __and__ __or__ __xor__ xlogy copysign masked_fill "
    "dropout_backward gelu_backward silu_backward sigmoid_backward tanh_backward threshold_backward elu_backward "
    "hardswish_backward hardtanh_backward hardsigmoid_backward leaky_relu_backward log_sigmoid_backward "
    "softplus_backward mish_backward native_dropout_backward prelu _prelu_kernel glu_jvp logaddexp2 nextafter "
    "heaviside ldexp igamma igammac special_xlog1py special_zeta softshrink_backward hardshrink_backward "
    "logit_backward"
)
_THREE, _THREE_TWICE = (
    "where lerp mse_loss_backward",
    "addcmul addcdiv smooth_l1_loss_backward huber_loss_backward",
)
_CLAMPED = "clamp"
_COMPARING_ONE = "isnan isinf isfinite isposinf isneginf logical_not signbit"
_COMPARING_TWO = "eq ne lt le gt ge logical_and logical_or logical_xor"
_FILLING = "fill_ zero_ normal_ uniform_ bernoulli_ exponential_ random_ log_normal_ cauchy_ geometric_"
# The place of what says how a loss is reduced, and its value for no reduction.
_REDUCED_AT, _NOT_REDUCED = 2, "0"


def _result_type(tensors: Iterable[Tensor]) -> str:
    """Return the type of the result: of the tensors with dimensions, unless only another has fractions."""
    found = [tensor for tensor in tensors if tensor.dtype]
    sized = [tensor for tensor in found if tensor.dims]
    best = max(sized or found, key=_rank, default=None)
    if best is None:
        return ""
    if sized and not is_floating(best.dtype) and any(is_floating(tensor.dtype) for tensor in found):
        return "float"
    return best.dtype


def _rank(tensor: Tensor) -> tuple[bool, int]:
    return is_floating(tensor.dtype), size_of_type(tensor.dtype)


def _broadcast(tensors: Iterable[Tensor]) -> Dims:
    """Return the dimensions of the result of several tensors."""
    dims = [tensor.dims for tensor in tensors]
    width = max(map(len, dims), default=0)
    found = []
    for sizes in zip(*([1] * (width - len(each)) + each for each in dims), strict=True):
        others = {size for size in sizes if size != 1}
        if len(others) > 1:
            raise ValueError("the inputs do not fit to one another")
        found.append(others.pop() if others else 1)
    return found


def _pointwise(places: int, *, flops: int = 1, out_dtype: str = "", in_place: bool = False) -> Callable[[Inputs], Work]:
    def work(inputs: Inputs) -> Work:
        tensors = inputs.tensors(*range(places))
        if not tensors:
            raise ValueError("there is no tensor")
        dims = tensors[0].dims if in_place else _broadcast(tensors)
        dtype = _result_type(tensors)
        out = Tensor(dims, out_dtype or (tensors[0].dtype if in_place else dtype))
        return Work(flops * prod(dims), bytes_of([*tensors, out]), dtype)

    return work


def _copy(inputs: Inputs) -> Work:
    to, source = inputs.tensor(0), inputs.operand(1)
    if source is None:
        raise ValueError("what is copied is not known")
    return Work(0, bytes_of([to, source]), to.dtype)


def _clone(inputs: Inputs) -> Work:
    x = inputs.tensor(0)
    return Work(0, bytes_of([x, x]), x.dtype)


def _fill(inputs: Inputs) -> Work:
    x = inputs.tensor(0)
    return Work(0, bytes_of([x]), x.dtype)


def _cat(inputs: Inputs) -> Work:
    tensors = inputs.listed(0)
    moved = bytes_of([*tensors, *tensors])
    return Work(0, moved, tensors[0].dtype)


def _dropout(inputs: Inputs) -> Work:
    x = inputs.tensor(0)
    return Work(2 * x.numel, bytes_of([x, x, Tensor(x.dims, "bool")]), x.dtype)


def _halved(inputs: Inputs) -> Work:
    """Return the work of an activation of one half of the input, times the other half, into a new tensor."""
    x = inputs.tensor(0)
    out = Tensor([x.numel // 2], x.dtype)
    return Work(3 * out.numel, bytes_of([x, out]), x.dtype)


def _halved_backward(inputs: Inputs) -> Work:
    gradient, x = inputs.tensor(0), inputs.tensor(1)
    return Work(6 * gradient.numel, bytes_of([gradient, x, x]), x.dtype)


def _weighted_backward(inputs: Inputs) -> Work:
    gradient, x, weight = (inputs.tensor(place) for place in range(3))
    return Work(2 * x.numel, bytes_of([gradient, x, x, weight, weight]), x.dtype)


def _loss(inputs: Inputs, flops: int, reduced_at: int) -> Work:
    """Return the work of a loss an element, added up unless it is asked for each."""
    x, target = inputs.tensor(0), inputs.tensor(1)
    is_whole = inputs.values[reduced_at : reduced_at + 1] == [_NOT_REDUCED]
    return Work(flops * x.numel, bytes_of([x, target, x if is_whole else Tensor([], x.dtype)]), x.dtype)


def _loss_backward(inputs: Inputs) -> Work:
    gradient, x, target = (inputs.tensor(place) for place in range(3))
    return Work(5 * x.numel, bytes_of([gradient, x, target, x]), x.dtype)


def _cell(inputs: Inputs) -> Work:
    gates, state, cell = (inputs.tensor(place) for place in range(3))
    moved = [gates, state, cell, cell, cell, gates, *inputs.tensors(3, 4)]
    return Work(30 * cell.numel, bytes_of(moved), cell.dtype)


def _gated(inputs: Inputs) -> Work:
    """Return the work of an activation of one half of the input, times the other half."""
    out, x = inputs.tensor(0), inputs.tensor(1)
    if x.numel != 2 * out.numel:
        raise ValueError("the inputs do not fit to one another")
    return Work(2 * out.numel, bytes_of([out, x]), x.dtype)


def _fused(inputs: Inputs) -> Work:
    """Return the work of a kernel that torch.compile made of several ops: what its tensors tell of its bytes.

    It runs through ``xnumel`` points, and ``rnumel`` for each, of which a tensor can be read or written once each.
    """
    tensors = inputs.all_tensors()
    counts = [int(str(value)) for value in inputs.values if str(value).isdecimal()]
    if not tensors or not counts:
        raise ValueError("the number of points was not recorded")
    points = prod(counts)
    moved = bytes_of(Tensor([min(tensor.numel, points)], tensor.dtype) for tensor in tensors)
    return Work(0, moved, tensors[0].dtype)


def _each(names: str) -> tuple[str, ...]:
    return tuple(f"aten::{name}" for name in names.split())


def _row(ops: tuple[str, ...], flops: str, moves: str, work: Callable[[Inputs], Work]) -> Formula:
    return Formula(group=_GROUP, ops=ops, flops=flops, moves=moves, work=work)


def _both(names: str, places: int, flops: int = 1) -> tuple[Formula, Formula]:
    """Return the rows of ops that return their result, and of the same that write it into the first input."""
    count, moves = f"{flops} an element of the output", "inputs and output; an input that is repeated once"
    out_of_place = _row(_each(names), count, moves, _pointwise(places, flops=flops))
    in_place = _row(
        tuple(f"{name}_" for name in _each(names) if not name.endswith(("_backward", "__"))),
        count,
        f"{moves}, and the first both read and written",
        _pointwise(places, flops=flops, in_place=True),
    )
    return out_of_place, in_place


_BOOLEAN = "inputs, and an output of 1 byte each"
FORMULAS = (
    *_both(_ONE, 1),
    *_both(_TWO, 2),
    *_both(_CLAMPED, 3),
    *_both(_THREE, 3),
    *_both(_THREE_TWICE, 3, flops=3),
    _row(_each(_COMPARING_ONE), "1 an element", "input, and an output of 1 byte each", _pointwise(1, out_dtype="bool")),
    _row(
        _each(_COMPARING_TWO), "1 an element", "inputs, and an output of 1 byte each", _pointwise(2, out_dtype="bool")
    ),
    _row(("aten::copy_",), "none", "what is copied, read once and written once", _copy),
    _row(
        ("aten::flip", "aten::roll", "aten::rot90", "aten::pixel_shuffle", "aten::channel_shuffle"),
        "none",
        "input and output",
        _clone,
    ),
    _row(("aten::glu",), "3 an element of the output", "input and output", _halved),
    _row(
        ("aten::glu_backward",),
        "6 an element of the gradient of the output",
        "input and its gradient, and the gradient of the output",
        _halved_backward,
    ),
    _row(
        ("aten::_prelu_kernel_backward",),
        "2 an element",
        "input and its gradient, the gradient of the output, and the weight and its gradient",
        _weighted_backward,
    ),
    _row(
        ("aten::huber_loss", "aten::soft_margin_loss"),
        "6 an element",
        "both inputs and the loss",
        lambda inputs: _loss(inputs, 6, _REDUCED_AT),
    ),
    _row(
        ("aten::binary_cross_entropy",),
        "6 an element",
        "both inputs and the loss",
        lambda inputs: _loss(inputs, 6, _REDUCED_AT + 1),
    ),
    _row(
        ("aten::binary_cross_entropy_backward",),
        "5 an element",
        "input and its gradient, target, and the gradient of the loss",
        _loss_backward,
    ),
    _row(
        ("aten::_thnn_fused_lstm_cell",),
        "30 for each element of the cell: 5 activations of 4, 4 products and sums, and both biases",
        "the gates of input and state, the cell before and after, the state, and a workspace of all gates",
        _cell,
    ),
    _row(("aten::_fused_dropout",), "2 an element", "input, output, and a mask of 1 byte each", _dropout),
    _row(_each(_FILLING), "none", "the output", _fill),
    _row(("aten::cat", "aten::_cat", "aten::stack"), "none", "all inputs, read once and written once", _cat),
    _row(("aten::native_dropout",), "2 an element", "input, output, and a mask of 1 byte each", _dropout),
    _row(
        (
            "_C::silu_and_mul",
            "_C::mul_and_silu",
            "_C::gelu_and_mul",
            "_C::gelu_tanh_and_mul",
            "_C::fatrelu_and_mul",
            "_C::swigluoai_and_mul",
            "sgl_kernel::silu_and_mul",
            "sgl_kernel::gelu_and_mul",
            "sgl_kernel::gelu_tanh_and_mul",
            "aiter::silu_and_mul",
            "aiter::scaled_silu_and_mul",
            "aiter::gelu_and_mul",
            "aiter::gelu_tanh_and_mul",
        ),
        "2 an element of the output",
        "input and output",
        _gated,
    ),
    _row(
        ("aten::mse_loss", "aten::l1_loss", "aten::smooth_l1_loss"),
        "3 an element",
        "both inputs and the loss",
        lambda inputs: _loss(inputs, 3, _REDUCED_AT),
    ),
    _row(
        ("triton_for_fused*",),
        "not known: the file does not say which operations were fused",
        "each tensor once",
        lambda inputs: Work(0, bytes_of(inputs.all_tensors()), inputs.all_tensors()[0].dtype),
    ),
    _row(
        ("triton_poi_fused*", "triton_red_fused*", "triton_per_fused*", "triton_spl_fused*"),
        "not known: the file does not say which operations were fused",
        "each tensor once, at most as many elements as the kernel has points (`xnumel` · `rnumel`); outputs that are "
        "inputs, too, only once",
        _fused,
    ),
)
