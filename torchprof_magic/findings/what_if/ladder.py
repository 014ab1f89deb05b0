"""What would limit next: what decides a step, made faster one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.host.one_time import one_time_spans
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.step_graph.edges import LAUNCH, MUCH_ASSUMED, WAIT, WORKERS
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.facts.step_graph.path import path_of
from torchprof_magic.findings.what_if.asked import MOST_PIECES, baseline, is_without_launches, predicted
from torchprof_magic.findings.what_if.changes import Changed
from torchprof_magic.findings.what_if.limits import (
    ASLEEP,
    COMMUNICATION,
    DATA,
    GROUPS,
    WAITING,
    Limit,
    group_of_pieces,
    limit_of,
)
from torchprof_magic.model.intervals import covered_ns
from torchprof_magic.model.units import enumerated

if TYPE_CHECKING:
    from torchprof_magic.findings.what_if.asked import Predicted
    from torchprof_magic.model.trace import Trace

MOST_RUNGS = 4
# A rung that makes a step shorter by less of it does not help.
LEAST_SHARE = 0.02
# What can be gone altogether; of all else, half of the time remains.
CAN_GO = (DATA, COMMUNICATION, ASLEEP, WAITING)


# Where so much of the steps is done only once, it is recorded again first.
MUCH_ONCE = 0.25


class Rung(NamedTuple):
    """What is gone or takes half as long, in words, the step after it, in ns, and what limits then."""

    change: str
    step_ns: float
    then: str


class _Tried(NamedTuple):
    group: int
    step_ns: float
    then: str


@once_per_trace
def ladder(trace: Trace) -> tuple[float, tuple[Rung, ...]]:
    """Return the typical step, in ns, and the rungs from what limits it on.

    There are none where nothing is known of steps, much of them is done only once, or much of the graph is assumed.
    """
    graph = step_graph(trace)
    if len(graph.pieces.lane) > MOST_PIECES or is_without_launches(graph):
        return 0.0, ()
    base = baseline(trace)
    if len(base.spans.step) == 0 or not base.spans.dur_ns.any() or base.assumed > MUCH_ASSUMED:
        return 0.0, ()
    once = covered_ns(*one_time_spans(trace), base.spans.start_ns, base.spans.end_ns).sum()
    if once > MUCH_ONCE * base.spans.dur_ns.sum():
        return 0.0, ()
    before = float(base.spans.dur_ns.mean())
    now = Changed(graph.own_ns.astype(np.float64), graph.edges.delay_ns.astype(np.float64))
    limit, rungs, done = _limit(trace, predicted(trace, now)), list[_Tried](), set[int]()
    while limit is not None and len(rungs) < MOST_RUNGS and limit.group not in done:
        now = _improved(trace, now, limit.group)
        after = predicted(trace, now)
        done.add(limit.group)
        was, limit = limit.group, _limit(trace, after)
        then = _title(limit.group) if limit is not None else ""
        rungs.append(_Tried(was, after.mean_ns, then))
    return before, tuple(_that_help(before, rungs))


def _that_help(before_ns: float, tried: list[_Tried]) -> list[Rung]:
    """Return the rungs that make a step shorter; what does not alone, but may be needed for it, is part of the next."""
    found, groups, step_ns = list[Rung](), list[int](), before_ns
    for one in tried:
        groups.append(one.group)
        if step_ns - one.step_ns >= LEAST_SHARE * before_ns:
            found.append(Rung(_change(groups), one.step_ns, one.then))
            groups, step_ns = [], one.step_ns
    return found


def _change(groups: list[int]) -> str:
    """Return what is different, in words: ``loading data gone``."""
    words = [(_title(group), "gone" if group in CAN_GO else "2× as fast") for group in groups]
    if len({how for _, how in words}) == 1:
        return f"{enumerated([title for title, _ in words])} {words[0][1]}"
    return ", ".join(f"{title} {how}" for title, how in words)


def _title(group: int) -> str:
    return list(GROUPS.values())[group]


def _limit(trace: Trace, found: Predicted) -> Limit | None:
    """Return what takes most of the critical path of the step with the median time."""
    base = baseline(trace)
    typical = np.argsort(base.spans.dur_ns, kind="stable")[len(base.spans.step) // 2]
    path = path_of(step_graph(trace), found.replayed, base.spans.chosen(np.array([typical])), by_replay=True)
    return limit_of(trace, path)


def _improved(trace: Trace, now: Changed, group: int) -> Changed:
    """Return the graph with one group gone, or twice as fast."""
    factor = 0.0 if group in CAN_GO else 0.5
    is_here = group_of_pieces(trace) == group
    own = np.where(is_here, now.own_ns * factor, now.own_ns)
    kinds = {WAITING: (WAIT, LAUNCH), DATA: (WORKERS,)}.get(group, ())
    kind = step_graph(trace).edges.kind
    delay = np.where(np.isin(kind, kinds), np.minimum(now.delay_ns, 0), now.delay_ns)
    if group == DATA:
        delay = np.where(kind == WORKERS, -np.inf, delay)
    return now._replace(own_ns=own, delay_ns=delay)
