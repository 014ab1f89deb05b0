"""Which call launched which work, and how much launched work had not begun at any moment: the launch queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.shared import launch_links, once_per_trace
from torchprof_magic.model.intervals import NO_PARENT

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace


class Calls(NamedTuple):
    """Every runtime call that launched device work, in order of time: its row in ``trace.events`` and its times.

    ``work_start_ns`` is when the first work that it launched began, ``work_end_ns`` when the last of it ended.
    """

    row: IntArray
    start_ns: IntArray
    work_start_ns: IntArray
    work_end_ns: IntArray

    def pending_at(self, time_ns: IntArray) -> IntArray:
        """Return how many calls had been made before each moment without any of their work having begun."""
        made = np.searchsorted(self.start_ns, time_ns, side="left")
        # Work that seems to begin before its call, because of two clocks, never waited.
        begun = np.searchsorted(np.sort(np.maximum(self.work_start_ns, self.start_ns)), time_ns, side="left")
        return made - begun


@once_per_trace
def launching_calls(trace: Trace) -> Calls:
    """Return the runtime calls that launched work on a device."""
    links = launch_links(trace)
    start, dur = trace.events["start_ns"].to_numpy(), trace.events["dur_ns"].to_numpy()
    source, target = links["source"].to_numpy().astype(np.int64), links["target"].to_numpy()
    by_call = np.argsort(source, kind="stable")
    source, target = source[by_call], target[by_call]
    first = np.flatnonzero(np.diff(source, prepend=NO_PARENT))
    if len(first) == 0:
        return Calls(*(np.empty(0, np.int64) for _ in Calls._fields))
    row, begin = source[first], np.minimum.reduceat(start[target], first)
    end = np.maximum.reduceat(start[target] + dur[target], first)
    order = np.argsort(start[row], kind="stable")
    return Calls(row[order], start[row][order], begin[order], end[order])
