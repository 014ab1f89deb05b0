"""Tests of the names of what runs in compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch._dynamo
from torch.fx import GraphModule, symbolic_trace
from versions import needs

from torchprof_magic.capture import name_compiled_code
from torchprof_magic.capture.torch_api import features, fx_names
from torchprof_magic.capture.torch_api.fx_names import FxNames

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs(features.NODE_MARKS)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(values))


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    name_compiled_code(is_on=False)  # %load_ext in a test before this one leaves it on
    torch._dynamo.reset()
    recompile = GraphModule.recompile
    yield
    assert GraphModule.recompile is recompile
    torch._dynamo.reset()


def model() -> torch.nn.Module:
    return torch.nn.Sequential(Block(), Block())


def run(compiled: Any) -> None:
    compiled(torch.ones(4, 8)).sum().backward()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_nodes_have_the_lines_and_the_modules_of_the_model(backend: str) -> None:
    names = FxNames()
    end = names.switch_on()
    run(torch.compile(model(), backend=backend))
    end()
    nodes = [node for graph in names.known() for node in graph.nodes]
    relu = [node for node in nodes if node.does == "relu"]
    assert {node.modules[-1:] for node in relu} == {(("0", "Block"),), (("1", "Block"),)}
    assert all(
        'test_fx_names.py", line' in node.stack and "torch.relu(self.linear(values))" in node.stack for node in relu
    )
    inner = {node.modules for node in nodes if node.name.startswith(("addmm", "linear"))} - {()}
    assert ("0.linear", "Linear") in {modules[-1] for modules in inner} or backend == "eager"
    does = {node.does for node in nodes}
    assert ("relu backward" in does) is (backend == "aot_eager")


def test_graphs_that_torch_compile_did_not_make_and_those_after_the_end_have_no_marks() -> None:
    names = FxNames()
    end = names.switch_on()
    traced = symbolic_trace(model())
    assert "_RecordFunctionFast" not in traced.code
    end()
    run(torch.compile(model(), backend="eager"))
    assert names.known() == ()
    assert torch.fx.experimental._config.enrich_profiler_metadata is False


def test_it_is_on_until_the_last_one_that_asked_for_it_has_ended_it() -> None:
    names = FxNames()
    first, second = names.switch_on(), names.switch_on()
    first()
    first()
    run(torch.compile(model(), backend="eager"))
    assert names.known()
    second()


def test_settings_of_inductor_come_and_go_with_it_unless_they_are_the_programs() -> None:
    config = pytest.importorskip("torch._inductor.config")
    name_compiled_code()
    name_compiled_code()
    assert config.cpp.enable_kernel_profile is True
    name_compiled_code(is_on=False)
    name_compiled_code(is_on=False)
    assert config.cpp.enable_kernel_profile is False
    with config.patch({"cpp.enable_kernel_profile": True, "trace.provenance_tracking_level": 2}):
        name_compiled_code()
        name_compiled_code(is_on=False)
        assert config.cpp.enable_kernel_profile is True
        assert config.trace.provenance_tracking_level == 2


def test_a_failure_of_ours_never_reaches_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("ours")

    for name in ("_graph_of", "_note_calls", "_is_compiling", "_set"):
        torch._dynamo.reset()
        with monkeypatch.context() as patch:
            patch.setattr(fx_names, name, fail)
            names = FxNames()
            end = names.switch_on()
            run(torch.compile(model(), backend="eager"))
            end()


def test_a_failure_of_the_program_stays_as_it_is() -> None:
    names = FxNames()
    end = names.switch_on()

    def backend(*_: object) -> Any:
        raise ValueError("mine")

    with pytest.raises(Exception, match="mine"):
        run(torch.compile(model(), backend=backend))
    end()


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("L['self']", ""),
        ("L['fn'].0.linear", "0.linear"),
        ("L['self'].layers.0.fc", "layers.0.fc"),
        ("L['self']._modules['layers']._modules['0'].fc", "layers.0.fc"),
        ("getattr(L['self'].layers, '0')", "layers.0"),
        ("L['model']._orig_mod.fc", "model.fc"),
        ("G['net'].layers[1]", "net.layers.1"),
    ],
)
def test_the_path_of_a_module_is_that_of_its_attributes(source: str, path: str) -> None:
    assert fx_names._path_of(source) == path
