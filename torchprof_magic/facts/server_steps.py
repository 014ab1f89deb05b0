"""The steps of an inference server: what each serves, by the range that the server puts around it, and its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.device.graph_captures import on_captured_lanes
from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.shared import is_named, once_per_trace
from torchprof_magic.model.server_ranges import ends_of_steps, ranges_of_steps
from torchprof_magic.model.serving import PATTERN, Requests

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace


class ServerSteps(NamedTuple):
    """The steps in order of time: the range of each, a row of ``events``, what it serves, and its time.

    A step lasts until the next one begins, the last until its range and the work on devices that began in it have
    ended.
    """

    row: IntArray
    requests: list[Requests]
    start_ns: IntArray
    end_ns: IntArray


@once_per_trace
def server_steps(trace: Trace) -> ServerSteps:
    """Return the steps of the server's thread with the most of them; none for a recording of something else."""
    is_range = is_named(trace, PATTERN, "user_annotation") & ~on_captured_lanes(trace)
    rows, requests = ranges_of_steps(trace.events, np.flatnonzero(is_range))
    if len(rows) == 0:
        return ServerSteps(rows, [], rows, rows)
    start, dur, cycle = (trace.events[name].to_numpy()[rows] for name in ("start_ns", "dur_ns", "cycle"))
    if np.array_equal(trace.steps["start_ns"].to_numpy(), start):
        return ServerSteps(rows, requests, start, trace.steps["end_ns"].to_numpy())
    # The recording has steps of its own besides.
    last = int(windows_of(trace).end_ns.max(initial=0))
    return ServerSteps(rows, requests, start, ends_of_steps(start, start + dur, cycle, last))


def are_of_server(trace: Trace) -> bool:
    """Return whether the steps of a recording are those of a server, which differ in what they serve."""
    return trace.steps.height > 0 and np.array_equal(
        trace.steps["start_ns"].to_numpy(), trace.events["start_ns"].to_numpy()[server_steps(trace).row]
    )


def has_server_steps(trace: Trace) -> bool:
    """Return whether a recording is of a server whose steps are known."""
    return len(server_steps(trace).row) > 0
