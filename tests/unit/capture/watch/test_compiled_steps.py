"""torch.compile does not compile this package, and a step in a compiled function is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from capturing import codes

from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture.torch_api import compat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Make = Callable[..., CaptureSession]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def test_a_step_in_a_compiled_function_counts_and_is_reported_once(make_session: Make) -> None:
    session = make_session(schedule=(1, 1, 2, 1))
    session.start()

    @torch.compile(backend="eager")
    def train(a: torch.Tensor) -> torch.Tensor:
        b = a * 2
        session.step()
        c = b + 1
        session.step()
        return c

    found = [train(torch.full((2,), 3.0)).tolist() for _ in range(3)]
    recording = session.stop()
    assert found == [[7.0, 7.0]] * 3
    assert [mark.number for mark in recording.cycles[0].steps] == [2, 3]
    assert [(problem.code, problem.count) for problem in recording.problems] == [("capture.compiled_step", 1)]
    assert recording.steps_seen == 4


def test_a_step_outside_a_compiled_function_is_not_reported(make_session: Make) -> None:
    session = make_session(schedule=(1, 1, 2, 1))
    train = torch.compile(lambda a: a * 2, backend="eager")
    train(torch.ones(2))
    session.start()
    for _ in range(5):
        train(torch.ones(2))
        session.step()
    assert codes(session.stop()) == []


def test_the_guarded_functions_themselves_are_never_compiled(make_session: Make) -> None:
    session = make_session(schedule=(1, 1, 1, 1))
    session.start()
    traced: list[str] = []

    def backend(graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> Callable[..., object]:
        traced.append(graph.code)
        return graph.forward

    @torch.compile(backend=backend)
    def train(a: torch.Tensor) -> torch.Tensor:
        b = a.sin()
        session.step()
        return b.cos()

    train(torch.ones(2))
    session.stop()
    assert len(traced) == 2  # what is before the step, and what is behind it
    assert "sin" in traced[0]
    assert "cos" in traced[1]


def test_ordinary_code_is_not_mistaken_for_compiled_code() -> None:
    assert not compat.is_compiled(test_ordinary_code_is_not_mistaken_for_compiled_code.__code__)


def test_recording_works_without_the_compiler_of_torch(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "_left_alone", [])
    monkeypatch.setattr("torch._dynamo.trace_rules.add", lambda _: 1 / 0)
    session = make_session("cell")
    session.start()
    assert len(session.stop().cycles) == 1
    assert compat._left_alone == []
