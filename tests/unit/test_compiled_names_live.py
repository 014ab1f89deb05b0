"""What runs in compiled code is shown at the lines and modules of the model, in a live run and in its file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
import torch
import torch._dynamo
from amount import thorough
from torch._dynamo.utils import counters
from versions import needs

import torchprof_magic as tp
from torchprof_magic.capture import live_session
from torchprof_magic.capture.torch_api import features

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = needs(features.NODE_MARKS)
INPUT = torch.ones(32, 32)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(32, 32)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        made = self.linear(values)
        return torch.tanh(made)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Block()
        self.second = Block()

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(values))


LINEAR, TANH = (Block.forward.__code__.co_firstlineno + number for number in (1, 2))


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def record(step: Callable[[], object], **options: Any) -> tp.Report:
    with tp.profile(wait=1, warmup=1, active=2, with_modules=True, **options) as run:
        for _ in range(4):
            step()
            run.step()
    assert run.report is not None
    return run.report


def train(model: Any) -> Callable[[], None]:
    return lambda: model(INPUT).sum().backward()


def of_ops(report: tp.Report, key: str, op: str) -> dict[Any, int]:
    frame = report.ops_by(key).filter(pl.col("name") == op)
    return dict(frame.select(key, "calls").rows())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_ops_of_both_passes_stand_at_the_lines_and_modules_of_the_model(backend: str) -> None:
    report = record(train(torch.compile(Net(), backend=backend)))
    assert of_ops(report, "model_line", "aten::addmm") == {f"{__file__}:{LINEAR}": 4}
    assert of_ops(report, "model_line", "aten::tanh_backward") == {f"{__file__}:{TANH}": 4}
    assert of_ops(report, "line", "aten::tanh") == {f"{__file__}:{TANH}": 4}
    assert of_ops(report, "module", "aten::addmm") == {"first.linear": 2, "second.linear": 2}
    assert of_ops(report, "module", "aten::tanh_backward") == {"first": 2, "second": 2}
    modules = report.modules.select("path", "class_name", "calls").rows()
    assert modules == [
        ("", "Net", 2),
        ("first", "Block", 2),
        ("first.linear", "Linear", 2),
        ("second", "Block", 2),
        ("second.linear", "Linear", 2),
    ]
    assert report.modules.filter(pl.col("path") != "")["backward_cpu_ns"].min() > 0  # type: ignore[operator]
    lines = report.lines.filter(pl.col("file") == __file__)
    assert {LINEAR, TANH} <= set(lines["line"])
    mine = lines.filter(pl.col("line").is_in([LINEAR, TANH]))
    assert mine["source"].to_list() == ["made = self.linear(values)", "return torch.tanh(made)"]
    assert (mine["own_cpu_ns"] > 0).all()
    assert (mine["backward_cpu_ns"] > 0).all()
    assert not [problem.code for problem in report.problems if problem.code.startswith("compiled.")]


def test_forward_and_backward_nodes_of_one_number_are_two_and_marks_are_no_ops(tmp_path: Path) -> None:
    report = record(train(torch.compile(Net(), backend="aot_eager")))
    region = report.compilations["region"][0]
    assert of_ops(report, "fx_node", "aten::tanh") == {f"{region} tanh": 2, f"{region} tanh_1": 2}
    names = set(of_ops(report, "fx_node", "aten::tanh_backward"))
    assert names == {f"{region} backward tanh_backward", f"{region} backward tanh_backward_1"}
    assert not report.ops.filter(pl.col("name").str.starts_with("## "))["name"].to_list()
    tanh = report.ops.filter(pl.col("name") == "aten::tanh").select("fx_node", "model_file", "model_line").row(0)
    assert tanh[0] in {f"{region} tanh", f"{region} tanh_1"}
    assert tanh[1:] == (__file__, TANH)
    events = report.events.filter(pl.col("name") == "aten::tanh")
    assert set(events["model_line"]) == {TANH}
    again = tp.load(report.save(tmp_path / "run.torchprof"))
    assert isinstance(again, tp.Report)
    assert again.ops_by("fx_node").equals(report.ops_by("fx_node"))
    assert again.modules.equals(report.modules)
    assert again.lines.equals(report.lines)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_exported_file_has_the_stacks_and_nodes_that_torch_writes(tmp_path: Path, backend: str) -> None:
    utils = pytest.importorskip("torch.profiler._utils")
    report = record(train(torch.compile(Net(), backend=backend)))
    ours = json.loads(report.export(tmp_path / "run.json").read_text())["traceEvents"]
    keys = ("stack_trace", "node_name")
    theirs = [
        {**event, "args": {key: value for key, value in event.get("args", {}).items() if key not in keys}}
        for event in ours
    ]
    utils.map_recorded_events_to_aten_ops_with_stack_trace({"traceEvents": theirs})
    found = [[event.get("args", {}).get(key) for key in keys] for event in ours]
    assert sum(name is not None for _, name in found) > 20
    assert found == [[event["args"].get(key) for key in keys] for event in theirs]


class Breaking(Net):
    def forward(self, values: torch.Tensor) -> torch.Tensor:
        made = self.first(values)
        return self.second(made if made.sum() > -1e9 else -made)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=thorough)])
@pytest.mark.parametrize("made", [Net, Breaking])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_the_compiler_does_as_much_as_without_us(backend: str, made: type[Net]) -> None:
    def graphs(run: Callable[[Callable[[], None]], object]) -> dict[str, dict[str, int]]:
        torch._dynamo.reset()
        counters.clear()
        step = train(torch.compile(made(), backend=backend))
        for _ in range(2):
            run(step)
        step()
        return {kind: dict(counters[kind]) for kind in ("frames", "stats", "graph_break")}

    plain = graphs(lambda step: [step() for _ in range(4)])
    assert graphs(record) == plain


def test_a_model_that_was_compiled_before_says_what_to_do_and_nothing_is_guessed() -> None:
    compiled = torch.compile(Net(), backend="aot_eager")
    train(compiled)()
    report = record(train(compiled))
    found = [problem for problem in report.problems if problem.code == "compiled.no_names"]
    assert [problem.count for problem in found] == [2]
    assert "recorded cell" in found[0].fix
    assert "fx_node" not in report.ops.columns
    assert report.ops_by("model_line")["model_line"].drop_nulls().to_list() == []


def test_a_model_that_was_compiled_before_with_names_has_them() -> None:
    tp.name_compiled_code()
    try:
        compiled = torch.compile(Net(), backend="aot_eager")
        train(compiled)()
    finally:
        tp.name_compiled_code(is_on=False)
    report = record(train(compiled))
    assert of_ops(report, "model_line", "aten::addmm") == {f"{__file__}:{LINEAR}": 4}


def test_a_compiled_part_of_a_model_stands_below_the_path_of_the_part() -> None:
    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.compile(Net(), backend="aot_eager")
            self.head = torch.nn.Linear(32, 4)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.head(self.inner(values))

    report = record(train(Outer()))
    assert of_ops(report, "module", "aten::addmm") == {"head": 2, "inner.first.linear": 2, "inner.second.linear": 2}
    paths = report.modules.select("path", "parent").rows()
    assert ("inner.first.linear", "inner.first") in paths
    assert ("inner.first", "inner") in paths


def test_with_recorded_frames_compiled_work_is_at_the_lines_of_the_model_too() -> None:
    report = record(train(torch.compile(Net(), backend="aot_eager")), with_stack=True)
    assert of_ops(report, "line", "aten::tanh") == {f"{__file__}:{TANH}": 4}
    assert of_ops(report, "line", "aten::tanh_backward") == {f"{__file__}:{TANH}": 4}


@thorough  # it compiles C++; what it finds is tested from written traces, too
@needs(features.KERNEL_NODES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kernels_of_inductor_are_named_by_what_they_fuse_at_the_lines_of_the_model(tmp_path: Path) -> None:
    class Fused(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return torch.sin(self.block(values) + values)

    report = record(train(torch.compile(Fused())))
    kernels = report.events.filter(pl.col("name").cast(pl.String).str.starts_with("graph_"))
    region = report.compilations["region"][0]
    assert f"{region} tanh · add · sin" in kernels["fx_node"].cast(pl.String).to_list()
    assert any("tanh backward" in name for name in kernels["fx_node"].cast(pl.String))
    assert of_ops(report, "module", "aten::addmm") == {"block.linear": 2}
    assert of_ops(report, "model_line", "aten::addmm") == {f"{__file__}:{LINEAR}": 2}
    row = report.trace.fx_nodes.filter(pl.col("name") == "tanh · add · sin").row(0, named=True)
    assert f"line {TANH}, in forward" in row["stack"]
    assert "torch.sin(self.block(values) + values)" in row["stack"]
    assert row["code"].endswith(".py")
    assert not [problem.code for problem in report.problems if problem.code.startswith("compiled.")]
    again = tp.load(report.save(tmp_path / "run.torchprof"))
    assert isinstance(again, tp.Report)
    assert again.events.equals(report.events)


def test_a_report_that_is_made_while_the_loop_runs_knows_the_nodes_too() -> None:
    step = train(torch.compile(Net(), backend="aot_eager"))
    with tp.profile(wait=0, warmup=1, active=1, repeat=1) as run:
        for _ in range(3):
            step()
            run.step()
        session = live_session()
        assert session is not None
        assert session._recorder is not None
        found = session._so_far(session._recorder)
    assert {node.name for graph in found.fx_graphs for node in graph.nodes} >= {"tanh", "tanh_backward"}
    assert [each.name for each in found.compilations if not each.is_backward] == ["forward"]


class Tied(torch.nn.Module):
    """A model that calls two of its modules by several paths."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Net()
        self.tied = self.inner.second
        self.again = torch.nn.ModuleList([self.inner, torch.nn.Linear(32, 32)])

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for each in (self.tied, self.inner, *self.again):
            values = each(values)
        return values


def test_a_module_that_is_called_by_several_paths_has_the_one_that_it_has_without_compiling() -> None:
    plain = record(train(Tied())).modules
    compiled = record(train(torch.compile(Tied(), backend="eager"))).modules
    assert set(compiled["path"]) == set(plain["path"])
    assert {"inner.second.linear", "again.1"} < set(compiled["path"])


def test_paths_that_differ_between_models_stay_as_the_compiler_knows_them() -> None:
    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.tied = Net(), Block()

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.tied(self.inner(values))

    own, tied = Own(), torch.compile(Tied(), backend="eager")
    report = record(lambda: tied(own(INPUT).detach()).sum().backward())
    # Both models have a Block at this path, which is the module of another path in one of them.
    assert "Tied.tied" in set(report.modules["path"])
