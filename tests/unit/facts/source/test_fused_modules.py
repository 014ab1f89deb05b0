"""A module that is computed in a kernel of another one has a row, without the kernel's time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from support import make_trace, recording, span

from torchprof_magic.model.recording import FxCall, FxGraph, FxNode
from torchprof_magic.run.fx_nodes import with_fx_nodes
from torchprof_magic.tables.source.modules import modules_table

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.trace import Trace


def node(name: str, *modules: str) -> FxNode:
    return FxNode(name=name, does=name, stack="", modules=tuple((path, "Block") for path in modules))


CALLS = (
    FxCall(kernel="extern_kernels.mm", nodes=(node("mm", "a", "a.fc"),)),
    FxCall(
        kernel="cpp_fused_0",
        nodes=(
            node("norm", "a", "a.norm"),
            node("mean", "a", "a.norm"),
            node("relu", "a.act"),
            node("add", "a", "a.fc"),
        ),
    ),
)
GRAPH = FxGraph(name="k", calls=CALLS)


def trace_of(tmp_path: Path, graph: FxGraph = GRAPH) -> Trace:
    events = [
        event
        for at in (0, 100)
        for event in (
            span("## Call CompiledFxGraph k ##", at, 90),
            span("aten::mm", at + 10, 20),
            span("graph_0_cpp_fused_0", at + 40, 30),
        )
    ]
    return with_fx_nodes(make_trace(*events), replace(recording(tmp_path), fx_graphs=(graph,)))


def test_the_row_names_the_kernel_and_where_it_stands_and_has_no_time(tmp_path: Path) -> None:
    shape = modules_table(trace_of(tmp_path))
    rows = shape.frame.select("path", "calls", "self_cpu_ns", "total_cpu_ns", "fused_in").rows()
    assert rows == [
        ("a", 2, 20_000, 120_000, None),
        ("a.fc", 2, 40_000, 40_000, None),
        ("a.norm", 2, 60_000, 60_000, None),
        ("a.act", 2, 0, 0, "norm · mean · relu · add at a.norm"),
    ]
    assert "fused_in" in [column.name for column in shape.columns]


def test_without_such_modules_there_is_no_column(tmp_path: Path) -> None:
    shape = modules_table(trace_of(tmp_path, replace(GRAPH, calls=CALLS[:1])))
    assert "fused_in" not in [column.name for column in shape.columns]
    assert shape.frame["fused_in"].to_list() == [None, None]
