"""The recording's own work around each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.host.lanes_of_steps import lanes_of_steps
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.model.intervals import IntArray  # noqa: TC001 - a field of a named tuple
from torchprof_magic.model.rows import keys_of, rows_where
from torchprof_magic.model.trace import STEP_PATTERN

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


@once_per_trace
def transitions_ns(trace: Trace) -> IntArray:
    """Return how much of torch's range of each step is not in the step, in ns.

    A live run leaves out what the recording itself does there to end a step and to begin the next; in other traces this
    is 0.
    """
    is_range = is_named(trace, STEP_PATTERN) & in_category(trace, "user_annotation")
    events = rows_where(trace.events.select("name", "cycle", "dur_ns"), is_range)
    number = [int(name.rpartition("#")[2]) for name in events["name"].to_list()]
    keys = zip(events["cycle"].to_list(), number, strict=True)
    range_ns: dict[tuple[int, int], int] = {}
    for key, dur_ns in zip(keys, events["dur_ns"].to_list(), strict=True):
        range_ns.setdefault(key, dur_ns)  # the first one of each step
    whole_ns = (trace.steps["end_ns"] - trace.steps["start_ns"]).to_list()
    around = [range_ns.get(key, 0) - whole for key, whole in zip(keys_of(trace.steps), whole_ns, strict=True)]
    return np.maximum(np.array(around, np.int64), 0)


class OwnWork(NamedTuple):
    """The recording's own work in steps: intervals on lanes."""

    lane: IntArray
    start_ns: IntArray
    end_ns: IntArray


@once_per_trace
def own_work(trace: Trace) -> OwnWork:
    """Return when the recording itself worked at the begin and the end of the steps, where these hold that."""
    own = {(mark.cycle, mark.number): mark for mark in trace.meta.recorded_steps if mark.lead_ns or mark.tail_ns}
    found: list[tuple[int, int, int]] = []
    if not own:
        return OwnWork(*np.empty((3, 0), np.int64))
    times = trace.steps["start_ns"].to_list(), trace.steps["end_ns"].to_list()
    for lane, key, start, end in zip(lanes_of_steps(trace).tolist(), keys_of(trace.steps), *times, strict=True):
        if (mark := own.get(key)) is not None:
            found += [(lane, start, start + mark.lead_ns), (lane, end - mark.tail_ns, end)]
    return OwnWork(*np.array(found, np.int64).reshape(-1, 3).T)
