"""Tests of what this process knows of its runs."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support import make_trace, span

from torchprof_magic.model.meta import CellSource
from torchprof_magic.runs import this_process

if TYPE_CHECKING:
    from collections.abc import Callable


class RunOfCell:
    """A run of one cell, which notes what is asked of it."""

    run_id, step_ns = "run", 0.0

    def __init__(self, sample: str | None) -> None:
        trace = make_trace(span("aten::mm", 0, 10))
        self.trace = replace(trace, meta=replace(trace.meta, cell=CellSource(label="In [1]", source="a = 1")))
        self.change_line = ""
        self.compared_with: list[Any] = []
        self._sample = sample

    def sample(self) -> str:
        if self._sample is None:
            raise ValueError("no sample")
        return self._sample

    def compare_with_sample(self, earlier: Any) -> None:
        self.compared_with.append(earlier)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What waits until nobody does."""
    for name in ("_cells", "_entries", "_reports"):
        monkeypatch.setattr(this_process, name, deque() if name != "_reports" else [])
    return []


def test_what_only_the_next_run_needs_can_wait(waiting: list[Callable[[], object]]) -> None:
    first, second = RunOfCell("first"), RunOfCell("second")
    this_process.remember(first, later=waiting.append)
    assert len(waiting) == 1
    waiting.pop()()
    first._sample = None  # it is taken once
    this_process.remember(second, later=waiting.append)
    assert second.compared_with == ["first"]


def test_the_next_run_is_compared_if_what_it_needs_still_waits(waiting: list[Callable[[], object]]) -> None:
    second = RunOfCell("second")
    this_process.remember(RunOfCell("first"), later=waiting.append)
    this_process.remember(second, later=waiting.append)
    assert second.compared_with == ["first"]


def test_a_run_is_not_compared_with_one_of_which_nothing_is_known(waiting: list[Callable[[], object]]) -> None:
    second = RunOfCell("second")
    this_process.remember(RunOfCell(None), later=waiting.append)
    with pytest.raises(ValueError, match="no sample"):
        waiting.pop()()
    this_process.remember(second, later=waiting.append)
    assert second.compared_with == []
    assert [entry.cell for entry in this_process.entries()] == [1, 1]


def test_ops_that_an_earlier_run_recorded_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_process, "_ops", set())
    assert this_process.ops_before(["aten::mm", "aten::add"]) == ()
    assert this_process.ops_before(["aten::mul", "aten::mm"]) == ("aten::mm",)
    assert this_process.ops_before(["aten::add", "aten::mul"]) == ("aten::add", "aten::mul")


def test_no_more_ops_are_known_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_process, "_ops", set())
    monkeypatch.setattr(this_process, "MAX_OPS", 2)
    assert this_process.ops_before(["a", "b", "c"]) == ()
    assert this_process.ops_before(["a"]) == ()
    assert this_process.ops_before(["a"]) == ("a",)
