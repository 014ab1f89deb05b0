from __future__ import annotations

import numpy as np

from torchprof_magic.model.distinct import numbers_in


def test_each_number_of_a_column_is_found_once_and_in_order() -> None:
    assert numbers_in(np.array([3, -1, 0, 3, 3])) == [-1, 0, 3]
    assert numbers_in(np.array([], np.int64)) == []


def test_numbers_that_are_far_apart_are_found_as_well() -> None:
    assert numbers_in(np.array([2**40, -7, 2**40])) == [-7, 2**40]
