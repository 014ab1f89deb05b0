"""What an optimizer calls to compute the loss: forward and backward inside of ``Optimizer.step``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.shared import in_category, is_named, once_per_trace

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

OPTIMIZER_STEP = r"^Optimizer\.step#"
_NODE = r"^autograd::engine::|^torch::autograd::|Backward[0-9]*$"


class Closures(NamedTuple):
    """Closures in order of their threads and times, with the row of the ``Optimizer.step`` that calls each."""

    step: IntArray
    lane: IntArray
    start_ns: IntArray
    end_ns: IntArray

    def around(self, lane: IntArray, start_ns: IntArray, end_ns: IntArray) -> BoolArray:
        """Return which times lie within a closure of their threads."""
        found = np.zeros(len(start_ns), np.bool_)
        for number in np.unique(self.lane).tolist():
            begin, end = self.start_ns[self.lane == number], self.end_ns[self.lane == number]
            place = np.searchsorted(begin, start_ns, side="right") - 1
            found |= (lane == number) & (place >= 0) & (end_ns <= end[place])
        return found


@once_per_trace
def closures_of(trace: Trace) -> Closures:
    """Return the closures that steps of optimizers call, as ``optimizer.step(closure)`` and Lightning do.

    A closure begins with its step, a further one of the same step with its first op that makes a node of autograd, and
    lasts until no more nodes run backward. A step without both has none.
    """
    events = trace.events
    start, dur, lane = (events[name].to_numpy() for name in ("start_ns", "dur_ns", "lane"))
    steps = np.flatnonzero(is_named(trace, OPTIMIZER_STEP) & ~in_category(trace, "python_function"))
    makers = trace.flows.filter(pl.col("kind") == "backward")["source"].to_numpy()
    nodes = np.flatnonzero(is_named(trace, _NODE) & in_category(trace, "cpu_op"))
    makers, nodes = (rows[np.argsort(start[rows], kind="stable")] for rows in (makers, nodes))
    # Most steps call none, so nothing runs in them.
    edges = np.stack((start[steps], start[steps] + dur[steps]))
    in_steps = np.searchsorted(start[makers], edges), np.searchsorted(start[nodes], edges)
    calls = np.flatnonzero(np.all([first < last for first, last in in_steps], axis=0))
    found: list[tuple[int, int, int, int]] = []
    for at in calls.tolist():
        step = int(steps[at])
        made, run = (rows[slice(*inside[:, at])] for rows, inside in zip((makers, nodes), in_steps, strict=True))
        made = made[lane[made] == lane[step]]
        stretches = _stretches(int(start[step]), start[made], start[run], dur[run])
        found += [(step, int(lane[step]), *each) for each in stretches]
    columns = np.array(sorted(found, key=lambda each: each[1:]), np.int64).reshape(-1, 4).T
    return Closures(*columns)


@once_per_trace
def in_closures(trace: Trace) -> BoolArray:
    """Return which events lie within a closure, on the thread that calls it."""
    events, closures = trace.events, closures_of(trace)
    start, dur, lane = (events[name].to_numpy() for name in ("start_ns", "dur_ns", "lane"))
    return closures.around(lane, start, start + dur)


def own_starts(trace: Trace, steps: IntArray) -> IntArray:
    """Return when each of these steps of optimizers has called its last closure; its start if it calls none."""
    closures, start = closures_of(trace), trace.events["start_ns"].to_numpy()[steps].astype(np.int64)
    for step, end_ns in zip(closures.step.tolist(), closures.end_ns.tolist(), strict=True):
        start[steps == step] = end_ns
    return start


def _stretches(begin: int, made: IntArray, run: IntArray, dur: IntArray) -> list[tuple[int, int]]:
    """Return the begin and end of each closure, from where nodes were made and when nodes ran."""
    before = np.searchsorted(made, run)
    is_last = np.diff(before, append=before[-1:] + 1) > 0
    last = np.flatnonzero(is_last & (before > 0))
    ends = np.maximum.accumulate(run + dur)[last]
    begins = np.append(begin, made[before[last[:-1]]]) if len(last) else ends
    return list(zip(begins.tolist(), ends.tolist(), strict=True))
