"""The steps of an inference server: what each serves, by the range that the server puts around it, and its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_captures import on_captured_lanes
from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.shared import is_named, once_per_trace
from torchprof_magic.model.intervals import marked_above
from torchprof_magic.model.serving import PATTERN, Requests, requests_of

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
    is_step = is_named(trace, PATTERN, "user_annotation") & ~on_captured_lanes(trace)
    rows = np.flatnonzero(is_step)
    served = [requests_of(name) for name in trace.events["name"].gather(rows).cast(pl.String).to_list()]
    known = {row: each for row, each in zip(rows.tolist(), served, strict=True) if each is not None}
    if not known:
        return ServerSteps(rows[:0], [], rows[:0], rows[:0])
    rows = np.array([*known], np.int64)
    is_step[:] = False
    is_step[rows] = True
    parent = trace.events["parent"].to_numpy()
    around = marked_above(parent, is_step, parent[rows].astype(np.int64))
    outermost = dict(zip(rows[around < 0].tolist(), (known[row] for row in rows[around < 0].tolist()), strict=True))
    for row, outer in zip(rows[around >= 0].tolist(), around[around >= 0].tolist(), strict=True):
        if outer in outermost:
            outermost[outer] = _joined(outermost[outer], known[row])
    return _on_one_thread(trace, outermost)


def _joined(outer: Requests, inner: Requests) -> Requests:
    """Return what two ranges of one step say together: the outer one first, and what it leaves open from the other."""
    said = {name: value for name, value in outer._asdict().items() if value not in (None, "")}
    return inner._replace(**said)


def _on_one_thread(trace: Trace, found: dict[int, Requests]) -> ServerSteps:
    rows = np.array(sorted(found, key=lambda row: trace.events["start_ns"][row]), np.int64)
    lane = trace.events["lane"].to_numpy()[rows].astype(np.int64)
    rows = rows[lane == np.bincount(lane).argmax()]
    start = trace.events["start_ns"].to_numpy()[rows]
    until = start + trace.events["dur_ns"].to_numpy()[rows]
    windows = windows_of(trace)
    last = max(int(until[-1]), int(windows.end_ns.max(initial=0)))
    # Between two cycles nothing was recorded.
    cycle = trace.events["cycle"].to_numpy()[rows]
    end = np.append(np.where(cycle[1:] == cycle[:-1], start[1:], until[:-1]), last)
    return ServerSteps(rows, [found[row] for row in rows.tolist()], start, np.maximum(end, start))


def has_server_steps(trace: Trace) -> bool:
    """Return whether a recording is of a server whose steps are known."""
    return len(server_steps(trace).row) > 0
