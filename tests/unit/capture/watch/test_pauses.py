"""Pauses leave out all of the paused work and nothing else, and the report says so."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
import torch
from capturing import names_in, work
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from versions import needs

import torchprof_magic as tp
from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture.watch import pauses
from torchprof_magic.model.errors import OptionsError

CPU = [ProfilerActivity.CPU]
STEP = ("cycle", "number", "complete")


def test_paused_work_is_not_recorded_and_steps_are_still_counted() -> None:
    with tp.profile(wait=0, warmup=0, active=2, repeat=1) as p:
        for _ in range(2):
            torch.ones(3).sin()
            with tp.paused():
                torch.ones(3).tan()
            torch.ones(3).cos()
            p.step()
    names = p.report.ops["name"].to_list()
    assert {"aten::sin", "aten::cos"} <= set(names)
    assert "aten::tan" not in names
    assert p.report.steps.select(STEP).rows() == [(0, 0, True), (0, 1, True)]


def test_a_pause_within_a_pause_does_not_end_it() -> None:
    with tp.profile() as p, tp.paused():
        with tp.paused():
            pass
        torch.ones(3).tan()
    assert "aten::tan" not in p.report.ops["name"].to_list()


def test_pauses_that_overlap_last_until_the_last_of_them_ends() -> None:
    with tp.profile() as p:
        first, second = tp.paused(), tp.paused()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        torch.ones(3).tan()
        second.__exit__(None, None, None)
        torch.ones(3).cos()
    assert {"aten::tan", "aten::cos"} & set(p.report.ops["name"]) == {"aten::cos"}


def test_a_pause_of_an_earlier_step_does_not_end_one_of_this_step() -> None:
    with tp.profile(wait=0, warmup=0, active=2, repeat=1) as p:
        first = tp.paused()
        first.__enter__()
        p.step()
        with tp.paused():
            first.__exit__(None, None, None)
            torch.ones(3).tan()
        torch.ones(3).cos()
        p.step()
    assert {"aten::tan", "aten::cos"} & set(p.report.ops["name"]) == {"aten::cos"}


def test_a_pause_of_an_activity_that_is_not_recorded_does_nothing() -> None:
    with tp.profile(activities=("cpu",)) as p, tp.paused("cuda"):
        torch.ones(3).tan()
    assert p.report.problems == []


@needs("profile_all_threads")
def test_a_recording_of_all_threads_cannot_be_paused_and_says_so() -> None:
    with tp.profile(all_threads=True, wait=0, warmup=0, active=2, repeat=1) as p:
        for _ in range(2):
            with tp.paused():
                torch.ones(3).tan()
            p.step()
    assert [problem.code for problem in p.report.problems] == ["capture.not_paused"]
    assert p.report.ops.filter(p.report.ops["name"] == "aten::tan")["calls"].to_list() == [2]


def test_the_report_says_how_often_and_how_long_recording_was_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(step=1_500_000)
    with tp.profile(wait=1, warmup=1, active=2, repeat=1) as p:
        monkeypatch.setattr(pauses, "perf_counter_ns", lambda: next(clock))
        for number in range(6):
            if number != 3:
                with tp.paused(), tp.paused("cpu"):
                    torch.ones(3).tan()
            p.step()
        with tp.paused():
            pass
    told = [problem.message for problem in p.report.problems if problem.code == "capture.paused"]
    assert len(told) == 1
    assert told[0].startswith("Recording of cpu events was paused 1 time, for 1.50 ms in total. What ran during that")


def test_a_pause_ends_with_an_exception_and_does_nothing_outside_of_a_recording() -> None:
    with tp.paused():
        work()
    with tp.profile() as p:
        with pytest.raises(ZeroDivisionError), tp.paused("cpu"):
            raise ZeroDivisionError
        torch.ones(3).tan()
    assert "aten::tan" in p.report.ops["name"].to_list()
    with pytest.raises(OptionsError, match="unknown gpu"), tp.paused("gpu"):
        pass


def calls(report: tp.Report, name: str) -> list[tuple[int, int]]:
    """Return the cycle and the step of every call of an op."""
    return report.events.filter(pl.col("name").cast(pl.String) == name).select("cycle", "step").rows()


def test_a_pause_lasts_across_steps_and_no_step_is_lost() -> None:
    with tp.profile(wait=0, warmup=1, active=5, repeat=1) as p:
        for number in range(6):
            if number == 2:
                pause = tp.paused()
                pause.__enter__()
            torch.ones(3).cumsum(0)
            if number == 4:
                pause.__exit__(None, None, None)
            torch.ones(3).cos()
            p.step()
    assert p.report.steps.select(STEP).rows() == [(0, number, True) for number in range(1, 6)]
    assert calls(p.report, "aten::cumsum") == [(0, 1), (0, 5)]
    assert calls(p.report, "aten::cos") == [(0, 1), (0, 4), (0, 5)]


def test_a_pause_lasts_across_cycles_and_is_known_before_the_first() -> None:
    with tp.profile(wait=1, warmup=1, active=1, repeat=3) as p:
        with tp.paused():
            for _ in range(7):
                torch.ones(3).tan()
                p.step()
        for _ in range(2):
            torch.ones(3).tan()
            p.step()
    assert p.report.steps.select(STEP).rows() == [(0, 2, True), (1, 5, True), (2, 8, True)]
    assert calls(p.report, "aten::tan") == [(2, 8)]


def test_a_paused_loop_of_a_session_that_has_not_started_is_paused(make_session: Callable[..., CaptureSession]) -> None:
    session = make_session("loop")
    session.open()
    with tp.paused():
        session.start(length=1)
        torch.ones(3).tan()
        session.step()
    (cycle,) = session.stop().cycles
    assert "aten::tan" not in names_in(cycle.path)


def test_a_step_says_for_how_long_it_was_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(step=1_000)
    with tp.profile(wait=0, warmup=0, active=3, repeat=1) as p:
        monkeypatch.setattr(pauses, "perf_counter_ns", lambda: next(clock))
        pause = tp.paused()
        pause.__enter__()  # at 0
        p.step()  # at 1,000
        pause.__exit__(None, None, None)  # at 2,000
        for _ in range(2):
            p.step()
    assert [mark.paused_ns for mark in p.report.trace.meta.recorded_steps] == [1_000, 1_000, 0]


def toggled(kind: Callable[..., Any], *, with_stack: bool) -> list[tuple[str, int]]:
    """Return the recorded ops and ranges of five steps, and how often; from the second to the fourth they are off."""
    counted: Counter[str] = Counter()
    plan = schedule(wait=0, warmup=1, active=5, repeat=1)

    def count(p: Any) -> None:
        counted.update(event.key for event in p.events())

    with kind(
        activities=CPU,
        schedule=plan,
        on_trace_ready=count,
        with_stack=with_stack,
        profile_memory=True,
    ) as p:
        for number in range(6):
            torch.ones(4).sin()
            if number == 2:
                p.toggle_collection_dynamic(enable=False, activities=CPU)
            torch.ones(4).cos()
            if number == 4:
                p.toggle_collection_dynamic(enable=True, activities=CPU)
            with record_function(f"range {number}"):
                torch.ones(4).tan()
            p.step()
    wanted = ("aten::", "range ")  # we mark every step, torch those that begin while it records ops
    return sorted((name, count) for name, count in counted.items() if name.startswith(wanted))


@pytest.mark.parametrize("with_stack", [False, True])
def test_a_toggle_across_steps_leaves_out_what_torchs_own_does(*, with_stack: bool) -> None:
    ours = toggled(tp.profile, with_stack=with_stack)
    assert ours == toggled(profile, with_stack=with_stack)
    # Recorded are steps 1 to 5: sin in 1, 2 and 5, cos in 1 and 5, tan in 1, 4 and 5.
    assert {("aten::sin", 3), ("aten::cos", 2), ("aten::tan", 3)} <= set(ours)


def test_a_toggle_ends_with_its_cycle() -> None:
    with tp.profile(wait=0, warmup=1, active=1, repeat=2) as p:
        for number in range(4):
            if number == 1:
                p.toggle_collection_dynamic(enable=False, activities=CPU)
            torch.ones(4).tan()
            p.step()
    assert calls(p.report, "aten::tan") == [(1, 3)]


def test_python_calls_and_memory_are_recorded_in_a_pause() -> None:
    with tp.profile(with_stack=True, profile_memory=True) as p, tp.paused():
        work()
    assert p.report.events.filter(pl.col("name").cast(pl.String).str.ends_with(": work")).height == 1
    assert p.report.trace.memory.height > 0
