from __future__ import annotations

import math

import numpy as np
import pytest

from torchprof_magic.facts.counted_steps import typical_of
from torchprof_magic.findings.compare import step_change
from torchprof_magic.findings.compare.step_change import StepChange, tail_of_t


def find_step_change(before: list[float], after: list[float]) -> StepChange:
    """Compare steps that are given in units of 10 ms."""
    return step_change.find_step_change([ns * 1e7 for ns in before], [ns * 1e7 for ns in after])


def test_equal_steps_are_no_change() -> None:
    change = find_step_change([100.0] * 8, [100.0] * 8)
    assert (change.kind, change.ratio, change.certainty) == ("unclear", 1.0, "not sure")
    assert change.interval[0] < 1 < change.interval[1]


def test_steps_that_all_take_a_tenth_longer_are_slower_for_sure() -> None:
    change = find_step_change([100.0, 101, 100, 101, 100, 101, 100, 101], [110.0, 111, 110, 111, 110, 111, 110, 111])
    assert (change.kind, change.certainty) == ("slower", "sure")
    assert change.ratio == pytest.approx(1.1, abs=0.012)
    assert 1 < change.interval[0] < 1.1 < change.interval[1]


def test_swapped_runs_change_the_other_way() -> None:
    first, second = [100.0] * 6, [80.0] * 6
    there, back = find_step_change(first, second), find_step_change(second, first)
    assert (there.kind, back.kind) == ("faster", "slower")
    assert there.ratio * back.ratio == pytest.approx(1)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_fewer_than_four_steps_are_too_few(count: int) -> None:
    change = find_step_change([100.0] * count, [200.0] * 9)
    assert (change.kind, change.certainty) == ("unclear", "too few steps")
    assert change.interval == (0.0, math.inf)


def test_no_step_at_all_has_no_ratio() -> None:
    assert math.isnan(find_step_change([], [100.0] * 9).ratio)
    assert math.isnan(typical_of([]))


def test_a_run_that_drifts_as_much_as_it_differs_is_unclear() -> None:
    before = [100.0] * 12
    after = [*([100.0] * 6), *([120.0] * 6)]
    assert find_step_change(before, after).kind == "unclear"


def test_a_few_very_long_steps_change_nothing() -> None:
    before, after = [100.0] * 12, [100.0, 100, 900, 100, 100, 100, 100, 100, 100, 5_000, 100, 100]
    change = find_step_change(before, after)
    assert (change.kind, change.ratio) == ("unclear", 1.0)


def test_blocks_of_busy_time_within_the_same_code_are_no_change() -> None:
    # Steps of 100 that last half longer for stretches of several steps, as when another program runs meanwhile.
    generator = np.random.default_rng(0)
    kinds = []
    for _ in range(100):
        runs = []
        for _ in range(2):
            busy = np.repeat(generator.random(6) < 0.3, 4)
            runs.append((100 + 50 * busy) * np.exp(generator.normal(0, 0.02, 24)))
        kinds.append(find_step_change(*runs).kind)
    assert kinds.count("unclear") >= 94


def test_the_tail_of_t_is_that_of_tables() -> None:
    # Two-sided 5 % of Student's t: 4.303 with 2, 2.776 with 4 and 2.447 with 6 degrees of freedom.
    assert [round(tail_of_t(value, freedom), 3) for value, freedom in ((4.303, 2), (2.776, 4), (2.447, 6))] == [
        0.05
    ] * 3
    assert tail_of_t(0, 6) == 1


def test_short_runs_differ_by_some_percent_by_chance() -> None:
    # 12 steps of 4 ms: 5 % of error, so 8 % is no change and 20 % is one.
    before = [4e6] * 12
    kinds = [step_change.find_step_change(before, [4e6 * ratio] * 12).kind for ratio in (1.08, 1.2)]
    assert kinds == ["unclear", "slower"]
