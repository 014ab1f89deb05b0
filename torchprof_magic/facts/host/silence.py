"""Times of which a file does not say what the host does: no thread has an event for long, and nothing else tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.host_states import WEAK, WRAPPER_NAME, strongest_of, thread_timelines
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.model.intervals import BoolArray, IntArray, merge
from torchprof_magic.model.trace import STEP_PATTERN

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# Python between two ops takes microseconds, rarely milliseconds.
LONG_SILENCE_NS = 10_000_000


@once_per_trace
def silences(trace: Trace) -> tuple[IntArray, IntArray]:
    """Return the times, from 10 ms on, in which no thread has an op, a call or a range of the user's own.

    There are none where something else tells what the host does: Python calls, watched lines or waits, or the CPU time
    of steps.
    """
    nothing = np.empty(0, np.int64)
    if _tells_more(trace):
        return nothing, nothing
    line = strongest_of(list(thread_timelines(trace).values()))
    is_frame = np.append(is_named(trace, f"({STEP_PATTERN})|{WRAPPER_NAME}")[host_nest(trace).row], True)
    is_silent = (line.state[:-1] >= WEAK) & is_frame[line.cause[:-1]]
    start_ns, end_ns = merge(line.start_ns[:-1][is_silent], line.start_ns[1:][is_silent])
    is_long = end_ns - start_ns >= LONG_SILENCE_NS
    return start_ns[is_long], end_ns[is_long]


def are_silent(trace: Trace, start_ns: IntArray, end_ns: IntArray) -> BoolArray:
    """Return which intervals, none of which is longer than one of a thread's states, lie in a silence."""
    from_ns, to_ns = silences(trace)
    if len(from_ns) == 0:
        return np.zeros(len(start_ns), np.bool_)
    middle = start_ns + (end_ns - start_ns) // 2
    at = np.searchsorted(from_ns, middle, side="right") - 1
    return (at >= 0) & (middle < to_ns[at])


def _tells_more(trace: Trace) -> bool:
    return (
        bool(in_category(trace, "python_function").any())
        or bool((trace.sites["kind"] == "line").any())
        or trace.waits.height > 0
        or any(mark.cpu_ns is not None for mark in trace.meta.recorded_steps)
    )
