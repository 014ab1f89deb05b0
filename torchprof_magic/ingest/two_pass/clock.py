"""Maps moments of one cycle to another that ran the same work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray


class Clock:
    """Maps moments, in ns, linearly between those that are known of both: ``from_ns`` here, and ``to_ns`` there.

    Both have the same length, of at least 1, and need no order. What is later here is never earlier there.
    """

    def __init__(self, from_ns: IntArray, to_ns: IntArray) -> None:
        order = np.lexsort((to_ns, from_ns))
        self._from = from_ns[order]
        self._to = np.maximum.accumulate(to_ns[order])

    def moved(self, time_ns: IntArray) -> IntArray:
        """Return the moments on the other clock; a moment between two known ones stays between them."""
        at = np.searchsorted(self._from, time_ns, side="right") - 1
        left, right = np.maximum(at, 0), np.minimum(at + 1, len(self._from) - 1)
        past, width = time_ns - self._from[left], self._from[right] - self._from[left]
        low, high = self._to[left], self._to[right]
        inner = low + np.floor(past * ((high - low) / np.maximum(width, 1))).astype(np.int64)
        is_between = (at >= 0) & (at + 1 < len(self._from)) & (past > 0)
        has_room = is_between & (high - low > 1)
        inner = np.where(has_room, np.clip(inner, low + 1, np.maximum(high - 1, low + 1)), inner)
        return np.where(is_between, inner, low + past)
