"""Which call launched which work, and how much launched work had not begun at any moment: the launch queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.shared import once_per_trace

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
    links = trace.flows.filter(pl.col("kind") == "launch")
    start, dur = trace.events["start_ns"].to_numpy(), trace.events["dur_ns"].to_numpy()
    target = links["target"].to_numpy()
    work = pl.DataFrame({"row": links["source"], "start": start[target], "end": start[target] + dur[target]})
    calls = work.group_by("row").agg(pl.col("start").min(), pl.col("end").max())
    row = calls["row"].to_numpy()
    order = np.argsort(start[row], kind="stable")
    return Calls(
        row[order].astype(np.int64), start[row][order], calls["start"].to_numpy()[order], calls["end"].to_numpy()[order]
    )
