"""Ops on images and signals: interpolation, padding, sampling, and Fourier transforms."""

from __future__ import annotations

from math import log2, prod
from typing import TYPE_CHECKING

from torchprof_magic.facts.ops.formulas.inputs import Inputs, Tensor
from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of
from torchprof_magic.model.dtypes import size_of_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.facts.ops.formulas.inputs import Dims

_GROUP = "Images and signals"
# Multiplications and additions for each element of the output of an interpolation.
_INTERPOLATED = {"nearest": 0, "_nearest_exact": 0, "linear": 3, "bilinear": 7, "trilinear": 15, "bicubic": 31}
_COMPLEX = {"float": "complex float", "double": "complex double", "c10::Half": "complex half"}
# The type of the real part, by the bytes of a complex number.
_REAL = {4: "c10::Half", 8: "float", 16: "double"}


def _whole_numbers(inputs: Inputs, place: int) -> Dims:
    found = inputs.value(place)
    if not isinstance(found, list) or not found or not all(type(each) is int for each in found):
        raise ValueError(f"input {place} is no list of numbers")
    return found


def _resized(flops: int) -> Callable[[Inputs], Work]:
    def work(inputs: Inputs) -> Work:
        x, size = inputs.tensor(0), _whole_numbers(inputs, 1)
        out = Tensor([*x.dims[: -len(size)], *size], x.dtype)
        return Work(flops * out.numel, bytes_of([x, out]), x.dtype)

    return work


def _resized_backward(flops: int) -> Callable[[Inputs], Work]:
    def work(inputs: Inputs) -> Work:
        gradient, size = inputs.tensor(0), _whole_numbers(inputs, 2)
        return Work(flops * gradient.numel, bytes_of([gradient, Tensor(size, gradient.dtype)]), gradient.dtype)

    return work


def _padded(inputs: Inputs) -> Work:
    """Return the work of padding; each two numbers are of one dimension, the last one first."""
    x, padding = inputs.tensor(0), _whole_numbers(inputs, 1)
    out = list(x.dims)
    for place in range(len(padding) // 2):
        out[-1 - place] += padding[2 * place] + padding[2 * place + 1]
    if min(out) < 0:
        raise ValueError("the inputs do not fit to one another")
    return Work(0, bytes_of([x, Tensor(out, x.dtype)]), x.dtype)


def _padded_backward(inputs: Inputs) -> Work:
    gradient, x = inputs.tensor(0), inputs.tensor(1)
    return Work(gradient.numel, bytes_of([gradient, x]), gradient.dtype)


def _sampled(inputs: Inputs) -> Work:
    """Return the work of an image at the points of a grid, each between its neighbours."""
    x, grid = inputs.tensor(0), inputs.tensor(1)
    out = Tensor([*x.dims[:2], *grid.dims[1:-1]], x.dtype)
    neighbours = 2 ** (len(x.dims) - 2)
    return Work(2 * neighbours * out.numel, bytes_of([x, grid, out]), x.dtype)


def _transform(out: Callable[[Inputs, Tensor, int], Tensor], *, share: float) -> Callable[[Inputs], Work]:
    """Return the formula of a Fourier transform: 5 · n · log2 n, of which a real one needs half."""

    def work(inputs: Inputs) -> Work:
        x = inputs.tensor(0)
        places = [place % len(x.dims) for place in _whole_numbers(inputs, 1)]
        result = out(inputs, x, places[-1])
        points = max(x, result, key=lambda each: each.numel)
        length = prod(points.dims[place] for place in places)
        flops = round(5 * share * points.numel * log2(max(length, 1)))
        return Work(flops, bytes_of([x, result]), x.dtype)

    return work


def _half_of(inputs: Inputs, x: Tensor, last: int) -> Tensor:
    dims = list(x.dims)
    if inputs.is_true(3):
        dims[last] = dims[last] // 2 + 1
    return Tensor(dims, _COMPLEX.get(x.dtype, ""))


def _real_of(inputs: Inputs, x: Tensor, last: int) -> Tensor:
    dims = list(x.dims)
    dims[last] = inputs.number(3)
    return Tensor(dims, _REAL.get(size_of_type(x.dtype), ""))


def _row(ops: tuple[str, ...], flops: str, moves: str, work: Callable[[Inputs], Work]) -> Formula:
    return Formula(group=_GROUP, ops=ops, flops=flops, moves=moves, work=work)


def _interpolations() -> list[Formula]:
    rows = []
    for kind, flops in _INTERPOLATED.items():
        sizes = {"linear": "1", "trilinear": "3", "bilinear": "2", "bicubic": "2"}.get(kind, "123")
        names = [f"aten::{'_upsample' if kind[0] == '_' else 'upsample_'}{kind}{size}d" for size in sizes]
        more = [f"aten::_upsample_{kind}2d_aa"] if kind in ("bilinear", "bicubic") else []
        said = f"{flops} an element of the output" if flops else "none"
        rows.append(_row((*names, *more), said, "input and output", _resized(flops)))
        back = tuple(f"{name}_backward" for name in (*names, *more))
        said = f"{max(flops, 1)} an element of the gradient of the output"
        rows.append(_row(back, said, "the gradients of output and input", _resized_backward(max(flops, 1))))
    return rows


_PADS = [f"{kind}_pad{size}d" for kind in ("reflection", "replication") for size in "123"]
FORMULAS = (
    *_interpolations(),
    _row(tuple(f"aten::{name}" for name in _PADS), "none", "input and output", _padded),
    _row(
        tuple(f"aten::{name}_backward" for name in _PADS),
        "1 an element of the gradient of the output",
        "the gradients of output and input",
        _padded_backward,
    ),
    _row(
        ("aten::grid_sampler_2d", "aten::grid_sampler_3d", "aten::cudnn_grid_sampler"),
        "2 for each neighbour of a point, for each element of the output",
        "input, grid and output",
        _sampled,
    ),
    _row(
        ("aten::_fft_c2c",),
        "5 · n · log2 n, with n points of each transform",
        "input and output",
        _transform(lambda _, x, __: x, share=1),
    ),
    _row(("aten::_fft_r2c",), "half of 5 · n · log2 n", "input and output", _transform(_half_of, share=0.5)),
    _row(("aten::_fft_c2r",), "half of 5 · n · log2 n", "input and output", _transform(_real_of, share=0.5)),
)
