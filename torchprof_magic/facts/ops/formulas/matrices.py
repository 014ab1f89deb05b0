"""Products of matrices."""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

from torchprof_magic.facts.ops.formulas.inputs import Inputs, Tensor
from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of, products
from torchprof_magic.model.dtypes import size_of_type

if TYPE_CHECKING:
    from collections.abc import Callable

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


def _sum_of_products(inputs: Inputs) -> Work:
    """Return the work of the sum of the products of a batch."""
    left, right = inputs.tensor(1, 3), inputs.tensor(2, 3)
    flops, out = _product(left, right)
    moved = bytes_of([*inputs.tensors(0), left, right, Tensor(out.dims[1:], left.dtype)])
    return Work(flops, moved, left.dtype, is_matrix=True)


def _wide(dtype: str) -> str:
    """Return the type of a product of numbers of a type: small ones are scaled, and have a product of 16 bits."""
    return "c10::BFloat16" if size_of_type(dtype) == 1 else dtype


def _linear(inputs: Inputs, *, packed: int = 1, out_dtype: str = "") -> Work:
    """Return the work of a product with a transposed weight; ``packed`` numbers of both share a byte."""
    left, weight = inputs.tensor(0), inputs.tensor(1, 2)
    flops, out = _product(Tensor([prod(left.dims[:-1]), left.dims[-1]], left.dtype), Tensor(weight.dims[::-1], ""))
    out = Tensor(out.dims, out_dtype or _wide(left.dtype))
    kind = "Float4_e2m1fn_x2" if packed > 1 else left.dtype
    return Work(flops * packed, bytes_of([left, weight, out, *inputs.tensors(2)]), kind, is_matrix=True)


def _packed_weight(columns: Callable[[Inputs, int, int], int]) -> Callable[[Inputs], Work]:
    """Return the formula of a product with a weight in fewer bits, whose number of columns something else tells.

    Numbers are computed in the type of the input; all other tensors, the weight among them, are read once.
    """

    def work(inputs: Inputs) -> Work:
        left = inputs.tensor(0)
        rows, inner = prod(left.dims[:-1]), left.dims[-1]
        count = columns(inputs, rows, inner)
        out = Tensor([rows, count], left.dtype)
        _, *rest = inputs.all_tensors()
        # The product can be among the inputs.
        read = [each for each in rest if each.dims != out.dims]
        return Work(2 * rows * inner * count, bytes_of([left, *read, out]), left.dtype, is_matrix=True)

    return work


def _columns_of_sizes(inputs: Inputs, rows: int, inner: int) -> int:
    """Return the columns where rows, columns and inner size are inputs one after the other."""
    sizes = [str(value) for value in inputs.values]
    for first, second, third in zip(sizes, sizes[1:], sizes[2:], strict=False):
        if first == str(rows) and third == str(inner) and second.isdecimal():
            return int(second)
    raise ValueError("the sizes were not recorded")


def _template(inputs: Inputs) -> Work:
    """Return the work of a kernel that torch.compile made from its template of a product.

    Its last tensor is the product. Of the others, two are the factors, whose orders in memory are not known.
    """
    *given, out = inputs.all_tensors()
    *batch, rows, columns = out.dims
    for left, right in combinations([each for each in given if len(each.dims) == len(out.dims)], 2):
        for a, b in ((left, right), (right, left)):
            inner = [size for size in a.dims[-2:] if sorted(a.dims[-2:]) == sorted((rows, size))]
            inner = [size for size in inner if sorted(b.dims[-2:]) == sorted((size, columns))]
            if inner and a.dims[:-2] == b.dims[:-2] == batch:
                flops = 2 * prod(batch) * rows * columns * inner[0]
                return Work(flops, bytes_of([*given, out]), a.dtype, is_matrix=True)
    raise ValueError("no two of the tensors are the factors")


def _scaled(inputs: Inputs) -> Work:
    """Return the work of a product of scaled numbers, whose result has 16 bits unless its type was recorded."""
    left, right = inputs.tensor(0, 2), inputs.tensor(1, 2)
    flops, out = _product(left, right, "c10::BFloat16")
    return products(flops, bytes_of([left, right, out, *inputs.tensors(2, 3, 4)]), left.dtype)


def _into(inputs: Inputs) -> Work:
    """Return the work of a product of the second and third input, which is written into the first."""
    out, left, right = (inputs.tensor(place, 2) for place in range(3))
    flops, _ = _product(left, right)
    return Work(flops, bytes_of([out, left, right, *inputs.tensors(3, 4)]), left.dtype, is_matrix=True)


def _fours_into(inputs: Inputs) -> Work:
    """Return the work of a product of numbers of four bits, two in a byte, with a transposed weight."""
    out, left, right = (inputs.tensor(place, 2) for place in range(3))
    flops, _ = _product(left, Tensor(right.dims[::-1], right.dtype))
    moved = bytes_of([out, left, right, *inputs.tensors(3, 4)])
    return Work(2 * flops, moved, "Float4_e2m1fn_x2", is_matrix=True)


def _vector(inputs: Inputs, first: int) -> Work:
    matrix, vector = inputs.tensor(first), inputs.tensor(first + 1, 1)
    if matrix.dims[-1] != vector.dims[0]:
        raise ValueError("the inputs do not fit to one another")
    out = Tensor(matrix.dims[:-1], matrix.dtype)
    return Work(2 * matrix.numel, bytes_of([matrix, vector, out]), matrix.dtype, is_matrix=len(matrix.dims) > 1)


def _grouped(inputs: Inputs, offsets: int = 2) -> Work:
    """Return the work of a product per group of rows (or of the inner dimension), whatever the sizes of the groups."""
    left, right = inputs.tensor(0), inputs.tensor(1)
    *batch, rows, inner = left.dims
    *other, other_inner, columns = right.dims
    if inner != other_inner or len(batch) > 1 or len(other) > 1:
        raise ValueError("the inputs do not fit to one another")
    # Where each factor has the groups, each has a product; where none has, they divide the inner dimension.
    groups = (batch if other else []) if batch or other else inputs.dims(offsets, 1)
    out = Tensor([*groups, rows, columns], _wide(left.dtype))
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
        ops=("aten::addmm_", "aten::_addmm_activation"),
        flops=_FLOPS,
        moves=f"{_MOVES}, and what is added",
        work=lambda inputs: _matmul(inputs, 1, 2)._replace(counted=None),
    ),
    Formula(
        group=_GROUP,
        ops=("aten::baddbmm_",),
        flops=_FLOPS,
        moves=f"{_MOVES}, and what is added",
        work=lambda inputs: _matmul(inputs, 1, 3)._replace(counted=None),
    ),
    Formula(
        group=_GROUP,
        ops=("aten::addbmm", "aten::addbmm_"),
        flops=_FLOPS,
        moves="both factors, what is added, and one product",
        work=_sum_of_products,
    ),
    Formula(
        group=_GROUP,
        ops=("aten::_int_mm",),
        flops=_FLOPS,
        moves="both factors, and the product with 4 bytes an element",
        work=lambda inputs: _matmul(inputs, 0, 2)._replace(
            counted=None, bytes=bytes_of([*inputs.tensors(0, 1), Tensor([inputs.dims(0)[0], inputs.dims(1)[1]], "int")])
        ),
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
        ops=(
            "aten::_scaled_mm_v2",
            "sgl_kernel::fp8_scaled_mm",
            "sgl_kernel::int8_scaled_mm",
            "sgl_kernel::fp8_blockwise_scaled_mm",
            "trtllm::cublas_scaled_mm",
        ),
        flops=_FLOPS,
        moves="both factors, their scales, and the product with 2 bytes an element",
        work=lambda inputs: _scaled(inputs)._replace(counted=None),
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
        ops=("aten::_scaled_grouped_mm",),
        flops="2 · rows of all groups · n · k",
        moves="both factors, and the product with 2 bytes an element",
        work=lambda inputs: _grouped(inputs, offsets=4),
    ),
    Formula(
        group=_GROUP,
        ops=(
            "mkldnn::_linear_pointwise",
            "aten::mkldnn_linear",
            "aten::_weight_int8pack_mm",
            "aiter::gemm_a8w8*",
            "aiter::gemm_a16w16*",
            "vllm::rocm_unquantized_gemm*",
            "vllm::w8a8_block_fp8_matmul*",
            "vllm::w8a8_triton_block_scaled_mm*",
            "vllm::rocm_aiter_gemm_w8a8*",
            "_rocm_C::wvSplitK*",
            "_rocm_C::LLMM1",
        ),
        flops="2 · rows · n · k, with a weight of n · k",
        moves="the input, the weight, the bias and the product, with 2 bytes an element for inputs of one byte",
        work=_linear,
    ),
    Formula(
        group=_GROUP,
        ops=("bitsandbytes::int8_linear_matmul",),
        flops="2 · rows · n · k, with a weight of n · k",
        moves="the input, the weight, and the product with 4 bytes an element",
        work=lambda inputs: _linear(inputs, out_dtype="int"),
    ),
    Formula(
        group=_GROUP,
        ops=("aiter::gemm_a4w4*", "aiter::gemm_afp4wfp4*", "vllm::gemm_with_dynamic_fp4*"),
        flops="2 · rows · n · k, with two numbers in a byte",
        moves="the input, the weight, and the product with 2 bytes an element",
        work=lambda inputs: _linear(inputs, packed=2),
    ),
    Formula(
        group=_GROUP,
        ops=("_C::cutlass_scaled_mm", "_C::cutlass_scaled_mm_azp", "_C::dsv3_fused_a_gemm"),
        flops=_FLOPS,
        moves="both factors, their scales and the product",
        work=_into,
    ),
    Formula(
        group=_GROUP,
        ops=("_C::cutlass_scaled_fp4_mm", "sgl_kernel::cutlass_scaled_fp4_mm"),
        flops="2 · m · n · k, with two numbers in a byte",
        moves="both factors, their scales and the product",
        work=_fours_into,
    ),
    Formula(
        group=_GROUP,
        ops=("_C::marlin_gemm", "_C::gptq_marlin_gemm", "_C::fp8_marlin_gemm", "sgl_kernel::gptq_marlin_gemm"),
        flops="2 · m · n · k, by the sizes that are inputs",
        moves="all tensors, each once, and the product",
        work=_packed_weight(_columns_of_sizes),
    ),
    Formula(
        group=_GROUP,
        ops=("_C::gptq_gemm", "_C::machete_mm", "sgl_kernel::gptq_gemm"),
        flops="2 · rows · n · k, with as many columns as the packed weight has",
        moves="all tensors, each once, and the product",
        work=_packed_weight(lambda inputs, _, __: inputs.dims(1)[-1]),
    ),
    Formula(
        group=_GROUP,
        ops=("_C::awq_gemm",),
        flops="2 · rows · n · k, with as many columns as the scales have",
        moves="all tensors, each once, and the product",
        work=_packed_weight(lambda inputs, _, __: inputs.dims(2)[-1]),
    ),
    Formula(
        group=_GROUP,
        ops=("aten::_weight_int4pack_mm",),
        flops="2 · rows · n · k, with as many columns as the scales have",
        moves="all tensors, each once, and the product",
        work=_packed_weight(lambda inputs, _, __: inputs.dims(3)[1]),
    ),
    Formula(
        group=_GROUP,
        ops=(
            "triton_tem_fused_mm*",
            "triton_tem_fused_addmm*",
            "triton_tem_fused_bmm*",
            "triton_tem_fused_baddbmm*",
            "triton_tem_fused__scaled_mm*",
            "triton_tem_fused_t_*",
            "triton_tem_fused_view_*",
            "triton_tem_fused_permute_*",
            "triton_tem_fused__to_copy_*",
            "triton_mm*",
            "triton_bmm*",
        ),
        flops=_FLOPS,
        moves="all tensors, each once",
        work=_template,
    ),
)
