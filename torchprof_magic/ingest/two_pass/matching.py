"""Matches the ops of two cycles that ran the same steps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.model.alignment import align
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, levels, nest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.trace import Trace

_MATCHED = ("cpu_op", "user_annotation")
# Threads of two steps match only if their ops have at least this share of names in common.
LEAST_ALIKE = 0.5
# Steps did the same work if their ops have at least this share of names in common.
LEAST_ALIKE_STEPS = 0.9
# In steps with more threads than this, each thread is compared only with the thread of the same number.
MAX_LANES = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ops:
    """The ops and annotations of one cycle, nested among themselves, in the order of ``trace.events``.

    ``row`` is each one's row there, ``parent`` an index into these arrays or -1, ``place`` which step of the cycle it
    began in, from 0, or -1. ``name`` is a number that is equal in all cycles where the name is.
    """

    row: IntArray
    lane: IntArray
    start_ns: IntArray
    end_ns: IntArray
    parent: IntArray
    depth: IntArray
    place: IntArray
    name: IntArray


class Matches(NamedTuple):
    """Which op of the first cycle is which of the second, as indices of their ``Ops``; each of the first occurs once.

    An op of the second occurs once in each step of the first that has its step for a counterpart. What lies around two
    ops that match and has matches at all, matches too.
    """

    first: IntArray
    second: IntArray


def ops_of(trace: Trace, cycles: tuple[int, int]) -> tuple[Ops, Ops]:
    """Return the ops of two cycles."""
    events = trace.events
    is_op = events["category"].is_in(_MATCHED).to_numpy()
    rows = [np.flatnonzero(is_op & (events["cycle"] == cycle).to_numpy()) for cycle in cycles]
    names = np.split(_names(events, np.concatenate(rows)), [len(rows[0])])
    first, second = (_ops(trace, *found) for found in zip(cycles, rows, names, strict=True))
    return first, second


def counterparts(first: Ops, second: Ops, complete: IntArray, steps: int, begin: int = 0) -> IntArray:
    """Return for each of the steps of the first cycle the place of the one of the second that has its details.

    ``complete`` are the places of the second that may be chosen, ascending, and ``begin`` is its first place. Steps are
    paired by their places, and the first and last of the second are the counterparts of all before and after. A step
    whose counterpart did other work, such as one that was compiled again, has the nearest one that did the same, if
    there is one.
    """
    chosen = np.clip(np.arange(steps), begin, complete[-1])
    ours, theirs = _names_by_step(first, steps), _names_by_step(second, int(complete[-1]) + 1)
    for place in range(steps):
        if _alike(ours[place], theirs[chosen[place]]) >= LEAST_ALIKE_STEPS:
            continue
        for other in sorted(complete.tolist(), key=lambda each: abs(each - place)):
            if _alike(ours[place], theirs[other]) >= LEAST_ALIKE_STEPS:
                chosen[place] = other
                break
    return chosen


def alike_from(first: Ops, second: Ops, steps: tuple[int, int]) -> list[float]:
    """Return how alike both cycles are, if the second begins with the first, second, ... step of the first.

    ``steps`` are those of each. Only those of the first that are paired then count.
    """
    ours, theirs = (_names_by_step(ops, number) for ops, number in zip((first, second), steps, strict=True))
    return [
        float(np.mean([_alike(*pair) for pair in zip(ours[begin:], theirs, strict=False)]))
        for begin in range(steps[0] - steps[1] + 1)
    ]


def _names_by_step(ops: Ops, steps: int) -> list[IntArray]:
    """Return how often each name occurs in each of the first steps."""
    order = np.argsort(ops.place, kind="stable")
    borders = np.searchsorted(ops.place[order], np.arange(steps + 1))
    return [np.bincount(ops.name[order[start:end]]) for start, end in pairwise(borders.tolist())]


def matched(first: Ops, second: Ops, counterpart: IntArray) -> Matches:
    """Return which ops match: by step, thread, order, nesting and name.

    ``counterpart`` has for each step of the first cycle the place of the one of the second that it is paired with.
    """
    depths = 1 + max(int(first.depth.max(initial=0)), int(second.depth.max(initial=0)))
    keys = [ops.name * depths + ops.depth for ops in (first, second)]
    of_first, of_second = (_by_step_and_lane(ops) for ops in (first, second))
    found = [Matches(*(np.empty(0, np.int64) for _ in range(2)))]
    for place, lanes in of_first.items():
        others = of_second.get(int(counterpart[place]), {})
        for left, right in _same_threads({**lanes}, {**others}, first.name, second.name):
            at_left, at_right = align(keys[0][left], keys[1][right])
            found.append(Matches(left[at_left], right[at_right]))
    both = Matches(*(np.concatenate([pairs[side] for pairs in found]) for side in range(2)))
    is_consistent = _lies_alike(first, second, both)
    return Matches(both.first[is_consistent], both.second[is_consistent])


def _ops(trace: Trace, cycle: int, row: IntArray, name: IntArray) -> Ops:
    events, steps = trace.events, trace.steps.filter(pl.col("cycle") == cycle)
    lane, start, dur = (events[column].to_numpy()[row].astype(np.int64) for column in ("lane", "start_ns", "dur_ns"))
    parent, depth, _ = nest(lane, start, dur)
    place = {number: place for place, number in enumerate(steps["number"].to_list())}
    step = events["step"][row].replace_strict(place, default=NO_PARENT, return_dtype=pl.Int64)
    return Ops(
        row=row,
        lane=lane,
        start_ns=start,
        end_ns=start + dur,
        parent=parent.astype(np.int64),
        depth=depth.astype(np.int64),
        place=step.to_numpy(),
        name=name,
    )


def _names(events: pl.DataFrame, rows: IntArray) -> IntArray:
    """Return a number for the name of each row. Numbers in annotations are ignored: they count steps and batches."""
    frame = events.select("name", is_range=pl.col("category") == "user_annotation")[rows]
    distinct = frame.unique(maintain_order=True)
    text = pl.col("name").cast(pl.String)
    without = pl.concat_str(pl.lit("range "), text.str.replace_all(r"[0-9]+", "#"))
    key = pl.when("is_range").then(without).otherwise(pl.concat_str(pl.lit("op "), text))
    numbered = distinct.with_columns(key.rank("dense").cast(pl.Int64).alias("number"))
    return frame.join(numbered, on=["name", "is_range"], how="left", maintain_order="left")["number"].to_numpy()


def _by_step_and_lane(ops: Ops) -> dict[int, dict[int, IntArray]]:
    """Return the ops of every thread in every step, by the step's place and the lane, in order of their starts."""
    inside = np.flatnonzero(ops.place >= 0)
    width = int(ops.lane.max(initial=0)) + 1
    keys = ops.place[inside] * width + ops.lane[inside]
    order = np.argsort(keys, kind="stable")
    borders = np.flatnonzero(np.diff(keys[order])) + 1
    found: dict[int, dict[int, IntArray]] = {}
    for group in np.split(inside[order], borders) if len(inside) else []:
        found.setdefault(int(ops.place[group[0]]), {})[int(ops.lane[group[0]])] = group
    return found


def _same_threads(
    first: dict[int, IntArray], second: dict[int, IntArray], first_name: IntArray, second_name: IntArray
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the ops of threads that did the same work in one step: a thread and itself, or the one most like it."""
    is_crowded = max(len(first), len(second)) > MAX_LANES
    counts = [
        {lane: np.bincount(name[ops]) for lane, ops in lanes.items()}
        for lanes, name in ((first, first_name), (second, second_name))
    ]
    scores = []
    for left_order, left in enumerate(first):
        for right_order, right in enumerate(second):
            if is_crowded and left != right:
                continue
            alike = _alike(counts[0][left], counts[1][right])
            if alike >= LEAST_ALIKE:
                scores.append((left != right, -alike, abs(left_order - right_order), left, right))
    for _, _, _, left, right in sorted(scores):
        if left in first and right in second:
            yield first.pop(left), second.pop(right)


def _alike(first: IntArray, second: IntArray) -> float:
    """Return the common share of two multisets of names."""
    common = min(len(first), len(second))
    shared = np.minimum(first[:common], second[:common]).sum()
    return float(shared / max(first.sum(), second.sum(), 1))


def _lies_alike(first: Ops, second: Ops, pairs: Matches) -> BoolArray:
    """Return which pairs lie within a pair, or both in nothing that has one; from the outermost to the innermost.

    What nothing matches, such as a range whose name is a random number, is looked through.
    """
    is_right = np.zeros(len(pairs.first), np.bool_)
    around = np.full(len(first.row) + 1, NO_PARENT), np.full(len(second.row) + 1, NO_PARENT)
    partner = np.full(len(first.row) + 1, NO_PARENT)
    pairs_by_depth = _split(first.depth[pairs.first])
    rows_by_depth = levels(first.depth), levels(second.depth)
    for depth in range(max(map(len, rows_by_depth))):
        # The match around a row is its parent's match, or else the match around the parent.
        for ops, near, rows in zip((first, second), around, rows_by_depth, strict=True):
            if depth < len(rows):
                near[rows[depth]] = near[ops.parent[rows[depth]]]
        chosen = pairs_by_depth.get(depth)
        if chosen is None:
            continue
        left, right = pairs.first[chosen], pairs.second[chosen]
        holds = partner[around[0][left]] == around[1][right]
        is_right[chosen] = holds
        left, right = left[holds], right[holds]
        partner[left] = right
        around[0][left], around[1][right] = left, right
    return is_right


def _split(depth: IntArray) -> dict[int, IntArray]:
    """Return which items have each depth."""
    return {int(depth[rows[0]]): rows for rows in levels(depth) if len(rows)}
