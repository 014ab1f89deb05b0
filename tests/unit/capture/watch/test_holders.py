from __future__ import annotations

import gc
import sys
import weakref
from types import ModuleType
from typing import Any, cast

import pytest
import torch
from torch import nn

from torchprof_magic.capture.watch.holders import find_holders

MODULE = "module_of_the_user"
PLACE = f"{MODULE}.kept_here"
SOURCE = """
kept_here = {}
class Keeper:
    values = []
"""


@pytest.fixture(autouse=True)
def _module_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a module that keeps things. The search does not see this one, which was there before the tests began."""
    module = ModuleType(MODULE)
    exec(SOURCE, vars(module))  # noqa: S102 - our own text
    monkeypatch.setitem(sys.modules, MODULE, module)


def kept() -> dict[str, Any]:
    """Return what a variable of that module holds. A variable of the test would hold it, too."""
    return cast("dict[str, Any]", sys.modules[MODULE].kept_here)


def held(tensor: torch.Tensor) -> list[tuple[str, str, str]]:
    address = tensor.data_ptr()
    del tensor
    return [(holder.path, holder.kind, holder.way) for holder in find_holders([address])]


def paths(tensor: torch.Tensor) -> list[str]:
    return [path for path, kind, _ in held(tensor) if kind != "local"]


def test_elements_of_containers_of_a_module_are_named() -> None:
    tensor = torch.ones(3)
    kept()["losses"] = [0, {"best": tensor}]
    assert held(tensor)[0] == (f"{PLACE}['losses'][1]['best']", "variable", "tensor")


def test_an_attribute_of_a_model_in_a_variable_is_named_as_it_is_written() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    kept()["model"] = model
    model[0].cache = [torch.ones(3)]
    tensor = model[0].cache[0]
    del model
    assert paths(tensor)[0].startswith(f"{PLACE}['model']")
    assert paths(tensor)[0].endswith(".cache[0]")


def test_an_attribute_of_a_class_is_named() -> None:
    sys.modules[MODULE].Keeper.values[:] = [torch.ones(3)]
    assert held(sys.modules[MODULE].Keeper.values[0]) == [("Keeper.values[0]", "class", "tensor")]


def test_a_variable_of_a_closure_is_named() -> None:
    def make() -> Any:
        seen = [torch.ones(3)]
        return (lambda: seen), seen[0]

    kept()["hook"], tensor = make()
    assert f"{PLACE}['hook'].seen[0]" in paths(tensor)


def test_a_local_of_a_running_function_is_named_after_it() -> None:
    mine = [torch.ones(3)]
    found = held(mine[0])
    assert found == [("test_a_local_of_a_running_function_is_named_after_it(): mine[0]", "local", "tensor")]


def test_what_a_kept_exception_holds_says_so() -> None:
    address = 0

    def fail() -> None:
        nonlocal address
        large = torch.ones(3)
        address = large.data_ptr()
        raise ValueError

    try:
        fail()
    except ValueError as exc:
        kept()["error"] = exc
    found = [(holder.path, holder.kind) for holder in find_holders([address])]
    assert found == [(f"{PLACE}['error'].large", "traceback")]


def test_the_graph_behind_a_kept_loss_is_found() -> None:
    weight = torch.ones(3, requires_grad=True)
    hidden = (weight * 2).exp()
    kept()["loss"] = hidden.sum()
    address = hidden.data_ptr()
    del hidden
    found = [(holder.path, holder.way) for holder in find_holders([address])]
    assert found == [(f"{PLACE}['loss']", "graph")]


def test_a_graph_that_was_used_up_holds_nothing() -> None:
    weight = torch.ones(3, requires_grad=True)
    hidden = (weight * 2).exp()
    kept()["loss"] = hidden.sum()
    kept()["loss"].backward()
    address = hidden.data_ptr()
    del hidden
    gc.collect()
    assert find_holders([address]) == []


class Doubled(torch.autograd.Function):
    """An autograd function of the user's, which raises where others say that what they saved is gone."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(_ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0] * 2


def test_an_autograd_function_of_the_user_that_was_used_up_holds_nothing() -> None:
    weight = torch.ones(3, requires_grad=True)
    hidden = weight.exp()
    kept()["loss"] = Doubled.apply(hidden).sum()  # type: ignore[no-untyped-call]
    kept()["loss"].backward()
    address = hidden.data_ptr()
    del hidden
    gc.collect()
    assert find_holders([address]) == []


def test_what_saved_tensor_hooks_packed_is_not_unpacked() -> None:
    unpacked: list[Any] = []
    weight = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: (tensor,), unpacked.append):
        kept()["loss"] = weight.exp().sum()
    find_holders([weight.data_ptr()])
    assert unpacked == []


def test_an_array_that_shares_the_memory_of_a_tensor_is_named() -> None:
    tensor = torch.ones(3)
    address = tensor.data_ptr()
    kept()["arrays"] = [tensor.numpy()]
    del tensor
    found = [(holder.path, holder.kind, holder.way) for holder in find_holders([address])]
    assert found == [(f"{PLACE}['arrays'][0]", "variable", "tensor")]
    kept()["arrays"] = {"view": kept()["arrays"][0][1:]}  # of which the first array is the base
    assert [holder.path for holder in find_holders([address])] == [f"{PLACE}['arrays']['view']"]


def test_a_gradient_with_a_graph_is_named_after_its_parameter() -> None:
    kept()["model"] = model = nn.Linear(2, 1)
    (gradient,) = torch.autograd.grad(model(torch.ones(1, 2)).exp().sum(), [model.weight], create_graph=True)
    model.weight.grad = gradient
    address = gradient.data_ptr()
    del gradient, model
    found = [(holder.path, holder.kind, holder.way) for holder in find_holders([address])]
    assert found == [(f"{PLACE}['model'].weight.grad", "variable", "tensor")]


class Stashed(torch.autograd.Function):
    """An autograd function that keeps a tensor in an attribute, where backward does not release it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.stash = {"large": [x.exp()]}
        return x * 2

    @staticmethod
    def backward(_ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0] * 2


def test_an_attribute_of_the_context_of_a_function_belongs_to_the_graph_of_what_it_returned() -> None:
    kept()["losses"] = [Stashed.apply(torch.ones(3, requires_grad=True)).sum()]  # type: ignore[no-untyped-call]
    address = kept()["losses"][0].grad_fn.next_functions[0][0].stash["large"][0].data_ptr()
    found = [(holder.path, holder.way) for holder in find_holders([address])]
    assert found == [(f"{PLACE}['losses'][0]", "graph")]


def test_of_several_names_the_shortest_is_found_each_time() -> None:
    tensor = torch.ones(3)
    kept().update({"longer": [tensor], "b": [tensor], "a": [tensor]})
    address = tensor.data_ptr()
    del tensor
    found = {tuple(holder.path for holder in find_holders([address])) for _ in range(3)}
    assert found == {(f"{PLACE}['a'][0]",)}


def test_looking_for_holders_keeps_nothing_itself() -> None:
    gc.disable()  # a reference cycle would stay
    try:
        tensor = torch.ones(3)
        gone = weakref.ref(tensor)
        address = tensor.data_ptr()
        for _ in range(2):
            found = [holder.path for holder in find_holders([address])]
            assert found == ["test_looking_for_holders_keeps_nothing_itself(): tensor"]
        del tensor
        assert gone() is None
        assert find_holders([address]) == []
    finally:
        gc.enable()


def test_variables_that_a_function_looks_at_itself_stay() -> None:
    tensor = torch.ones(3)
    mine = locals()
    find_holders([tensor.data_ptr()])
    assert mine["tensor"] is tensor


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="exec in a function leaves no variables any more")
def test_variables_that_exec_has_added_to_a_function_stay() -> None:
    exec("added = 3")  # noqa: S102 - what the test is about
    find_holders([torch.ones(3).data_ptr()])
    exec("assert added == 3")  # noqa: S102 - the same
