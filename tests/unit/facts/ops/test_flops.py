"""FLOPs by hand, and by the formulas of torch's own counter."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
import torch
from support import annotation, frame, kernel, launch, make_trace, span
from torch.utils.flop_counter import flop_registry

from torchprof_magic.facts.ops.flops import FORMULAS, flops_in, flops_of, modelled_ratio
from torchprof_magic.findings.overview import overview_facts
from torchprof_magic.tables.flame.call_tree import flame_tree
from torchprof_magic.tables.ops.averages import averages_table
from torchprof_magic.tables.ops.op_groups import ops_grouped, ops_view
from torchprof_magic.tables.ops.op_table import ops_by, ops_table

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

MM = [[3, 4], [4, 5]]  # 2 * 3 * 4 * 5 = 120
LINEAR = [[3, 4], [5, 4], [5]]
ADDMM = [[5], [3, 4], [4, 5], [], []]
QUERY, KEY, VALUE = [2, 4, 6, 8], [2, 2, 10, 8], [2, 2, 10, 3]
GRADIENT = [2, 4, 6, 3]
REGISTRY: dict[str, Any] = {
    str(op).replace("aten.", "aten::"): formula for op, formula in flop_registry.items() if str(op).startswith("aten.")
}


def op(name: str, shapes: list[Any], at: float, dur: float = 10, values: list[str] | None = None) -> dict[str, Any]:
    concrete = {} if values is None else {"Concrete Inputs": values}
    return span(name, at, dur, **{"Input Dims": shapes}, **concrete)


def flops_by_name(trace: Trace) -> dict[str, int | None]:
    return dict(ops_table(trace).frame.select("name", "flops").rows())


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("mm", MM),
        ("addmm", [[5], *MM]),
        ("bmm", [[7, 3, 4], [7, 4, 5]]),
        ("baddbmm", [[7, 3, 5], [7, 3, 4], [7, 4, 5]]),
        ("_scaled_mm", [*MM, [], []]),
        ("_scaled_dot_product_efficient_attention", [QUERY, KEY, VALUE]),
        ("_scaled_dot_product_flash_attention", [QUERY, KEY, VALUE]),
        ("_scaled_dot_product_cudnn_attention", [QUERY, KEY, VALUE]),
        ("_scaled_dot_product_efficient_attention_backward", [GRADIENT, QUERY, KEY, VALUE]),
        ("_scaled_dot_product_flash_attention_backward", [GRADIENT, QUERY, KEY, VALUE]),
        ("_scaled_dot_product_cudnn_attention_backward", [GRADIENT, QUERY, KEY, VALUE]),
    ],
)
def test_products_and_attention_have_the_flops_of_torchs_counter(name: str, shapes: list[Any]) -> None:
    expected = REGISTRY[f"aten::{name}"](*shapes, out_val=[])
    assert flops_of(f"aten::{name}", json.dumps(shapes)) == expected > 0


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("mask", [[True, True, True], [False, True, True], [True, False, False]])
@pytest.mark.parametrize(
    ("x", "weight", "stride", "padding", "dilation", "groups"),
    [
        ([2, 4, 11], [6, 4, 3], [2], [1], [1], 1),
        ([2, 4, 9, 12], [6, 4, 3, 5], [2, 1], [1, 2], [1, 1], 1),
        ([2, 4, 9, 12], [6, 2, 3, 3], [1, 1], [0, 0], [2, 3], 2),
        ([1, 4, 5, 6, 7], [6, 4, 2, 3, 1], [1, 2, 1], [0, 1, 0], [1, 1, 1], 1),
    ],
)
def test_convolutions_have_the_flops_of_torchs_counter(
    x: list[int],
    weight: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    mask: list[bool],
    transposed: bool,
) -> None:
    weight = [4, 6, *weight[2:]] if transposed else weight
    none = [0] * len(stride)
    values = (stride, padding, dilation, transposed, none, groups)
    out = list(
        torch.convolution(torch.empty(x, device="meta"), torch.empty(weight, device="meta"), None, *values).shape
    )
    texts = [str(value) for value in values]
    shapes = json.dumps([x, weight, *[[]] * 7])
    forward = REGISTRY["aten::convolution"](x, weight, None, *values, out_val=out)
    assert flops_of("aten::convolution", shapes, json.dumps(["", "", "", *texts])) == forward > 0
    backward = REGISTRY["aten::convolution_backward"](out, x, weight, None, *values, mask, out_val=[x, weight, None])
    concrete = json.dumps(["", "", "", "", *texts, str(mask)])
    assert flops_of("aten::convolution_backward", json.dumps([out, x, weight, *[[]] * 8]), concrete) == backward > 0


def test_every_formula_of_torch_is_there_but_those_of_ops_inside_others() -> None:
    inside_others = {
        # inside aten::convolution
        "aten::cudnn_convolution", "aten::convolution_overrideable", "aten::_slow_conv2d_forward",
        # inside attention of the same name; of their own they are for sequences whose lengths are not recorded
        "aten::_flash_attention_forward", "aten::_flash_attention_backward",
        "aten::_efficient_attention_forward", "aten::_efficient_attention_backward",
    }  # fmt: skip
    # Attention on the CPU, which torch lacks, and the backward pass of convolutions before torch 1.11.
    more = r"for_cpu|(cudnn|miopen)_convolution_backward"
    ours = {name for name in FORMULAS if not re.search(more, name)}
    assert set(REGISTRY) - inside_others == ours


@pytest.mark.parametrize(("weight", "groups"), [([6, 4, 3], 1), ([6, 2, 3], 2)])
def test_convolutions_without_values_have_the_flops_of_torchs_counter_where_all_gradients_were_asked_for(
    weight: list[int], groups: int
) -> None:
    x, out = [2, 4, 11], [2, 6, 9]
    values = ([1], [0], [1], False, [0], groups)
    forward = REGISTRY["aten::convolution"](x, weight, None, *values, out_val=out)
    assert flops_of("aten::convolution", json.dumps([x, weight, [], [], []]), gradient=json.dumps(out)) == forward
    every = [True, True, True]
    backward = REGISTRY["aten::convolution_backward"](out, x, weight, None, *values, every, out_val=[x, weight, None])
    assert flops_of("aten::convolution_backward", json.dumps([out, x, weight])) == backward
    assert flops_of("aten::cudnn_convolution_backward", json.dumps([x, out, weight])) == backward


@pytest.mark.parametrize(
    ("name", "shapes", "values"),
    [
        ("aten::mm", "[[3, 4], [5, 4]]", "[]"),
        ("aten::mm", "[[3, 4]]", "[]"),
        ("aten::mm", "[[3, 4], []]", "[]"),
        ("aten::mm", "[[3, -4], [-4, 5]]", "[]"),
        ("aten::mm", "[[3, 4.0], [4.0, 5]]", "[]"),
        ("aten::mm", "[[9999999999, 9999999999], [9999999999, 9999999999]]", "[]"),
        ("aten::mm", '{"a": 1}', "[]"),
        ("aten::mm", "[[3, 4], [4", "[]"),
        ("aten::mm", "[" * 100_000, "[]"),
        ("aten::convolution", "[[2, 4, 9], [6, 4, 3]]", "[]"),
        ("aten::convolution", "[[2, 4, 9], [6, 4, 3]]", '["", "", "", "[0]", "[0]", "[1]", "False"]'),
        ("aten::convolution", "[[2, 4, 9], [6, 4, 3]]", '["", "", "", "[1, 1]", "[0]", "[1]", "False"]'),
        ("aten::convolution", "[[2, 4, 1], [6, 4, 5]]", '["", "", "", "[1]", "[0]", "[1]", "False"]'),
        ("aten::convolution", "[[2, 4, 9], [6, 4, 3]]", '["", "", "", "[1]", "[0]", "[1]", "maybe"]'),
        ("aten::_scaled_dot_product_flash_attention", "[[2, 4, 6, 8], [2, 3, 10, 8], [2, 3, 10, 8]]", "[]"),
        ("aten::_scaled_dot_product_flash_attention", "[[2, 4, 6, 8], [2, 0, 10, 8], [2, 0, 10, 8]]", "[]"),
        ("aten::_scaled_dot_product_flash_attention", "[[2, 4, 6, 8], [2, 4, 10, 8], [1, 4, 10, 8]]", "[]"),
    ],
)
def test_what_was_not_recorded_or_makes_no_sense_is_not_known(name: str, shapes: str, values: str) -> None:
    assert flops_of(name, shapes, values) is None


def test_an_op_in_another_one_counts_once() -> None:
    trace = make_trace(
        op("aten::linear", LINEAR, 0, 20),
        op("aten::addmm", ADDMM, 1, 10),
        op("aten::mm", MM, 2, 5),  # inside addmm
        op("aten::mm", MM, 30),
    )
    assert flops_by_name(trace) == {"aten::linear": None, "aten::addmm": 120, "aten::mm": 120}
    assert flops_in(trace).sum() == 240


def test_the_op_inside_counts_where_that_of_the_outer_one_is_not_known() -> None:
    trace = make_trace(op("aten::addmm", [], 0, 20), op("aten::mm", MM, 2, 5))
    assert flops_by_name(trace) == {"aten::addmm": None, "aten::mm": 120}


def test_a_python_frame_between_two_ops_changes_nothing() -> None:
    trace = make_trace(op("aten::addmm", ADDMM, 0, 20), frame("a.py(1): f", 1, 15), op("aten::mm", MM, 2, 5))
    assert flops_by_name(trace) == {"aten::addmm": 120, "aten::mm": None}


def test_an_annotation_that_is_named_like_an_op_has_no_flops() -> None:
    named = annotation("aten::mm", 0, 50) | {"args": {"Input Dims": MM}}
    trace = make_trace(named, op("aten::bmm", [[7, 3, 4], [7, 4, 5]], 1))
    assert flops_in(trace).to_list() == [None, 840]


def test_without_shapes_there_is_no_column_no_weight_and_no_fact() -> None:
    trace = make_trace(span("aten::mm", 0, 10), span("aten::add", 20, 10))
    assert "flops" not in ops_table(trace).frame.columns
    assert "flops" not in averages_table(trace).frame.columns
    assert "flops" not in [weight.name for weight in flame_tree(trace).weights]
    assert modelled_ratio(trace) is None
    assert not [fact for section in overview_facts(trace).sections for fact in section.facts if fact.label == "FLOPs"]


def test_ops_by_shapes_tell_the_flops_of_each_shape() -> None:
    large = [[30, 4], [4, 5]]
    trace = make_trace(op("aten::mm", MM, 0), op("aten::mm", large, 20), op("aten::mm", large, 40))
    found = ops_by(trace, "shapes").frame.sort("flops").select("calls", "flops").rows()
    assert found == [(1, 120), (2, 2400)]


def test_a_group_of_ops_without_a_formula_has_none_and_others_have_the_sum() -> None:
    trace = make_trace(op("aten::mm", MM, 0), op("aten::bmm", [[7, 3, 4], [7, 4, 5]], 20), op("aten::add", [[9]], 40))
    groups = ops_grouped(trace, "shapes").frame.filter(pl.col("above") == "")
    assert sorted(groups["flops"].to_list(), key=lambda flops: flops or 0) == [None, 120, 840]


def test_key_averages_have_the_same_flops() -> None:
    trace = make_trace(op("aten::linear", LINEAR, 0, 20), op("aten::addmm", ADDMM, 1), op("aten::addmm", ADDMM, 30))
    assert dict(averages_table(trace).frame.select("key", "flops").rows()) == {"aten::linear": None, "aten::addmm": 240}


def test_the_flame_graph_can_be_weighted_by_flops() -> None:
    trace = make_trace(annotation("forward", 0, 50), op("aten::linear", LINEAR, 1, 20), op("aten::addmm", ADDMM, 2))
    tree = flame_tree(trace)
    assert ("flops", "FLOPs", "flop") in [(weight.name, weight.title, weight.unit) for weight in tree.weights]
    found = {name: (own, total) for name, own, total in tree.frame.select("name", "self_flops", "total_flops").rows()}
    assert found == {"all": (0, 120), "forward": (0, 120), "aten::linear": (0, 120), "aten::addmm": (120, 120)}


def test_device_work_of_no_op_has_no_flops() -> None:
    trace = make_trace(op("aten::mm", MM, 0), kernel("earlier", 80, 5, correlation=99))
    assert flops_by_name(trace) == {"aten::mm": 120, "outside of recorded ops": None}
    shown = ops_view(trace).frame.filter(pl.col("name") == "outside of recorded ops")
    assert shown["flops"].to_list() == [None]


def test_the_share_of_ops_with_known_flops_is_one_of_device_time() -> None:
    trace = make_trace(
        op("aten::linear", LINEAR, 0, 20),
        op("aten::addmm", ADDMM, 1),
        launch(2, 1, correlation=1),
        kernel("gemm", 10, 30, correlation=1),
        span("aten::add", 50, 10),
        launch(52, 1, correlation=2),
        kernel("add", 60, 5, correlation=2),
        kernel("graph", 80, 5, correlation=99),  # of no op
    )
    assert modelled_ratio(trace) == 0.75


def test_without_a_device_it_is_one_of_the_host_time_of_ops() -> None:
    trace = make_trace(annotation("mine", 0, 100), op("aten::mm", MM, 0, 30), span("aten::add", 50, 10))
    assert modelled_ratio(trace) == 0.75


def test_the_overview_tells_the_flops_of_a_step_and_the_share_that_is_known() -> None:
    steps = [annotation(f"ProfilerStep#{number}", number * 100, 90) for number in range(2)]
    trace = make_trace(*steps, op("aten::mm", MM, 1, 30), op("aten::mm", MM, 101, 30), span("aten::add", 150, 20))
    facts = {fact.label: fact for section in overview_facts(trace).sections for fact in section.facts}
    flops, share = facts["FLOPs"], facts["In ops with known FLOPs"]
    assert (flops.value, flops.unit, flops.note) == (120, "flop", "per step")
    assert (share.value, share.unit, share.note) == (0.75, "ratio", "of the host time of ops")


def test_counts_too_large_for_a_sum_are_left_out() -> None:
    huge = [[2**20, 2**20], [2**20, 2**20]]  # 2**61
    trace = make_trace(op("aten::mm", MM, 0), *(op("aten::mm", huge, 20 * number) for number in range(1, 4)))
    assert flops_in(trace).to_list() == [120, None, None, None]
