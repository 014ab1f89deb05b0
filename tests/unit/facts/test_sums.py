from __future__ import annotations

import numpy as np

from torchprof_magic.facts.sums import LARGEST, range_max, running_sum, sum_by


def test_values_are_summed_by_group_and_those_of_no_group_count_nowhere() -> None:
    assert sum_by(np.array([1, -1, 1, 0]), np.array([5, 100, 7, 1]), 3).tolist() == [1, 12, 0]


def test_sums_beyond_what_float64_holds_are_exact() -> None:
    huge = 2**60 + 1
    assert sum_by(np.array([0, 0]), np.array([huge, 1]), 1).tolist() == [huge + 1]


def test_sums_that_int64_cannot_hold_stop_at_a_limit_instead_of_turning_negative() -> None:
    lies = np.full(4, 2**62)
    assert sum_by(np.zeros(4, np.int64), lies, 1).tolist() == [LARGEST]
    assert running_sum(lies).tolist() == [LARGEST] * 4
    assert running_sum(np.array([3, -1, 4])).tolist() == [3, 2, 6]


def test_the_largest_value_of_many_ranges() -> None:
    values = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    start, stop = np.array([0, 1, 3, 6, 7]), np.array([8, 4, 5, 8, 8])
    assert range_max(values, start, stop).tolist() == [9, 4, 5, 6, 6]
