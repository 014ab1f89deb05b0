"""Kernels of Inductor are shown by what they fuse, with the lines of all of it and the generated code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from support import frame, kernel, launch, make_trace, recording, span

from torchprof_magic.facts.source.fused_titles import shown_title, shown_titles
from torchprof_magic.facts.source.fx_nodes import fused_lines
from torchprof_magic.facts.source.places import places_of
from torchprof_magic.findings.verdict.words import Span, as_shown
from torchprof_magic.model.recording import FxCall, FxGraph, FxNode
from torchprof_magic.run.fx_nodes import with_fx_nodes
from torchprof_magic.tables.ops.op_groups import ops_view
from torchprof_magic.tables.ops.op_table import ops_by
from torchprof_magic.tables.source.lines import lines_table
from torchprof_magic.tables.source.modules import modules_table
from torchprof_magic.tables.timeline.slices import FX_NODE, GENERATED_CODE, MODEL_LINES, timeline_slices

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.trace import Trace


def node(name: str, does: str, line: int, module: str) -> FxNode:
    stack = '  File "/home/me/net.py", line 99, in forward\n    call()\n'
    stack += f'  File "/home/me/net.py", line {line}, in forward\n    y = {does}(x)\n        ^^^^\n'
    return FxNode(name=name, does=does, stack=stack, modules=((module, "Block"),))


RELU, ADD, LINEAR = node("relu", "relu", 3, "a"), node("add", "add", 4, "a"), node("mm", "Linear backward", 5, "b")
FUSED = "cpp_fused_add_relu_0"
GRAPH = FxGraph(
    name="fkey",
    code="/home/me/code.py",
    calls=(
        FxCall(kernel=FUSED, nodes=(RELU, ADD, node("add_1", "add", 4, "a"), LINEAR)),
        FxCall(kernel="extern_kernels.mm", nodes=(LINEAR,)),
        FxCall(kernel="cpp_fused_add_1", nodes=(RELU, ADD, LINEAR)),
        FxCall(kernel="triton_poi_fused_0"),
    ),
)
EVENTS = (
    span("Torch-Compiled Region: 0/0", 0, 100),
    span("## Call CompiledFxGraph fkey ##", 1, 98),
    span(f"graph_0_{FUSED}", 2, 30),
    span("aten::mm", 40, 20),
    span("graph_0_cpp_fused_add_1", 65, 10),
)


def trace_of(tmp_path: Path, *events: dict[str, object]) -> Trace:
    run = replace(recording(tmp_path), fx_graphs=(GRAPH, replace(GRAPH, name="never ran")))
    return with_fx_nodes(make_trace(*EVENTS, *events), run)


def test_a_kernel_is_called_by_what_it_fuses_and_equal_ones_are_numbered(tmp_path: Path) -> None:
    trace = trace_of(tmp_path)
    assert shown_titles(trace) == {
        f"graph_0_{FUSED}": "relu · add · Linear backward",
        "graph_0_cpp_fused_add_1": "relu · add · Linear backward (2)",
    }
    assert shown_title(trace, f"graph_0_{FUSED}", is_kernel=False) == "relu · add · Linear backward"
    assert shown_title(trace, "aten::mm", is_kernel=False) == "aten::mm"
    words = as_shown(trace, Span(text="graph_0…", style="code", name=f"graph_0_{FUSED}"))
    assert words.short == "relu · add · Linear backward"
    assert as_shown(trace, Span(text="aten::mm", name="aten::mm")).short == "aten::mm"
    assert not {"fx_node", "model_file"} & {column.name for column in ops_view(trace).columns}


def test_a_kernel_stands_at_the_line_and_module_of_most_of_it_and_names_all_lines(tmp_path: Path) -> None:
    trace = trace_of(tmp_path)
    rows = ops_by(trace, "model_line").frame.filter(pl.col("name") == f"graph_0_{FUSED}")
    assert rows["model_line"].to_list() == ["/home/me/net.py:4"]
    assert fused_lines(trace)[0] == "net.py:3 y = relu(x)\nnet.py:4 y = add(x)\nnet.py:5 y = Linear backward(x)"
    lines = lines_table(trace).frame.select("file", "line", "source", "own_cpu_ns").rows()
    assert lines == [
        ("/home/me/net.py", 3, "y = relu(x)", 10_000),
        ("/home/me/net.py", 4, "y = add(x)", 30_000),
        ("/home/me/net.py", 5, "y = Linear backward(x)", 20_000),
    ]
    modules = modules_table(trace).frame.select("path", "calls", "total_cpu_ns").rows()
    assert modules == [("a", 1, 40_000), ("b", 1, 20_000)]


def test_a_selected_slice_has_its_node_its_lines_and_the_generated_code(tmp_path: Path) -> None:
    found = timeline_slices(trace_of(tmp_path))
    assert [column for column in found.columns if column in (FX_NODE, MODEL_LINES, GENERATED_CODE)] == [
        FX_NODE,
        MODEL_LINES,
        GENERATED_CODE,
    ]
    row = found.frame.filter(pl.col("name") == "aten::mm").row(0, named=True)
    assert row["fx_node"] == "0/0 Linear backward"
    assert row["model_lines"] == "net.py:5 y = Linear backward(x)"
    assert row["generated_code"] == "/home/me/code.py"


def test_a_kernel_of_a_device_has_the_node_of_its_launch(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        span("triton_poi_fused_0", 80, 10),
        launch(82, 2, correlation=1),
        kernel("triton_poi_fused_0", 200, 50, correlation=1),
    )
    assert shown_titles(trace)["triton_poi_fused_0"] == "triton_poi_fused_0"


def test_nodes_without_lines_and_stacks_of_torch_alone_are_no_lines(tmp_path: Path) -> None:
    inner = '  File "/x/site-packages/torch/nn/modules/linear.py", line 7, in forward\n    return F.linear(x)\n'
    mine = '  File "/home/me/net.py", line 3, in forward\n    y = self.fc(x)\n'
    nodes = (FxNode(name="a"), FxNode(name="b", stack=mine + inner), FxNode(name="c", stack="no stack"))
    run = replace(recording(tmp_path), fx_graphs=(FxGraph(name="a.py", nodes=nodes),))
    found = with_fx_nodes(make_trace(span("## a.py ##", 0, 9)), run).fx_nodes
    assert found.select("name", "file", "line", "source").rows() == [
        ("a", None, None, None),
        ("b", "/home/me/net.py", 3, "y = self.fc(x)"),
        ("c", None, None, None),
    ]


def nodes_of(tmp_path: Path, kernel_name: str, *nodes: FxNode) -> list[tuple[object, ...]]:
    graph = FxGraph(name="fkey", calls=(FxCall(kernel=kernel_name, nodes=nodes),))
    events = (span("## Call CompiledFxGraph fkey ##", 0, 9), span(kernel_name, 1, 2))
    trace = with_fx_nodes(make_trace(*events), replace(recording(tmp_path), fx_graphs=(graph,)))
    found = trace.fx_nodes.filter(pl.col("kernel").is_not_null())
    return found.select(pl.col("name", "modules").cast(pl.String), "line").rows()


def test_views_are_nothing_that_a_kernel_does(tmp_path: Path) -> None:
    views = tuple(replace(node(f"view_{at}", "Linear", 5, "b"), is_view=True) for at in range(3))
    assert nodes_of(tmp_path, "cpp_fused_relu_view_0", *views, RELU) == [("relu", '[["a", "Block"]]', 3)]
    assert nodes_of(tmp_path, "cpp_fused_view_0", *views) == [("Linear", '[["b", "Block"]]', 5)]


def test_an_op_is_at_its_own_line_whatever_inductor_lists_with_it(tmp_path: Path) -> None:
    relu = [node(f"relu_{at}", "BatchNorm2d", 3, "bn") for at in range(3)]
    own = node("convolution_backward_1", "Conv2d backward", 8, "conv")
    name = "torch.ops.aten.convolution_backward.default"
    assert nodes_of(tmp_path, name, *relu, own, relu[0]) == [("Conv2d backward", '[["conv", "Block"]]', 8)]
    # None of them has the name of the op: it is the last one, which uses the others.
    assert nodes_of(tmp_path, "extern_kernels.other", *relu, own) == [("Conv2d backward", '[["conv", "Block"]]', 8)]


def test_what_torch_itself_computes_stands_at_the_users_line_with_torchs_line_beside_it(tmp_path: Path) -> None:
    stack = '  File "/v/lib/python3.11/site-packages/torch/optim/adam.py", line 475, in _adam\n    avg.mul_(beta)\n'
    update = FxNode(name="mul", does="mul_", stack=stack, modules=())
    graph = FxGraph(name="fkey", calls=(FxCall(kernel=FUSED, nodes=(update,)),))
    events = (frame("train.py(7): train", 0, 100), *EVENTS[:3])
    trace = with_fx_nodes(make_trace(*events), replace(recording(tmp_path), fx_graphs=(graph,)))
    lines = lines_table(trace).frame
    assert lines.select("file", "line", "cpu_ns").rows() == [("train.py", 7, 100_000)]
    row = trace.events["name"].cast(pl.String).to_list().index(f"graph_0_{FUSED}")
    places = places_of(trace, np.array([row]))
    assert (places.files[int(places.file[0])], int(places.line[0])) == ("train.py", 7)
    found = ops_by(trace, "model_line").frame.filter(pl.col("model_line").is_not_null())
    assert found["model_line"].to_list() == ["/v/lib/python3.11/site-packages/torch/optim/adam.py:475"]
    assert fused_lines(trace).drop_nulls().unique().to_list() == ["adam.py:475 avg.mul_(beta)"]
