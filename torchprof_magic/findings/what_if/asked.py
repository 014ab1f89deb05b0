"""Replays the graph of the steps with changes, and says what a step would take and what would limit it then."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps, has_counted_steps
from torchprof_magic.facts.device.coverage import loss_of
from torchprof_magic.facts.host.distortion import find_distortion
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.step_graph.asleep import wait_for_others
from torchprof_magic.facts.step_graph.edges import ASSUMED, INFERRED, LAUNCH, MUCH_ASSUMED
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.facts.step_graph.path import critical_path, path_of, replay_as_recorded
from torchprof_magic.facts.step_graph.replay import replay
from torchprof_magic.facts.step_graph.spans import lag_ns, spans_of_steps
from torchprof_magic.findings.what_if.changes import Changes, changed_graph
from torchprof_magic.findings.what_if.limits import limit_words
from torchprof_magic.findings.what_if.result import WhatIf
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.model.intervals import covered_ns
from torchprof_magic.model.units import counted, format_count, format_ns, format_ratio
from torchprof_magic.tables.critical_path import frame_of_path

if TYPE_CHECKING:
    from torchprof_magic.facts.step_graph.graph import StepGraph
    from torchprof_magic.facts.step_graph.replay import FloatArray, Replay
    from torchprof_magic.facts.step_graph.spans import Spans
    from torchprof_magic.findings.what_if.changes import Changed
    from torchprof_magic.model.trace import Trace

# If less than this share of a step is left, what recording adds to it, and what was not asked about, weighs more.
LITTLE_LEFT = 0.4
# If the graph as it is is further off than that in a step, of it, it does not say what changes save.
MOST_OFF = 0.1
# What replays a larger graph takes as long as the rest of the report.
MOST_PIECES = 600_000
# If recording makes steps so many times as long, most of what they have are its own costs.
LOUD_RATIO = 1.5
# How much less or more than predicted is saved, and by how much steps differ whatever is changed: with these shares of
# the saving and of the step, nine of ten changes of written programs that were carried out lie in the interval
# (benchmarks/what_if.py).
SAVING_ERROR, STEP_ERROR = 0.15, 0.03
# Less of a step than that decides nothing.
MODEL_ERROR = 0.05
# Waiting for others that takes less of the steps hides little of what is saved.
LEAST_AWAITED = 0.02
Z = 2.0


_LITTLE = "little of a step is left, so that what recording adds to it weighs more"


_AWAITED = "what `{call}` waits for need not come sooner, so that less may be saved"


class Baseline(NamedTuple):
    """The graph as it was recorded, replayed: the steps that count, how long each is, and what is assumed of it."""

    replayed: Replay
    spans: Spans
    step_ns: FloatArray
    lag_ns: float
    assumed: float
    error: float


@once_per_trace
def baseline(trace: Trace) -> Baseline:
    """Return the replay of the graph as it is."""
    graph, spans, replayed = step_graph(trace), _counted_spans(trace), replay_as_recorded(trace)
    times = spans.replayed_ns(replayed)
    path = critical_path(trace)
    counts = np.isin(spans_of_steps(trace).step, spans.step)[path.span]
    whole = max(int(path.dur_ns[counts].sum()), 1)
    assumed = float(path.dur_ns[counts & np.isin(path.kind, INFERRED)].sum()) / whole
    error = float(np.abs(times / np.maximum(spans.dur_ns, 1) - 1).max(initial=0.0))
    return Baseline(replayed, spans, times, lag_ns(graph, replayed, spans), assumed, error)


def is_without_launches(graph: StepGraph) -> bool:
    """Return whether nothing says when the host lets work of devices begin."""
    return bool(graph.pieces.is_work.any()) and not graph.count(LAUNCH)


@once_per_trace
def can_replay(trace: Trace) -> bool:
    """Return whether the graph is known well enough, and small enough, to say what a change saves."""
    graph = step_graph(trace)
    if not 0 < len(graph.pieces.lane) <= MOST_PIECES or is_without_launches(graph) or len(loss_of(trace).steps):
        return False
    base = baseline(trace)
    is_known = base.assumed <= MUCH_ASSUMED and base.error <= MOST_OFF
    return bool(len(base.spans.step) and base.spans.dur_ns.any() and is_known)


def _counted_spans(trace: Trace) -> Spans:
    spans = spans_of_steps(trace)
    return spans.chosen(np.isin(spans.step, counted_steps(trace).row)) if has_counted_steps(trace) else spans


class Predicted(NamedTuple):
    """What each step takes with a change, in ns, and the mean of all."""

    replayed: Replay
    step_ns: FloatArray
    mean_ns: float


def predicted(trace: Trace, now: Changed) -> Predicted:
    """Return how long steps are with a change: as recorded, less what the replay with it is shorter than without.

    Work that a device has not done when the last step ends delays the next ones: it counts, too. And no step is shorter
    than its work on the busiest stream; nor longer than it was, if nothing takes longer.
    """
    graph, base = step_graph(trace), baseline(trace)
    changed = replay(graph, now.own_ns, delay_ns=now.delay_ns)
    times = base.spans.dur_ns + base.spans.replayed_ns(changed) - base.step_ns
    behind = max(lag_ns(graph, changed, base.spans) - base.lag_ns, 0.0) / max(len(times), 1)
    times = np.maximum(np.maximum(times, now.floor_ns) + behind, busiest_stream_ns(trace, now.own_ns))
    if bool((now.own_ns <= graph.own_ns).all() and (now.delay_ns <= graph.edges.delay_ns).all()):
        times = np.minimum(times, base.spans.dur_ns)
    return Predicted(changed, times, float(times.mean()))


def busiest_stream_ns(trace: Trace, own_ns: FloatArray) -> float:
    """Return how long the stream with the most work in the steps works per step, if its pieces take ``own_ns``."""
    graph, spans = step_graph(trace), baseline(trace).spans
    pieces, found = graph.pieces, 0.0
    for lane in pieces.lane[pieces.is_first & pieces.is_work].tolist():
        here = pieces.of_lane(lane)
        busy = covered_ns(pieces.start_ns[here], pieces.end_ns[here], spans.start_ns, spans.end_ns).sum()
        found = max(found, float(busy) * float(own_ns[here].sum()) / max(float(graph.own_ns[here].sum()), 1.0))
    return found / max(len(spans.step), 1)


def ask_what_if(trace: Trace, changes: Changes) -> WhatIf:
    """Return what a step would take with some changes.

    Raises ``OptionsError`` if the recording has nothing of what is to change, or no time that could.
    """
    base = baseline(trace)
    if len(base.spans.step) == 0 or not base.spans.dur_ns.any():
        raise OptionsError("no thread with a step was recorded, so nothing is known of what a step waits for")
    now = changed_graph(trace, changes)
    found = predicted(trace, now)
    before = float(base.spans.dur_ns.mean())
    saved = base.spans.dur_ns - found.step_ns
    spread = Z * float(saved.std(ddof=1)) / np.sqrt(len(saved)) if len(saved) > 1 else 0.0
    changed = abs(before - found.mean_ns)
    doubt = changed * (SAVING_ERROR + now.uncertain + base.assumed) + base.error * before
    doubt += min(STEP_ERROR * found.mean_ns, changed / 2)
    off = float(np.hypot(spread, doubt))
    path = path_of(step_graph(trace), found.replayed, base.spans, by_replay=True)
    is_little = found.mean_ns < LITTLE_LEFT * before
    awaited = _awaited(trace, base, now) if found.mean_ns < before else ""
    is_unsure = base.assumed > MUCH_ASSUMED or now.uncertain > MUCH_ASSUMED or bool(awaited)
    is_guess = is_little or is_unsure or _is_loud(trace) or bool(len(loss_of(trace).steps))
    return WhatIf(
        change=changes.words,
        before_ns=before,
        step_ns=found.mean_ns,
        low_ns=max(min(found.mean_ns - off, before - _most_saved_ns(trace, base, now)), 0.0),
        high_ns=max(found.mean_ns + off, before if awaited else 0.0),
        limit=limit_words(trace, path, _with_streams(trace, now, found.mean_ns), found.mean_ns),
        path=frame_of_path(trace, path, base.spans),
        certainty="guess" if is_guess else "estimated",
        rests_on=(
            *now.notes,
            *((_LITTLE,) if is_little else ()),
            *((_AWAITED.format(call=awaited),) if awaited else ()),
            *_rests_on(trace, base),
        ),
        has_steps=has_counted_steps(trace),
    )


def _most_saved_ns(trace: Trace, base: Baseline, now: Changed) -> float:
    """Return how much of a step the changes could save at most, where too little is known of what waits for what.

    That is the time in which anything ran that takes less, as far as it does: all of the step may have waited for it.
    """
    if base.assumed <= MUCH_ASSUMED:
        return 0.0
    graph, spans = step_graph(trace), base.spans
    is_less = now.own_ns < graph.own_ns
    recorded_ns = float(graph.own_ns[is_less].sum())
    ran = covered_ns(graph.pieces.start_ns[is_less], graph.pieces.end_ns[is_less], spans.start_ns, spans.end_ns).sum()
    return float(ran) * (1 - float(now.own_ns[is_less].sum()) / max(recorded_ns, 1.0)) / max(len(spans.step), 1)


def _awaited(trace: Trace, base: Baseline, now: Changed) -> str:
    """Return the call in which steps still wait most for what others do, empty if little of them is such waiting.

    Nothing says whether that comes at its own pace, as from a thread that fills a queue. If so, the wait becomes as
    much longer as the rest of the step becomes shorter.
    """
    pieces, wait = step_graph(trace).pieces, wait_for_others(trace)
    here = np.flatnonzero(wait >= 0)
    ran = covered_ns(base.spans.start_ns, base.spans.end_ns, pieces.start_ns[here], pieces.end_ns[here])
    ns = ran * now.own_ns[here] / np.maximum(pieces.dur_ns[here], 1)
    if ns.sum() < LEAST_AWAITED * base.spans.dur_ns.sum():
        return ""
    calls = trace.waits["call"].cast(pl.String).gather(wait[here])
    sums = pl.DataFrame({"call": calls, "ns": ns}).group_by("call").agg(pl.col("ns").sum())
    return str(sums.sort("ns", "call", descending=[True, False])["call"][0])


def _is_loud(trace: Trace) -> bool:
    """Return whether steps without the profiler were that much shorter."""
    found = find_distortion(trace)
    return found is not None and found.ratio >= LOUD_RATIO


def _with_streams(trace: Trace, now: Changed, step_ns: float) -> Changed:
    """Return the change with the device as what decides, where a stream works for all of a step but a few percent."""
    busy = busiest_stream_ns(trace, now.own_ns)
    if busy < (1 - MODEL_ERROR) * step_ns:
        return now
    return now._replace(floor_ns=step_ns, floor="kernels of the device")


def _rests_on(trace: Trace, base: Baseline) -> tuple[str, ...]:
    graph = step_graph(trace)
    found = []
    if not has_counted_steps(trace):
        found.append("the recording has no steps, so all of it is taken for one")
    if graph.pieces.is_work.any() and not graph.count(LAUNCH):
        found.append("no launch is in the file, so work of devices begins when it began")
    if base.assumed >= MODEL_ERROR:
        found.append(
            f"{format_ratio(base.assumed)} of the path is inferred or assumed ({counted(graph.count(ASSUMED), 'edge')})"
        )
    if lost := len(loss_of(trace).steps):
        found.append(f"work is missing in {counted(lost, 'step')}, which report.coverage lists")
    if (distortion := find_distortion(trace)) is not None and _is_loud(trace):
        found.append(f"recording makes steps {format_count(distortion.ratio)} times as long, and each op in them")
    if base.error >= MODEL_ERROR:
        found.append(f"the graph is off by {format_ns(base.error * float(base.spans.dur_ns.mean()))} as it is")
    return tuple(found)


def faster_words(trace: Trace, name: str | tuple[int, int], factor: float = 2) -> str:
    """Return what a step would take if what has a name, or lies in a range, were faster.

    As ``2× faster: 222 ms → 187 ms per step``.
    """
    found = ask_what_if(trace, Changes(faster={name: factor}))
    guess = ", a guess" if found.certainty == "guess" else ""
    return f"{format_count(factor)}× faster: {found.headline}{found.each}{guess}"
