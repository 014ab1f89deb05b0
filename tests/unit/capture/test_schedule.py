"""Schedules have the actions of torch's, and fit the loop when no flags are given."""

from __future__ import annotations

import itertools
import re
import warnings
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerAction

from torchprof_magic.capture import Schedule, resolve_schedule
from torchprof_magic.capture.schedule import FunctionSchedule, may_begin_late, resolve_auto, resolve_two_passes
from torchprof_magic.options import EVERY_STEP, ScheduleOptions


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
def test_the_schedule_fits_the_loop_without_flags(how: str, length: int | None, expected: tuple[int, int, int]) -> None:
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
        ({"active": 5}, None, (0, 1, 5, 0)),
        ({"wait": 2}, None, (2, 1, 3, 0)),
        ({"active": 4}, 4, (0, 0, 4, 0)),
        ({"active": 4}, 5, (0, 1, 4, 0)),
        ({"wait": 1}, 3, (1, 1, 1, 0)),
        ({"repeat": 1}, 3, (0, 1, 2, 1)),
        ({"repeat": 2}, 8, (0, 1, 3, 2)),
        ({"repeat": 2}, 4, (0, 1, 1, 2)),
        ({"repeat": 0}, None, (0, 1, 3, 0)),
        ({"wait": 0, "warmup": 0}, None, (0, 0, 3, 0)),
        ({"skip_first_wait": True}, None, (0, 1, 3, 0)),
    ],
)
def test_defaults_of_missing_flags_fit_the_given_ones(
    asked: dict[str, int], length: int | None, expected: tuple[int, int, int, int]
) -> None:
    schedule = resolve_schedule(ScheduleOptions(**asked), how="loop", length=length)
    assert (schedule.wait, schedule.warmup, schedule.active, schedule.repeat) == expected


@pytest.mark.parametrize(
    ("asked", "length", "done", "recorded_steps"),
    [
        ({}, None, 1, [2, 3, 4]),
        ({}, 8, 1, [2, 3, 4]),
        ({}, 8, 2, [3, 4, 5]),
        ({}, 4, 1, [2, 3]),
        ({}, 3, 1, [2]),
        ({}, 2, 1, [1]),
        ({"wait": 1, "warmup": 1, "active": 2, "repeat": 1}, 9, 1, [2, 3]),
        ({"wait": 1, "warmup": 1, "active": 2, "repeat": 1}, 9, 3, [4, 5]),
        ({"skip_first": 4, "active": 1, "warmup": 0, "repeat": 1}, 9, 3, [4]),
    ],
)
def test_steps_that_are_over_when_the_schedule_begins_are_idle_ones(
    asked: dict[str, int], length: int | None, done: int, recorded_steps: list[int]
) -> None:
    schedule = resolve_schedule(ScheduleOptions(**asked), how="loop", length=length, done=done)
    assert [step for step in range(12) if schedule.action(step).is_recording] == recorded_steps
    assert not any(schedule.action(step).value for step in range(done))


@pytest.mark.parametrize(("length", "done", "steps"), [(None, 1, 6), (10, 1, 6), (8, 1, 4), (5, 1, 2), (11, 2, 6)])
def test_two_passes_may_begin_late(length: int | None, done: int, steps: int) -> None:
    schedule = resolve_two_passes(ScheduleOptions(), how="loop", length=length, done=done)
    assert schedule is not None
    assert not any(schedule.action(step).value for step in range(done))
    assert sum(schedule.action(step).is_recording for step in range(length or 20)) == steps


def test_a_schedule_may_begin_late_if_its_first_step_is_idle() -> None:
    late = ({}, {"wait": 1, "active": 2}, {"skip_first": 1, "active": 2})
    assert all(may_begin_late(ScheduleOptions(**asked)) for asked in late)
    for asked in ({"wait": 0}, {"active": 2}, {"wait": 1, "skip_first_wait": True}):
        assert not may_begin_late(ScheduleOptions(**asked))


def documented() -> list[tuple[str, str, str]]:
    """Return the rows of the table of schedules in docs/recording.md: what is given, torch's arguments, the steps."""
    text = (Path(__file__).parents[3] / "docs" / "recording.md").read_text()
    rows = text.partition("| given | as in")[2].partition("\n\n")[0].splitlines()[2:]
    return [tuple(cell.strip(" `") for cell in row.strip("|").split("|")) for row in rows]  # type: ignore[misc]


def arguments(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", text)}


def test_the_documented_schedules_are_more_than_a_few() -> None:
    assert len(documented()) >= 8


@pytest.mark.parametrize(("given", "filled", "steps"), documented())
def test_what_the_docs_say_is_recorded_is_what_torch_and_we_record(given: str, filled: str, steps: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch advises against no warm-up
        torchs = torch.profiler.schedule(**arguments(filled))
    ours = resolve_schedule(ScheduleOptions(**arguments(given)), how="loop", length=12)
    actions = [torchs(step) for step in range(12)]
    assert [ours.action(step).name for step in range(12)] == [action.name for action in actions]
    recorded = [step for step, action in enumerate(actions) if action.value >= ProfilerAction.RECORD.value]
    assert recorded == [int(step) for step in steps.split()]


@pytest.mark.parametrize("skip_first", [None, 0, 2])
@pytest.mark.parametrize("skip_first_wait", [False, True])
@pytest.mark.parametrize("repeat", [None, 0, 2])
def test_torchs_arguments_have_torchs_defaults(
    repeat: int | None, skip_first: int | None, *, skip_first_wait: bool
) -> None:
    more = {"repeat": repeat, "skip_first": skip_first, "skip_first_wait": skip_first_wait or None}
    given = {"wait": 2, "warmup": 1, "active": 2, **{name: value for name, value in more.items() if value is not None}}
    torchs = torch.profiler.schedule(**given)
    for length in (None, 1, 12, 60):
        ours = resolve_schedule(ScheduleOptions(**given), how="loop", length=length)  # type: ignore[arg-type]
        assert [ours.action(step).name for step in range(60)] == [torchs(step).name for step in range(60)]


def test_cycle_counts_periods_after_the_skipped_steps() -> None:
    schedule = Schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=3)
    assert [schedule.cycle(step) for step in (0, 3, 6, 7, 10)] == [0, 0, 0, 1, 1]
    assert (schedule.least, schedule.total) == (7, 11)
    assert [schedule.is_over(step) for step in (10, 11)] == [False, True]


def never_fails(step: int, reason: str) -> None:
    pytest.fail(f"step {step}: {reason}")


def test_a_schedule_of_torch_gives_the_same_actions_as_ours() -> None:
    flags = {"wait": 1, "warmup": 2, "active": 3, "repeat": 2, "skip_first": 1}
    torchs, ours = FunctionSchedule(torch.profiler.schedule(**flags), never_fails), Schedule(**flags)
    assert [torchs.action(step) for step in range(30)] == [ours.action(step) for step in range(30)]
    recorded = [step for step in range(30) if ours.action(step).is_recording]
    assert [torchs.cycle(step) for step in recorded] == [ours.cycle(step) for step in recorded] == [0] * 3 + [1] * 3


def test_a_schedule_function_is_called_once_per_step_in_order() -> None:
    asked: list[int] = []
    schedule = FunctionSchedule(lambda step: asked.append(step) or ProfilerAction.RECORD_AND_SAVE, never_fails)
    for step in (0, 3, 1, 2, 3):
        schedule.action(step)
        schedule.cycle(step)
    assert asked == [0, 1, 2, 3, 4]
    assert [schedule.cycle(step) for step in range(4)] == [0, 1, 2, 3]


def test_a_recording_is_saved_although_the_function_never_says_so() -> None:
    actions = [ProfilerAction.RECORD, ProfilerAction.RECORD, ProfilerAction.NONE, ProfilerAction.RECORD]
    schedule = FunctionSchedule(lambda step: actions[step % 4], never_fails)
    assert [schedule.action(step).name for step in range(3)] == ["RECORD", "RECORD_AND_SAVE", "NONE"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("raises", "ZeroDivisionError: division by zero"), (7, "it returned 7 instead of a ProfilerAction")],
)
def test_a_function_that_fails_ends_the_recording_before_that_step_and_says_why(answer: object, reason: str) -> None:
    def plan(step: int) -> object:
        if step < 2:
            return ProfilerAction.RECORD
        return 1 / 0 if answer == "raises" else answer

    failures: list[tuple[int, str]] = []
    schedule = FunctionSchedule(plan, lambda *failure: failures.append(failure))
    assert [schedule.action(step).name for step in range(5)] == ["RECORD", "RECORD_AND_SAVE", "NONE", "NONE", "NONE"]
    assert [schedule.is_over(step) for step in range(4)] == [False, False, True, True]
    assert failures == [(2, reason)]


def test_another_cycle_may_follow_unless_it_is_the_last_or_has_every_step() -> None:
    assert [Schedule(repeat=3).may_follow(cycle) for cycle in range(3)] == [True, True, False]
    assert Schedule(repeat=0).may_follow(10**6)
    assert not Schedule(active=EVERY_STEP, repeat=0).may_follow(0)
    schedule = FunctionSchedule(lambda step: ProfilerAction.RECORD if step < 2 else None, lambda _step, _reason: None)
    schedule.action(0)
    assert schedule.may_follow(0)
    schedule.action(1)  # asks for the second step after it, too
    assert not schedule.may_follow(0)


def recorded(schedule: Schedule | None) -> list[int]:
    assert schedule is not None
    return [step for step in range(40) if schedule.action(step).is_recording]


@pytest.mark.parametrize(
    ("how", "length", "expected"),
    [
        ("loop", None, [2, 3, 4, 6, 7, 8]),
        ("loop", 100, [2, 3, 4, 10, 11, 12]),
        ("loop", 13, [2, 3, 4, 10, 11, 12]),
        ("loop", 12, [2, 3, 4, 6, 7, 8]),
        ("loop", 9, [2, 3, 4, 6, 7, 8]),
        ("loop", 8, [2, 3, 5, 6]),
        ("loop", 7, [2, 3, 5, 6]),
        ("loop", 6, [1, 2, 4, 5]),
        ("loop", 5, [2, 4]),
        ("loop", 4, [1, 3]),
        ("optimizer", None, [0, 1, 2, 4, 5, 6]),
    ],
)
def test_two_passes_fit_the_loop_without_flags(how: str, length: int | None, expected: list[int]) -> None:
    schedule = resolve_two_passes(ScheduleOptions(), how=how, length=length)
    assert recorded(schedule) == expected
    assert schedule is not None
    assert schedule.repeat == 2


@pytest.mark.parametrize(("how", "length"), [("loop", 3), ("loop", 0), ("manual", 1), ("cell", None), ("cell", 50)])
def test_a_loop_with_too_few_steps_has_no_two_passes(how: str, length: int | None) -> None:
    assert resolve_two_passes(ScheduleOptions(), how=how, length=length) is None


@pytest.mark.parametrize(
    ("asked", "length", "expected"),
    [
        ({"active": 2}, None, [1, 2, 4, 5]),
        ({"active": 2, "repeat": 1}, 6, [1, 2, 4, 5]),
        ({"wait": 2, "warmup": 0, "active": 1}, 6, [2, 5]),
        ({"skip_first": 1}, 5, [2, 4]),
        ({"wait": 0}, 3, [0, 2]),
        ({"wait": 0, "warmup": 0, "active": 2}, None, [0, 1, 3, 4]),
    ],
)
def test_two_passes_follow_the_given_flags(asked: dict[str, int], length: int | None, expected: list[int]) -> None:
    assert recorded(resolve_two_passes(ScheduleOptions(**asked), how="loop", length=length)) == expected


def test_there_is_always_a_step_between_two_passes() -> None:
    assert resolve_two_passes(ScheduleOptions(wait=0, warmup=0, active=2), how="loop", length=4) is None


def test_two_passes_are_not_recorded_if_one_does_not_fit() -> None:
    assert resolve_two_passes(ScheduleOptions(active=3, warmup=1), how="loop", length=7) is None
    assert recorded(resolve_two_passes(ScheduleOptions(active=3, warmup=1), how="loop", length=8)) == [1, 2, 3, 5, 6, 7]


def of_auto(length: int | None, *, how: str = "loop", has_lines: bool = True) -> str:
    """Return what is done in each step: ``.`` nothing, ``w`` the warm-up, and the number of the recorded cycle."""
    schedule = resolve_auto(ScheduleOptions(), how=how, length=length, has_lines=has_lines)
    if schedule is None:
        return ""
    assert schedule.total is not None
    signs = []
    for step in range(schedule.total if length is None else length):
        action = schedule.action(step)
        signs.append(str(schedule.cycle(step)) if action.is_recording else ".w"[action.value])
    assert not schedule.is_over(schedule.total - 1)
    assert schedule.is_over(schedule.total)
    return "".join(signs)


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (4, ""),
        (5, "w00w1"),
        (7, ".w000w1"),
        (8, ".w000w11"),
        (9, ".w000w1.2"),
        (10, ".w000w11.2"),
        (11, ".w000w111.2"),
        (14, ".w000w111.2..."),
        (15, ".w000....w111.2"),
        (20, ".w000....w111.2....."),
        (None, ".w000w111.2"),
    ],
)
def test_times_come_first_then_details_and_then_lines_as_far_as_the_loop_goes(
    length: int | None, expected: str
) -> None:
    assert of_auto(length) == expected


def test_without_lines_the_details_have_the_steps() -> None:
    assert of_auto(9, has_lines=False) == ".w000w111"
    assert of_auto(13, has_lines=False) == ".w000....w111"
    assert of_auto(None, has_lines=False) == ".w000w111"


@pytest.mark.parametrize("active", [1, 2, 3, 5, 8, 12])
def test_details_begin_eight_steps_after_the_times_or_sixteen_as_loops_often_do_something_in_each_eighth_step(
    active: int,
) -> None:
    schedule = resolve_auto(ScheduleOptions(active=active), how="loop", length=100)
    steps = recorded(schedule)
    assert (steps[active] - steps[0]) % 8 == 0


def test_cycles_of_an_optimizer_have_a_step_between_and_no_warm_up() -> None:
    assert of_auto(None, how="optimizer") == "0000.111.2"
