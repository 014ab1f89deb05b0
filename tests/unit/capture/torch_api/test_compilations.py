"""What is read of the compilations of a run, from a compiler that is made up."""

from __future__ import annotations

import sys
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from torchprof_magic.capture.parts import Parts
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.capture.torch_api import compilations
from torchprof_magic.capture.torch_api.compilations import Compilations


def code() -> None:
    """Stand for the function that is compiled."""


CODE = code.__code__


def metrics(number: int, **values: Any) -> SimpleNamespace:
    known = {"co_name": CODE.co_name, "co_filename": CODE.co_filename, "co_firstlineno": CODE.co_firstlineno}
    times = {"start_time": 1_000.0 + number, "entire_frame_compile_time_s": 0.5, "cache_size": number}
    return SimpleNamespace(**{"compile_id": f"0/{number}", **known, **times, **values})


class Compiler(SimpleNamespace):
    """What ``torch._dynamo.utils`` keeps."""

    def __init__(self, most: int = 64) -> None:
        super().__init__(_compilation_metrics=deque(maxlen=most), graph_break_reasons=[], guard_failures={})

    def compiles(self, *numbers: int, **values: Any) -> None:
        self._compilation_metrics.extend(metrics(number, **values) for number in numbers)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    made = Compiler()
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", made)
    monkeypatch.setitem(sys.modules, "torch._dynamo.callback", SimpleNamespace())
    return made


def watched() -> tuple[Compilations, ProblemLog]:
    problems = ProblemLog()
    found = Compilations(problems, Parts(problems))
    found.watch()
    return found, problems


def test_compilations_belong_to_the_step_that_ends_after_them(compiler: Compiler) -> None:
    compiler.compiles(0)
    found, _ = watched()
    compiler.compiles(1)
    found.begin_steps()
    compiler.compiles(2, 3)
    found.end_step(0, 900)
    found.end_step(1, 100)
    compiler.compiles(4)
    found.end_step(2, 800)
    compiler.compiles(5)
    assert [(each.region, each.step, each.step_ns) for each in found.take()] == [
        ("0/1", None, None),
        ("0/2", 0, 900),
        ("0/3", 0, 900),
        ("0/4", 2, 800),
        ("0/5", None, None),
    ]
    found.start_over()
    assert {each.step for each in found.take()} == {None}


def test_an_older_torch_tells_the_reason_by_the_guards_that_failed(compiler: Compiler) -> None:
    compiler.guard_failures[CODE] = ["n == 0"]
    found, _ = watched()
    compiler.compiles(1, 2)
    compiler.guard_failures[CODE] += [SimpleNamespace(reason="n == 1"), "0/1: n == 2", "0/0: n == 1"]
    compiler.compiles(3)
    assert [each.reason for each in found.take()] == ["n == 1", "n == 2", ""]


def test_a_reset_of_the_compiler_removes_breaks_that_were_seen(compiler: Compiler) -> None:
    def breaks(line: int) -> SimpleNamespace:
        place = SimpleNamespace(filename=CODE.co_filename, name=CODE.co_name, lineno=line)
        return SimpleNamespace(reason="print", user_stack=[place])

    found, _ = watched()
    compiler.graph_break_reasons += [breaks(1)]
    compiler.compiles(0)
    found.end_step(0, 1)
    compiler.graph_break_reasons[:] = [breaks(2), breaks(3)]
    compiler.compiles(0)
    assert [[each.line for each in one.breaks] for one in found.take()] == [[1], [2, 3]]


def test_what_torch_no_longer_keeps_is_said(monkeypatch: pytest.MonkeyPatch, compiler: Compiler) -> None:
    compiler._compilation_metrics = deque(maxlen=2)
    compiler.compiles(0)
    found, problems = watched()
    compiler.compiles(1, 2, 3)
    assert [each.region for each in found.take()] == ["0/2", "0/3"]
    assert [problem.code for problem in problems.as_tuple()] == ["capture.compilations_left_out"]
    monkeypatch.setattr(compilations, "MOST_KEPT", 2)
    compiler.compiles(4)
    assert len(found.take()) == 2


def test_a_process_without_a_compiler_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    found, problems = watched()
    found.end_step(0, 1)
    assert found.take() == ()
    assert problems.as_tuple() == ()
