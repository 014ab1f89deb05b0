"""What advice saves: the graph of the steps replayed with what each change does to it, one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.device.coverage import loss_of
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.step_graph.edges import WAIT, WORKERS
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.findings.advice.kinds import DEVICES, NOWHERE, Advice, Effect, Spans
from torchprof_magic.findings.advice.times import ns_in_steps, step_ns
from torchprof_magic.findings.what_if.asked import MUCH_ASSUMED, baseline, predicted
from torchprof_magic.findings.what_if.changes import Changed, floor_of_workers, left_of_fetches, pieces_of_rows
from torchprof_magic.findings.what_if.ladder import MOST_PIECES, is_without_launches
from torchprof_magic.model.intervals import BoolArray, covered_ns
from torchprof_magic.model.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchprof_magic.facts.step_graph.replay import FloatArray
    from torchprof_magic.model.trace import Trace

# A call of which more is gone does not take place, and nothing waits in it.
MOSTLY_GONE = 0.5
# If the graph as it is is further off than that in a step, of it, it does not say what changes save.
MOST_OFF = 0.1


class Share(NamedTuple):
    """Advice with a number, and what is left of it for it: the most that it can save, in ns a step, and when."""

    advice: Advice
    most_ns: int
    spans: Spans | None


class _Done(NamedTuple):
    """What has been carried out: which share of each piece and which edges are gone, and the shortest step, in ns."""

    gone: FloatArray
    is_cut: BoolArray
    floor_ns: float
    saved_ns: float


def in_order(trace: Trace, found: Iterable[Share], least_ns: Callable[[Advice], float]) -> list[Advice]:
    """Return the advice in the order in which it is best carried out, each with what it saves after those before it.

    What would save less than ``least_ns`` alone is left out; what would do so after others saves nothing more. Nothing
    saves more than was recorded as lost to it. Where the graph is unknown or too large, that is what it saves.
    """
    if not can_replay(trace):
        known = [one._replace(most_ns=_by_floor(trace, one)) for one in found]
        return [_with_saving(one.advice, one.most_ns, one.most_ns) for one in sorted(known, key=_most_first)]
    done = _nothing_done(trace)
    alone = [(one, saving_of(trace, one.advice)) for one in found]
    open_ = [_Open(min(one.most_ns, ns), ns, one) for one, ns in alone if ns >= least_ns(one.advice)]
    ordered = []
    while open_:
        at, done = _best(trace, done, open_)
        one = open_.pop(at)
        ns = one.ns if one.ns >= least_ns(one.share.advice) else 0
        ordered.append(_with_saving(one.share.advice, ns, one.alone_ns))
    return ordered


class _Open(NamedTuple):
    """Advice that is not carried out yet, by what it saves: at most, until that is known."""

    ns: int
    alone_ns: int
    share: Share


def _best(trace: Trace, done: _Done, open_: list[_Open]) -> tuple[int, _Done]:
    """Return which saves most now, and what is done with it; what it saves is written into the list.

    What saves less than others hardly saves more after them, so that few have to be asked again.
    """
    known: dict[int, _Done] = {}
    while True:
        at = min(range(len(open_)), key=lambda place: (-open_[place].ns, open_[place].share.advice.rule))
        if at in known:
            return at, known[at]
        one = open_[at]
        known[at] = _carried_out(trace, done, one.share)
        saved = one.share.most_ns if _is_outside(one.share) else known[at].saved_ns - done.saved_ns
        open_[at] = one._replace(ns=max(min(one.share.most_ns, round(saved)), 0))


def saving_of(trace: Trace, advice: Advice) -> int:
    """Return what advice saves alone, in ns a step: by the graph, but no more than was recorded as lost to it."""
    share = Share(advice, advice.saving_ns or 0, advice.spans)
    if not can_replay(trace):
        return _by_floor(trace, share)
    if _is_outside(share):
        return share.most_ns
    done = _carried_out(trace, _nothing_done(trace), share)
    return max(min(share.most_ns, round(done.saved_ns)), 0)


def _is_outside(share: Share) -> bool:
    """Return whether nothing in the graph is what a change does, so that what its rule says is all that is known."""
    return share.spans is None and not len(share.advice.effect.rows)


def _by_floor(trace: Trace, share: Share) -> int:
    """Return what is saved where the graph is not known: what was lost, but for what workers take beside the rest."""
    rows, workers = share.advice.effect.rows, share.advice.effect.workers
    floor_ns = floor_of_workers(trace, rows, workers)[0] if workers else 0.0
    return round(max(share.most_ns - max(floor_ns - step_ns(trace) + share.most_ns, 0.0), 0.0))


def _most_first(one: Share) -> tuple[int, str]:
    return -one.most_ns, one.advice.rule


def _with_saving(advice: Advice, ns: int, alone_ns: int) -> Advice:
    """Return advice with its saving, and in its evidence what it saves alone, where that is said to be more."""
    if format_ns(ns) == format_ns(alone_ns):
        return replace(advice, saving_ns=ns, alone_ns=alone_ns)
    after = format_ns(ns) if ns else "nothing more"
    words = f"Alone it would save {format_ns(alone_ns)}; after the advice before it, {after}."
    return replace(advice, saving_ns=ns, alone_ns=alone_ns, evidence=f"{advice.evidence} {words}".lstrip())


@once_per_trace
def can_replay(trace: Trace) -> bool:
    """Return whether the graph is known well enough, and small enough, to say what a change saves."""
    graph = step_graph(trace)
    if not 0 < len(graph.pieces.lane) <= MOST_PIECES or is_without_launches(graph) or len(loss_of(trace).steps):
        return False
    base = baseline(trace)
    is_known = base.assumed <= MUCH_ASSUMED and base.error <= MOST_OFF
    return bool(len(base.spans.step) and base.spans.dur_ns.any() and is_known)


@once_per_trace
def _nothing_done(trace: Trace) -> _Done:
    graph = step_graph(trace)
    return _Done(np.zeros(len(graph.own_ns)), np.zeros(len(graph.edges.kind), np.bool_), 0.0, 0.0)


def _carried_out(trace: Trace, done: _Done, share: Share) -> _Done:
    """Return what has been carried out with one more change, and what all of it saves."""
    if _is_outside(share):
        return done
    effect = share.advice.effect
    gone = _shortened(trace, done.gone, effect, share)
    is_cut = done.is_cut | _edges_of(trace, effect) | _edges_in(trace, gone)
    floor = done.floor_ns
    if effect.workers:
        floor = max(floor, floor_of_workers(trace, effect.rows, effect.workers)[0])
    now = _Done(gone, is_cut, floor, 0.0)
    return now._replace(saved_ns=_as_it_is(trace) - _step_ns(trace, now))


@once_per_trace
def _as_it_is(trace: Trace) -> float:
    return _step_ns(trace, _nothing_done(trace))


def _step_ns(trace: Trace, done: _Done) -> float:
    """Return how long the steps that count are together, a step, in ns, with what has been carried out."""
    graph = step_graph(trace)
    delay = np.where(done.is_cut, -np.inf, graph.edges.delay_ns.astype(np.float64))
    found = predicted(trace, Changed(graph.own_ns * (1 - done.gone), delay, floor_ns=done.floor_ns))
    return float(found.step_ns.sum()) / counted_steps(trace).steps


def _shortened(trace: Trace, gone: FloatArray, effect: Effect, share: Share) -> FloatArray:
    """Return which share of each piece is gone with one more change."""
    pieces = step_graph(trace).pieces
    if effect.workers:
        return np.maximum(gone, pieces_of_rows(trace, effect.rows) * (1 - left_of_fetches(trace, effect.rows)))
    if share.spans is None or effect.where == NOWHERE:
        return gone
    is_here = pieces.is_work == (effect.where == DEVICES)
    covered = covered_ns(*share.spans, pieces.start_ns, pieces.end_ns) / np.maximum(pieces.dur_ns, 1)
    of_it = min(share.most_ns / max(ns_in_steps(trace, share.spans), 1.0), 1.0)
    return np.minimum(gone + np.where(is_here, covered * of_it, 0.0), 1.0)


def _edges_of(trace: Trace, effect: Effect) -> BoolArray:
    """Return the edges from what some events wait for: work of devices, or a batch of worker processes."""
    graph = step_graph(trace)
    if not len(effect.rows):
        return np.zeros(len(graph.edges.kind), np.bool_)
    is_inside = pieces_of_rows(trace, effect.rows)[graph.edges.target - 1]
    return is_inside & np.isin(graph.edges.kind, (WAIT, WORKERS))


def _edges_in(trace: Trace, gone: FloatArray) -> BoolArray:
    """Return the edges from what calls wait for that are gone themselves."""
    edges = step_graph(trace).edges
    found: BoolArray = (edges.kind == WAIT) & (gone[edges.target - 1] > MOSTLY_GONE)
    return found
