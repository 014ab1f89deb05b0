"""Convolutions, forward and backward."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.facts.ops.formulas.inputs import Inputs, Tensor
from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of, products

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.facts.ops.formulas.inputs import Dims


class _Places(NamedTuple):
    """At which inputs of a convolution's own op what stands that decides on the size of its output."""

    stride: int
    padding: int
    dilation: int | None
    bias: int | None = None


_OF_CONVOLUTION = _Places(3, 4, 5, 2)


def _output_extent(inputs: Inputs, extent: Dims, kernel: Dims, places: _Places = _OF_CONVOLUTION) -> Dims:
    """Return the output of a convolution without its batch and channels."""
    stride, padding = (inputs.numbers(place, len(extent)) for place in places[:2])
    dilation = [1] * len(extent) if places.dilation is None else inputs.numbers(places.dilation, len(extent))
    sizes = zip(extent, kernel, stride, padding, dilation, strict=True)
    return [(size + 2 * pad - dilate * (taps - 1) - 1) // step + 1 for size, taps, step, pad, dilate in sizes]


def _transposed_extent(inputs: Inputs, extent: Dims, kernel: Dims) -> Dims:
    """Return the output of a transposed convolution without its batch and channels."""
    stride, padding, dilation, more = (inputs.numbers(place, len(extent)) for place in (3, 4, 5, 7))
    sizes = zip(extent, kernel, stride, padding, dilation, more, strict=True)
    return [(size - 1) * step - 2 * pad + dilate * (taps - 1) + add + 1 for size, taps, step, pad, dilate, add in sizes]


def _forward(inputs: Inputs) -> Work:
    """Count each weight once for each point of the output, or of the input if it is transposed."""
    if not inputs.values:
        return _by_result(inputs)
    x = inputs.tensor(0)
    batch, _, *extent = x.dims
    weight = inputs.tensor(1, len(extent) + 2)
    (is_transposed,) = inputs.flags(6)
    points = extent if is_transposed else _output_extent(inputs, extent, weight.dims[2:])
    if min(points, default=0) < 0:
        raise ValueError("the kernel is larger than the input")
    flops = 2 * batch * prod(points) * weight.numel
    return products(flops, _moved(inputs, x, weight, points, is_transposed=is_transposed), x.dtype)


def _moved(inputs: Inputs, x: Tensor, weight: Tensor, points: Dims, *, is_transposed: bool) -> int | None:
    try:
        if is_transposed:
            channels = weight.dims[1] * inputs.number(8)
            points = _transposed_extent(inputs, points, weight.dims[2:])
        else:
            channels = weight.dims[0]
        out = Tensor([x.dims[0], channels, *points], x.dtype)
    except (ValueError, LookupError):
        return None
    return bytes_of([x, weight, out, *inputs.tensors(2)])


def _by_result(inputs: Inputs) -> Work:
    """Return the work where only dimensions were recorded, by those of the result, which its backward pass gets."""
    x, weight = inputs.tensor(0), inputs.tensor(1)
    result = next((dims for dims in (inputs.gradient, *inputs.inside) if len(dims) == len(x.dims)), None)
    if result is None or len(weight.dims) != len(x.dims) or result[0] != x.dims[0]:
        raise ValueError("the dimensions of the result are not known")
    is_transposed = result[1] != weight.dims[0]
    if is_transposed and x.dims[1] != weight.dims[0]:
        raise ValueError("the inputs do not fit to one another")
    points = (x.dims if is_transposed else result)[2:]
    moved = bytes_of([x, weight, Tensor(result, x.dtype), *(each for each in inputs.tensors(2) if each.dims)])
    return products(2 * x.dims[0] * prod(points) * weight.numel, moved, x.dtype)


def _own(places: _Places) -> Callable[[Inputs], Work]:
    """Return the formula of the op of one library, which mostly lies inside that of torch."""

    def work(inputs: Inputs) -> Work:
        if not inputs.values:
            return _by_result(inputs)
        x = inputs.tensor(0)
        batch, _, *extent = x.dims
        weight = inputs.tensor(1, len(extent) + 2)
        bias = inputs.tensors(places.bias) if places.bias is not None else []
        points = _output_extent(inputs, extent, weight.dims[2:], places)
        if min(points, default=0) < 0:
            raise ValueError("the kernel is larger than the input")
        out = Tensor([batch, weight.dims[0], *points], x.dtype)
        flops = 2 * batch * prod(points) * weight.numel
        return Work(flops, bytes_of([x, weight, out, *bias]), x.dtype, is_matrix=True)

    return work


def _own_transposed(inputs: Inputs) -> Work:
    x, weight = inputs.tensor(0), inputs.tensor(1)
    if len(x.dims) != len(weight.dims) or x.dims[1] != weight.dims[0]:
        raise ValueError("the inputs do not fit to one another")
    moved = bytes_of([x, weight, Tensor(inputs.gradient, x.dtype)]) if inputs.gradient else None
    return Work(2 * x.dims[0] * prod(x.dims[2:]) * weight.numel, moved, x.dtype, is_matrix=True)


def _backward(inputs: Inputs) -> Work:
    """Count the gradients that were asked for: of the input, and of the weight."""
    if not inputs.values:
        return _unasked_backward(inputs, inputs.tensor(0), inputs.tensor(1))
    gradient = inputs.tensor(0)
    batch, channels, *points = gradient.dims
    x, weight = inputs.tensor(1, len(points) + 2), inputs.tensor(2, len(points) + 2)
    input_batch, input_channels, *extent = x.dims
    (is_transposed,) = inputs.flags(7)
    needs_input, needs_weight, needs_bias = inputs.flags(10)
    flops = 0
    if needs_input:
        flops += 2 * batch * prod(extent if is_transposed else points) * weight.numel
    if needs_weight and is_transposed:
        flops += 2 * channels * prod(weight.dims[2:]) * input_batch * input_channels * prod(extent)
    elif needs_weight:
        flops += 2 * input_channels * prod(weight.dims[2:]) * batch * channels * prod(points)
    # The gradient of the input needs the weight, and that of the weight the input: each is read or written, or both.
    moved = [gradient, *[x, weight] * needs_input, *[x, weight] * needs_weight]
    if needs_bias:
        moved.append(Tensor([channels], gradient.dtype))
    work = products(flops, bytes_of(moved), gradient.dtype)
    # torch counts each output channel with each input channel, although only those of a group meet.
    needed = 2 * batch * prod(extent if is_transposed else points) * weight.numel * (needs_input + needs_weight)
    return work._replace(flops=needed)


def _old_backward(inputs: Inputs) -> Work:
    """Count both gradients of an op of torch up to 1.10, whose inputs are in another order."""
    return _unasked_backward(inputs, inputs.tensor(1), inputs.tensor(0))


def _unasked_backward(inputs: Inputs, gradient: Tensor, x: Tensor) -> Work:
    """Count both gradients, where it was not recorded which were asked for."""
    weight = inputs.tensor(2, len(gradient.dims))
    is_transposed = gradient.dims[1] != weight.dims[0]
    points = (x if is_transposed else gradient).dims[2:]
    of_one = 2 * gradient.dims[0] * prod(points) * weight.numel
    groups = (gradient if is_transposed else x).dims[1] // max(weight.dims[1], 1)
    moved = bytes_of([gradient, x, weight, x, weight])
    # torch counts each output channel with each input channel for the gradient of the weight.
    return products(of_one * (1 + groups), moved, gradient.dtype, needed=2 * of_one)


_FORWARD_FLOPS = "2 · batch · points of the output (of the input if it is transposed) · elements of the weight"
_FORWARD_MOVES = "input, weight, bias and output"
_BY_RESULT = (
    "; where only dimensions were recorded, by those of the gradient in the backward pass, or of what the bias is "
    "added to"
)


def _library(places: _Places, *ops: str) -> Formula:
    return Formula(
        group="Convolutions",
        ops=ops,
        flops=f"{_FORWARD_FLOPS}{_BY_RESULT}",
        moves=_FORWARD_MOVES,
        work=_own(places),
        inside="aten::add_",
    )


FORMULAS = (
    Formula(
        group="Convolutions",
        ops=("aten::convolution", "aten::_convolution"),
        flops=f"{_FORWARD_FLOPS}{_BY_RESULT}",
        moves=_FORWARD_MOVES,
        work=_forward,
        is_counted=True,
        inside="aten::add_",
    ),
    Formula(
        group="Convolutions",
        ops=("aten::convolution_overrideable",),
        flops=_FORWARD_FLOPS,
        moves=_FORWARD_MOVES,
        work=lambda inputs: _forward(inputs)._replace(counted=None),
    ),
    _library(_Places(3, 2, 4), "aten::cudnn_convolution"),
    _library(
        _Places(4, 3, 5, 2),
        "aten::miopen_convolution",
        "aten::mkldnn_convolution",
        "aten::miopen_depthwise_convolution",
    ),
    _library(_Places(3, 4, 5, 2), "aten::cudnn_convolution_relu", "aten::miopen_convolution_relu"),
    _library(_Places(4, 5, 6, 3), "aten::_conv_depthwise2d", "aten::conv_depthwise3d"),
    _library(_Places(4, 5, None, 3), "aten::_slow_conv2d_forward", "aten::thnn_conv2d", "aten::slow_conv3d_forward"),
    Formula(
        group="Convolutions",
        ops=("aten::cudnn_convolution_transpose", "aten::miopen_convolution_transpose"),
        flops="2 · batch · points of the input · elements of the weight",
        moves="input, weight and output, by the dimensions of its gradient",
        work=_own_transposed,
    ),
    Formula(
        group="Convolutions",
        ops=("aten::convolution_backward",),
        flops="those of the forward pass for each of the gradients of input and weight that is asked for, for both "
        "where only dimensions were recorded; with groups, torch counts more for that of the weight: each output "
        "channel with each input channel",
        moves="the gradient of the output; input and weight once for each of these gradients; the gradient of the bias",
        work=_backward,
        is_counted=True,
    ),
    Formula(
        group="Convolutions",
        ops=("aten::cudnn_convolution_backward", "aten::miopen_convolution_backward"),
        flops="twice those of the forward pass",
        moves="the gradient of the output; input and weight, and the gradient of each",
        work=_old_backward,
        is_counted=True,
    ),
)
