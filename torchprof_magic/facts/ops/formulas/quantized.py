"""Kernels of inference servers that go once over their tensors: quantisation, activations, and routing of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.facts.ops.formulas.inputs import Inputs

_GROUP = "Quantisation, activations and routing of servers"


def _all(flops: int) -> Callable[[Inputs], Work]:
    """Return the formula of an op whose outputs are among its inputs: all tensors, each once."""

    def work(inputs: Inputs) -> Work:
        tensors = inputs.all_tensors()
        largest = max(tensors, key=lambda each: each.numel)
        return Work(flops * largest.numel, bytes_of(tensors), largest.dtype)

    return work


def _row(ops: tuple[str, ...], flops: int, more: str = "") -> Formula:
    said = f"{flops} an element of the largest tensor{more}"
    return Formula(group=_GROUP, ops=ops, flops=said, moves="all tensors, each once", work=_all(flops))


FORMULAS = (
    _row(
        (
            "_C::static_scaled_fp8_quant",
            "_C::dynamic_scaled_fp8_quant",
            "_C::dynamic_per_token_scaled_fp8_quant",
            "_C::per_token_group_fp8_quant",
            "_C::per_token_group_quant_8bit*",
            "_C::per_token_group_quant_int8",
            "_C::static_scaled_int8_quant",
            "_C::dynamic_scaled_int8_quant",
            "_C::scaled_fp4_quant",
            "sgl_kernel::sgl_per_token_group_quant*",
            "sgl_kernel::sgl_per_token_quant_fp8",
            "sgl_kernel::sgl_per_tensor_quant_fp8",
            "sgl_kernel::scaled_fp4_quant",
            "aiter::dynamic_per_token_scaled_quant",
            "aiter::dynamic_per_tensor_quant",
            "aiter::static_per_tensor_quant",
        ),
        2,
        ": one for the largest value, one to scale",
    ),
    _row(
        (
            "_C::silu_and_mul_quant",
            "_C::silu_and_mul_per_block_quant",
            "_C::persistent_masked_m_silu_mul_quant",
        ),
        3,
    ),
    _row(("_C::gelu_new", "_C::gelu_fast", "_C::gelu_quick"), 1),
    _row(
        (
            "_C::rms_norm_static_fp8_quant",
            "_C::fused_add_rms_norm_static_fp8_quant",
            "_C::rms_norm_dynamic_per_token_quant",
            "_C::rms_norm_per_block_quant",
        ),
        6,
    ),
    _row(
        (
            "_moe_C::topk_softmax",
            "_moe_C::topk_sigmoid",
            "_moe_C::grouped_topk",
            "_moe_C::moe_sum",
            "sgl_kernel::topk_softmax",
            "sgl_kernel::moe_sum*",
            "aiter::topk_softmax",
            "aiter::biased_grouped_topk*",
            "aiter::grouped_topk",
        ),
        5,
    ),
    _row(
        (
            "_moe_C::moe_align_block_size",
            "sgl_kernel::moe_align_block_size",
            "aiter::moe_sorting*",
            "_moe_C::moe_permute",
            "_moe_C::moe_unpermute",
        ),
        0,
    ),
)
