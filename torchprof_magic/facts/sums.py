"""Sums of bytes and ns that are exact, and bounded for damaged values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.model.intervals import IntArray

EXACT = 2.0**53  # float64 represents all integers below this exactly
LARGEST = 2**62  # sums of damaged values stop here instead of wrapping around int64


def sum_by(group: npt.NDArray[np.integer], values: npt.NDArray[np.integer], count: int) -> IntArray:
    """Return the sum of the values of each group ``0..count-1``; rows with group -1 are ignored."""
    if len(group) and int(group.min()) < 0:
        values, group = values[group >= 0], group[group >= 0]
    highest = _highest_sum(values)
    if not highest:
        return np.zeros(count, np.int64)
    if EXACT <= highest < LARGEST:
        total = np.zeros(count, np.int64)
        np.add.at(total, group, values)
        return total
    return _saturated(np.bincount(group, weights=values, minlength=count))


def running_sum(values: IntArray) -> IntArray:
    """Return the cumulative sum."""
    if _highest_sum(values) < LARGEST:
        return np.cumsum(values)
    return _saturated(np.cumsum(values, dtype=np.float64))


def range_max(values: IntArray, start: IntArray, stop: IntArray) -> IntArray:
    """Return the largest of ``values[start:stop]`` for many ranges, none of them empty.

    Windows double, so the work grows with the logarithm of the longest range.
    """
    found = np.empty(len(start), values.dtype)
    length, width = stop - start, 1
    while True:
        rows = np.flatnonzero((length >= width) & (length < 2 * width))
        found[rows] = np.maximum(values[start[rows]], values[stop[rows] - width])
        if not (length >= 2 * width).any():
            return found
        values = np.maximum(values[:-width], values[width:])
        width *= 2


def _highest_sum(values: npt.NDArray[np.integer]) -> float:
    """Return an upper bound of all partial sums."""
    if len(values) == 0:
        return 0.0
    quick = max(float(values.max()), -float(values.min())) * len(values)
    return quick if quick < EXACT else float(np.abs(values.astype(np.float64)).sum())


def _saturated(total: npt.NDArray[np.float64] | IntArray) -> IntArray:
    return np.clip(total, -LARGEST, LARGEST).astype(np.int64)
