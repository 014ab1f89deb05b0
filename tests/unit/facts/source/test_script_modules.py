"""Modules of TorchScript models are known from what torch names at the ops in them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
import torch
from support import kernel, launch, make_trace, span
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

import torchprof_magic as tp
from torchprof_magic.facts.source.places import module_of_events
from torchprof_magic.facts.source.script_modules import MOST_LEVELS, script_modules
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA
from torchprof_magic.tables.ops.op_groups import can_group
from torchprof_magic.tables.ops.op_table import ops_by
from torchprof_magic.tables.source.modules import modules_table

if TYPE_CHECKING:
    from pathlib import Path

    from support import Event

    from torchprof_magic.model.trace import Trace


def op(name: str, start: float, dur: float, modules: str, tid: int = 1, **more: Any) -> Event:
    return span(name, start, dur, tid=tid, **{"Module Hierarchy": modules, **more})


NET, PART = "TOP(Net)::forward.", "TOP()::<forward op>."
EVENTS = (
    op("forward", 0, 100, NET),
    op("<forward op>", 10, 80, PART),
    op("aten::mm", 12, 8, f"{PART}encoder(Encoder)::forward.fc(Linear)::forward.", **{"Sequence number": 1}),
    op("aten::t", 14, 2, f"{PART}encoder(Encoder)::forward.fc(Linear)::forward."),
    op("aten::relu", 25, 5, f"{PART}encoder(Encoder)::forward.SELF(Encoder)::mix.::relu."),
    op("aten::mm", 40, 10, f"{PART}head(Linear)::forward."),
    span("aten::add", 200, 10),
    op("<backward op>", 300, 50, "TOP()::<backward op>.", tid=2),
    span("MmBackward0", 300, 40, tid=2, **{"Sequence number": 1, "Fwd thread id": 1}),
)


def paths(trace: Trace) -> list[tuple[str, str | None, int]]:
    return ops_by(trace, "module").frame.sort("module", "name").select("name", "module", "calls").rows()


def test_a_module_lasts_from_the_first_to_the_last_of_its_ops() -> None:
    columns = ("path", "class_name", "parent", "calls", "self_cpu_ns", "total_cpu_ns", "backward_cpu_ns")
    assert modules_table(make_trace(*EVENTS)).frame.select(columns).rows() == [
        ("", "Net", None, 1, 72_000, 100_000, 40_000),
        ("encoder", "Encoder", "", 1, 10_000, 18_000, 40_000),
        ("encoder.fc", "Linear", "encoder", 1, 8000, 8000, 40_000),
        ("head", "Linear", "", 1, 10_000, 10_000, 0),
    ]


def test_ops_are_grouped_by_the_innermost_module_and_backward_by_that_of_the_forward_op() -> None:
    trace = make_trace(*EVENTS)
    assert can_group(trace, "module")
    assert set(paths(trace)) == {
        ("forward", "", 1),
        ("<forward op>", "", 1),
        ("aten::mm", "encoder.fc", 1),
        ("MmBackward0", "encoder.fc", 1),
        ("aten::t", "encoder.fc", 1),
        ("aten::relu", "encoder", 1),
        ("aten::mm", "head", 1),
        ("aten::add", None, 1),
        ("<backward op>", None, 1),
    }


def test_device_work_belongs_to_the_module_whose_op_launched_it() -> None:
    trace = make_trace(*EVENTS, launch(42, 2, correlation=1), kernel("gemm", 120, 30, correlation=1))
    (gemm,) = np.flatnonzero((trace.events["name"] == "gemm").to_numpy())
    assert module_of_events(trace, np.array([gemm])).to_list() == ["head"]
    rows = modules_table(trace).frame.select("path", "device_ns", "self_device_ns").rows()
    assert rows[0] == ("", 30_000, 0)
    assert rows[-1] == ("head", 30_000, 30_000)


def test_texts_that_torch_handed_to_nodes_of_autograd_belong_to_later_ops() -> None:
    head = f"{NET}head(Linear)::forward."
    node = "autograd::engine::evaluate_function: MulBackward0"
    # torch noted texts for the range, the node's own range, its op, and the four ops after it, but none for the node.
    trace = make_trace(
        span("ProfilerStep#0", 0, 900, cat="user_annotation"),
        span(node, 10, 80),
        span("MulBackward0", 20, 60),
        op("aten::mul", 30, 10, NET),
        op("forward", 100, 100, head),
        op("aten::linear", 110, 20, head),
        span("aten::addmm", 115, 10),
        span("aten::add", 300, 10),
        # Of the next pass; the first text of its forward went to the node.
        span(node, 400, 80),
        op("MulBackward0", 410, 60, NET),
        op("aten::mul", 420, 10, head),
        op("forward", 500, 100, head),
        span("aten::linear", 510, 20),
        span("aten::addmm", 515, 10),
    )
    rows = np.arange(trace.events.height)
    found = dict(zip(trace.events["start_ns"] // 1000, module_of_events(trace, rows), strict=True))
    names = {start: module for start, module in found.items() if module is not None}
    assert names == {100: "", 110: "head", 115: "head", 500: "", 510: "head", 515: "head"}


def test_of_several_models_the_class_comes_first() -> None:
    trace = make_trace(*EVENTS[:3], op("forward", 400, 9, "TOP(Other)::forward."))
    assert modules_table(trace).frame["path"].to_list() == ["Net", "Net.encoder", "Net.encoder.fc", "Other"]


def test_modules_of_a_script_are_below_the_watched_module_that_ran_them() -> None:
    site = {"kind": "module", "name": "core", "class_name": "RecursiveScriptModule", "parent": -1}
    trace = replace(
        make_trace(*EVENTS),
        sites=pl.DataFrame([site], schema=SITES_SCHEMA),
        scopes=pl.DataFrame([(0, 0, 0, 110_000, 0)], schema=SCOPES_SCHEMA, orient="row"),
    )
    rows = modules_table(trace).frame.select("path", "parent", "calls", "total_cpu_ns").rows()
    assert rows == [
        ("core", None, 1, 110_000),
        ("core.encoder", "core", 1, 18_000),
        ("core.encoder.fc", "core.encoder", 1, 8000),
        ("core.head", "core", 1, 10_000),
    ]
    assert ("aten::mm", "core.head", 1) in paths(trace)


@pytest.mark.parametrize("text", ["", ".", "TOP", "TOP(", "((((", "::::", "a.b.c", "TOP(Net)::forward." * 3])
def test_a_text_of_another_kind_does_no_harm(text: str) -> None:
    trace = make_trace(op("a", 0, 10, text))
    assert modules_table(trace).frame["calls"].to_list() == [1]
    assert len(paths(trace)) == 1


def test_modules_that_are_too_deep_count_for_the_one_around_them() -> None:
    text = NET + "".join(f"m{level}(M)::forward." for level in range(10_000))
    assert modules_table(make_trace(op("a", 0, 10, text))).frame.height == MOST_LEVELS


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc(x))


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Inner(), Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


@pytest.fixture(scope="module")
def scripted() -> torch.jit.ScriptModule:
    with pytest.warns(DeprecationWarning, match="script"):  # torch advises against it
        model = torch.jit.script(Outer())
    with torch.no_grad():
        for _ in range(3):  # torch rewrites the model in its first calls
            model(torch.ones(2, 4))
    return model


def test_every_op_has_the_modules_that_torch_wrote(tmp_path: Path, scripted: torch.jit.ScriptModule) -> None:
    with profile(activities=[ProfilerActivity.CPU], with_modules=True) as p, torch.no_grad():
        scripted(torch.ones(2, 4))
    p.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_bytes())["traceEvents"]
    texts = [(event["name"], event.get("args", {}).get("Module Hierarchy")) for event in events]
    theirs = sorted((name, text) for name, text in texts if text)
    report = tp.load(tmp_path / "trace.json")
    named = pl.col("script_modules").is_not_null()
    ours = report.events.filter(named).select(pl.col("name", "script_modules").cast(pl.String)).rows()
    assert sorted(ours) == theirs
    assert len(theirs) > 4
    assert {"first.fc", "second.fc"} <= set(report.modules["path"])
    for copy in (report.export(tmp_path / "copy.json"), report.save(tmp_path / "copy.torchprof")):
        assert tp.load(copy).modules["path"].to_list() == report.modules["path"].to_list()


def test_in_training_only_ops_of_the_forward_pass_are_in_modules(scripted: torch.jit.ScriptModule) -> None:
    x = torch.ones(2, 4)
    for _ in range(3):
        scripted(x).sum().backward()
    with tp.profile(activities="cpu", with_modules=True) as p:
        for _ in range(3):
            with record_function("forward pass"):
                loss = scripted(x).sum()
            loss.backward()
    trace = p.report.trace
    scripts = script_modules(trace)
    assert scripts is not None
    inside = trace.events.with_row_index("row").filter(pl.Series(scripts.of_event >= 0))
    passes = trace.events.filter(pl.col("name") == "forward pass").select("start_ns", "dur_ns").rows()
    assert inside.height > 3
    for start in inside["start_ns"]:
        assert any(begin <= start <= begin + dur for begin, dur in passes)


def test_a_live_run_has_them_below_the_module_that_it_watched(scripted: torch.jit.ScriptModule) -> None:
    with tp.profile(activities="cpu", with_modules=True) as p, torch.no_grad():
        scripted(torch.ones(2, 4))
    modules = p.report.modules
    (model,) = modules.filter(pl.col("parent").is_null() & (pl.col("class_name") != ""))["path"]
    below = {path.removeprefix(model).removeprefix(".") for path in modules["path"]}
    assert {"", "first", "first.fc", "second", "second.fc"} <= below
    assert modules.filter(pl.col("path") == model)["calls"].to_list() == [1]
