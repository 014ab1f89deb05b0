"""Nests intervals of a thread that cut through one another, so that every moment belongs to one innermost of them."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.model.intervals import NO_PARENT

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray

# What an interval is to others: a call of Python, a range that calls enter and leave, or a part of the program that was
# timed, of which both ends are known.
CALL, RANGE, PLACE, OTHER = range(4)
_ROLES = {"python_function": CALL, "user_annotation": RANGE}
# From what an interval takes over that it outlives.
_TAKES_OVER = {CALL: (), RANGE: (RANGE,), PLACE: (CALL, RANGE, PLACE), OTHER: ()}


class _Placed(NamedTuple):
    order: list[int]
    start: list[int]
    end: list[int]
    parent: list[int]


def roles_of(categories: pl.Series, ops: int = OTHER) -> IntArray:
    """Return what each event is to others, by its category; ``ops`` is what ops are."""
    roles = _ROLES | {"cpu_op": ops}
    return categories.cast(pl.String).replace_strict(roles, default=OTHER, return_dtype=pl.Int64).to_numpy()


def nest_properly(
    lane: IntArray, start_ns: IntArray, end_ns: IntArray, parent: IntArray, roles: IntArray, torn: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the order, starts, ends and parents of intervals, those on the lanes ``torn`` nested anew.

    Intervals are given in nesting order. An annotation or op that outlives the call or line that it began in, such as
    that of ``record_function.__enter__``, begins where that ends. One that outlives another one takes over from it, as
    ranges of tasks that take turns do, and so does a line or module from whatever it outlives: the earlier one ends
    where the later one begins. A call that outlives what it began in, such as one that never returned and so ends with
    the recording, is cut off where that ends, and so is all else.
    """
    order, start, end = np.arange(len(lane)), start_ns.copy(), end_ns.copy()
    parent = parent.copy()
    for number in torn.tolist():
        first, last = np.searchsorted(lane, [number, number + 1])
        rows = slice(first, last)
        placed = _nested(start[rows].tolist(), end[rows].tolist(), roles[rows].tolist())
        order[rows] = np.asarray(placed.order) + first
        start[rows], end[rows] = placed.start, placed.end
        above = np.asarray(placed.parent)
        parent[rows] = np.where(above >= 0, above + first, NO_PARENT)
    return order, start, end, parent


def _nested(starts: list[int], ends: list[int], roles: list[int]) -> _Placed:
    """Nest the intervals of one lane."""
    placed = _Placed([], [], [], [])
    open_places: list[int] = []
    moved: list[tuple[int, int, int]] = []  # ranges that begin later: from when on they count, -end and row
    row, count = 0, len(starts)
    while row < count or moved:
        if moved and (row == count or moved[0][:2] <= (starts[row], -ends[row])):
            start, _, current = heapq.heappop(moved)
        else:
            start, current = starts[row], row
            row += 1
        end, role = ends[current], roles[current]
        while open_places:
            around = open_places[-1]
            if placed.end[around] > start:
                if placed.end[around] >= end or roles[placed.order[around]] not in _TAKES_OVER[role]:
                    break
                placed.end[around] = start
            open_places.pop()
        above = open_places[-1] if open_places else NO_PARENT
        if above >= 0 and end > (limit := placed.end[above]):
            if role == RANGE and roles[placed.order[above]] in (CALL, PLACE):
                heapq.heappush(moved, (limit, -end, current))
                continue
            end = max(limit, start)
        placed.order.append(current)
        placed.start.append(start)
        placed.end.append(end)
        placed.parent.append(above)
        open_places.append(len(placed.order) - 1)
    return placed
