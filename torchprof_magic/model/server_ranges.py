"""Which ranges of a recording are the steps of an inference server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.model.intervals import BoolArray, IntArray, marked_above
from torchprof_magic.model.serving import Requests, requests_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def ranges_of_steps(events: pl.DataFrame, rows: IntArray) -> tuple[IntArray, list[Requests]]:
    """Return the steps among some ranges, in order of time, and what each serves.

    They are those of the thread with the most of them. A range in another one is of the same step, and says what that
    leaves open.
    """
    served = [requests_of(name) for name in events["name"].gather(rows).cast(pl.String).to_list()]
    known = {row: each for row, each in zip(rows.tolist(), served, strict=True) if each is not None}
    if not known:
        return rows[:0].astype(np.int64), []
    found = _outermost(events["parent"].to_numpy(), events.height, known)
    start, lane = (events[name].to_numpy().astype(np.int64) for name in ("start_ns", "lane"))
    rows = np.array(sorted(found, key=lambda row: int(start[row])), np.int64)
    rows = rows[lane[rows] == np.bincount(lane[rows]).argmax()]
    return rows, [found[row] for row in rows.tolist()]


def _outermost(parent: IntArray, height: int, known: dict[int, Requests]) -> dict[int, Requests]:
    """Return the ranges that lie in no other one, with what those inside add."""
    rows = np.array([*known], np.int64)
    is_step: BoolArray = np.zeros(height, np.bool_)
    is_step[rows] = True
    around = marked_above(parent, is_step, parent[rows].astype(np.int64))
    found = {row: known[row] for row in rows[around < 0].tolist()}
    for row, outer in zip(rows[around >= 0].tolist(), around[around >= 0].tolist(), strict=True):
        if outer in found:
            found[outer] = _joined(found[outer], known[row])
    return found


def _joined(outer: Requests, inner: Requests) -> Requests:
    """Return what two ranges of one step say together: the outer one first, and what it leaves open from the other."""
    said = {name: value for name, value in outer._asdict().items() if value not in (None, "")}
    return inner._replace(**said)


def ends_of_steps(start_ns: Sequence[int] | IntArray, until_ns: IntArray, cycle: IntArray, last_ns: int) -> IntArray:
    """Return when each step ends: as the next one of its cycle begins, or with its range; the last one at ``last_ns``.

    Between two cycles nothing was recorded.
    """
    start = np.asarray(start_ns)
    end = np.append(np.where(cycle[1:] == cycle[:-1], start[1:], until_ns[:-1]), max(int(until_ns[-1]), last_ns))
    return np.maximum(end, start)
