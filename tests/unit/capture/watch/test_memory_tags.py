from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from torchprof_magic.capture.parts import Parts
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.capture.watch.memory_tags import MemoryTags
from torchprof_magic.capture.watch.modules import ModuleMarks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Watched:
    """Tags with the hooks of modules and optimizers, and the tags that were noted."""

    def __init__(self, modules: bool | None = None) -> None:
        self.problems = ProblemLog()
        self.parts = Parts(self.problems)
        self.tags = MemoryTags(self.parts)
        self.marks = ModuleMarks(modules, self.tags, parts=self.parts)
        self._ends: list[Callable[[], None]] = [self.tags.watch(), self.marks.watch()]
        self.tags.begin_cycle()
        self.marks.switch(is_on=True)
        self.tags.switch(is_on=True)

    def end(self) -> None:
        for end in self._ends:
            end()

    def found(self, category: str) -> dict[int, str]:
        """The name at each address that was noted for a category so far."""
        kinds = self.tags.tagged
        return {
            address: kinds[kind].name
            for _, noted, addresses, numbers in self.tags._batches
            if noted == category
            for address, kind in zip(addresses, numbers, strict=True)
        }


@pytest.fixture(params=[None, False, True], ids=["modules", "no modules", "all modules"])
def watched(request: pytest.FixtureRequest) -> Iterator[Watched]:
    watched = Watched(request.param)
    yield watched
    watched.end()


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    model(x).sum().backward()
    optimizer.step()


def test_parameters_buffers_gradients_state_and_inputs_are_found_by_their_names(watched: Watched) -> None:
    model, x = net(), torch.randn(5, 3)
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, x)
    named = dict(model.named_parameters())
    assert watched.found("parameter") == {p.data_ptr(): name for name, p in named.items()}
    assert watched.found("buffer") == {b.data_ptr(): name for name, b in model.named_buffers()}
    assert watched.found("gradient") == {p.grad.data_ptr(): name for name, p in named.items() if p.grad is not None}
    assert watched.found("optimizer_state") == {
        optimizer.state[p][key].data_ptr(): f"{name}: {key}"
        for name, p in named.items()
        for key in ("step", "exp_avg", "exp_avg_sq")
    }
    assert watched.found("input") == {x.data_ptr(): ""}


def test_only_arguments_of_the_outermost_module_are_inputs(watched: Watched) -> None:
    x = torch.randn(5, 3)
    with torch.no_grad():
        net()(x)
    assert list(watched.found("input")) == [x.data_ptr()]


def test_keyword_arguments_and_what_is_in_structures_are_inputs(watched: Watched) -> None:
    class Takes(nn.Module):
        def forward(self, batch: Any, *, scale: torch.Tensor) -> torch.Tensor:
            return batch["x"][0] * scale

    x, scale = torch.ones(2), torch.ones(2)
    Takes()({"x": [x]}, scale=scale)
    assert set(watched.found("input")) == {x.data_ptr(), scale.data_ptr()}


def test_views_of_one_storage_are_tagged_at_its_beginning(watched: Watched) -> None:
    flat = torch.zeros(8)
    parameters = [nn.Parameter(flat[:4]), nn.Parameter(flat[4:])]
    gradients = torch.zeros(8)
    for parameter, gradient in zip(parameters, (gradients[:4], gradients[4:]), strict=True):
        parameter.grad = gradient
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for _ in range(3):
        optimizer.step()
    assert set(watched.found("gradient")) == {gradients.data_ptr()}
    assert set(watched.found("parameter")) == {flat.data_ptr()}


def test_gradients_of_every_step_are_tagged_although_names_are_looked_up_once(watched: Watched) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = set()
    kept = []
    for _ in range(4):
        train(model, optimizer, torch.randn(5, 3))
        kept += [p.grad for p in model.parameters()]
        seen |= {p.grad.data_ptr() for p in model.parameters() if p.grad is not None}
        optimizer.zero_grad()
    assert set(watched.found("gradient")) == seen
    assert len(seen) == 24
    assert "0.weight" in watched.found("gradient").values()


def test_a_missing_gradient_and_a_sparse_one_are_left_out(watched: Watched) -> None:
    model = nn.ModuleDict({"embed": nn.Embedding(5, 2, sparse=True), "unused": nn.Linear(2, 2)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model["embed"](torch.tensor([1])).sum().backward()
    optimizer.step()
    assert watched.found("gradient") == {}
    assert not watched.problems.as_tuple()


def test_no_tensor_module_or_optimizer_is_kept_alive(watched: Watched) -> None:
    model, x = net(), torch.randn(5, 3)
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, x)
    refs = [weakref.ref(value) for value in (model, optimizer, x, *model.parameters())]
    del model, optimizer, x
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)
    assert watched.tags.take() != ()


def test_hooks_are_gone_afterwards() -> None:
    def hooks() -> list[int]:
        names = ("_global_forward_pre_hooks", "_global_forward_hooks", "_global_forward_hooks_with_kwargs")
        optimizers = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
        return [
            *(len(getattr(torch_module, name)) for name in names),
            *(len(getattr(torch_optimizer, name)) for name in optimizers),
        ]

    before = hooks()
    watched = Watched()
    assert hooks() != before
    watched.end()
    assert hooks() == before


def test_an_error_of_a_class_of_the_user_is_a_problem_and_not_raised(watched: Watched) -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    class Entries(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("no buffers here")

    odd = Odd()
    odd.__dict__["_buffers"] = Entries()
    odd(torch.ones(1))
    odd(torch.ones(1))
    assert [problem.code for problem in watched.problems.as_tuple()] == ["capture.part_failed"]
    assert "no buffers here" in watched.problems.as_tuple()[0].message


def test_a_tensor_class_is_not_told_that_it_is_looked_at() -> None:
    class Loud(torch.Tensor):
        calls = 0

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            Loud.calls += 1
            return super().__torch_function__(func, types, args, kwargs or {})

    class Same(nn.Module):
        def forward(self, x: Any) -> Any:
            return x

    x = torch.ones(2).as_subclass(Loud)
    watched = Watched(modules=False)  # their shapes are looked at otherwise
    Same()(x)
    watched.end()
    assert len(watched.found("input")) == 1
    assert Loud.calls == 0


def test_the_names_of_a_second_model_begin_with_its_class(watched: Watched) -> None:
    first, second, third = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
    for model in (first, second, third):
        model(torch.ones(1, 2))
    names = watched.found("parameter")
    assert [names[model.weight.data_ptr()] for model in (first, second, third)] == [
        "weight", "Linear.weight", "Linear_1.weight",
    ]  # fmt: skip


def test_a_closure_that_makes_the_gradients_is_seen(watched: Watched) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(1, 2)).pow(2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert model.weight.grad is not None
    assert model.weight.grad.data_ptr() in watched.found("gradient")


def test_meta_tensors_have_no_address(watched: Watched) -> None:
    nn.Linear(2, 2, device="meta")(torch.ones(1, 2, device="meta"))
    assert set(watched.found("parameter")) <= {0}
    assert not watched.problems.as_tuple()


def test_a_model_that_is_first_compiled_under_the_hooks_has_one_graph(watched: Watched) -> None:
    compat.keep_out_of_graphs()
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    compiled = torch.compile(model, backend="eager", fullgraph=True)  # raises if a hook breaks the graph
    x = torch.ones(2, 3)
    compiled(x)
    assert set(watched.found("parameter").values()) == {"0.weight", "0.bias"}
    assert set(watched.found("input")) == {x.data_ptr()}
    torch.compiler.reset()
