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
        (600, 3),  # 200 ms a step, three times as much with details: 3 steps are 1.8 s of 2 s
        (900, 2),  # 900 ms a step
        (1_900, 1),  # 1.9 s a step
        (5_900, 1),  # 1.97 s without details: that is not sure to be too much
    ],
)
def test_as_many_steps_have_details_as_two_seconds_pay_for(between_ms: int, expected: int) -> None:
    cost, problems = cost_of()
    recorded(cost, 100, between_ms)
    assert cost.most_steps(3, DETAILS, PLAIN) == expected
    assert problems.as_tuple() == ()


def test_setting_the_profiler_up_for_the_first_time_does_not_count_for_what_details_would_cost() -> None:
    cost, _ = cost_of()
    cost.add_between(9_000 * MS, cycle=0)
    recorded(cost, 100, 600)
    assert cost.most_steps(3, DETAILS, PLAIN) == 3
    assert cost.total_ns(PLAIN) == 9_600 * MS  # but it did make the loop longer


def test_details_that_cost_too_much_in_one_step_are_left_out_and_said_to_be() -> None:
    cost, problems = cost_of()
    recorded(cost, 100, 6_300)
    assert cost.most_steps(3, DETAILS, PLAIN) == 0
    (problem,) = problems.as_tuple()
    assert problem.code == "capture.details_left_out"
    assert "would have made the loop about 6.30 s longer, and may cost 2 s" in problem.message
    assert problem.fix.endswith("add --budget with a longer time, or --memory or --stack.")  # no others were asked for


def test_a_tenth_of_a_long_loop_is_more_than_two_seconds() -> None:
    cost, problems = cost_of(length=1_000)  # of 100 s
    recorded(cost, 100, 6_300)
    assert cost.most_steps(3, DETAILS, PLAIN) == 1  # 6.3 s a step, of 10 s
    assert problems.as_tuple() == ()


def test_a_budget_takes_the_place_of_both() -> None:
    cost, _ = cost_of(limit_s=0.5, length=1_000)
    recorded(cost, 100, 600)
    assert cost.most_steps(3, DETAILS, PLAIN) == 1
    cost, _ = cost_of(limit_s=0.1, length=1_000)
    recorded(cost, 100, 600)
    assert cost.most_steps(3, DETAILS, PLAIN) == 0


def test_details_end_with_the_step_in_which_they_have_cost_the_limit() -> None:
    cost, problems = cost_of()
    recorded(cost, 100, 0)
    cost.add_between(300 * MS, cycle=1)
    assert not cost.is_reached(1_000 * MS, PLAIN, 7)  # 0.9 s longer
    cost.add_step(1_000 * MS, cycle=1)
    assert cost.is_reached(1_000 * MS, PLAIN, 8)  # 0.9 + 0.9 + 0.3 s
    (problem,) = problems.as_tuple()
    assert problem.message == (
        "Details were recorded in 2 steps, until step 8: they made the loop 2.10 s longer, and may cost 2 s."
    )


STACKS, MEMORY = {"with_stack": False, "with_modules": False}, {"profile_memory": False}


@pytest.mark.parametrize(
    ("between_ms", "changes"),
    [
        (600, {}),
        (2_000, {}),  # 667 ms a step, 2 s with all details
        (2_010, STACKS),  # 1.68 s without stacks
        (2_400, STACKS),  # 2 s without stacks
        (2_410, STACKS | MEMORY),
        (5_900, STACKS | MEMORY),  # shapes are recorded if anything is
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
    recorded(cost, 100, 2_700)
    cost.left_out(ProfileOptions(record_shapes=True, profile_memory=True, with_stack=True), PLAIN)
    (problem,) = problems.as_tuple()
    assert problem.message == (
        "Stacks and memory were not recorded: with all details, a single step would have made the loop about 2.70 s "
        "longer, and they may cost 2 s."
    )
    assert problem.fix == "To record more, add --budget with a longer time, or --stack or --memory."


def test_the_only_detail_is_not_left_out() -> None:
    cost, problems = cost_of()
    recorded(cost, 100, 5_900)
    assert cost.left_out(ProfileOptions(with_stack=True), PLAIN) == {}
    assert cost.left_out(ProfileOptions(profile_memory=True), PLAIN) == {}
    assert cost.left_out(ProfileOptions(profile_memory=True, with_stack=True), PLAIN) == STACKS
    assert len(problems.as_tuple()) == 1


@pytest.mark.parametrize(("detail_ms", "may_record"), [(1_000, True), (2_000, True), (2_001, False)])
def test_lines_follow_if_they_and_the_details_before_are_within_the_limit(detail_ms: int, *, may_record: bool) -> None:
    cost, problems = cost_of()
    recorded(cost, 100, 300)  # 100 ms a step
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
