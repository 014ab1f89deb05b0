"""Each single call of an op: its nesting, its times, and the device work that it launched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.device.graph_captures import on_captured_lanes
from torchprof_magic.facts.device.graph_work import origin_links
from torchprof_magic.facts.shared import in_category, is_mark, once_for_the_whole, once_per_trace
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.model.intervals import (
    NO_PARENT,
    BoolArray,
    IntArray,
    depth_of,
    innermost_at,
    levels,
    nearest_marked,
    nest,
    own_time,
    rolled_up,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace

OP_CATEGORIES = ("cpu_op", "user_annotation")


class Nest(NamedTuple):
    """Chosen events nested among themselves: their rows in ``trace.events``, and the index of each one's parent, or -1.

    ``of_event`` is the index of the innermost chosen event at or around each event, with one entry more that answers
    for event -1. It is None when events of the trace overlap: then only the times tell, see ``ops_around``.
    """

    row: IntArray
    parent: IntArray
    overlaps: BoolArray
    of_event: npt.NDArray[np.int32] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRows:
    """The ops and annotations of a trace, nested among themselves as torch nests them, with the values of each.

    ``row`` is each op's row in ``trace.events``; ``parent`` is an index into these arrays, or -1. ``turns`` are the
    levels of the nest, empty when nothing has to be rolled up.
    """

    nest: Nest
    row: IntArray
    start_ns: IntArray
    dur_ns: IntArray
    parent: IntArray
    turns: list[IntArray]
    self_cpu_ns: IntArray
    self_device_ns: IntArray
    total_device_ns: IntArray


@once_per_trace
def op_rows(trace: Trace) -> OpRows:
    """Return the self and total values of every single op. Computed once per trace; callers must not change it."""
    return rows_among(trace, OP_CATEGORIES)


def rows_among(trace: Trace, categories: tuple[str, ...]) -> OpRows:
    """Return the self and total values of every single event of some categories, which may enclose one another.

    The marks of torch.compile around its nodes are none of them.
    """
    events = trace.events
    found = nest_among(trace, in_category(trace, *categories) & ~is_mark(trace))
    start, dur = (events[name].to_numpy()[found.row] for name in ("start_ns", "dur_ns"))
    if trace.meta.captured_lanes:
        dur = dur * ~on_captured_lanes(trace)[found.row]
    self_device = _device_ns(trace, found, WHOLE)
    turns = levels(depth_of(found.parent)) if self_device.any() or trace.memory.height else []
    return OpRows(
        nest=found,
        row=found.row,
        start_ns=start,
        dur_ns=dur,
        parent=found.parent,
        turns=turns,
        self_cpu_ns=own_time(found.parent, start, dur, found.overlaps),
        self_device_ns=self_device,
        total_device_ns=rolled_up(self_device, found.parent, turns) if self_device.any() else self_device,
    )


@once_for_the_whole
def ops_in(trace: Trace, part: TimeRange) -> OpRows:
    """Return ``op_rows`` with the times that lie in a part: on the host, and of the device work that they launched.

    Their starts are cut at its edges as well; ``are_there`` tells which have anything there.
    """
    ops = op_rows(trace)
    if part == WHOLE:
        return ops
    start, dur = part.cut(ops.start_ns, ops.dur_ns)
    self_device = _device_ns(trace, ops.nest, part)
    return replace(
        ops,
        start_ns=start,
        dur_ns=dur,
        self_cpu_ns=own_time(ops.parent, start, dur, ops.nest.overlaps),
        self_device_ns=self_device,
        total_device_ns=rolled_up(self_device, ops.parent, ops.turns) if self_device.any() else self_device,
    )


@once_for_the_whole
def are_there(trace: Trace, part: TimeRange) -> BoolArray:
    """Return which of ``op_rows`` have a part in a range of time."""
    ops = op_rows(trace)
    return part.touches(ops.start_ns, ops.dur_ns)


def nest_among(trace: Trace, is_chosen: BoolArray) -> Nest:
    """Nest the chosen events among themselves.

    Where nothing overlaps, the nearest chosen event above in the nest of all events is the parent. An overlapping
    event, such as a Python frame that outlives the annotation it closes, would hide the one from the other, so then
    they are nested anew.
    """
    events = trace.events
    row = np.flatnonzero(is_chosen)
    if events["overlaps"].any():
        parent, _, overlaps = nest(*_intervals(trace, row))
        return Nest(row, parent, overlaps, None)
    above = events["parent"].to_numpy()
    number = np.full(len(above) + 1, NO_PARENT, np.int32)
    number[row] = np.arange(len(row), dtype=np.int32)
    of_event = number[nearest_marked(above, events["depth"].to_numpy(), is_chosen)]
    return Nest(row, of_event[above[row]].astype(np.int64), np.zeros(len(row), np.bool_), of_event)


def ops_around(trace: Trace, ops: Nest, rows: npt.NDArray[np.integer], at_ns: IntArray | None = None) -> IntArray:
    """Return for each event row, or -1, the index of the innermost op at or around it, or -1.

    With ``at_ns`` the op need not hold the whole event, but that moment on the event's thread.
    """
    if ops.of_event is not None:
        return ops.of_event[rows].astype(np.int64)
    known = np.flatnonzero(rows >= 0)
    lane, start, dur = _intervals(trace, rows[known])
    from_ns, until_ns = (start, start + dur) if at_ns is None else (at_ns[known], at_ns[known])
    found = np.full(len(rows), NO_PARENT, np.int64)
    found[known] = innermost_at(*_intervals(trace, ops.row), lane, from_ns, until_ns=until_ns, parent=ops.parent)
    return found


def _intervals(trace: Trace, rows: npt.NDArray[np.integer]) -> tuple[IntArray, IntArray, IntArray]:
    lane, start, dur = (trace.events[name].to_numpy()[rows] for name in ("lane", "start_ns", "dur_ns"))
    return lane.astype(np.int64), start, dur


def _device_ns(trace: Trace, ops: Nest, part: TimeRange) -> IntArray:
    """Return the device time that each op launched itself, through launch call and innermost op around it."""
    calls, work = origin_links(trace)
    _, dur = part.cut(*(trace.events[name].to_numpy()[work] for name in ("start_ns", "dur_ns")))
    return sum_by(ops_around(trace, ops, calls), dur, len(ops.row))
