"""When every device was busy, and which work has no known device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from torchprof_magic.facts.shared import device_numbers, device_rows, once_per_trace
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.model.intervals import BoolArray, IntArray, covered_ns, merge

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace

UNKNOWN_DEVICE_WORK = "chrome.unknown_device_work"


def has_any_device(trace: Trace) -> bool:
    """Return whether work of a device was recorded, be it understood or not."""
    return trace.has_device or bool(unknown_device_work(trace))


def unknown_device_work(trace: Trace) -> str:
    """Return the sentence that says which events may be device work that is not understood; empty if there are none.

    Such a trace has no device work, but it must not be said to have run on the CPU alone.
    """
    found = (problem.message for problem in trace.problems if problem.code == UNKNOWN_DEVICE_WORK)
    return next(found, "")


def window_ns(start: IntArray, end: IntArray) -> int:
    """Return the time from the first start to the last end, in ns; 0 for nothing."""
    return int(end.max() - start.min()) if len(start) else 0


def together_ns(start: IntArray, end: IntArray, one: BoolArray, other: BoolArray) -> int:
    """Return for how many ns work of both kinds ran at the same time."""
    window_start, window_end = merge(start[one], end[one])
    return int(covered_ns(start[other], end[other], window_start, window_end).sum())


def any_busy_ns(trace: Trace, start_ns: IntArray, end_ns: IntArray, part: TimeRange = WHOLE) -> IntArray:
    """Return for each interval for how many of its ns some device worked; the intervals are cut by the part."""
    work = [(from_ns, to_ns) for _, from_ns, to_ns in device_intervals(trace)]
    if not work:
        return np.zeros(len(start_ns), np.int64)
    from_ns, to_ns = (np.concatenate(side) for side in zip(*work, strict=True))
    from_ns, dur_ns = part.cut(from_ns, to_ns - from_ns)
    return covered_ns(from_ns, from_ns + dur_ns, start_ns, end_ns)


@once_per_trace
def device_intervals(trace: Trace) -> list[tuple[int, IntArray, IntArray]]:
    """Return for each device its number and the start and end of everything that ran on it, in ns."""
    rows = device_rows(trace)
    number, start = device_numbers(trace)[rows], trace.events["start_ns"].to_numpy()[rows]
    end = start + trace.events["dur_ns"].to_numpy()[rows]
    return [(one, start[number == one], end[number == one]) for one in np.unique(number).tolist()]
