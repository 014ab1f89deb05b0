"""Does the schedule do what torch's does, and fit the loop when nothing was asked for?"""

from __future__ import annotations

import itertools
import warnings

import pytest
import torch

from torchprof_magic.capture import Schedule, resolve_schedule
from torchprof_magic.options import ScheduleOptions


@pytest.mark.parametrize("wait", range(5))
@pytest.mark.parametrize("warmup", range(4))
@pytest.mark.parametrize("active", range(1, 5))
def test_action_equals_torchs_schedule_on_the_whole_grid(wait: int, warmup: int, active: int) -> None:
    for repeat, skip_first, skip_first_wait in itertools.product(range(4), range(5), (False, True)):
        flags = {
            "wait": wait,
            "warmup": warmup,
            "active": active,
            "repeat": repeat,
            "skip_first": skip_first,
            "skip_first_wait": skip_first_wait,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = torch.profiler.schedule(**flags)
        ours = Schedule(**flags)
        assert [ours.action(step).name for step in range(60)] == [expected(step).name for step in range(60)], flags


@pytest.mark.parametrize("skip_first_wait", [False, True])
def test_the_total_is_the_first_step_after_which_nothing_is_recorded(skip_first_wait: bool) -> None:
    for wait, warmup, active, repeat, skip_first in itertools.product(
        range(4), range(3), range(1, 4), range(1, 4), range(4)
    ):
        schedule = Schedule(
            wait=wait,
            warmup=warmup,
            active=active,
            repeat=repeat,
            skip_first=skip_first,
            skip_first_wait=skip_first_wait,
        )
        recorded = [step for step in range(60) if schedule.action(step).is_recording]
        assert schedule.total == recorded[-1] + 1
        assert [schedule.cycle(step) for step in recorded] == [n for n in range(repeat) for _ in range(active)]


@pytest.mark.parametrize(
    ("how", "length", "expected"),
    [
        ("loop", None, (1, 1, 3)),
        ("loop", 100, (1, 1, 3)),
        ("loop", 5, (1, 1, 3)),
        ("loop", 4, (1, 1, 2)),
        ("loop", 3, (0, 1, 2)),
        ("loop", 2, (0, 1, 1)),
        ("loop", 1, (0, 0, 1)),
        ("loop", 0, (0, 0, 1)),
        ("cell", None, (0, 0, 1)),
        ("optimizer", None, (0, 0, 4)),
        ("manual", None, (1, 1, 3)),
    ],
)
def test_schedule_fits_the_loop_when_nothing_is_asked_for(
    how: str, length: int | None, expected: tuple[int, int, int]
) -> None:
    schedule = resolve_schedule(ScheduleOptions(), how=how, length=length)
    assert (schedule.wait, schedule.warmup, schedule.active) == expected
    assert schedule.repeat == 1


@pytest.mark.parametrize("length", range(1, 12))
def test_adaptive_schedule_completes_within_the_loop(length: int) -> None:
    total = resolve_schedule(ScheduleOptions(), how="loop", length=length).total
    assert total is not None
    assert total <= length


@pytest.mark.parametrize(
    ("asked", "length", "expected"),
    [
        ({"active": 5}, None, (0, 1, 5, 1)),
        ({"wait": 2}, None, (2, 1, 3, 1)),
        ({"active": 4}, 4, (0, 0, 4, 1)),
        ({"active": 4}, 5, (0, 1, 4, 1)),
        ({"wait": 1}, 3, (1, 1, 1, 1)),
        ({"repeat": 2}, 8, (0, 1, 3, 2)),
        ({"repeat": 2}, 4, (0, 1, 1, 2)),
        ({"repeat": 0}, None, (0, 1, 3, 0)),
        ({"wait": 0, "warmup": 0}, None, (0, 0, 3, 1)),
    ],
)
def test_flags_that_were_not_given_fit_those_that_were(
    asked: dict[str, int], length: int | None, expected: tuple[int, int, int, int]
) -> None:
    schedule = resolve_schedule(ScheduleOptions(**asked), how="loop", length=length)
    assert (schedule.wait, schedule.warmup, schedule.active, schedule.repeat) == expected


def test_cycle_counts_periods_after_the_skipped_steps() -> None:
    schedule = Schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=3)
    assert [schedule.cycle(step) for step in (0, 3, 6, 7, 10)] == [0, 0, 0, 1, 1]
    assert schedule.total == 11
    assert [schedule.is_over(step) for step in (10, 11)] == [False, True]
