"""Between which events a thread does nothing that was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from torchprof_magic.facts.shared import in_category, is_named, name_numbers
from torchprof_magic.model.trace import STEP_PATTERN

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# Two names are told if this share of the time is between them.
MOSTLY = 0.5
_MARKS = ("cpu_op", "user_annotation")


def longest_pause(trace: Trace, lane: int, start_ns: IntArray, end_ns: IntArray) -> tuple[str, str] | None:
    """Return the names before and after most of the time of some intervals, None if no two names are.

    They are of ops or ranges of a thread: what ended last before an interval, and what begins first after it.
    """
    events = trace.events
    is_step = is_named(trace, STEP_PATTERN)
    row = np.flatnonzero(in_category(trace, *_MARKS) & (events["lane"].to_numpy() == lane) & ~is_step)
    if len(row) == 0 or len(start_ns) == 0:
        return None
    begin, dur = (events[name].to_numpy()[row].astype(np.int64) for name in ("start_ns", "dur_ns"))
    # Of several that end, or begin, at the same time, the outermost counts. They are in the order in which they begin.
    by_end = np.lexsort((dur, begin + dur))
    last = np.searchsorted((begin + dur)[by_end], start_ns, side="right") - 1
    following = np.searchsorted(begin, end_ns, side="left")
    is_known = (last >= 0) & (following < len(row))
    names = name_numbers(trace).astype(np.int64)
    before = names[row[by_end[np.where(is_known, last, 0)]]]
    after = names[row[np.where(is_known, following, 0)]]
    pairs, group = np.unique(before * (int(names.max()) + 1) + after, return_inverse=True)
    sums = np.bincount(group, np.where(is_known, end_ns - start_ns, 0), len(pairs))
    if sums.max() == 0 or sums.max() < MOSTLY * float((end_ns - start_ns).sum()):
        return None
    at = int(np.flatnonzero(is_known & (group == sums.argmax()))[0])
    rows = row[by_end[last[at]]], row[following[at]]
    first, then = (str(events["name"][int(each)]) for each in rows)
    return (first, then) if first != then else None  # it could be anywhere among them
