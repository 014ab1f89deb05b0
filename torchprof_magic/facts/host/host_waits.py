"""When the thread of the steps waited or collected garbage, as a live run saw it, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from torchprof_magic.facts.host.host_states import Timeline
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.model.intervals import NO_PARENT

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


@once_per_trace
def wait_timelines(trace: Trace) -> dict[int, Timeline]:
    """Return what each thread waited for over time, by lane: a row of ``trace.waits`` in ``cause``, or -1.

    Where two overlap, the later one counts from its start on.
    """
    if trace.waits.height == 0:
        return {}
    waits = trace.waits.with_row_index("row").filter(trace.waits["dur_ns"] > 0)
    found = {}
    for (lane,), part in waits.sort("start_ns", "row").group_by("lane"):
        start = part["start_ns"].to_numpy()
        end = np.minimum(start + part["dur_ns"].to_numpy(), np.append(start[1:], np.iinfo(np.int64).max))
        time = np.stack((start, end), axis=1).ravel()
        cause = np.stack((part["row"].to_numpy().astype(np.int64), np.full(len(start), NO_PARENT)), axis=1).ravel()
        is_last = np.append(time[1:] != time[:-1], True)
        time, cause = time[is_last], cause[is_last]
        found[int(lane)] = Timeline(time, np.zeros(len(time), np.int64), cause)
    return found
