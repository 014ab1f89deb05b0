"""When a thread only waits, while autograd's threads run the backward pass that it called."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.host.host_states import OTHER, WEAK, pieces_of, strongest_of, thread_timelines
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

# Ranges that the engine of autograd opens around each node; before 2022 traces have the nodes alone.
NODE_NAME = r"^autograd::engine::evaluate_function: "
_OLD_NODE_NAME = r"Backward[0-9]*$"


class Awaits(NamedTuple):
    """Intervals in which the thread ``lane`` waits, each in one event of it; those of a thread are disjoint."""

    lane: IntArray
    start_ns: IntArray
    end_ns: IntArray


@once_per_trace
def awaits_of_backward(trace: Trace) -> Awaits:
    """Return when threads run nothing of their own in a range or a frame, and autograd's threads work.

    A thread that evaluates nodes itself, as the calling one does on the CPU, waits for no other.
    """
    lines = thread_timelines(trace)
    engines = set(np.unique(trace.events["lane"].to_numpy()[_are_nodes(trace)]).tolist()) & set(lines)
    works = strongest_of([lines[lane] for lane in engines])
    parts = []
    for lane, line in lines.items() if engines else ():
        if lane in engines:
            continue
        idle = np.flatnonzero(line.state[:-1] == OTHER)
        pieces = pieces_of(works, line.start_ns[idle], line.start_ns[idle + 1])
        is_working = pieces.state < WEAK
        start, end = pieces.start_ns[is_working], pieces.end_ns[is_working]
        parts.append(Awaits(np.full(len(start), lane, np.int64), start, end))
    if not parts:
        return Awaits(*(np.empty(0, np.int64) for _ in Awaits._fields))
    return Awaits(*map(np.concatenate, zip(*parts, strict=True)))


def _are_nodes(trace: Trace) -> BoolArray:
    """Return which events are nodes of autograd."""
    is_op = in_category(trace, "cpu_op")
    is_node = is_op & is_named(trace, NODE_NAME)
    return is_node if is_node.any() else is_op & is_named(trace, _OLD_NODE_NAME)
