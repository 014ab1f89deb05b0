"""Products of matrices."""

from __future__ import annotations

from math import prod

from torchprof_magic.facts.ops.formulas.inputs import Inputs, Tensor
from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of, products

_GROUP = "Products of matrices"
_FLOPS = "2 · batch · m · n · k"
_MOVES = "both factors and the product"


def _product(left: Tensor, right: Tensor, out_dtype: str = "") -> tuple[int, Tensor]:
    """Return the FLOPs and the result of a product of matrices, or of two batches of them."""
    *batch, rows, inner = left.dims
    *other_batch, other_inner, columns = right.dims
    if batch != other_batch or inner != other_inner:
        raise ValueError("the inputs do not fit to one another")
    return prod(batch) * rows * columns * 2 * inner, Tensor([*batch, rows, columns], out_dtype or left.dtype)


def _matmul(inputs: Inputs, first: int, count: int) -> Work:
    left, right = inputs.tensor(first, count), inputs.tensor(first + 1, count)
    flops, out = _product(left, right)
    added = inputs.tensors(0) if first else []
    return products(flops, bytes_of([*added, left, right, out]), left.dtype)


def _linear(inputs: Inputs) -> Work:
    """Return the work of a product with a transposed weight, which is never nested in torch's own count."""
    left, weight = inputs.tensor(0), inputs.tensor(1, 2)
    flops, out = _product(Tensor([prod(left.dims[:-1]), left.dims[-1]], left.dtype), Tensor(weight.dims[::-1], ""))
    return Work(flops, bytes_of([left, weight, out, *inputs.tensors(2)]), left.dtype, is_matrix=True)


def _scaled(inputs: Inputs) -> Work:
    """Return the work of a product of scaled numbers, whose result has 16 bits unless its type was recorded."""
    left, right = inputs.tensor(0, 2), inputs.tensor(1, 2)
    flops, out = _product(left, right, "c10::BFloat16")
    return products(flops, bytes_of([left, right, out, *inputs.tensors(2, 3, 4)]), left.dtype)


def _into(inputs: Inputs) -> Work:
    """Return the work of a product of the second and third input, which is written into the first."""
    out = inputs.tensor(0, 2)
    flops, _ = _product(inputs.tensor(1, 2), inputs.tensor(2, 2))
    return Work(flops, bytes_of([out, *inputs.tensors(1, 2)]), inputs.dtype(1), is_matrix=True)


def _vector(inputs: Inputs, first: int) -> Work:
    matrix, vector = inputs.tensor(first), inputs.tensor(first + 1, 1)
    if matrix.dims[-1] != vector.dims[0]:
        raise ValueError("the inputs do not fit to one another")
    out = Tensor(matrix.dims[:-1], matrix.dtype)
    return Work(2 * matrix.numel, bytes_of([matrix, vector, out]), matrix.dtype, is_matrix=len(matrix.dims) > 1)


def _grouped(inputs: Inputs) -> Work:
    """Return the work of a product per group of rows (or of the inner dimension), whatever the sizes of the groups."""
    left, right = inputs.tensor(0), inputs.tensor(1)
    *batch, rows, inner = left.dims
    *other, other_inner, columns = right.dims
    if inner != other_inner or len(batch) > 1 or len(other) > 1:
        raise ValueError("the inputs do not fit to one another")
    # Where each factor has the groups, each has a product; where none has, they divide the inner dimension.
    groups = (batch if other else []) if batch or other else inputs.dims(2, 1)
    out = Tensor([*groups, rows, columns], left.dtype)
    times = groups[0] if batch and other else 1
    return Work(2 * times * rows * columns * inner, bytes_of([left, right, out]), left.dtype, is_matrix=True)


FORMULAS = (
    Formula(
        group=_GROUP,
        ops=("aten::mm",),
        flops=_FLOPS,
        moves=_MOVES,
        work=lambda inputs: _matmul(inputs, 0, 2),
        is_counted=True,
    ),
    Formula(
        group=_GROUP,
        ops=("aten::addmm",),
        flops=f"{_FLOPS}; adding the third is part of the product",
        moves=f"{_MOVES}, and what is added",
        work=lambda inputs: _matmul(inputs, 1, 2),
        is_counted=True,
    ),
    Formula(
        group=_GROUP,
        ops=("aten::bmm",),
        flops=_FLOPS,
        moves=_MOVES,
        work=lambda inputs: _matmul(inputs, 0, 3),
        is_counted=True,
    ),
    Formula(
        group=_GROUP,
        ops=("aten::baddbmm",),
        flops=_FLOPS,
        moves=f"{_MOVES}, and what is added",
        work=lambda inputs: _matmul(inputs, 1, 3),
        is_counted=True,
    ),
    Formula(
        group=_GROUP,
        ops=("aten::_scaled_mm",),
        flops=_FLOPS,
        moves="both factors, their scales, and the product with 2 bytes an element",
        work=_scaled,
        is_counted=True,
    ),
    Formula(
        group=_GROUP,
        ops=("aten::mv", "aten::dot", "aten::vdot"),
        flops="2 · m · k",
        moves="the matrix, the vector and the product",
        work=lambda inputs: _vector(inputs, 0),
    ),
    Formula(
        group=_GROUP,
        ops=("aten::addmv", "aten::addmv_"),
        flops="2 · m · k",
        moves="the matrix, the vector and the product",
        work=lambda inputs: _vector(inputs, 1),
    ),
    Formula(
        group=_GROUP,
        ops=("aten::_grouped_mm",),
        flops="2 · rows of all groups · n · k",
        moves="both factors and the product",
        work=_grouped,
    ),
    Formula(
        group=_GROUP,
        ops=("aten::_addmm_activation",),
        flops=_FLOPS,
        moves=f"{_MOVES}, and what is added",
        work=lambda inputs: _matmul(inputs, 1, 2)._replace(counted=None),
    ),
    Formula(
        group=_GROUP,
        ops=(
            "mkldnn::_linear_pointwise",
            "aten::mkldnn_linear",
            "bitsandbytes::int8_linear_matmul",
            "aiter::gemm_a8w8*",
        ),
        flops="2 · rows · n · k, with a weight of n · k",
        moves="the input, the weight, the bias and the product",
        work=_linear,
    ),
    Formula(
        group=_GROUP,
        ops=("_C::cutlass_scaled_mm", "trtllm::cublas_scaled_mm"),
        flops=_FLOPS,
        moves="both factors and the product",
        work=_into,
    ),
)
