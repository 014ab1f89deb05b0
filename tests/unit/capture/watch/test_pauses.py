"""Pauses leave out all of the paused work and nothing else, and the report says so."""

from __future__ import annotations

import itertools

import pytest
import torch
from capturing import work

import torchprof_magic as tp
from torchprof_magic.capture.watch import pauses
from torchprof_magic.errors import OptionsError

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


def test_a_pause_ends_with_its_step_and_no_step_is_lost() -> None:
    with tp.profile(wait=1, warmup=1, active=3) as p:
        for _ in range(7):
            work()
            with tp.paused():
                torch.ones(3).cumsum(0)
                p.step()
    assert p.report.steps.select(STEP).rows() == [(0, 2, True), (0, 3, True), (0, 4, True)]
    assert "aten::cumsum" not in p.report.ops["name"].to_list()
