"""Launches that ops of a step lack, because at the same place of other steps they launch more.

Where a launch is lost together with its work, nothing in the file points at either. Steps that repeat tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.device.coverage import launches_of
from torchprof_magic.facts.shared import in_category, name_numbers, once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, IntArray
from torchprof_magic.model.rows import filled, row_numbers

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# Single ops may have less to do in a step, as for an empty batch. Fewer ops, or less of all launches, are no sign.
LEAST_SHARE = 0.05
LEAST_OPS = 3


class Unlaunched(NamedTuple):
    """How many launches ops lack, of how many that are usual at their places, and the numbers of these steps."""

    launches: int
    of: int
    steps: IntArray


NONE = Unlaunched(0, 0, np.empty(0, np.int64))


@once_per_trace
def unlaunched(trace: Trace) -> Unlaunched:
    """Return the launches that ops lack by what most of them launch at their place, if these are more than a few.

    A place is the same among the ops of a name in an op of a name, in steps with as many of them. They are compared
    only if such steps launch different numbers in all: the order alone may change.
    """
    if trace.steps.height < 2 or not trace.has_device:  # noqa: PLR2004 - one step has no other
        return NONE
    ops = _ops_of_steps(trace)
    if len(ops.step) == 0:
        return NONE
    per_step = row_numbers(ops.group, ops.step)
    groups = np.zeros(int(per_step.max()) + 1, np.int64)
    groups[per_step] = ops.group
    launches = np.bincount(per_step, weights=ops.launches)
    least, most = np.full(int(ops.group.max()) + 1, np.inf), np.zeros(int(ops.group.max()) + 1)
    np.minimum.at(least, groups, launches)
    np.maximum.at(most, groups, launches)
    if not (least < most).any():
        return NONE
    usual = _lower_medians(row_numbers(ops.group, ops.place), ops.launches)
    lack = usual - ops.launches
    short = (least < most)[ops.group] & (lack > 0)
    lost, of = int(lack[short].sum()), int(usual.sum())
    if int(short.sum()) < LEAST_OPS or lost < LEAST_SHARE * of:
        return NONE
    return Unlaunched(lost, of, np.unique(ops.step[short]))


def _lower_medians(key: IntArray, values: IntArray) -> IntArray:
    """Return for each row the lower median of the values of its key."""
    order = np.lexsort((values, key))
    first = np.searchsorted(key[order], np.arange(int(key.max()) + 1))
    counts = np.bincount(key)
    return values[order][first + (counts - 1) // 2][key]


class _Ops(NamedTuple):
    """The ops of steps: what each launches itself, its step, and its place among those like it.

    Those of a ``group`` have the same name and thread, the same op around them, and are equally many in their step.
    """

    step: IntArray
    group: IntArray
    place: IntArray
    launches: IntArray


def _ops_of_steps(trace: Trace) -> _Ops:
    events = trace.events
    parent = events["parent"].to_numpy().astype(np.int64)
    is_op = in_category(trace, "cpu_op")
    name = name_numbers(trace).astype(np.int64)
    op_name = np.append(np.where(is_op, name, NO_PARENT), NO_PARENT)
    launches = np.bincount(parent[launches_of(trace).row] + 1, minlength=events.height + 1)[1:]
    step = filled(events["step"], NO_PARENT)
    rows = np.flatnonzero(is_op & (step >= 0))
    rows = rows[np.argsort(events["start_ns"].to_numpy()[rows], kind="stable")]
    like = events["lane"].to_numpy()[rows], name[rows], op_name[parent[rows]]
    key = row_numbers(step[rows], *like)
    size = np.bincount(key)[key] if len(rows) else key
    order = np.argsort(key, kind="stable")
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows)) - np.searchsorted(key[order], key[order])
    return _Ops(step[rows], row_numbers(*like, size), place, launches[rows])
