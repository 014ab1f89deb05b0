"""Tests that recordings leave no trace in code that torch.compile makes during them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch._dynamo
from torch._dynamo.utils import counters
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

import torchprof_magic as tp
from torchprof_magic.capture.torch_api import features
from torchprof_magic.capture.torch_api.compiling import hide_from_compiler, watch_optimizers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OPTIONS: list[dict[str, Any]] = [{}, {"profile_memory": True}, {"with_modules": True}, {"profile_memory": True}]
INPUT = torch.ones(4, 8)


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def graphs() -> int:
    return counters["stats"]["unique_graphs"]


def record(work: Callable[[], object], **options: Any) -> tp.Report:
    with tp.profile(**options) as run:
        for _ in range(3):
            work()
            run.step()
    assert run.report is not None
    return run.report


class Block(torch.nn.Module):
    """A module with modules in it, so that the compiler looks into calls of modules."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(values))


unguarded = pytest.mark.skipif(features.guards_module_hooks(), reason="this torch guards its code against module hooks")


def model() -> torch.nn.Module:
    return torch.nn.Sequential(Block(), Block())


@unguarded
def test_a_model_that_is_first_compiled_in_a_recording_is_compiled_once() -> None:
    compiled = torch.compile(model(), backend="eager")
    for options in OPTIONS:
        record(lambda: compiled(INPUT), **options)
        assert graphs() == 1
    compiled(INPUT)
    assert graphs() == 1


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`")
def test_a_step_of_an_optimizer_is_compiled_at_most_once_more_for_all_recordings() -> None:
    layer = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    step = torch.compile(optimizer.step, backend="eager")

    def train() -> None:
        optimizer.zero_grad()
        layer(INPUT).sum().backward()
        step()

    train()
    before = graphs()
    for options in OPTIONS * 2:
        record(train, **options)
    train()
    assert graphs() <= before + 1


def test_modules_that_run_after_a_compilation_are_in_the_report() -> None:
    plain, compiled = Block(), torch.compile(Block(), backend="eager")

    def work() -> None:
        plain(compiled(INPUT))

    modules = record(work, with_modules=True).modules
    assert dict(modules.filter(modules["class_name"] == "Block").select("class_name", "calls").iter_rows()) == {
        "Block": 3
    }


@unguarded
@pytest.mark.filterwarnings("ignore:Using `torch.compile")
def test_hooks_come_back_in_their_order_and_not_after_their_recording() -> None:
    own, others = [torch_module.register_module_forward_hook(lambda *_: None, always_call=True) for _ in range(2)]
    table, always = torch_module._global_forward_hooks, torch_module._global_forward_hooks_always_called
    seen: list[tuple[list[int], list[int]]] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        seen.append((list(table), list(always)))
        return graph

    undo = hide_from_compiler({own.id})
    try:
        torch.compile(lambda value: value + 1, backend=backend)(INPUT)
        assert seen == [([others.id], [others.id])]
        assert list(table) == list(always) == [own.id, others.id]
    finally:
        undo()
        own.remove()
        others.remove()
    torch.compile(lambda value: value + 2, backend=backend)(INPUT)
    assert seen[1:] == [([], [])]
    assert not table
    assert not always


@pytest.mark.filterwarnings("ignore:Using `torch.compile")
@pytest.mark.parametrize(
    ("version", "is_hidden"), [("2.4.1", True), ("2.5.1+cu124", False), ("2.6.0", False), ("2.7.0", True)]
)
def test_a_torch_whose_code_is_guarded_against_hooks_compiles_with_them(
    version: str, is_hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "VERSION", version)
    own = torch_module.register_module_forward_hook(lambda *_: None)
    seen: list[list[int]] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        seen.append(list(torch_module._global_forward_hooks))
        return graph

    undo = hide_from_compiler({own.id})
    try:
        torch.compile(lambda value: value + 1, backend=backend)(INPUT)
        assert seen == [[] if is_hidden else [own.id]]
    finally:
        undo()
        own.remove()


def test_hooks_that_are_removed_while_a_model_is_compiled_stay_removed() -> None:
    own = torch_module.register_module_forward_pre_hook(lambda *_: None)
    undo = hide_from_compiler({own.id})

    def backend(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        undo()
        own.remove()
        return graph

    torch.compile(lambda value: value + 1, backend=backend)(INPUT)
    assert not torch_module._global_forward_pre_hooks


def test_a_program_that_resets_the_compiler_is_recorded_as_before() -> None:
    layer = Block()

    def work() -> None:
        torch._dynamo.reset()
        torch.compile(layer, backend="eager")(INPUT)

    report = record(work, profile_memory=True)
    assert not [problem for problem in report.problems if problem.code.startswith("capture.")]
    assert not torch_module._global_forward_hooks


def test_optimizers_tell_every_listener_until_it_ends() -> None:
    optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
    told: list[str] = []
    first = watch_optimizers(lambda *_: told.append("before 1"), lambda *_: told.append("after 1"))
    second = watch_optimizers(lambda *_: told.append("before 2"), lambda *_: told.append("after 2"))
    optimizer.step()
    first()
    optimizer.step()
    second()
    optimizer.step()
    assert told == ["before 1", "before 2", "after 1", "after 2", "before 2", "after 2"]
    assert not torch_optimizer._global_optimizer_pre_hooks
    assert not torch_optimizer._global_optimizer_post_hooks
