"""A part that fails is switched off and named once, and what it set up is undone."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
import torch

from torchprof_magic.capture.parts import Parts
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.model.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterator

PART = "The watch"


@pytest.fixture
def problems() -> ProblemLog:
    return ProblemLog()


@pytest.fixture
def parts(problems: ProblemLog) -> Parts:
    return Parts(problems)


@pytest.fixture
def timeout() -> Iterator[None]:
    def handle(*_: object) -> None:
        raise TimeoutError("of the user")

    before = signal.signal(signal.SIGALRM, handle)
    yield
    signal.signal(signal.SIGALRM, before)


def fail(*_: object) -> int:
    raise ValueError("no such thing")


def test_the_value_of_a_part_is_returned(parts: Parts) -> None:
    assert parts.ask(PART, int, "7", default=0) == 7


def test_a_part_that_fails_gives_its_default_and_is_not_run_again(parts: Parts, problems: ProblemLog) -> None:
    runs: list[int] = []
    assert parts.ask(PART, fail, default=3) == 3
    parts.run(PART, runs.append, 1)
    parts.run("Another", runs.append, 2)
    assert runs == [2]
    assert (parts.is_off(PART), parts.is_off("Another")) == (True, False)
    (only,) = problems.as_tuple()
    expected = f"The watch failed and was left out: ValueError: no such thing (torch {torch.__version__})."
    assert (only.code, only.message, only.count) == ("capture.part_failed", expected, 1)


def test_several_failures_of_one_part_are_one_problem(parts: Parts, problems: ProblemLog) -> None:
    for _ in range(3):
        parts.undo(PART, fail)
    assert [problem.count for problem in problems.as_tuple()] == [1]


def test_what_a_part_has_set_up_is_undone_after_it_has_failed(parts: Parts) -> None:
    undone: list[str] = []
    with ExitStack() as undo:
        parts.set_up(PART, lambda: lambda: undone.append("hook"), undo)
        parts.set_up("Another", fail, undo)  # type: ignore[arg-type]
        parts.run(PART, fail)
    assert undone == ["hook"]


def test_a_check_says_what_the_user_has_to_know_and_hides_its_own_failures(parts: Parts, problems: ProblemLog) -> None:
    def refuse() -> None:
        raise CaptureError("this machine has no GPU")

    with pytest.raises(CaptureError, match="no GPU"):
        parts.check(PART, refuse)
    parts.check(PART, fail)
    assert [problem.code for problem in problems.as_tuple()] == ["capture.part_failed"]


@pytest.mark.usefixtures("timeout")
def test_a_timeout_of_the_user_within_a_part_is_raised_in_the_users_code(parts: Parts, problems: ProblemLog) -> None:
    with pytest.raises(TimeoutError, match="of the user"):
        parts.run(PART, signal.raise_signal, signal.SIGALRM)
    assert problems.as_tuple() == ()
    assert not parts.is_off(PART)
