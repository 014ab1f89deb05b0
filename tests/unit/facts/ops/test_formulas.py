"""What ops have to do, worked out by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import torchprof_magic as tp
from torchprof_magic.facts.ops.formulas import ALL, COUNTED, formula_of, read_inputs, work_of

if TYPE_CHECKING:
    from collections.abc import Iterator

F32, BF16, I64 = "float", "c10::BFloat16", "long int"
Q = [2, 4, 6, 8]  # batch, heads, length, features


def work(op: str, shapes: list[Any], dtypes: list[str], values: list[str] | None = None, **more: str) -> Any:
    inputs = read_inputs(json.dumps(shapes), json.dumps(dtypes), json.dumps(values or []), **more)
    return work_of(op, inputs)


@pytest.mark.parametrize(
    ("op", "shapes", "dtypes", "values", "flops", "moved"),
    [
        # 2 · 3 · 5 · 4; (12 + 20 + 15) elements
        ("aten::mm", [[3, 4], [4, 5]], [F32, F32], [], 120, 47 * 4),
        ("aten::addmm", [[5], [3, 4], [4, 5], [], []], [BF16] * 3 + ["Scalar"] * 2, [], 120, 52 * 2),
        ("aten::bmm", [[7, 3, 4], [7, 4, 5]], [BF16, BF16], [], 840, 7 * 47 * 2),
        ("aten::_scaled_mm", [[3, 4], [4, 5], [], []], ["c10::Float8_e4m3fn"] * 2 + [F32, F32], [], 120, 32 + 8 + 30),
        ("aten::mv", [[3, 4], [4]], [F32, F32], [], 24, 19 * 4),
        # three groups of rows: each row with the weight of its group
        ("aten::_grouped_mm", [[6, 4], [3, 4, 5], [3]], [BF16, BF16, "int"], [], 240, (24 + 60 + 30) * 2),
        # the groups divide the inner dimension
        ("aten::_grouped_mm", [[3, 8], [8, 5], [2]], [BF16, BF16, "int"], [], 240, (24 + 40 + 30) * 2),
        # two points of the output, 6 · 4 · 3 weights, batch 2
        (
            "aten::convolution",
            [[2, 4, 5], [6, 4, 3], [6], [], [], [], [], [], []],
            [F32] * 3 + [""] * 6,
            ["", "", "", "[2]", "[0]", "[1]", "False", "[0]", "1"],
            2 * 2 * 2 * 72,
            (40 + 72 + 24 + 6) * 4,
        ),
        (
            "aten::convolution",
            [[2, 6, 2], [6, 4, 3], [], [], [], [], [], [], []],
            [F32] * 2 + [""] * 7,
            ["", "", "", "[2]", "[0]", "[1]", "True", "[0]", "1"],
            2 * 2 * 2 * 72,
            (24 + 72 + 2 * 4 * 5) * 4,
        ),
        (
            "aten::convolution_backward",
            [[2, 6, 2], [2, 4, 5], [6, 4, 3], [], [], [], [], [], [], [], []],
            [F32] * 3 + [""] * 8,
            ["", "", "", "[6]", "[2]", "[0]", "[1]", "False", "[0]", "1", "[True, True, True]"],
            2 * 2 * 2 * 2 * 72,
            (24 + 2 * 40 + 2 * 72 + 6) * 4,
        ),
        # scores and their product with the value; half of them with a causal mask
        (
            "aten::_scaled_dot_product_flash_attention",
            [Q] * 3 + [[]] * 4,
            [BF16] * 3,
            [""] * 3 + ["0.", "False"],
            2 * 8 * 36 * 16,
            4 * 384 * 2,
        ),
        (
            "aten::_scaled_dot_product_flash_attention",
            [Q] * 3 + [[]] * 4,
            [BF16] * 3,
            [""] * 3 + ["0.", "True"],
            8 * 36 * 16,
            4 * 384 * 2,
        ),
        (
            "aten::_scaled_dot_product_flash_attention_backward",
            [Q] * 6 + [[]] * 8,
            [BF16] * 6,
            [""] * 11 + ["True"],
            8 * 36 * 40,
            8 * 384 * 2,
        ),
        # heads are shared by groups of two
        (
            "aten::_scaled_dot_product_efficient_attention",
            [Q, [2, 2, 10, 8], [2, 2, 10, 8]],
            [F32] * 3,
            [],
            2 * 8 * 60 * 16,
            (2 * 384 + 2 * 320) * 4,
        ),
        (
            "flash_attn::_flash_attn_forward",
            [[2, 6, 4, 8]] * 3,
            [BF16] * 3,
            [""] * 5 + ["False"],
            2 * 8 * 36 * 16,
            4 * 384 * 2,
        ),
        # two sequences in 12 tokens, as if each had 6
        (
            "flash_attn::_flash_attn_varlen_forward",
            [[12, 4, 8]] * 3 + [[3], [3]],
            [BF16] * 3 + ["int"] * 2,
            [],
            2 * 4 * 12 * 6 * 16,
            4 * 384 * 2,
        ),
        (
            "triton_tem_fused_flex_attention_3",
            [Q] * 3 + [[2, 4, 6]],
            [BF16] * 3 + [F32],
            [],
            2 * 8 * 36 * 16,
            4 * 384 * 2,
        ),
        # 6 + weight + bias for 24 elements, 2 for each of 6 rows
        (
            "aten::native_layer_norm",
            [[2, 3, 4], [], [4], [4], []],
            [F32, "ScalarList", F32, F32, "Scalar"],
            ["", "[4]"],
            8 * 24 + 12,
            (48 + 8) * 4 + 12 * 4,
        ),
        (
            "aten::native_layer_norm_backward",
            [[2, 3, 4], [2, 3, 4], [], [2, 3, 1], [2, 3, 1], [4], [4], []],
            [F32, F32, "", F32, F32, F32, F32, ""],
            ["", "", "[4]"],
            13 * 24,
            (72 + 12 + 12) * 4,
        ),
        (
            "aten::native_batch_norm",
            [[2, 3, 4], [3], [3], [3], [3], [], [], []],
            [F32] * 5,
            [],
            8 * 24 + 6,
            (48 + 6 + 6) * 4,
        ),
        (
            "aten::native_group_norm",
            [[2, 4, 6], [4], [4], [], [], [], [], []],
            [F32] * 3,
            [""] * 6 + ["2"],
            8 * 48 + 8,
            (96 + 8 + 8) * 4,
        ),
        ("aiter::rms_norm", [[3, 4], [4], [], []], [BF16, BF16, "Scalar", "Scalar"], [], 4 * 12 + 6, (24 + 4) * 2),
        ("aiter::rmsnorm2d_fwd_with_add_ck", [[3, 4]] * 4 + [[4], [], []], [BF16] * 5, [], 5 * 12 + 6, (48 + 4) * 2),
        ("aten::_softmax", [[3, 4], [], []], [BF16, "Scalar", "Scalar"], ["", "-1", "False"], 60, 48),
        ("aten::_softmax", [[3, 4], [], []], [BF16, "Scalar", "Scalar"], ["", "-1", "True"], 60, 24 + 48),
        ("aten::_log_softmax_backward_data", [[3, 4], [3, 4], [], []], [F32, F32], [], 48, 36 * 4),
        ("aten::add", [[2, 3], [3], []], [F32, F32, "Scalar"], ["", "", "1"], 6, (6 + 3 + 6) * 4),
        # the result of bfloat16 and float is float
        ("aten::mul", [[2, 3], [2, 1]], [BF16, F32], [], 6, 12 + 8 + 24),
        # a tensor without dimensions does not make it double
        ("aten::mul", [[2, 3], []], [F32, "double"], [], 6, 24 + 8 + 24),
        ("aten::add_", [[2, 3], [2, 3], []], [F32, F32, "Scalar"], [], 6, 72),
        ("aten::div", [[4], []], [I64, "double"], [], 4, 32 + 8 + 16),
        ("aten::gelu", [[2, 3], []], [BF16, ""], [], 6, 24),
        ("aten::lt", [[2, 3], []], [F32, "Scalar"], [], 6, 24 + 6),
        ("aten::where", [[4], [4], [4]], ["bool", F32, F32], [], 4, 4 + 48),
        ("aten::addcmul_", [[4], [4], [4], []], [F32] * 3, [], 12, 64),
        ("aten::copy_", [[2, 3], [2, 3], []], [F32, BF16, "Scalar"], [], 0, 24 + 12),
        ("aten::fill_", [[2, 3], []], [F32, "Scalar"], [], 0, 24),
        ("sgl_kernel::silu_and_mul", [[3, 4], [3, 8]], [BF16, BF16], [], 24, 72),
        ("aten::sum", [[2, 3], [], [], []], [F32], ["", "[1]", "False", ""], 6, 24 + 8),
        ("aten::mean", [[2, 3], [], []], [F32], ["", "[-1]", "True"], 6, 24 + 8),
        ("aten::sum", [[2, 3], []], [F32], [""], 6, 24 + 4),
        ("aten::max", [[2, 3], [], []], [F32], ["", "1", "False"], 6, 24 + 8 + 16),
        ("aten::argmax", [[2, 3], [], []], [F32], ["", "-1", "False"], 6, 24 + 16),
        ("aten::all", [[2, 3]], ["bool"], [""], 6, 7),
        (
            "aten::max_pool2d_with_indices",
            [[1, 2, 4, 4], [], [], [], [], []],
            [F32],
            ["", "[2, 2]", "[2, 2]", "[0, 0]", "[1, 1]", "False"],
            32,
            (32 + 8) * 4 + 64,
        ),
        ("aten::embedding", [[10, 4], [2, 3]], [F32, I64], [], 0, 2 * 24 * 4 + 48),
        ("aten::index_select", [[10, 4], [], [3]], [F32, "Scalar", I64], ["", "0", ""], 0, 2 * 12 * 4 + 24),
        ("aten::gather", [[10, 4], [], [2, 4]], [F32, "Scalar", I64], [], 0, 2 * 8 * 4 + 64),
        (
            "aten::embedding_dense_backward",
            [[2, 3, 4], [2, 3], [], [], []],
            [F32, I64],
            ["", "", "10"],
            24,
            96 + 48 + 160,
        ),
        ("aten::scatter_add_", [[9], [], [4], [4]], [F32, "Scalar", I64, F32], [], 4, 16 + 32 + 16 + 16),
        (
            "_C_cache_ops::reshape_and_cache_flash",
            [[3, 2, 4], [3, 2, 4], [9], [9], [3]],
            [BF16] * 4 + [I64],
            [],
            0,
            4 * 24 * 2 + 24,
        ),
        # 2 layers, both directions, 5 steps of batch 3; 4 gates of 6, 7 features
        (
            "aten::_cudnn_rnn",
            [[5, 3, 7], [[24, 7], [24, 6]], [], [], [4, 3, 6], [4, 3, 6], *[[]] * 10],
            [F32, "TensorList"],
            [*[""] * 6, "2", "6", "0", "2", "False", "0.", "True", "True"],
            2 * 15 * 2 * 24 * ((7 + 6) + (12 + 6)),
            (105 + 180 + 24 * 13) * 4,
        ),
        (
            "aten::mkldnn_rnn_layer",
            [[5, 3, 7], [24, 7], [24, 6]],
            [F32] * 3,
            [],
            2 * 15 * 24 * 13,
            (105 + 168 + 144 + 90) * 4,
        ),
        ("triton_poi_fused_add_0", [[2, 3], [100, 9], [2, 3], []], [F32, F32, F32, "Scalar"], ["", "", "", "6"], 0, 72),
        ("triton_red_fused_sum_1", [[2, 3], [2], [], []], [F32, F32, "Scalar", "Scalar"], ["", "", "2", "3"], 0, 32),
    ],
)
def test_operations_and_bytes(
    op: str, shapes: Any, dtypes: list[str], values: list[str], flops: int, moved: int
) -> None:
    found = work(op, shapes, dtypes, values)
    assert (found.flops, found.bytes) == (flops, moved)


def test_lists_of_tensors_have_the_type_of_their_kernel() -> None:
    lists = [[[2, 3], [4]], [[2, 3], [4]], [[2, 3], [4]], [[2, 3], [4]], [], [[], []]]
    found = work("aten::_fused_adamw_", lists, ["TensorList"] * 6, kernel_type="f32")
    assert (found.flops, found.bytes) == (15 * 10, 7 * 40)  # four lists read, three of them written
    assert work("aten::_foreach_add_", lists[:2], ["TensorList"] * 2, kernel_type="bf16").bytes == 3 * 20
    assert work("aten::cat", [[[2, 3], [4, 3]], []], ["TensorList", "Scalar"], kernel_type="2-byte").bytes == 72
    assert work("aten::cat", [[[2, 3], [4, 3]], []], ["TensorList", "Scalar"]).bytes is None


def test_paged_attention_takes_the_lengths_of_the_requests_from_the_range_around_it() -> None:
    shapes, dtypes = [[32, 64, 64], [32, 8, 64], [32, 8, 64]], [BF16] * 3
    decode = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)"
    found = work("vllm::unified_attention_with_output", shapes, dtypes, context=decode)
    assert found.flops == 4 * 64 * 64 * 55086
    assert found.bytes == 2 * 32 * 64 * 64 * 2 + 55086 * 8 * 128 * 2
    # Two new requests of 100 tokens: of the pairs among new tokens half are left out.
    prefill = "execute_200_context_2(sq200sk200sqsq20000sqsk20000)_generation_0(sq0sk0sqsq0sqsk0)"
    assert (
        work("vllm::unified_attention", [[200, 64, 64], *shapes[1:]], dtypes, context=prefill).flops
        == 4 * 64 * 64 * 10000
    )
    assert work("vllm::unified_attention", shapes, dtypes) is None


@pytest.mark.parametrize(
    "shapes", ["[]", "[[]]", "[[1]]", "[[-1, 2]]", '[["a"]]', "[[[[]]]]", "[[2.5, 1], [1, 1]]", "{}", "["]
)
def test_no_formula_fails_on_what_makes_no_sense(shapes: str) -> None:
    for op in {op.replace("*", "_0") for formula in ALL for op in formula.ops}:
        for values in ("[]", '["", "", "1", "[0]"]', '["maybe"]'):
            found = work_of(op, read_inputs(shapes, '["float"]', values))
            assert found is None or found.flops >= 0


def test_every_op_has_one_formula_and_what_torch_counts_is_among_them() -> None:
    ops = [op for formula in ALL for op in formula.ops]
    assert len(ops) == len(set(ops))
    assert all(formula_of(op) is formula for op, formula in COUNTED.items())


def test_types_that_are_not_recorded_leave_the_bytes_unknown() -> None:
    found = work("aten::mm", [[3, 4], [4, 5]], [])
    assert (found.flops, found.bytes) == (120, None)


@pytest.fixture
def added() -> Iterator[None]:
    yield
    for formula in list(tp.formulas.known()):
        if formula.group == "Added":
            tp.formulas.remove(formula.ops[0])


@pytest.mark.usefixtures("added")
def test_users_add_formulas_of_their_own_ops() -> None:
    tp.formulas.add("mylib::mlp", flops=lambda call: 2 * call.shapes[0][0] * 10, is_matrix=True)
    found = work("mylib::mlp", [[3, 4], [4, 5]], [BF16, BF16])
    assert (found.flops, found.bytes, found.is_matrix, found.counted) == (60, 64, True, None)
    tp.formulas.add("mylib::mlp", bytes=lambda call: len(call.dtypes))
    assert work("mylib::mlp", [[3, 4], [4, 5]], [BF16, BF16])[:2] == (0, 2)
    tp.formulas.remove("mylib::mlp")
    assert work("mylib::mlp", [[3, 4], [4, 5]], [BF16, BF16]) is None
    with pytest.raises(ValueError, match="no formula of 'mylib::mlp' was added"):
        tp.formulas.remove("mylib::mlp")


@pytest.mark.usefixtures("added")
def test_a_users_formula_that_fails_leaves_the_work_unknown_and_says_so_once() -> None:
    tp.formulas.add("mylib::broken", flops=lambda call: call.nothing)  # type: ignore[attr-defined]
    with pytest.warns(RuntimeWarning, match="the formula of mylib::broken failed, so its work is not known"):
        assert work("mylib::broken", [[3, 4]], [BF16]) is None
    assert work("mylib::broken", [[3, 4]], [BF16]) is None


@pytest.mark.parametrize(("op", "more"), [("", {}), (3, {}), ("a::b", {"flops": 3}), ("a::b", {"bytes": "x"})])
def test_what_is_no_formula_is_refused(op: Any, more: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="must be"):
        tp.formulas.add(op, **more)
