"""What ops of inference servers, images, searches and old versions of torch have to do, worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from torchprof_magic.facts.ops.formulas import read_inputs, work_of

F32, BF16, I64, F8, U8 = "float", "c10::BFloat16", "long int", "c10::Float8_e4m3fn", "unsigned char"


def work(op: str, shapes: list[Any], dtypes: list[str], values: list[str] | None = None, **more: str) -> Any:
    return work_of(op, read_inputs(json.dumps(shapes), json.dumps(dtypes), json.dumps(values or []), **more))


@pytest.mark.parametrize(
    ("op", "shapes", "dtypes", "values", "flops", "moved"),
    [
        # tensors without dimensions are one element
        ("aten::add_", [[], [], []], [F32, F32, "Scalar"], [], 1, 12),
        ("aten::mul", [[], []], [F32, "Scalar"], [], 1, 8),
        ("aten::sum", [[4, 5], []], ["bool", ""], [""], 20, 20 + 8),
        ("aten::clamp", [[4], [4], []], [F32, F32, ""], [], 4, 48),
        ("aten::cummax", [[4, 5], []], [F32, "Scalar"], ["", "0"], 20, 160 + 160),
        # products
        ("aten::addmm_", [[3, 5], [3, 4], [4, 5], [], []], [F32] * 3, [], 120, (15 + 12 + 20 + 15) * 4),
        ("aten::addbmm", [[3, 5], [7, 3, 4], [7, 4, 5], [], []], [F32] * 3, [], 840, (30 + 7 * 32) * 4),
        ("aten::_int_mm", [[3, 4], [4, 5]], ["signed char"] * 2, [], 120, 12 + 20 + 60),
        ("aten::_weight_int8pack_mm", [[3, 4], [5, 4], [5]], [BF16, "signed char", BF16], [], 120, 24 + 20 + 30 + 10),
        # the scales of four columns in each of two groups of the inner size
        (
            "aten::_weight_int4pack_mm",
            [[3, 8], [1, 1, 32, 4], [], [2, 4, 2]],
            [BF16, "int", "Scalar", BF16],
            [],
            2 * 3 * 8 * 4,
            48 + 512 + 32 + 24,
        ),
        (
            "aten::_scaled_grouped_mm",
            [[6, 4], [3, 4, 5], [6], [3, 5], [3]],
            [F8, F8, F32, F32, "int"],
            [],
            240,
            24 + 60 + 60,
        ),
        ("aiter::gemm_a8w8_bpreshuffle", [[3, 4], [5, 4], [3, 1]], [F8, F8, F32], [], 120, 12 + 20 + 30 + 12),
        ("aiter::gemm_a4w4_asm", [[3, 2], [5, 2]], [U8, U8], [], 120, 6 + 10 + 30),
        (
            "_C::cutlass_scaled_mm",
            [[3, 5], [3, 4], [4, 5], [3, 1], [1, 5]],
            [BF16, F8, F8, F32, F32],
            [],
            120,
            30 + 12 + 20 + 12 + 20,
        ),
        # two numbers of four bits in a byte
        ("_C::cutlass_scaled_fp4_mm", [[3, 5], [3, 2], [5, 2]], [BF16, U8, U8], [], 120, 30 + 6 + 10),
        (
            "_C::gptq_marlin_gemm",
            [[3, 16], [], [1, 40], [2, 20], [9], [], [], [], [], []],
            [BF16, "", "int", BF16, "int"],
            ["", "", "", "", "", "8", "3", "20", "16", "True"],
            2 * 3 * 20 * 16,
            96 + 160 + 80 + 36 + 120,
        ),
        (
            "_C::awq_gemm",
            [[3, 16], [16, 2], [2, 16], [2, 2]],
            [BF16, "int", BF16, "int"],
            [],
            1536,
            96 + 128 + 64 + 112,
        ),
        # a kernel of torch.compile: the weight lies in memory as columns by rows, the bias is added
        ("triton_tem_fused_addmm_3", [[5], [3, 4], [5, 4], [3, 5]], [BF16] * 4, [], 120, (5 + 12 + 20 + 15) * 2),
        # convolutions of one library
        (
            "aten::cudnn_convolution",
            [[2, 4, 5], [6, 4, 3], [], [], [], [], [], [], []],
            [F32, F32],
            ["", "", "[0]", "[2]", "[1]", "1", "False", "False", "True"],
            2 * 2 * 2 * 72,
            (40 + 72 + 24) * 4,
        ),
        (
            "aten::_slow_conv2d_forward",
            [[1, 2, 4, 4], [3, 2, 3, 3], [], [3], [], []],
            [F32, F32, "", F32],
            ["", "", "[3, 3]", "", "[1, 1]", "[0, 0]"],
            2 * 4 * 54,
            (32 + 54 + 12 + 3) * 4,
        ),
        # only dimensions were recorded: both gradients count
        ("aten::convolution_backward", [[2, 6, 2], [2, 4, 5], [6, 4, 3]], [F32] * 3, [], 4 * 2 * 2 * 72, 248 * 4),
        # attention
        (
            "aten::_efficient_attention_forward",
            [[2, 6, 4, 8]] * 3 + [[]] * 7,
            [BF16] * 3,
            [""] * 9 + ["1"],
            8 * 36 * 16,
            4 * 384 * 2,
        ),
        ("FlashAttnVarlenFunc", [[12, 4, 8]] * 3 + [[3], [3]], [BF16] * 3 + ["int"] * 2, [], 2 * 4 * 72 * 16, 3072),
        ("aiter::mha_bwd", [[2, 6, 4, 8]] * 5, [BF16] * 5, [""] * 8 + ["True"], 8 * 36 * 40, 8 * 384 * 2),
        # norms
        (
            "aten::native_batch_norm",
            [[2, 3, 4], [3], [3], [3], [3], [], [], []],
            [F32] * 5,
            [""] * 5 + ["False"],
            4 * 24 + 6,
            60 * 4,
        ),
        ("aten::batch_norm_stats", [[2, 3, 4], []], [F32], [], 4 * 24 + 6, 120),
        # sorting and selecting
        ("aten::sort", [[2, 3], [], []], [F32], ["", "-1", "False"], 0, 24 + 24 + 48),
        ("aten::topk", [[2, 3], [], [], [], []], [F32], ["", "2", "-1", "True", "True"], 0, 24 + 16 + 32),
        ("aten::_index_put_impl_", [[9, 4], [[3]], [3, 4], [], []], [F32, "", F32], ["", "", "", "True"], 12, 168),
        ("aten::scatter_add", [[9], [], [4], [4]], [F32, "Scalar", I64, F32], [], 4, 72 + 32 + 16),
        # images and signals
        (
            "aten::upsample_bilinear2d",
            [[1, 2, 3, 3], [], [], [], []],
            [F32],
            ["", "[6, 6]", "False", "", ""],
            7 * 72,
            18 * 4 + 72 * 4,
        ),
        ("aten::reflection_pad2d", [[1, 2, 3, 3], []], [F32], ["", "[1, 1, 0, 2]"], 0, 18 * 4 + 50 * 4),
        ("aten::_fft_c2c", [[3, 8], [], [], []], ["c10::complex<float>"], ["", "[1]", "0", "True"], 5 * 24 * 3, 384),
        ("aten::_fft_r2c", [[3, 8], [], [], []], [F32], ["", "[1]", "0", "True"], 180, 96 + 15 * 8),
        ("aten::grid_sampler_2d", [[1, 3, 4, 4], [1, 2, 2, 2]], [F32, F32], [], 8 * 12, (48 + 8 + 12) * 4),
        # orders of inputs as in the sources of the packages: the output comes first, in the middle, or not at all
        ("sgl_kernel::gemma_rmsnorm", [[3, 4], [3, 4], [4], [], []], [BF16] * 3, [], 4 * 12 + 6, (12 + 12 + 4) * 2),
        ("trtllm::cublas_scaled_mm", [[3, 4], [4, 5], [3, 1], [1, 5]], [F8, F8, F32, F32], [], 120, 12 + 20 + 30 + 32),
        (
            "_C::cutlass_mxfp8_grouped_mm",
            [[6, 4], [3, 5, 4], [6, 1], [3, 5, 1], [6, 5]],
            [F8, F8, U8, U8, BF16],
            [],
            240,
            24 + 60 + round(60 * (1 - (2 / 3) ** 6)),
        ),
        (
            "aiter::moe_cktile2stages_gemm1_ck",
            [[3, 4], [5, 6, 4], [3, 2, 6], [8], [2], [1]],
            [BF16] * 3 + ["int"] * 3,
            [],
            2 * 6 * 24,
            24 + 72 + round(240 * (1 - (4 / 5) ** 6)),
        ),
        (
            "xformers::efficient_attention_forward_ck",
            [[2, 6, 4, 8]] * 3 + [[]] * 7,
            [BF16] * 3,
            [""] * 8 + ["True", "1"],
            8 * 36 * 16,
            4 * 384 * 2,
        ),
        # without a key, and neither counts the table of angles
        ("_C::rotary_embedding", [[3], [3, 8], [], [], [9, 4]], [I64, BF16, "", "Scalar", BF16], [], 3 * 24, 96),
        ("FusedRoPEFunc", [[6, 2, 4, 8], [6, 1, 1, 8]], [F32, F32], [], 3 * 384, 2 * 384 * 4),
        # not the whole cache
        (
            "_C_cache_ops::concat_and_cache_mla",
            [[3, 16], [3, 4], [100, 64, 20], [3]],
            [BF16] * 3 + [I64],
            [],
            0,
            2 * (96 + 24) + 24,
        ),
        # kernels of servers
        ("_C::dynamic_scaled_fp8_quant", [[3, 4], [3, 4], [1]], [F8, BF16, F32], [], 24, 12 + 24 + 4),
        ("_moe_C::moe_sum", [[3, 2, 4], [3, 4]], [BF16, BF16], [], 120, 72),
    ],
)
def test_operations_and_bytes(
    op: str, shapes: Any, dtypes: list[str], values: list[str], flops: int, moved: int
) -> None:
    found = work(op, shapes, dtypes, values)
    assert (found.flops, found.bytes) == (flops, moved)


# Four tokens, hidden size 8, three experts with an inner size of 6: 12 by 8 and 8 by 6; each token has two.
LAYER = [[4, 8], [3, 12, 8], [3, 8, 6], [4, 2], [4, 2]]
# Of three experts, that many are expected to be chosen by any of four tokens: all but 1 in 81.
READ = 1 - (1 / 3) ** 4


@pytest.mark.parametrize("op", ["vllm::inplace_fused_experts", "sglang::outplace_fused_experts", "aiter::fused_moe_"])
def test_a_layer_of_experts_computes_each_token_with_each_of_its_experts(op: str) -> None:
    found = work(op, LAYER, [BF16] * 3 + [F32, "int"])
    assert found.flops == 2 * 4 * 2 * (96 + 48)
    assert found.bytes == 2 * 64 + round(3 * 144 * 2 * READ)
    packed = work(op, [[4, 8], [3, 12, 4], [3, 8, 3], *LAYER[3:]], [BF16, U8, U8, F32, "int"])
    assert packed.flops == found.flops
    assert packed.bytes == 2 * 64 + round(3 * 72 * READ)


def test_both_products_of_a_layer_of_experts_add_up_to_the_layer() -> None:
    sorted_ids = [[9], [3], [1]]
    first = work(
        "aiter::ck_moe_stage1", [[4, 8], *LAYER[1:3], *sorted_ids, [4, 2, 12]], [BF16] * 3 + ["int"] * 3 + [BF16]
    )
    second = work(
        "aiter::ck_moe_stage2", [[4, 2, 6], *LAYER[1:3], *sorted_ids, [4, 8]], [BF16] * 3 + ["int"] * 3 + [BF16]
    )
    assert first.flops + second.flops == 2 * 4 * 2 * (96 + 48)


def test_views_inside_a_layer_of_experts_tell_its_weights() -> None:
    shapes, dtypes = [[4, 8], [4, 3], [], []], [BF16, BF16, "", ""]
    views = json.dumps([[5], [3, 4, 12], [8, 6], [3, 3, 8]])
    found = work("vllm::moe_forward", shapes, dtypes, inside=views)
    assert found.flops == 2 * 4 * 2 * (96 + 48)
    assert found.bytes == 2 * 64 + round(3 * (48 + 24) * READ)
    assert work("vllm::moe_forward", shapes, dtypes) is None
    assert work("vllm::moe_forward", shapes, dtypes, inside=json.dumps([[3, 4, 12], [8, 6]])) is None


def test_a_convolution_with_only_dimensions_goes_by_those_of_its_gradient() -> None:
    shapes, dtypes = [[2, 4, 5], [6, 4, 3], [], [], [], []], [F32, F32]
    found = work("aten::cudnn_convolution", shapes, dtypes, gradient="[2, 6, 2]")
    assert (found.flops, found.bytes) == (2 * 2 * 2 * 72, (40 + 72 + 24) * 4)
    assert work("aten::_convolution", shapes, dtypes, inside="[[2, 6, 2]]") == found
    assert work("aten::convolution", shapes, dtypes) is None
    transposed = work("aten::convolution", [[2, 6, 2], [6, 4, 3], []], dtypes, gradient="[2, 4, 5]")
    assert transposed.flops == 2 * 2 * 2 * 72


def test_keys_in_pages_count_by_the_lengths_of_the_requests() -> None:
    decode = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)"
    flops, moved = 4 * 64 * 64 * 55086, 2 * 32 * 64 * 64 * 2 + 55086 * 8 * 128 * 2
    pages = [[32, 64, 64], [99, 16, 8, 64], [99, 16, 8, 64]]
    found = work("_vllm_fa3_C::fwd", pages, [BF16] * 3, context=decode)
    assert (found.flops, found.bytes) == (flops, moved)
    shapes = [[32, 64, 64], [32, 64, 64], [99, 8, 8, 16, 8], [99, 8, 64, 16], []]
    found = work("_C::paged_attention_v1", shapes, [BF16] * 4, [""] * 4 + ["8"], context=decode)
    assert (found.flops, found.bytes) == (flops, moved)
