"""What details may cost, worked out by hand for steps of 100 ms."""

from __future__ import annotations

import pytest

from torchprof_magic.capture.details import DetailsCost
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.options import ProfileOptions

MS = 1_000_000
PLAIN = [100 * MS] * 5
DETAILS = ProfileOptions(profile_memory=True, with_stack=True)


def cost_of(limit_s: float | None = None, length: int | None = None) -> tuple[DetailsCost, ProblemLog]:
    problems = ProblemLog()
    return DetailsCost(problems, limit_s=limit_s, length=length), problems


def recorded(cost: DetailsCost, dur_ms: int, between_ms: int, steps: int = 3) -> None:
    """Count the steps of a cycle of times, and what was done after them."""
    for _ in range(steps):
        cost.add_step(dur_ms * MS, cycle=0)
    cost.add_between(between_ms * MS, cycle=0)


@pytest.mark.parametrize(
    ("between_ms", "expected"),
    [
        (0, 3),
        (540, 3),  # 180 ms a step, 2.7 times as much with details: 3 steps are 1.458 s, of 2 s without 540 ms
        (600, 2),  # 1.62 s of 1.4 s
        (750, 1),  # 675 ms a step, of 1.25 s
        (1_150, 1),  # 843 ms with shapes alone, of 850 ms
    ],
)
def test_as_many_steps_have_details_as_is_paid_for_by_what_the_times_left_of_two_seconds(
    between_ms: int, expected: int
) -> None:
    cost, problems = cost_of()
    recorded(cost, 100, between_ms)
    assert cost.most_steps(3, DETAILS, PLAIN) == expected
    assert problems.as_tuple() == ()


def test_setting_the_profiler_up_for_the_first_time_does_not_count_for_what_details_would_cost() -> None:
    cost, _ = cost_of()
    cost.add_between(9_000 * MS, cycle=0)
    recorded(cost, 100, 540)
    assert cost.most_steps(3, DETAILS, PLAIN) == 3
    assert cost.total_ns(PLAIN) == 9_540 * MS  # but it did make the loop longer


def test_details_that_cost_too_much_in_one_step_are_left_out_and_said_to_be() -> None:
    cost, problems = cost_of()
    recorded(cost, 100, 1_200)
    assert cost.most_steps(3, DETAILS, PLAIN) == 0
    (problem,) = problems.as_tuple()
    assert problem.code == "capture.details_left_out"
    assert problem.message == (
        "Only times were recorded: details would have made the loop about 880 ms longer, the times took 1.20 s, and "
        "all together may cost 2 s."
    )
    assert problem.fix.endswith("add --budget with a longer time, or --memory or --stack.")  # no others were asked for


def test_a_tenth_of_a_long_loop_is_more_than_two_seconds() -> None:
    cost, problems = cost_of(length=1_000)  # of 100 s
    recorded(cost, 100, 4_200)
    assert cost.most_steps(3, DETAILS, PLAIN) == 1  # 3.78 s a step, of 5.8 s
    assert problems.as_tuple() == ()


@pytest.mark.parametrize(
    ("longer_ms", "events", "limit_s", "may"),
    [
        (100, 70_000, None, True),  # 0.7 s with ending it, 1.4 s with another step
        (150, 70_000, None, False),  # 1.05 s, 2.1 s
        (150, 70_000, 3.0, True),
        (40, 200_000, None, True),  # less than 300 ns for each: the program allocated most of it
        (64, 210_000, None, False),  # 5 us each at least: 1.05 s
        (900, 40_000, None, True),  # 20 us each at most: 0.8 s, so that the step did more work
        (-50, 70_000, None, True),
        (900, -5, None, True),
    ],
)
def test_times_end_before_the_step_that_would_pass_the_limit(
    longer_ms: int, events: int, limit_s: float | None, *, may: bool
) -> None:
    cost, problems = cost_of(limit_s)
    cost.note_warmup(100 * MS)
    assert cost.may_time_another(longer_ms * MS, events * 215, [], 2) is may
    assert [problem.code for problem in problems.as_tuple()] == ([] if may else ["capture.times_ended"])


def test_two_steps_of_the_times_tell_what_a_third_would_cost() -> None:
    cost, problems = cost_of()
    cost.note_warmup(100 * MS)
    assert cost.may_time_another(120 * MS, 70_000 * 215, [], 2)  # 0.84 s
    cost.add_step(220 * MS, cycle=0)
    assert not cost.may_time_another(240 * MS, 140_000 * 215, [], 3)  # 1.68 s, 2.52 s with another
    (problem,) = problems.as_tuple()
    assert problem.message == (
        "Times were recorded in 2 steps, until step 3: they make the loop about 1.68 s longer, and with another step "
        "it would be more than 2 s."
    )


def test_idle_steps_after_times_that_ended_early_do_not_count_as_ending_them() -> None:
    cost, problems = cost_of()
    recorded(cost, 100, 900, steps=1)
    cost.add_step(100 * MS, cycle=None)
    cost.add_between(1 * MS, cycle=0)
    assert cost.most_steps(3, DETAILS, PLAIN) == 0  # 1.98 s with shapes alone, of 1.1 s
    assert problems.has("capture.details_left_out")


def test_a_budget_takes_the_place_of_both() -> None:
    cost, _ = cost_of(limit_s=0.9, length=1_000)
    recorded(cost, 100, 300)
    assert cost.most_steps(3, DETAILS, PLAIN) == 2  # 270 ms a step, of 600 ms
    cost, _ = cost_of(limit_s=0.5, length=1_000)
    recorded(cost, 100, 300)
    assert cost.most_steps(3, DETAILS, PLAIN) == 0  # 220 ms with shapes alone, of 200 ms


def test_details_end_before_the_step_that_would_pass_the_limit() -> None:
    cost, problems = cost_of()
    recorded(cost, 100, 300)
    cost.add_between(100 * MS, cycle=1)
    assert not cost.is_reached(
        400 * MS, PLAIN, 7, DETAILS
    )  # 0.1 + 0.3 + 0.27 s to end it; 1.34 s with another, of 1.7 s
    cost.add_step(400 * MS, cycle=1)
    assert cost.is_reached(500 * MS, PLAIN, 8, DETAILS)  # 0.1 + 0.3 + 0.4 + 0.54 s; 2.01 s with another
    (problem,) = problems.as_tuple()
    assert problem.message == (
        "Details were recorded in 2 steps, until step 8: they make the loop about 1.34 s longer, the times took 300 "
        "ms, and with another step all together would cost more than 2 s."
    )


def test_a_first_step_far_dearer_than_expected_is_the_only_one_with_details() -> None:
    cost, _ = cost_of()
    recorded(cost, 100, 30)
    assert cost.most_steps(3, DETAILS, PLAIN) == 3
    assert cost.is_reached(1_100 * MS, PLAIN, 7, DETAILS)  # 1 s longer


def test_python_calls_of_the_first_step_end_the_details_before_a_second_one() -> None:
    for calls, is_reached in ((10_000, False), (60_000, True)):
        cost, _ = cost_of()
        recorded(cost, 100, 300)
        cost.note_times_file(270 * 20_000)  # 15 us an event: 60,000 calls take 0.9 s to end, and twice as many 1.8 s
        assert cost.is_reached(100 * MS, PLAIN, 7, DETAILS, calls) is is_reached


@pytest.mark.parametrize(
    ("between_ms", "events", "steps", "expected"),
    [
        (300, 20_000, 1, 95_000),  # 15 us an event; 1.7 s without 270 ms
        (300, 20_000, 3, 59_000),  # 1.7 s without 810 ms
        (300, 1_000_000, 3, 100_000),  # 3 us at least
        (300, 10, 1, 23_000),  # 60 us at most
        (1_000, 20_000, 1, 10_000),  # 50 us; 100 ms are left, for 2,000 calls, but fewer than 10,000 tell too little
    ],
)
def test_stacks_end_after_as_many_calls_as_the_rest_of_the_limit_pays_for(
    between_ms: int, events: int, steps: int, expected: int
) -> None:
    cost, _ = cost_of()
    recorded(cost, 100, between_ms)
    cost.note_times_file(270 * events)
    assert cost.most_calls(steps, DETAILS, PLAIN) == expected


STACKS, MEMORY = {"with_stack": False, "with_modules": False}, {"profile_memory": False}


@pytest.mark.parametrize(
    ("between_ms", "changes"),
    [
        (600, {}),
        (1_030, {}),  # 343 ms a step: 927 ms with memory and 30 ms for 10,000 calls, of 970 ms
        (1_042, STACKS),  # 968 ms of 958 ms, and 938 ms without stacks
        (1_060, STACKS | MEMORY),  # 954 ms of 940 ms without stacks
        (1_150, STACKS | MEMORY),  # shapes are recorded if anything is
    ],
)
def test_stacks_and_then_memory_are_left_out_where_a_step_with_them_costs_too_much(
    between_ms: int, changes: dict[str, bool]
) -> None:
    cost, problems = cost_of()
    recorded(cost, 100, between_ms)
    options = ProfileOptions(record_shapes=True, profile_memory=True, with_stack=True)
    assert cost.left_out(options, PLAIN) == changes
    assert [problem.code for problem in problems.as_tuple()] == (["capture.details_dropped"] if changes else [])


def test_what_is_left_out_is_named_with_its_flag() -> None:
    cost, problems = cost_of()
    recorded(cost, 100, 1_100)
    cost.left_out(ProfileOptions(record_shapes=True, profile_memory=True, with_stack=True), PLAIN)
    (problem,) = problems.as_tuple()
    assert problem.message == (
        "Stacks and memory were not recorded: with all details, a single step would have made the loop about 1.02 s "
        "longer, the times took 1.10 s, and all together may cost 2 s."
    )
    assert problem.fix == "To record more, add --budget with a longer time, or --stack or --memory."


def test_the_only_detail_is_not_left_out() -> None:
    cost, problems = cost_of()
    recorded(cost, 100, 1_150)
    assert cost.left_out(ProfileOptions(with_stack=True), PLAIN) == {}
    assert cost.left_out(ProfileOptions(profile_memory=True), PLAIN) == {}
    assert cost.left_out(ProfileOptions(profile_memory=True, with_stack=True), PLAIN) == STACKS
    assert len(problems.as_tuple()) == 1


@pytest.mark.parametrize(("detail_ms", "may_record"), [(700, True), (1_700, True), (1_701, False)])
def test_lines_follow_if_they_and_the_details_before_are_within_the_limit(detail_ms: int, *, may_record: bool) -> None:
    cost, problems = cost_of()
    recorded(cost, 100, 300)  # 100 ms a step, and 1.7 s left
    cost.add_step((detail_ms - 400) * MS, cycle=1)  # 100 ms less is what it took longer
    cost.add_between(400 * MS, cycle=1)
    assert cost.may_record_lines(PLAIN) is may_record  # detail_ms - 400 - 100 + 400 + 100
    codes = [problem.code for problem in problems.as_tuple()]
    assert codes == ([] if may_record else ["capture.lines_left_out"])


def test_the_whole_cost_is_that_of_recorded_steps_and_of_what_is_done_between_steps() -> None:
    cost, _ = cost_of()
    cost.add_step(100 * MS, cycle=None)
    recorded(cost, 120, 50)
    cost.add_step(400 * MS, cycle=1)
    cost.add_between(70 * MS, cycle=1)
    assert cost.total_ns(PLAIN) == (3 * 20 + 300 + 50 + 70) * MS
    assert cost.total_ns([]) == (50 + 70) * MS  # how long a step usually takes is not known
