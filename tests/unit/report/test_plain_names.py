"""Texts, pictures and advice call generated kernels by what they fuse; frames and files keep the names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support import kernel, launch, make_trace, recording, span

from torchprof_magic.findings.advice.conductor import Settings, find_advice
from torchprof_magic.findings.advice.kinds import Advice
from torchprof_magic.findings.compare.changes import Runs, changed_ops
from torchprof_magic.findings.overview import overview_facts
from torchprof_magic.model.meta import Compilation
from torchprof_magic.model.recording import FxCall, FxGraph, FxNode
from torchprof_magic.report.trace_report import Report
from torchprof_magic.run.fx_nodes import with_fx_nodes

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.trace import Trace

LONG = f"cpp_fused_{'native_layer_norm_' * 4}7"
GRAPH = FxGraph(
    name="fkey",
    calls=(
        FxCall(kernel="cpp_fused_add_relu_0", nodes=(FxNode(name="relu", does="relu"), FxNode(name="add", does="add"))),
        FxCall(kernel=LONG, nodes=(FxNode(name="mean", does="LayerNorm"),)),
        FxCall(kernel="triton_poi_fused_sin_1", nodes=(FxNode(name="sin", does="sin"),)),
    ),
)
EVENTS = (
    span("Torch-Compiled Region: 0/1", 0, 100),
    span("## Call CompiledFxGraph fkey ##", 1, 98),
    span("graph_0_cpp_fused_add_relu_0", 2, 40),
    span(f"graph_0_{LONG}", 50, 30),
)
RAW = ("cpp_fused", "triton_poi")


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return with_fx_nodes(make_trace(*EVENTS), replace(recording(tmp_path), fx_graphs=(GRAPH,)))


def on_device(tmp_path: Path) -> Trace:
    made = make_trace(
        *EVENTS,
        span("triton_poi_fused_sin_1", 82, 10),
        launch(84, 2, correlation=1),
        kernel("triton_poi_fused_sin_1", 200, 500, correlation=1),
    )
    return with_fx_nodes(made, replace(recording(tmp_path), fx_graphs=(GRAPH,)))


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
@pytest.mark.parametrize("has_device", [False, True])
def test_summaries_have_no_name_of_a_generated_kernel(
    tmp_path: Path, trace: Trace, form: str, has_device: bool
) -> None:
    report = Report(on_device(tmp_path) if has_device else trace)
    text = report._repr_html_() if form == "html" else report.summary(form)  # type: ignore[arg-type]
    assert "relu · add" in text
    assert "LayerNorm" in text
    assert not [name for name in RAW if name in text]
    assert "relu · add" in str(report.verdict) or "sin" in str(report.verdict)
    assert not [name for name in RAW if name in str(report.verdict)]


def test_frames_and_queries_keep_the_names(trace: Trace) -> None:
    report = Report(trace)
    assert "graph_0_cpp_fused_add_relu_0" in report.ops["name"].to_list()
    assert report.sql("SELECT name FROM ops WHERE name LIKE '%relu%'").height == 1


def test_facts_are_titled_by_what_is_fused_and_lead_to_the_name(trace: Trace) -> None:
    ops = next(section for section in overview_facts(trace).sections if section.title == "Ops")
    assert [(fact.label, fact.op) for fact in ops.facts][:1] == [("relu · add", "graph_0_cpp_fused_add_relu_0")]


def test_advice_names_what_is_fused_and_keeps_the_op(trace: Trace) -> None:
    cut = f"graph_0_{LONG}"[:63] + "…"

    def rule(_: Trace) -> Advice:
        name = "graph_0_cpp_fused_add_relu_0"
        return Advice(rule="own", title="Do it", fix="`other` name", evidence=f"`{name}` and `{cut}` wait.", op=name)

    (advice,) = (each for each in find_advice(trace, Settings(own=(rule,))).advice if each.rule == "own")
    assert advice.evidence == "`relu · add` and `LayerNorm` wait."
    assert (advice.fix, advice.op) == ("`other` name", "graph_0_cpp_fused_add_relu_0")


def test_two_runs_are_compared_by_what_is_fused_however_the_kernels_are_numbered(tmp_path: Path, trace: Trace) -> None:
    calls = tuple(replace(call, kernel=call.kernel.replace("relu_0", "relu_5")) for call in GRAPH.calls)
    events = [*EVENTS[:2], span("graph_1_cpp_fused_add_relu_5", 2, 20), EVENTS[3]]
    run = replace(recording(tmp_path), fx_graphs=(replace(GRAPH, calls=calls),))
    rows = changed_ops(Runs(trace, with_fx_nodes(make_trace(*events), run)))
    assert rows.filter(rows["name"] == "relu · add").select("before_ns", "after_ns", "status").rows() == [
        (40_000, 20_000, "both")
    ]


def test_regions_and_their_code_are_called_by_their_functions(trace: Trace) -> None:
    compiled = (
        Compilation(region="0/1", name="forward", file="/home/me/net.py", line=7),
        Compilation(region="0/2", name="other"),
    )
    known = replace(trace, meta=replace(trace.meta, compilations=compiled))
    text = Report(known).summary()
    assert "forward (net.py:7), region 0/1" in text
    assert "forward (net.py:7), code 0/1" in text
    assert "Torch-Compiled Region" not in text
    resumed = replace(compiled[0], name="torch_dynamo_resume_in_forward_at_9")
    after = replace(trace, meta=replace(trace.meta, compilations=(resumed,)))
    assert "forward (after net.py:9), region 0/1" in Report(after).summary()
    assert "Torch-Compiled Region: 0/1" in Report(trace).summary()
