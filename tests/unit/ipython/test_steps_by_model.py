"""Where no loop of a cell makes steps and no optimizer does, a step begins with each call of its model."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import torchprof_magic as tp
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.capture.torch_api.compat import has_optimizer
from torchprof_magic.capture.watch.model_calls import ModelCalls

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

ALL = "--preset quick --wait 0 --warmup 0 --active 100 --repeat 1"
FUNCTIONS = """
def evaluate(model, batches):
    with torch.no_grad():
        return [model(batch).sum().item() for batch in batches]

def scored(model, batches):
    return [model(batch) for batch in batches]

def fit(model, batches):
    evaluate(model, batches[:3])
    optimizer = make_optimizer(model)
    for batch in batches:
        model(batch).sum().backward()
        optimizer.step()
"""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))

    def forward(self, x: torch.Tensor, again: int = 0) -> torch.Tensor:
        return self(x, again - 1) if again else self.inner(x)

    def generate(self, x: torch.Tensor, count: int) -> torch.Tensor:
        with torch.no_grad():
            x = self.inner[0](x)
            for _ in range(count):
                x = self(x, 2)
        return x


class Unreadable:
    """Something that the cell calls, of which no code can be read."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.__call = function

    def __getattr__(self, name: str) -> Any:
        return self.__call


@pytest.fixture(autouse=True)
def _program(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests may leave optimizers.
    monkeypatch.setattr(compat, "has_optimizer", lambda: False)
    shell.user_ns |= {
        "torch": torch,
        "nn": nn,
        "model": Net(),
        "batches": [torch.ones(2, 4)] * 6,
        "make_optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
    }
    shell.run_cell(FUNCTIONS)


def run(shell: InteractiveShell, cell: str, flags: str = ALL) -> Any:
    result = shell.run_cell(f"%%torchprof --quiet {flags}\n{cell}")
    assert result.error_before_exec is None
    return tp.last


def codes(report: Any) -> list[str]:
    return [problem.code for problem in report.problems if problem.code.startswith("capture.")]


def counts(report: Any, name: str = "aten::addmm") -> list[int]:
    """Return how often an op ran in each step."""
    events = report.trace.events.filter(name=name)
    return [events.filter(step=number).height for number in report.steps["number"]]


def test_each_call_of_the_model_in_a_function_is_a_step(shell: InteractiveShell) -> None:
    report = run(shell, "found = evaluate(model, batches)")
    assert report.trace.meta.stepping.how == "model"
    assert ", one per call of Net" in report.summary()
    assert report.steps["complete"].to_list() == [True] * 6
    assert counts(report) == [2] * 6
    assert codes(report) == []
    assert len(shell.user_ns["found"]) == 6


def test_of_a_method_that_generates_the_steps_are_calls_of_what_is_called_again(shell: InteractiveShell) -> None:
    # What it calls once, and the module calling itself, make no steps.
    report = run(shell, "y = model.generate(batches[0], 5)")
    assert report.trace.meta.stepping.code == "Net"
    assert counts(report) == [3, 2, 2, 2, 2]


def test_the_details_are_recorded_in_later_calls(shell: InteractiveShell) -> None:
    report = run(shell, "found = evaluate(model, batches * 10)", "")
    assert report.trace.meta.two_pass is not None
    assert report.trace.meta.has_shapes


@pytest.mark.parametrize("cell", ["y = model(batches[0])", "y = model(batches[0])\nz = model(batches[1])"])
def test_calls_that_are_written_one_by_one_are_one_step(shell: InteractiveShell, cell: str) -> None:
    assert run(shell, cell).trace.meta.stepping.how == "cell"
    assert tp.last.steps.height == 1


def test_each_of_them_is_a_step_if_that_is_asked_for(shell: InteractiveShell) -> None:
    report = run(shell, "y = model(batches[0])\nz = model(batches[1])\n", f"{ALL} --step model")
    assert counts(report) == [2, 2]


def test_calls_that_may_train_are_one_step(shell: InteractiveShell) -> None:
    shell.user_ns["unreadable"] = Unreadable(shell.user_ns["scored"])
    assert run(shell, "y = unreadable.do(model, batches)").steps.height == 1


def test_where_a_cell_trains_the_optimizer_ends_the_steps_after_an_evaluation_too(shell: InteractiveShell) -> None:
    report = run(shell, "fit(model, batches)")
    assert report.trace.meta.stepping.how == "optimizer"
    assert counts(report) == [8, 2, 2, 2, 2, 2]


def test_where_an_optimizer_is_alive_code_that_cannot_be_read_may_train(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compat, "has_optimizer", lambda: True)
    shell.user_ns["unreadable"] = Unreadable(shell.user_ns["fit"])
    assert run(shell, "unreadable.do(model, batches)").trace.meta.stepping.how == "optimizer"
    shell.user_ns["unreadable"] = Unreadable(shell.user_ns["evaluate"])
    assert run(shell, "unreadable.do(model, batches)").trace.meta.stepping.how == "cell"


def test_training_that_nobody_could_know_of_is_told(shell: InteractiveShell) -> None:
    shell.user_ns["unreadable"] = Unreadable(shell.user_ns["fit"])
    report = run(shell, "unreadable.do(model, batches)")
    assert report.trace.meta.stepping.how == "model"
    (problem,) = [each for each in report.problems if each.code == "capture.model_trained"]
    assert problem.message == "A step is a call of Net, but then an optimizer stepped, too."


def test_an_exception_in_a_call_is_the_users_and_its_step_is_incomplete(shell: InteractiveShell) -> None:
    batches = [*[torch.ones(2, 4)] * 3, torch.ones(2, 5)]
    shell.user_ns["batches"] = batches
    result = shell.run_cell(f"%%torchprof --quiet {ALL}\nevaluate(model, batches)")
    assert isinstance(result.error_in_exec, RuntimeError)
    assert tp.last.steps["complete"].to_list() == [True, True, True, False]


def test_calls_on_another_thread_make_no_steps(shell: InteractiveShell) -> None:
    def beside(model: nn.Module, batches: list[torch.Tensor]) -> None:
        thread = Thread(target=shell.user_ns["evaluate"], args=(model, batches))
        thread.start()
        thread.join()

    shell.user_ns["beside"] = beside
    assert run(shell, "beside(model, batches)").trace.meta.stepping.how == "cell"


@pytest.mark.parametrize("method", ["begin", "end"])
def test_a_failure_of_ours_is_told_and_the_cell_is_one_step(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(ModelCalls, method, fail)
    report = run(shell, "found = evaluate(model, batches)")
    assert len(shell.user_ns["found"]) == 6
    assert report.steps.height == 1
    (problem,) = [each for each in report.problems if "KeyError" in each.message]
    assert problem.message.startswith("The hook that begins a step when a model is called failed")


def test_nothing_is_left_behind(shell: InteractiveShell) -> None:
    hooks = nn.modules.module._global_forward_pre_hooks
    before = len(hooks)
    run(shell, "found = evaluate(model, batches)")
    assert len(hooks) == before


def test_an_optimizer_that_is_alive_is_found() -> None:
    optimizer = torch.optim.SGD(Net().parameters(), lr=0.1)
    assert has_optimizer()
    del optimizer
