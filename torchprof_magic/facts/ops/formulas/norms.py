"""Normalisation and softmax."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from torchprof_magic.facts.ops.formulas.inputs import Inputs, Tensor
from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable

_GROUP = "Normalisation and softmax"


def _norm(
    count: Callable[[Inputs, Tensor], int], *, weights: tuple[int, ...], training: int | None = None
) -> Callable[[Inputs], Work]:
    """Return the formula of a norm that has the statistics of ``count`` groups; its output is like its input.

    One operation for the mean, three for the variance, two to normalise, and one for the weight and the bias each;
    two for the statistics of each group, which are written with 4 bytes each. Where input ``training`` is false, those
    of the running statistics, which are read, are not computed.
    """

    def work(inputs: Inputs) -> Work:
        x = inputs.tensor(0)
        parameters = inputs.tensors(*weights)
        groups = count(inputs, x)
        has_statistics = training is not None and str(inputs.values[training : training + 1]).lower() == "['false']"
        flops = (2 if has_statistics else 6) + min(len(parameters), 2)
        flops = flops * x.numel + 2 * groups
        statistics = Tensor([2 * groups], "float")
        return Work(flops, bytes_of([x, x, *parameters, statistics]), x.dtype)

    return work


def _norm_backward(
    count: Callable[[Inputs, Tensor], int], *, x: int, gradient: int = 0, weight: int
) -> Callable[[Inputs], Work]:
    """Return the formula of the backward pass of such a norm.

    Two operations to normalise anew, one for the weight, three for both sums, four for the gradient of the input, and
    three for those of weight and bias.
    """

    def work(inputs: Inputs) -> Work:
        given, of_out = inputs.tensor(x), inputs.tensor(gradient)
        parameters = inputs.tensors(weight)
        statistics = Tensor([2 * count(inputs, given)], "float")
        # The gradients of weight and bias are as large as these.
        moved = [given, given, of_out, statistics, *parameters, *parameters, *parameters]
        return Work((10 + 3 * bool(parameters)) * given.numel, bytes_of(moved), given.dtype)

    return work


def _rows(shape: int) -> Callable[[Inputs, Tensor], int]:
    """Return how many rows a layer norm has, of which input ``shape`` says the last dimensions."""

    def count(inputs: Inputs, x: Tensor) -> int:
        try:
            size = inputs.value(shape)
        except (ValueError, LookupError):
            size = None
        dims = len(size) if isinstance(size, list) and size else 1
        return prod(x.dims[:-dims]) if len(x.dims) > dims else 1

    return count


def _channels(_: Inputs, x: Tensor) -> int:
    return x.dims[1]


def _of_batch(place: int) -> Callable[[Inputs, Tensor], int]:
    """Return how many groups of channels a group norm has, in all samples; input ``place`` says how many in each."""

    def count(inputs: Inputs, x: Tensor) -> int:
        return x.dims[0] * inputs.number(place)

    return count


def _rms(x: int, moved: tuple[int, ...], weight: int, *, adds: bool = False) -> Callable[[Inputs], Work]:
    """Return the formula of an RMS norm: four operations an element, two a row, and one where it adds the residual.

    ``moved`` are the inputs that are read or written, with one twice where it is both, or where the output, which is
    like the input, is not among them.
    """

    def work(inputs: Inputs) -> Work:
        given = inputs.tensor(x)
        flops = (4 + adds) * given.numel + 2 * prod(given.dims[:-1])
        return Work(flops, bytes_of(inputs.tensors(*moved, weight)), given.dtype)

    return work


def _rms_backward(inputs: Inputs) -> Work:
    gradient, x = inputs.tensor(0), inputs.tensor(1)
    weight = inputs.tensors(4)
    return Work((8 + 2 * bool(weight)) * x.numel, bytes_of([gradient, x, x, *weight, *weight]), x.dtype)


def _given_statistics(inputs: Inputs) -> Work:
    x, parameters = inputs.tensor(0), inputs.tensors(1, 2)
    statistics = Tensor([2 * x.dims[1]], "float")
    flops = (2 + len(parameters)) * x.numel + 2 * x.dims[1]
    return Work(flops, bytes_of([x, x, *parameters, statistics]), x.dtype)


def _statistics(inputs: Inputs) -> Work:
    x = inputs.tensor(0)
    return Work(4 * x.numel + 2 * x.dims[1], bytes_of([x, Tensor([2 * x.dims[1]], "float")]), x.dtype)


def _synchronised_backward(inputs: Inputs, *, writes: bool) -> Work:
    """Return the work of one of the two halves of the backward pass of a batch norm over several devices."""
    gradient, x = inputs.tensor(0), inputs.tensor(1)
    moved = [gradient, x, *[x] * writes, Tensor([4 * x.dims[1]], "float")]
    return Work((6 if writes else 4) * x.numel, bytes_of(moved), x.dtype)


def _softmax(inputs: Inputs) -> Work:
    x = inputs.tensor(0)
    # The third input is true where 16 bits become 32.
    out = Tensor(x.dims, "float") if inputs.is_true(2) else x
    return Work(5 * x.numel, bytes_of([x, out]), x.dtype)


def _masked_softmax(inputs: Inputs) -> Work:
    x, mask = inputs.tensor(0), inputs.tensor(1)
    return Work(6 * x.numel, bytes_of([x, mask, x]), x.dtype)


def _softmax_backward(inputs: Inputs) -> Work:
    gradient, out = inputs.tensor(0), inputs.tensor(1)
    return Work(4 * gradient.numel, bytes_of([gradient, out, Tensor(gradient.dims, inputs.dtype(0))]), gradient.dtype)


_NORM_FLOPS = "6 an element, and one more each for a weight and a bias; 2 for each mean and variance"
_NORM_MOVES = "input, output, weight, bias; mean and variance with 4 bytes each"
_BACK_FLOPS = "10 an element, and 3 more with a weight"
_BACK_MOVES = (
    "input and its gradient, the gradient of the output, statistics, weight and the gradients of weight and bias"
)
_RMS_FLOPS = "4 an element, 2 a row"


def _row(ops: tuple[str, ...], flops: str, moves: str, work: Callable[[Inputs], Work]) -> Formula:
    return Formula(group=_GROUP, ops=ops, flops=flops, moves=moves, work=work)


FORMULAS = (
    _row(("aten::native_layer_norm",), _NORM_FLOPS, _NORM_MOVES, _norm(_rows(1), weights=(2, 3))),
    _row(
        ("aten::native_layer_norm_backward",),
        _BACK_FLOPS,
        _BACK_MOVES,
        _norm_backward(_rows(2), x=1, weight=5),
    ),
    _row(
        (
            "aten::native_batch_norm",
            "aten::cudnn_batch_norm",
            "aten::miopen_batch_norm",
            "aten::_native_batch_norm_legit",
        ),
        f"{_NORM_FLOPS}; 4 an element less where statistics are given",
        _NORM_MOVES,
        _norm(_channels, weights=(1, 2), training=5),
    ),
    _row(("aten::_batch_norm_with_update",), _NORM_FLOPS, _NORM_MOVES, _norm(_channels, weights=(1, 2))),
    _row(
        ("aten::_native_batch_norm_legit_no_training", "aten::_batch_norm_no_update", "aten::batch_norm_elemt"),
        "2 an element, and one more each for a weight and a bias; 2 for each channel",
        "input, output, weight, bias; mean and variance with 4 bytes each",
        _given_statistics,
    ),
    _row(
        ("aten::batch_norm_stats",),
        "4 an element, 2 for each channel",
        "input; mean and variance with 4 bytes each",
        _statistics,
    ),
    _row(
        ("aten::batch_norm_backward_reduce",),
        "4 an element",
        "input, the gradient of the output, and four numbers of 4 bytes for each channel",
        lambda inputs: _synchronised_backward(inputs, writes=False),
    ),
    _row(
        ("aten::batch_norm_backward_elemt",),
        "6 an element",
        "input and its gradient, the gradient of the output, and four numbers of 4 bytes for each channel",
        lambda inputs: _synchronised_backward(inputs, writes=True),
    ),
    _row(
        ("aten::native_batch_norm_backward", "aten::batch_norm_backward"),
        _BACK_FLOPS,
        _BACK_MOVES,
        _norm_backward(_channels, x=1, weight=2),
    ),
    _row(
        ("aten::cudnn_batch_norm_backward", "aten::miopen_batch_norm_backward"),
        _BACK_FLOPS,
        _BACK_MOVES,
        _norm_backward(_channels, x=0, gradient=1, weight=2),
    ),
    _row(("aten::native_group_norm",), _NORM_FLOPS, _NORM_MOVES, _norm(_of_batch(6), weights=(1, 2))),
    _row(
        ("aten::native_group_norm_backward",),
        _BACK_FLOPS,
        _BACK_MOVES,
        _norm_backward(_of_batch(8), x=1, weight=4),
    ),
    _row(("aten::_fused_rms_norm",), _RMS_FLOPS, "input, output and weight", _rms(0, (0, 0), 2)),
    _row(
        ("aten::_fused_rms_norm_backward",),
        "8 an element, and 2 more with a weight",
        "input and its gradient, the gradient of the output, weight and its gradient",
        _rms_backward,
    ),
    _row(
        ("aiter::rms_norm", "aiter::rmsnorm2d_fwd"),
        _RMS_FLOPS,
        "input, output and weight",
        _rms(0, (0, 0), 1),
    ),
    _row(
        ("_C::rms_norm", "aiter::rmsnorm", "sgl_kernel::rmsnorm", "sgl_kernel::gemma_rmsnorm", "aiter::rms_norm_cu"),
        _RMS_FLOPS,
        "input, output and weight",
        _rms(1, (0, 1), 2),
    ),
    _row(
        ("_C::fused_add_rms_norm", "sgl_kernel::fused_add_rmsnorm", "sgl_kernel::gemma_fused_add_rmsnorm"),
        f"{_RMS_FLOPS}; 1 an element to add the residual",
        "input and residual, read and written, and weight",
        _rms(0, (0, 0, 1, 1), 2, adds=True),
    ),
    _row(
        ("aiter::rmsnorm2d_fwd_with_add", "aiter::rmsnorm2d_fwd_with_add_ck", "aiter::add_rmsnorm"),
        f"{_RMS_FLOPS}; 1 an element to add the residual",
        "input, output, the residual before and after, and weight",
        _rms(1, (0, 1, 2, 3), 4, adds=True),
    ),
    _row(("aten::_masked_softmax",), "6 an element", "input, mask and output", _masked_softmax),
    _row(("aten::_softmax", "aten::_safe_softmax", "aten::_log_softmax"), "5 an element", "input and output", _softmax),
    _row(
        ("aten::_softmax_backward_data", "aten::_log_softmax_backward_data"),
        "4 an element",
        "output, its gradient and the gradient of the input",
        _softmax_backward,
    ),
)
