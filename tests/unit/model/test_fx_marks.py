"""Tests of which node of a compiled graph an event belongs to, by the marks around it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from support import frame, make_trace, span

from torchprof_magic.model.fx_marks import marks_of
from torchprof_magic.model.trace import FRAME_SCHEMAS

if TYPE_CHECKING:
    from support import Event

    from torchprof_magic.model.trace import Trace

KEY = "## Call CompiledFxGraph fabc ##"


def node(graph: str, number: int, name: str, kernel: str | None = None, call: int = -1) -> tuple[object, ...]:
    return (graph, number, name, kernel, call, None, None, None, None, None, None)


def trace_of(nodes: list[tuple[object, ...]], *events: Event) -> Trace:
    frame_of_nodes = pl.DataFrame(nodes, schema=FRAME_SCHEMAS["fx_nodes"], orient="row")
    return replace(make_trace(*events), fx_nodes=frame_of_nodes)


def named(trace: Trace) -> list[tuple[str, str]]:
    """Return the events in compiled code by name, and the name of their node."""
    found = marks_of(trace).node
    names, nodes = trace.events["name"].to_list(), trace.fx_nodes["name"].to_list()
    return [(name, nodes[row]) for name, row in zip(names, found.tolist(), strict=True) if row >= 0]


def test_an_event_belongs_to_the_innermost_node_around_it_and_numbers_are_those_of_their_graph() -> None:
    trace = trace_of(
        [node("a.py", 5, "relu"), node("b.py", 5, "relu_backward"), node("a.py", 6, "outer"), node("c.py", 5, "inner")],
        span("## a.py ##", 0, 100),
        span("## 5 ##", 1, 9),
        span("aten::relu", 2, 7),
        span("aten::clamp_min", 3, 2),
        span("aten::between", 11, 2),
        span("## 6 ##", 20, 50),
        span("## c.py ##", 21, 20),
        span("## 5 ##", 22, 5),
        span("aten::mm", 23, 2),
        span("aten::rest", 50, 2),
        span("## b.py ##", 200, 50, tid=2),
        span("## 5 ##", 201, 9, tid=2),
        span("aten::threshold_backward", 202, 7, tid=2),
        span("aten::mm", 23, 2, tid=3),
    )
    assert named(trace) == [
        ("## 5 ##", "relu"),
        ("aten::relu", "relu"),
        ("aten::clamp_min", "relu"),
        ("## 6 ##", "outer"),
        ("## c.py ##", "outer"),
        ("## 5 ##", "inner"),
        ("aten::mm", "inner"),
        ("aten::rest", "outer"),
        ("## 5 ##", "relu_backward"),
        ("aten::threshold_backward", "relu_backward"),
    ]


def test_marks_of_graphs_and_numbers_that_are_not_known_say_nothing() -> None:
    events = (
        span("## unknown.py ##", 0, 100),
        span("## 5 ##", 1, 9),
        span("aten::relu", 2, 7),
        span("## a.py ##", 110, 50),
        span("## 99 ##", 111, 9),
        span("aten::mm", 112, 2),
        span("## 5 ##", 300, 9),
        span("aten::mm", 301, 2),
        span("## no mark", 400, 9),
        span("## 99999999999 ##", 420, 9),
    )
    assert named(trace_of([node("a.py", 5, "relu")], *events)) == []
    assert named(make_trace(*events)) == []


CALLS = [
    node("fabc", 0, "Linear", "extern_kernels.bias_addmm"),
    node("fabc", 0, "addmm", call=0),
    node("fabc", 1, "relu · add", "cpp_fused_add_relu_0"),
    node("fabc", 2, "Linear", "torch.ops.mkldnn._linear_pointwise.default"),
    node("fabc", 3, "sum", "cpp_fused_sum_1"),
    node("fabc", 4, "sum backward", "cpp_fused_sum_1"),
]


def test_calls_of_inductor_are_known_by_their_order_under_the_names_of_their_ops() -> None:
    trace = trace_of(
        CALLS,
        span(KEY, 0, 100),
        frame("/home/me/torchinductor_me/x.py(300): call", 0, 100),
        span("aten::addmm", 1, 9),
        span("aten::copy_", 2, 3),
        span("graph_0_cpp_fused_add_relu_0", 11, 5),
        span("mkldnn::_linear_pointwise", 20, 5),
        span("graph_0_cpp_fused_sum_1", 30, 5),
        span("graph_0_cpp_fused_sum_1", 40, 5),
    )
    assert named(trace) == [
        ("aten::addmm", "Linear"),
        ("aten::copy_", "Linear"),
        ("graph_0_cpp_fused_add_relu_0", "relu · add"),
        ("mkldnn::_linear_pointwise", "Linear"),
        ("graph_0_cpp_fused_sum_1", "sum"),
        ("graph_0_cpp_fused_sum_1", "sum backward"),
    ]
    marks = marks_of(trace)
    assert marks.is_known.tolist() == [True]
    assert int(marks.is_unit.sum()) == 5


def test_what_ran_beside_the_calls_of_inductor_belongs_to_none_of_them() -> None:
    trace = trace_of(
        CALLS,
        span(KEY, 0, 100),
        span("aten::empty_strided", 1, 2),
        span("graph_0_cpp_fused_add_relu_0", 11, 5),
        span("aten::mm", 20, 5),
    )
    assert named(trace) == [("graph_0_cpp_fused_add_relu_0", "relu · add")]
    unknown = trace_of(CALLS, span("## Call CompiledFxGraph other ##", 0, 100), span("aten::addmm", 1, 9))
    assert named(unknown) == []
    assert marks_of(unknown).is_known.tolist() == [False]


def test_of_several_graphs_under_one_key_that_counts_whose_calls_fit_best() -> None:
    graphs = [
        node("None", 0, "forward mm", "extern_kernels.mm"),
        node("None", 1, "relu", "cpp_fused_relu_0"),
        node("None", 0, "relu backward", "cpp_fused_relu_backward_0"),
        node("None", 1, "backward mm", "extern_kernels.mm"),
    ]
    trace = trace_of(
        graphs,
        span("## Call CompiledFxGraph None ##", 0, 50),
        span("graph_0_cpp_fused_relu_backward_0", 1, 5),
        span("aten::mm", 10, 5),
    )
    assert named(trace) == [("graph_0_cpp_fused_relu_backward_0", "relu backward"), ("aten::mm", "backward mm")]
