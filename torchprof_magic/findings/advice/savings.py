"""What advice saves: the graph of the steps replayed with what each change does to it, one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.step_graph.edges import WAIT, WORKERS
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.findings.advice.kinds import DEVICES, NOWHERE, THREADS, Advice, Effect, Spans
from torchprof_magic.findings.advice.times import critical, ns_in_steps, recorded_share, step_ns
from torchprof_magic.findings.what_if.asked import can_replay, predicted
from torchprof_magic.findings.what_if.changes import Changed, floor_of_workers, left_of_fetches, pieces_of_rows
from torchprof_magic.model.intervals import BoolArray, covered_ns
from torchprof_magic.model.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchprof_magic.facts.step_graph.replay import FloatArray
    from torchprof_magic.model.trace import Trace

# A call of which more is gone does not take place, and nothing waits in it.
MOSTLY_GONE = 0.5
# The graph may say so much more than what the device waits.
_INEXACT = 0.01


class Share(NamedTuple):
    """Advice with a number, and what is left of it for it: which share of its spans, and these."""

    advice: Advice
    share: float
    spans: Spans | None

    @property
    def effect(self) -> Effect:
        """What is different; with a number alone, as much of the time of threads in the spans."""
        return self.advice.effect or Effect()

    @property
    def most_ns(self) -> float:
        """The most that it can save, in ns a step, where the rule itself or its words say that."""
        known = self.advice.saving_ns
        return min(np.inf if known is None else known * self.share, self.effect.most_ns * self.share)

    @property
    def is_outside(self) -> bool:
        """Whether nothing in the graph is what it changes, so that what its rule says is all that is known."""
        return self.spans is None and not len(self.effect.rows)


class _Done(NamedTuple):
    """What has been carried out: which share of each piece and which edges are gone, and the shortest step, in ns.

    ``step_ns`` is how long each step that counts is with that.
    """

    gone: FloatArray
    is_cut: BoolArray
    floor_ns: float
    step_ns: FloatArray


def in_order(trace: Trace, found: Iterable[Share], least_ns: Callable[[Advice], float]) -> list[Advice]:
    """Return the advice in the order in which it is best carried out, each with what it saves after those before it.

    All of it has ``alone_ns``. What would save less than ``least_ns`` alone is left out; what would do so after others
    saves nothing more. Where the graph is unknown or too large, what was lost is what is saved.
    """
    if not can_replay(trace):
        known = [(one.advice, _lost_ns(trace, one)) for one in found]
        return [_with_saving(advice, ns, ns) for advice, ns in sorted(known, key=_most_first)]
    done = _nothing_done(trace)
    open_ = [_Open(one.advice.alone_ns or 0, one) for one in found]
    open_ = [each for each in open_ if each.ns >= least_ns(each.share.advice)]
    ordered = []
    while open_:
        at, done = _best(trace, done, open_)
        one = open_.pop(at)
        ns = one.ns if one.ns >= least_ns(one.share.advice) else 0
        ordered.append(_with_saving(one.share.advice, ns, one.share.advice.alone_ns or 0))
    return ordered


class _Open(NamedTuple):
    """Advice that is not carried out yet, and what it saves: alone, until it is known what it does now."""

    ns: int
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
        one = open_[at].share
        known[at] = _carried_out(trace, done, one)
        open_[at] = _Open(_saved_ns(trace, one, done, known[at]), one)


def saving_of(trace: Trace, advice: Advice) -> int:
    """Return what advice saves alone, in ns a step."""
    share = Share(advice, 1.0, advice.spans)
    if not can_replay(trace):
        return _lost_ns(trace, share)
    done = _nothing_done(trace)
    return _saved_ns(trace, share, done, _carried_out(trace, done, share))


def _saved_ns(trace: Trace, one: Share, before: _Done, after: _Done) -> int:
    """Return what a change saves, in ns a step.

    If it is in every step, the median of these counts: in some of them it may have lost the core to another program.
    What workers load evens out over the steps.
    """
    if one.is_outside:
        return round(one.most_ns)
    each = before.step_ns - after.step_ns
    is_in_all = counted_steps(trace).steps == len(each) > 1 and not one.effect.workers and bool((each > 0).all())
    saved = float(np.median(each)) if is_in_all else float(each.sum()) / counted_steps(trace).steps
    return max(round(min(_as_waited(trace, one, saved), one.most_ns, _removed_ns(trace, one))), 0)


def _removed_ns(trace: Trace, one: Share) -> float:
    """Return how much time of threads a change removes on average, as its words say, which is the most that it saves.

    What also ends waits for other work may save more than its own time.
    """
    if one.spans is None or one.effect.where != THREADS or len(one.effect.rows):
        return np.inf
    return ns_in_steps(trace, one.spans)


def _as_waited(trace: Trace, one: Share, saved_ns: float) -> float:
    """Return what is saved: what the device waits in the spans, where the graph says the same and hardly more.

    The graph knows the delays of launches on average, so its answers are no more exact than that.
    """
    if one.spans is None or one.effect.where != THREADS or not trace.has_device or saved_ns <= 0:
        return saved_ns
    waited_ns = ns_in_steps(trace, critical(trace, one.spans))
    return waited_ns if waited_ns < saved_ns <= waited_ns * (1 + _INEXACT) else saved_ns


def _lost_ns(trace: Trace, one: Share) -> int:
    """Return what was lost where the graph is not known: the time in which the device idles, but for what is left.

    Workers take at least their part of the fetches.
    """
    if one.spans is None or one.advice.effect is None:
        return round(0.0 if np.isinf(one.most_ns) else one.most_ns)
    effect, spans = one.effect, one.spans
    lost = ns_in_steps(trace, spans if effect.where == DEVICES else critical(trace, spans))
    lost = min(lost * _gone_of(trace, one), one.most_ns)
    floor_ns = floor_of_workers(trace, effect.rows, effect.workers)[0] if effect.workers else 0.0
    return round(max(lost - max(floor_ns - step_ns(trace) + lost, 0.0), 0.0))


def _most_first(one: tuple[Advice, int]) -> tuple[int, str]:
    return -one[1], one[0].rule


def _with_saving(advice: Advice, ns: int, alone_ns: int) -> Advice:
    """Return advice with its saving, and in its evidence what it saves alone, where that is another number."""
    if format_ns(ns) == format_ns(alone_ns):
        return replace(advice, saving_ns=ns, alone_ns=alone_ns)
    after = format_ns(ns) if ns else "nothing more"
    words = f"Alone it would save {format_ns(alone_ns)}; once the changes before it are made, {after}."
    return replace(advice, saving_ns=ns, alone_ns=alone_ns, evidence=f"{advice.evidence} {words}".lstrip())


@once_per_trace
def _nothing_done(trace: Trace) -> _Done:
    graph = step_graph(trace)
    return _replayed(trace, np.zeros(len(graph.own_ns)), np.zeros(len(graph.edges.kind), np.bool_), 0.0)


def _carried_out(trace: Trace, done: _Done, share: Share) -> _Done:
    """Return what has been carried out with one more change."""
    if share.is_outside:
        return done
    effect = share.effect
    gone = _shortened(trace, done.gone, share)
    floor = floor_of_workers(trace, effect.rows, effect.workers)[0] if effect.workers else 0.0
    is_cut = done.is_cut | _edges_of(trace, effect) | _edges_in(trace, gone)
    return _replayed(trace, gone, is_cut, max(done.floor_ns, floor))


def _replayed(trace: Trace, gone: FloatArray, is_cut: BoolArray, floor_ns: float) -> _Done:
    """Return what has been carried out, with how long each step is then."""
    graph = step_graph(trace)
    delay = np.where(is_cut, -np.inf, graph.edges.delay_ns.astype(np.float64))
    found = predicted(trace, Changed(graph.own_ns * (1 - gone), delay, floor_ns=floor_ns))
    return _Done(gone, is_cut, floor_ns, found.step_ns)


def _shortened(trace: Trace, gone: FloatArray, share: Share) -> FloatArray:
    """Return which share of each piece is gone with one more change."""
    pieces, effect = step_graph(trace).pieces, share.effect
    if effect.workers:
        return np.maximum(gone, pieces_of_rows(trace, effect.rows) * (1 - left_of_fetches(trace, effect.rows)))
    if share.spans is None or effect.where == NOWHERE:
        return gone
    is_here = pieces.is_work == (effect.where == DEVICES)
    covered = covered_ns(*share.spans, pieces.start_ns, pieces.end_ns) / np.maximum(pieces.dur_ns, 1)
    return np.minimum(gone + np.where(is_here, covered * _gone_of(trace, share), 0.0), 1.0)


def _gone_of(trace: Trace, one: Share) -> float:
    """Return which share of the time in the spans of a change is gone, without what recording added to it."""
    assert one.spans is not None
    if one.advice.effect is None:
        return min(one.most_ns / max(ns_in_steps(trace, one.spans), 1.0), 1.0)
    return (1 - one.effect.left) * (1 - recorded_share(trace, one.spans, on_device=one.effect.where == DEVICES))


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
