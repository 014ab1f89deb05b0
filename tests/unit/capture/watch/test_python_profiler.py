"""A profiler of Python functions that a recording with stacks ends is named, and goes on where it can."""

from __future__ import annotations

import cProfile
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

import torchprof_magic as tp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.meta import Problem


@pytest.fixture(autouse=True)
def _no_profiler_afterwards() -> Iterator[None]:
    yield
    sys.setprofile(None)


class Counter:
    """Counts calls of one function, as a profiler of the user's does."""

    def __init__(self) -> None:
        self.calls = 0

    def count(self, frame: Any, event: str, _: object) -> None:
        self.calls += event == "call" and frame.f_code.co_name == "work"


def work() -> None:
    torch.ones(3).sum()


def recorded(**options: Any) -> list[Problem]:
    with tp.profile(**options) as run:
        work()
    return [problem for problem in run.report.problems if problem.code == "capture.python_profiler"]


def test_a_function_of_setprofile_is_called_again_after_the_recording() -> None:
    counter = Counter()
    sys.setprofile(counter.count)
    (problem,) = recorded(with_stack=True)
    assert "sys.setprofile with Counter.count. It is called again after the recording" in problem.message
    assert sys.getprofile() == counter.count
    before = counter.calls
    work()
    assert counter.calls == before + 1


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="cProfile has a place of its own there, and goes on")
def test_cprofile_is_named_and_can_still_be_ended() -> None:
    with cProfile.Profile():
        (problem,) = recorded(with_stack=True)
    assert "cProfile. It did not go on after the recording" in problem.message


@pytest.mark.parametrize("options", [{}, {"profile_memory": True, "record_shapes": True}, {"with_modules": True}])
def test_a_recording_without_stacks_leaves_it_on(options: dict[str, bool]) -> None:
    counter = Counter()
    sys.setprofile(counter.count)
    assert recorded(**options) == []
    assert counter.calls == 1


def test_without_another_profiler_there_is_nothing_to_say() -> None:
    assert recorded(with_stack=True) == []
    assert sys.getprofile() is None
