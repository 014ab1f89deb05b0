"""How long the thread of each step waited without being seen, and the lines where it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.host.host_states import WEAK
from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.host.step_pieces import is_wait, step_pieces
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.model.rows import keys_of

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

# Ending one step of the profiler and beginning the next takes up to this, in which the thread may look asleep.
LEAST_SLEEP_NS = 200_000
# By this share of its length a wait may differ from those of the same line and still be like them.
LIKE = 0.25
# The phases in which a thread may sleep.
_MAY_SLEEP = [PHASES.index(name) for name in ("waiting", "data", "communication", "initialisation", "idle")]
_NONE = np.empty(0, np.int64)
_IDLE, _PYTHON = PHASES.index("idle"), PHASES.index("python")


@once_per_trace
def idle_of_steps(trace: Trace) -> IntArray:
    """Return for each step how much of the time that looks like Python its thread used no CPU, in ns.

    It is the step minus the CPU time of its thread, where a live run measured that. Of this, what blocking calls,
    fetching data and communication take is not counted, because a thread may sleep in these; nor are waits that were
    seen, in ops or between them, and what ending one step and beginning the next may take. A line that took as long as
    it waits in other steps is counted, where the thread can have slept for so long.
    """
    pieces, steps = step_pieces(trace), trace.steps
    asleep = _unused_ns(trace)
    may_sleep = np.isin(pieces.phase, _MAY_SLEEP)
    is_in_op = is_wait(trace, pieces.wait) & ~may_sleep
    by_line = _of_kind(trace, asleep - _sums(trace, is_wait(trace, pieces.wait)))
    asleep = asleep - _sums(trace, is_in_op | may_sleep)
    asleep[asleep < LEAST_SLEEP_NS] = 0
    return np.clip(np.maximum(asleep, by_line), 0, _sums(trace, pieces.phase == _PYTHON)[: steps.height])


def _unused_ns(trace: Trace) -> IntArray:
    """Return for each step how long its thread used no CPU, in ns; 0 where that was not measured."""
    steps = trace.steps
    cpu = {(mark.cycle, mark.number): mark.cpu_ns for mark in trace.meta.recorded_steps}
    used = [cpu.get(key) for key in keys_of(steps)]
    whole = (steps["end_ns"] - steps["start_ns"]).to_list()
    return np.array([0 if ns is None else dur - ns for ns, dur in zip(used, whole, strict=True)], np.int64)


def _sums(trace: Trace, is_chosen: BoolArray) -> IntArray:
    pieces = step_pieces(trace)
    return sum_by(pieces.step[is_chosen], pieces.dur_ns[is_chosen], trace.steps.height)


def _of_kind(trace: Trace, most_ns: IntArray) -> IntArray:
    """Return how long the lines of each step took that waited for as long in others, at most about ``most_ns``.

    The CPU time of a step has what ends it and begins the next, too, so that the thread can have slept a little longer.
    """
    found = quiet_lines(trace)
    step, dur_ns = step_pieces(trace).step[found.piece], step_pieces(trace).dur_ns[found.piece]
    known = sum_by(step[found.is_like], dur_ns[found.is_like], trace.steps.height)
    # What is more than the thread can have slept is not told from what it computed.
    return np.where((1 - LIKE) * known <= most_ns, known, 0)


class QuietLines(NamedTuple):
    """Pieces that look like Python, at lines that wait in other steps, in steps in which no wait was seen there.

    ``row`` is the wait of the line that was longest, a row of ``trace.waits``, and ``usual_ns`` how long one is on
    average. ``is_like`` is whether the piece is about as long. Pieces of a step are together, first those that are
    like a wait, then the longest.
    """

    piece: IntArray
    row: IntArray
    usual_ns: np.ndarray
    is_like: BoolArray


@once_per_trace
def quiet_lines(trace: Trace) -> QuietLines:
    """Return where the thread may have waited without being seen."""
    if trace.waits.height == 0:
        return QuietLines(_NONE, _NONE, np.empty(0), _NONE < 0)
    pieces = step_pieces(trace)
    is_seen = (pieces.wait >= 0) & (pieces.state >= WEAK) & (pieces.phase == _IDLE) & (pieces.site >= 0)
    seen = np.flatnonzero(is_seen)
    known = pl.DataFrame({"site": pieces.site[seen], "row": pieces.wait[seen], "ns": pieces.dur_ns[seen]})
    of_sites = known.sort("site", "ns").group_by("site", maintain_order=True)
    usual = of_sites.agg(pl.col("row").last(), pl.col("ns").sum() / pl.col("row").n_unique())
    site, row, usual_ns = (usual[name].to_numpy() for name in ("site", "row", "ns"))
    key = pieces.step * (pieces.site.max(initial=0) + 2) + pieces.site
    is_open = (pieces.phase == _PYTHON) & np.isin(pieces.site, site) & ~np.isin(key, key[seen])
    found = np.flatnonzero(is_open & (pieces.dur_ns >= LEAST_SLEEP_NS))
    at = np.searchsorted(site, pieces.site[found])
    is_like = np.abs(pieces.dur_ns[found] - usual_ns[at]) <= LIKE * usual_ns[at]
    order = np.lexsort((-pieces.dur_ns[found], ~is_like, pieces.step[found]))
    return QuietLines(found[order], row[at][order], usual_ns[at][order], is_like[order])


def asleep_ns(trace: Trace) -> IntArray:
    """Return for how long each of the quiet lines slept, in ns; 0 for what is awake for the most part."""
    pieces, found = step_pieces(trace), quiet_lines(trace).piece
    step, dur_ns = pieces.step[found], pieces.dur_ns[found]
    before_ns = np.cumsum(dur_ns) - dur_ns
    before_ns -= np.append(before_ns, 0)[np.searchsorted(step, step)]
    slept_ns = np.minimum(dur_ns, idle_of_steps(trace)[step] - before_ns)
    return np.where(slept_ns > dur_ns // 2, slept_ns, 0)
