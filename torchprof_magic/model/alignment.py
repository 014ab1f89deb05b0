"""Aligns two long sequences that are mostly alike.

Myers' greedy search (An O(ND) difference algorithm and its variations, 1986), whose work grows with the differences.
That of ``difflib`` grows with the pairs of equal items, which are billions where 100,000 ops have a few dozen names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray

# Differences that are searched through before the way that came furthest is taken.
MAX_DIFFERENCES = 64
# How often this is done, about 2 ms each. If some of the sequences is left then, it has little in common.
MAX_TURNS = 400
# Number of items that are compared one by one before comparing whole arrays.
SHORT_RUN = 16

Run = tuple[int, int, int]


def align(first: IntArray, second: IntArray) -> tuple[IntArray, IntArray]:
    """Return the positions of matching items in both sequences, ascending in both.

    Matching items are equal. Nearly the largest possible number is found, unless the sequences differ at more than
    some ten thousand positions.
    """
    shorter = min(len(first), len(second))
    head = _equal_length(first[:shorter], second[:shorter])
    tail = _equal_length(first[::-1][: shorter - head], second[::-1][: shorter - head])
    # Items that only one sequence has cannot match.
    left = head + np.flatnonzero(np.isin(first[head : len(first) - tail], second[head : len(second) - tail]))
    right = head + np.flatnonzero(np.isin(second[head : len(second) - tail], first[head : len(first) - tail]))
    inner_left, inner_right = _places(_Search(first[left], second[right]).runs())
    ends = np.arange(tail)
    return (
        np.concatenate((np.arange(head), left[inner_left], len(first) - tail + ends)),
        np.concatenate((np.arange(head), right[inner_right], len(second) - tail + ends)),
    )


class _Search:
    """Walks through two sequences from their beginnings; x and y count the items passed."""

    def __init__(self, first: IntArray, second: IntArray) -> None:
        self._arrays = first, second
        self._lists = first.tolist(), second.tolist()

    def runs(self) -> list[Run]:
        """Return runs of equal items: their beginnings in both sequences, and their length."""
        found: list[Run] = []
        x = y = 0
        for _ in range(MAX_TURNS):
            if x == len(self._lists[0]) or y == len(self._lists[1]):
                break
            x, y, runs = self._advance(x, y)
            found += runs
        return found

    def _advance(self, from_x: int, from_y: int) -> tuple[int, int, list[Run]]:
        """Advance until both sequences end or ``MAX_DIFFERENCES`` are found. Return the position and the runs so far.

        ``reached[k]`` is the x that was reached with x - y = k, counted from where this began.
        """
        width, height = len(self._lists[0]) - from_x, len(self._lists[1]) - from_y
        reached = {1: 0}
        history: list[dict[int, int]] = []
        for differences in range(MAX_DIFFERENCES + 1):
            history.append(dict(reached))
            for k in range(-differences, differences + 1, 2):
                is_down = _comes_from_above(reached, k, differences)
                x = reached[k + 1] if is_down else reached[k - 1] + 1
                if x < width and x - k < height:
                    x += self._run_length(from_x + x, from_y + x - k)
                reached[k] = x
                if x >= width and x - k >= height:
                    return from_x + width, from_y + height, _way(history, k, x, from_x, from_y)
        ends = range(-differences, differences + 1, 2)
        k = max((k for k in ends if reached[k] <= width and reached[k] - k <= height), key=lambda k: 2 * reached[k] - k)
        return from_x + reached[k], from_y + reached[k] - k, _way(history, k, reached[k], from_x, from_y)

    def _run_length(self, x: int, y: int) -> int:
        """Return how many items from here on are equal."""
        first, second = self._lists
        length, end = 0, min(len(first) - x, len(second) - y)
        while length < min(end, SHORT_RUN):
            if first[x + length] != second[y + length]:
                return length
            length += 1
        block = SHORT_RUN
        while length < end:
            block = min(4 * block, end - length)
            here = slice(x + length, x + length + block), slice(y + length, y + length + block)
            equal = _equal_length(self._arrays[0][here[0]], self._arrays[1][here[1]])
            length += equal
            if equal < block:
                break
        return length


def _comes_from_above(reached: dict[int, int], k: int, differences: int) -> bool:
    """Return whether the path to ``k`` skips an item of the second sequence; otherwise it skips one of the first."""
    return k == -differences or (k != differences and reached[k - 1] < reached[k + 1])


def _way(history: list[dict[int, int]], k: int, x: int, from_x: int, from_y: int) -> list[Run]:
    """Return the runs of equal items on the path to ``x`` on diagonal ``k``, traced back difference by difference."""
    runs: list[Run] = []
    for differences in range(len(history) - 1, 0, -1):
        reached = history[differences]
        is_down = _comes_from_above(reached, k, differences)
        before = k + 1 if is_down else k - 1
        begin = reached[before] + (0 if is_down else 1)
        runs.append((from_x + begin, from_y + begin - k, x - begin))
        k, x = before, reached[before]
    runs.append((from_x, from_y, x))
    return runs[::-1]


def _equal_length(first: IntArray, second: IntArray) -> int:
    """Return how many items at the beginning of two arrays of equal length are equal."""
    differs = first != second
    return int(differs.argmax()) if differs.any() else len(first)


def _places(runs: list[Run]) -> tuple[IntArray, IntArray]:
    """Return the positions that the runs cover, in both sequences."""
    x, y, length = np.array(runs, np.int64).reshape(-1, 3).T
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    return np.repeat(x, length) + within, np.repeat(y, length) + within
