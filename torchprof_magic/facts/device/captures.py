"""When streams were captured into graphs: work that is launched then does not run, it is only noted down."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.shared import is_named, once_per_trace
from torchprof_magic.model.vendors import BEGIN_CAPTURE, END_CAPTURE

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace


class Captures(NamedTuple):
    """The times of captures, in ns; ``row`` is the call that began each, or ended it if its beginning is not there."""

    cycle: IntArray
    lane: IntArray
    start_ns: IntArray
    end_ns: IntArray
    row: IntArray

    def holds(self, cycle: IntArray, time_ns: IntArray) -> BoolArray:
        """Return which moments of a cycle are in a capture, on whatever thread: that of backward captures as well."""
        inside = np.zeros(len(time_ns), np.bool_)
        for one, start, end in zip(self.cycle.tolist(), self.start_ns.tolist(), self.end_ns.tolist(), strict=True):
            inside |= (cycle == one) & (time_ns >= start) & (time_ns <= end)
        return inside


@once_per_trace
def captures_of(trace: Trace) -> Captures:
    """Return the captures of a trace. One that is cut off by the recording reaches to its edge."""
    events = trace.events
    begins, ends = (is_named(trace, pattern, "runtime") for pattern in (BEGIN_CAPTURE, END_CAPTURE))
    # A capture from another file did not happen in this recording.
    is_beside = np.isin(events["lane"].to_numpy(), trace.meta.captured_lanes)
    begins, ends = begins & ~is_beside, ends & ~is_beside
    rows = np.flatnonzero(begins | ends)
    start, lane, cycle = (events[name].to_numpy().astype(np.int64) for name in ("start_ns", "lane", "cycle"))
    end = start + events["dur_ns"].to_numpy()
    found: list[tuple[int, int, int, int, int]] = []
    open_at: dict[tuple[int, int], int] = {}
    for row in rows[np.argsort(start[rows], kind="stable")].tolist():
        thread = int(cycle[row]), int(lane[row])
        if begins[row]:
            open_at.setdefault(thread, row)
        elif thread in open_at:
            begun = open_at.pop(thread)
            found.append((*thread, int(start[begun]), int(end[row]), begun))
        else:
            found.append((*thread, int(start[cycle == thread[0]].min()), int(end[row]), row))
    for thread, begun in open_at.items():
        found.append((*thread, int(start[begun]), int(end[cycle == thread[0]].max()), begun))
    return Captures(*(np.array(column, np.int64) for column in zip(*found, strict=True))) if found else _NONE


_NONE = Captures(*(np.empty(0, np.int64) for _ in Captures._fields))
