"""Python calls are counted in other ways where torch's own count cannot be read, and it is said where none works."""

from __future__ import annotations

import mmap
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from many_calls import LIMIT, call_until_stacks_end, function

import torchprof_magic as tp
from torchprof_magic.capture.torch_api import python_tracer
from torchprof_magic.capture.watch import call_counts, python_calls
from torchprof_magic.capture.watch.call_counts import CallsByMemory, MonitoredCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchprof_magic.report.trace_report import Report

HAS_MONITORING = hasattr(sys, "monitoring")


def generator() -> Iterator[int]:
    yield 1
    yield 2


@pytest.fixture
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a system on which the memory of the process cannot be read."""
    monkeypatch.setattr(python_tracer, "_MEMORY", "/nowhere")


def grow_and_call() -> None:
    """Take memory from the system. torch's list of calls does so late where earlier tests have left much of it free."""
    size = 2 * call_counts.LEAST_GROWTH_BYTES
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.write(b"x" * size)
        call_until_stacks_end()


def record(work: Callable[[], object]) -> Report:
    """Return a recording of a step with stacks."""
    with tp.profile(with_stack=True, budget_calls=LIMIT) as run:
        torch.zeros(3)
        work()
        torch.ones(3)
    assert run.report is not None
    return run.report


def messages(report: Report, code: str) -> list[str]:
    return [problem.message for problem in report.problems if problem.code == code]


class FakeMonitoring:
    """``sys.monitoring`` of which other tools use all, or but the one with the number ``free``."""

    def __init__(self, free: int | None = None) -> None:
        self.free = free

    def get_tool(self, number: int) -> str | None:
        return None if number == self.free else "debugger"


@pytest.mark.usefixtures("_elsewhere")
def test_stacks_end_where_torchs_count_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_counts, "LEAST_GROWTH_BYTES", 1_000_000)
    report = record(grow_and_call)
    (note,) = messages(report, "capture.stacks_ended")
    assert f"(limit {LIMIT:,})" in note
    assert "Everything else was recorded to the end." in note
    assert set(report.ops["name"]) >= {"aten::zeros", "aten::ones"}
    said = messages(report, "capture.calls_not_counted")
    assert len(said) == (0 if HAS_MONITORING else 1)
    assert ("up to" in note) is (not HAS_MONITORING)


@pytest.mark.usefixtures("_elsewhere")
def test_where_only_memory_tells_how_many_calls_there_are_that_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "monitoring", FakeMonitoring(), raising=False)
    with tp.profile(wait=0, warmup=0, active=1, repeat=2, with_stack=True) as run:
        for _ in range(2):
            torch.ones(3)
            run.step()
    said = (
        "Python calls cannot be counted here: torch's own count was not found, and other tools use all of "
        "sys.monitoring. Stacks end when the process has grown by 16 MB, not after 300,000 calls."
    )
    assert messages(run.report, "capture.calls_not_counted") == [said]
    assert not messages(run.report, "capture.stacks_ended")


@pytest.mark.skipif(sys.platform != "linux", reason="the calls are counted on Linux only")
def test_threads_of_which_no_count_is_found_are_monitored_or_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_calls.TracedThreads, "count", 3)
    monkeypatch.setattr(call_counts.PythonCalls, "threads", 1)
    report = record(call_until_stacks_end)
    (note,) = messages(report, "capture.stacks_ended")
    assert f"(limit {LIMIT:,})" in note
    said = (
        "Python calls cannot be counted here: torch's own count was found of 1 of 3 threads only, and this Python has "
        "no sys.monitoring. Those of the others do not count."
    )
    assert messages(report, "capture.calls_not_counted") == ([] if HAS_MONITORING else [said])


def test_that_stacks_have_no_limit_is_said_where_they_cannot_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_calls.TracedThreads, "can_end", False)
    said = "Python calls cannot be counted here: this Python cannot end what other threads are traced by. "
    assert messages(record(function), "capture.calls_not_counted") == [f"{said}Stacks have no limit."]


def test_that_stacks_have_no_limit_is_said_where_torchs_tracer_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_tracer, "_TRACER", "another")
    said = "Python calls cannot be counted here: torch's tracer of Python calls was not found. Stacks have no limit."
    assert messages(record(function), "capture.calls_not_counted") == [said]


def test_nothing_is_said_without_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_tracer, "_TRACER", "another")
    with tp.profile() as run:
        torch.ones(3)
    assert messages(run.report, "capture.calls_not_counted") == []


@pytest.mark.skipif(not HAS_MONITORING, reason="sys.monitoring came with Python 3.12")
def test_monitoring_counts_functions_builtins_and_what_generators_are_asked() -> None:
    calls = MonitoredCalls()

    def made(work: Callable[[], object]) -> int:
        counts = calls.count(), calls.count()
        work()
        return calls.count() - counts[1] - (counts[1] - counts[0])

    numbers, asked = range(1_000), generator()

    def call_both() -> None:
        for number in numbers:
            function()
            abs(number)

    def ask() -> None:
        for _ in asked:
            pass

    try:
        assert made(call_both) == 1 + 2_000
        assert made(ask) == 1 + 3  # twice for a value, and once for the end
    finally:
        calls.close()
    assert made(call_both) == 0


@pytest.mark.skipif(not HAS_MONITORING, reason="sys.monitoring came with Python 3.12")
def test_a_tool_of_the_user_is_left_alone() -> None:
    sys.monitoring.use_tool_id(5, "mine")
    try:
        calls = MonitoredCalls()
        assert sys.monitoring.get_tool(4) == "torchprof"
        calls.close()
        assert [sys.monitoring.get_tool(number) for number in (4, 5)] == [None, "mine"]
    finally:
        sys.monitoring.free_tool_id(5)


def test_a_small_growth_is_no_call_and_a_large_one_as_many_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = CallsByMemory()
    for grown_bytes, count in ((0, 0), (15_999_999, 0), (16_000_000, 666_666), (48_000_000, 2_000_000)):
        monkeypatch.setattr(calls._growth, "grown_bytes", lambda grown=grown_bytes: grown)
        assert calls.count() == count
    calls.close()
    calls.close()
