"""The phase of lines, modules and Python frames over time: that of most of what runs in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from torchprof_magic.facts.host.lanes_of_steps import lanes_of_steps
from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.host.step_pieces import step_pieces
from torchprof_magic.facts.ops.calls import OP_CATEGORIES
from torchprof_magic.facts.shared import in_category
from torchprof_magic.model.intervals import covered_ns

if TYPE_CHECKING:
    from torchprof_magic.facts.source.flame_boxes import HostBoxes
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace


def phases_of_places(boxes: HostBoxes, phase: IntArray, is_place: BoolArray) -> IntArray:
    """Return the phase of each box: its own, and of a place the one with the most time in it, Python aside.

    Boxes are in nesting order, so what is in a box follows it: sums of its time are differences of running sums.
    """
    place = np.flatnonzero(is_place)
    if len(place) == 0:
        return phase
    last = _ends(boxes, place)
    most, found = np.zeros(len(place), np.int64), phase.copy()
    for number, name in enumerate(PHASES):
        counts = (phase == number) & ~is_place
        if name == "python" or not counts.any():
            continue
        so_far = np.concatenate(([0], np.cumsum(np.where(counts, boxes.own_ns, 0))))
        inside = so_far[last] - so_far[place]
        larger = inside > most
        most[larger] = inside[larger]
        found[place[larger]] = number
    return found


# A place of which this part is waiting, and no box inside, is one that waits.
_MOSTLY = 0.5


def waiting_places(trace: Trace, boxes: HostBoxes) -> BoolArray:
    """Return which boxes are a sleep or a wait, such as a line that calls ``time.sleep`` or ``synchronize``.

    An op that blocks has its own phase, as in the tables of ops.
    """
    pieces, found = step_pieces(trace), np.zeros(len(boxes.lane), np.bool_)
    # The last is for boxes that are no events.
    is_place = ~np.append(in_category(trace, *OP_CATEGORIES), False)[boxes.row]
    is_long = np.isin(boxes.lane, lanes_of_steps(trace)) & (boxes.own_ns > _MOSTLY * boxes.dur_ns)
    for name, can_wait in (("idle", is_long), ("waiting", is_long & is_place)):
        waits = pieces.phase == PHASES.index(name)
        rows = np.flatnonzero(can_wait) if waits.any() else np.zeros(0, np.int64)
        start, dur = boxes.start_ns[rows], boxes.dur_ns[rows]
        waits_ns = covered_ns(pieces.start_ns[waits], pieces.end_ns[waits], start, start + dur)
        found[rows] |= waits_ns > _MOSTLY * dur
    return found


def _ends(boxes: HostBoxes, place: IntArray) -> IntArray:
    """Return for each place the row after the last box in it."""
    last = np.zeros(len(place), np.int64)
    first = np.flatnonzero(np.diff(boxes.lane, prepend=-1))
    for begin, end in zip(first.tolist(), np.append(first[1:], len(boxes.lane)).tolist(), strict=True):  # lanes are few
        mine = (place >= begin) & (place < end)
        until = boxes.start_ns[place[mine]] + boxes.dur_ns[place[mine]]
        last[mine] = begin + np.searchsorted(boxes.start_ns[begin:end], until)
    return np.maximum(last, place + 1)
