"""Memory that each op allocates and frees, and its peak inside the op."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.ops.calls import OpRows, op_rows, ops_around
from torchprof_magic.facts.shared import once_for_the_whole
from torchprof_magic.facts.sums import range_max, running_sum, sum_by
from torchprof_magic.model.intervals import IntArray, rolled_up

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace


class Allocations(NamedTuple):
    """Bytes of every single op, on its own thread; ``self`` leaves out the ops inside it.

    ``net`` is allocated minus freed with everything inside; ``peak`` is the highest that this difference rises
    during the call, at least 0.
    """

    self_host: IntArray
    self_device: IntArray
    self_alloc: IntArray
    self_free: IntArray
    net: IntArray
    peak: IntArray


@once_for_the_whole
def op_allocations(trace: Trace, part: TimeRange) -> Allocations:
    """Return what each op allocated and freed in a part, host and devices added up unless they are separate."""
    memory, ops = trace.memory, op_rows(trace)
    count = len(ops.row)
    op = ops_around(trace, ops.nest, memory["event"].to_numpy(), memory["time_ns"].to_numpy())
    delta = np.where(part.holds(memory["time_ns"].to_numpy()), memory["delta_bytes"].to_numpy(), 0)
    on_host = (memory["device"] == "cpu").to_numpy()
    self_host, self_device = (sum_by(op, np.where(mask, delta, 0), count) for mask in (on_host, ~on_host))
    return Allocations(
        self_host=self_host,
        self_device=self_device,
        self_alloc=sum_by(op, np.maximum(delta, 0), count),
        self_free=sum_by(op, np.maximum(-delta, 0), count),
        net=rolled_up(sum_by(op, delta, count), ops.parent, ops.turns),
        peak=_peaks(trace, ops, op, delta),
    )


def _peaks(trace: Trace, ops: OpRows, op: IntArray, delta: IntArray) -> IntArray:
    """Return the highest running sum of each op's bytes, over the rows of memory that lie inside it.

    Ordered by thread and time, those rows stand together.
    """
    inside = np.flatnonzero(op >= 0)
    lane = trace.events["lane"].to_numpy()[ops.row[op[inside]]]
    inside = inside[np.argsort(lane, kind="stable")]  # memory is sorted by time
    place = np.arange(len(inside))
    first, last = np.full(len(ops.row), len(inside)), np.full(len(ops.row), -1)
    first[op[inside][::-1]], last[op[inside]] = place[::-1], place
    first = rolled_up(first, ops.parent, ops.turns, np.minimum)
    last = rolled_up(last, ops.parent, ops.turns, np.maximum)
    level = np.concatenate(([0], running_sum(delta[inside])))
    has_any = np.flatnonzero(last >= 0)
    peak = np.zeros(len(ops.row), np.int64)
    highest = range_max(level, first[has_any] + 1, last[has_any] + 2)
    peak[has_any] = np.maximum(highest - level[first[has_any]], 0)
    return peak
