"""What did every single op do: around which others, for how long, with how much work on the device?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.analysis.sums import sum_by
from torchprof_magic.intervals import (
    NO_PARENT,
    BoolArray,
    IntArray,
    depth_of,
    levels,
    nearest_marked,
    nest,
    own_time,
    rolled_up,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.trace import Trace

OP_CATEGORIES = ("cpu_op", "user_annotation")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRows:
    """The ops and annotations of a trace, nested among themselves as torch nests them.

    ``row`` is each op's row in ``trace.events``; ``parent`` is an index into these arrays, or -1. ``turns`` are the
    levels of the nest, empty when nothing has to be rolled up. ``op_of_event`` is the index of the innermost op at or
    around each event, or -1, with one entry more, which answers for event -1.
    """

    row: IntArray
    start_ns: IntArray
    dur_ns: IntArray
    parent: IntArray
    turns: list[IntArray]
    op_of_event: npt.NDArray[np.int32]
    self_cpu_ns: IntArray
    self_device_ns: IntArray
    total_device_ns: IntArray


def op_rows(trace: Trace, categories: tuple[str, ...] = OP_CATEGORIES) -> OpRows:
    """Return the self and total values of every single op; ``categories`` says what may enclose what."""
    events = trace.events
    is_op = events["category"].is_in(categories).to_numpy()
    row = np.flatnonzero(is_op)
    op_of_event = enclosing_ops(trace, is_op)
    start, dur = (events[name].to_numpy()[row] for name in ("start_ns", "dur_ns"))
    parent, overlaps = _nested(trace, row, op_of_event)
    self_device = _device_ns(trace, op_of_event, len(row))
    turns = levels(depth_of(parent)) if self_device.any() or trace.memory.height else []
    return OpRows(
        row=row,
        start_ns=start,
        dur_ns=dur,
        parent=parent,
        turns=turns,
        op_of_event=op_of_event,
        self_cpu_ns=own_time(parent, start, dur, overlaps),
        self_device_ns=self_device,
        total_device_ns=rolled_up(self_device, parent, turns) if self_device.any() else self_device,
    )


def enclosing_ops(trace: Trace, is_op: BoolArray) -> npt.NDArray[np.int32]:
    """Return for each event, and at the end for event -1, the number of the innermost op at or around it, or -1."""
    number = np.append(np.cumsum(is_op, dtype=np.int32) - 1, np.int32(NO_PARENT)).astype(np.int32)
    events = trace.events
    return number[nearest_marked(events["parent"].to_numpy(), events["depth"].to_numpy(), is_op)]


def _nested(trace: Trace, row: IntArray, op_of_event: npt.NDArray[np.int32]) -> tuple[IntArray, BoolArray]:
    """Return ``(parent, overlaps)`` of the ops among themselves.

    Where nothing overlaps, the nearest op above in the nest of all events is the parent; an overlapping Python frame
    could stand between two ops, so then the ops are nested anew.
    """
    events = trace.events
    if events["overlaps"].any():
        lane, start, dur = (events[name].to_numpy()[row].astype(np.int64) for name in ("lane", "start_ns", "dur_ns"))
        parent, _, overlaps = nest(lane, start, dur)
        return parent, overlaps
    return op_of_event[events["parent"].to_numpy()[row]].astype(np.int64), np.zeros(len(row), np.bool_)


def _device_ns(trace: Trace, op_of_event: npt.NDArray[np.int32], count: int) -> IntArray:
    """Return the device time that each op launched itself, through launch call and innermost op around it."""
    launches = trace.flows.filter(pl.col("kind") == "launch")
    dur = trace.events["dur_ns"].to_numpy()[launches["target"].to_numpy()]
    return sum_by(op_of_event[launches["source"].to_numpy()], dur, count)
