"""Matching items of two sequences are found quickly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchprof_magic.model.alignment import align
from torchprof_magic.model.intervals import IntArray

ITEMS = st.lists(st.integers(0, 4), max_size=40)


def places(first: list[int], second: list[int]) -> list[tuple[int, int]]:
    left, right = align(np.array(first, np.int64), np.array(second, np.int64))
    return list(zip(left.tolist(), right.tolist(), strict=True))


def longest(first: list[int], second: list[int]) -> int:
    """Return the length of the longest common subsequence, by the table of the textbooks."""
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for x, left in enumerate(first):
        for y, right in enumerate(second):
            table[x + 1][y + 1] = table[x][y] + 1 if left == right else max(table[x][y + 1], table[x + 1][y])
    return table[-1][-1]


@pytest.fixture
def layers() -> IntArray:
    """100,000 items of 40 kinds: one part of 800, 125 times."""
    return np.tile(np.random.default_rng(0).integers(0, 40, 800), 125)


def test_equal_sequences_belong_together_item_by_item() -> None:
    assert places([3, 1, 3], [3, 1, 3]) == [(0, 0), (1, 1), (2, 2)]
    assert places([], []) == places([1], []) == places([], [1]) == []


def test_items_that_only_one_sequence_has_are_left_out() -> None:
    assert places([1, 2, 3, 4], [1, 2, 9, 3, 4]) == [(0, 0), (1, 1), (2, 3), (3, 4)]
    assert places([1, 2, 2, 4], [2, 4]) == [(2, 0), (3, 1)]
    assert places([1, 2], [3, 4]) == []


@settings(deadline=None, derandomize=True, database=None)
@given(ITEMS, ITEMS)
def test_the_largest_possible_number_of_items_is_matched(first: list[int], second: list[int]) -> None:
    found = places(first, second)
    assert all(first[left] == second[right] for left, right in found)
    assert found == sorted(found)
    assert len({left for left, _ in found}) == len({right for _, right in found}) == len(found)
    assert len(found) == longest(first, second)


@pytest.mark.parametrize("missing", [1, 100, 5_000])
def test_a_long_sequence_is_matched_to_one_with_gaps(layers: IntArray, missing: int) -> None:
    gaps = np.random.default_rng(1).choice(len(layers), missing, replace=False)
    shorter = np.delete(layers, gaps)
    left, right = align(layers, shorter)
    assert (layers[left] == shorter[right]).all()
    assert len(right) >= 0.999 * len(shorter)


def test_long_sequences_with_nothing_but_names_in_common_end_with_a_part(layers: IntArray) -> None:
    other = np.random.default_rng(2).integers(0, 40, len(layers))
    left, right = align(layers, other)
    assert (layers[left] == other[right]).all()
    assert (np.diff(left) > 0).all()
    assert (np.diff(right) > 0).all()
    assert 0 < len(left) < len(layers) / 2
