"""Convolutions, forward and backward."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from torchprof_magic.facts.ops.formulas.inputs import Inputs, Tensor
from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of, products

if TYPE_CHECKING:
    from torchprof_magic.facts.ops.formulas.inputs import Dims


def _output_extent(inputs: Inputs, extent: Dims, kernel: Dims) -> Dims:
    """Return the output of a convolution without its batch and channels."""
    stride, padding, dilation = (inputs.numbers(place, len(extent)) for place in (3, 4, 5))
    sizes = zip(extent, kernel, stride, padding, dilation, strict=True)
    return [(size + 2 * pad - dilate * (taps - 1) - 1) // step + 1 for size, taps, step, pad, dilate in sizes]


def _transposed_extent(inputs: Inputs, extent: Dims, kernel: Dims) -> Dims:
    """Return the output of a transposed convolution without its batch and channels."""
    stride, padding, dilation, more = (inputs.numbers(place, len(extent)) for place in (3, 4, 5, 7))
    sizes = zip(extent, kernel, stride, padding, dilation, more, strict=True)
    return [(size - 1) * step - 2 * pad + dilate * (taps - 1) + add + 1 for size, taps, step, pad, dilate, add in sizes]


def _forward(inputs: Inputs) -> Work:
    """Count each weight once for each point of the output, or of the input if it is transposed."""
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


def _backward(inputs: Inputs) -> Work:
    """Count the gradients that were asked for: of the input, and of the weight."""
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
    x, gradient = inputs.tensor(0), inputs.tensor(1)
    weight = inputs.tensor(2, len(gradient.dims))
    needed = 2 * 2 * gradient.dims[0] * prod(gradient.dims[2:]) * weight.numel
    return Work(needed, bytes_of([gradient, x, weight, x, weight]), gradient.dtype, is_matrix=True)


FORMULAS = (
    Formula(
        group="Convolutions",
        ops=("aten::convolution", "aten::_convolution"),
        flops="2 · batch · points of the output (of the input if it is transposed) · elements of the weight",
        moves="input, weight, bias and output",
        work=_forward,
        is_counted=True,
    ),
    Formula(
        group="Convolutions",
        ops=("aten::convolution_backward",),
        flops="those of the forward pass for each of the gradients of input and weight that is asked for; with groups, "
        "torch counts more for that of the weight: each output channel with each input channel",
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
    ),
)
