"""The idle times of every device, divided by what the host did meanwhile, with their causes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.device.coverage import launches_of
from torchprof_magic.facts.device.launches import launching_calls
from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.host.blocking import RULE, calls_that_block
from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.host_states import (
    BLOCKED,
    ONCE,
    OTHER,
    STATES,
    WEAK,
    Pieces,
    Timeline,
    does_more_than_python,
    pieces_of,
    strongest_of,
    thread_timelines,
)
from torchprof_magic.facts.host.silence import are_silent
from torchprof_magic.facts.shared import device_numbers, device_rows, launch_sources, once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, merge

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


# A gap of less than this before work that had been launched earlier is the device's own switching time.
SHORT_GAP_NS = 10_000


# What a piece of idle time is, besides the state of the host.
ELSE = (
    "launch call", "launch latency", "queued, not started", "queued, short gap", "inside a graph", "not recorded",
    "work missing",
)  # fmt: skip


LAUNCH_CALL, LATENCY, QUEUED, QUEUED_SHORT, IN_GRAPH, NOT_RECORDED, MISSING = range(
    len(STATES), len(STATES) + len(ELSE)
)


DETAILS = (*STATES, *ELSE)


class Gaps(NamedTuple):
    """Idle times of one device: their start and end, and the work that ended each, a row of ``trace.events`` or -1."""

    device: int
    start_ns: IntArray
    end_ns: IntArray
    next_row: IntArray


class IdlePieces(NamedTuple):
    """Idle time in its smallest pieces: ``detail`` is an index into ``DETAILS``, ``host`` one into ``STATES``.

    ``detail`` is the state of the host until the next work was launched, and then why that work did not run yet.
    ``host`` is the state of the host throughout. ``cause`` is an index into the host nest, or -1.
    """

    device: IntArray
    gap: IntArray
    start_ns: IntArray
    end_ns: IntArray
    detail: IntArray
    cause: IntArray
    host: IntArray


def gaps_of(trace: Trace) -> list[Gaps]:
    """Return the times in which each device did nothing, within the windows of the recording."""
    windows, work = windows_of(trace), device_rows(trace)
    device, start = device_numbers(trace)[work], trace.events["start_ns"].to_numpy()[work]
    end = start + trace.events["dur_ns"].to_numpy()[work]
    found = []
    for one in np.unique(device).tolist():
        here = device == one
        start_ns, end_ns = windows.without(*merge(start[here], end[here]))
        found.append(Gaps(one, start_ns, end_ns, _next_work(trace, work[here], end_ns)))
    return found


def _next_work(trace: Trace, row: IntArray, end_ns: IntArray) -> IntArray:
    """Return for each gap the work that begins at its end, that which was launched first of several; -1 for none."""
    start = trace.events["start_ns"].to_numpy()[row]
    launch = launch_sources(trace)[row]
    launched_ns = np.where(launch >= 0, trace.events["start_ns"].to_numpy()[launch], np.iinfo(np.int64).max)
    order = np.lexsort((launched_ns, start))
    row, start = row[order], start[order]
    at = np.searchsorted(start, end_ns, side="left")
    is_there = at < len(start)
    found = np.where(is_there, row[np.minimum(at, len(row) - 1)], NO_PARENT)
    begins_there = is_there & (start[np.minimum(at, len(row) - 1)] == end_ns)
    return np.where(begins_there, found, NO_PARENT)


@once_per_trace
def idle_pieces(trace: Trace) -> IdlePieces:
    """Return the idle time of all devices in pieces; their lengths add up to it exactly."""
    lines = thread_timelines(trace)
    anyone = strongest_of([line for line in lines.values() if does_more_than_python(line)])
    parts, gap_count = [], 0
    for gaps in gaps_of(trace):
        pieces = _device_pieces(trace, gaps, lines, anyone)
        parts.append(pieces._replace(gap=pieces.gap + gap_count))
        gap_count += len(gaps.start_ns)
    if not parts:
        return IdlePieces(*(np.empty(0, np.int64) for _ in IdlePieces._fields))
    return IdlePieces(*map(np.concatenate, zip(*parts, strict=True)))


def _device_pieces(trace: Trace, gaps: Gaps, lines: dict[int, Timeline], anyone: Timeline) -> IdlePieces:
    plan = _plan(trace, gaps)
    host = _host_pieces(gaps, plan.lane, lines, anyone)
    launch_ns, launched_ns = plan.launch_ns[host.of], plan.launched_ns[host.of]
    zones = (
        (host.start_ns, np.minimum(host.end_ns, launch_ns)),
        (np.maximum(host.start_ns, launch_ns), np.minimum(host.end_ns, launched_ns)),
        (np.maximum(host.start_ns, launched_ns), host.end_ns),
    )
    parts = []
    for zone, (start, end) in enumerate(zones):
        kept = np.flatnonzero(end > start)
        of, state, cause = host.of[kept], host.state[kept], host.cause[kept]
        if zone == 1:
            own = np.where((state == BLOCKED) | (state == ONCE), state, LAUNCH_CALL)
        elif zone == 0:
            is_silent = (state == OTHER) & are_silent(trace, start[kept], end[kept])
            own = np.where(is_silent, NOT_RECORDED, state)
        else:
            own = np.full(len(of), LATENCY)
        detail = np.where(plan.fixed[of] >= 0, plan.fixed[of], own)
        cause = np.where(detail == MISSING, NO_PARENT, cause)  # what the host did is not why
        device = np.full(len(of), gaps.device, np.int64)
        parts.append(IdlePieces(device, of, start[kept], end[kept], detail, cause, state))
    joined = IdlePieces(*map(np.concatenate, zip(*parts, strict=True)))
    order = np.argsort(joined.start_ns, kind="stable")  # gaps follow one another
    return IdlePieces(*(column[order] for column in joined))


class _Plan(NamedTuple):
    """How each gap is split: until ``launch_ns`` the host counts, until ``launched_ns`` the call, then its latency.

    ``fixed`` is a detail that counts for the whole gap, or -1. ``lane`` is the thread that launched the next work,
    -1 if that is not known.
    """

    lane: IntArray
    launch_ns: IntArray
    launched_ns: IntArray
    fixed: IntArray


def _plan(trace: Trace, gaps: Gaps) -> _Plan:
    events = trace.events
    start, dur, lanes = (events[name].to_numpy() for name in ("start_ns", "dur_ns", "lane"))
    sources = launch_sources(trace).astype(np.int64)
    call = np.where(gaps.next_row >= 0, sources[gaps.next_row], NO_PARENT)
    has_call = call >= 0
    call_start = np.where(has_call, start[call], gaps.end_ns)
    call_end = np.where(has_call, start[call] + dur[call], gaps.end_ns)
    is_queued = has_call & (call_end <= gaps.start_ns)
    fixed = np.full(len(call), NO_PARENT, np.int64)
    fixed[is_queued] = np.where((gaps.end_ns - gaps.start_ns)[is_queued] < SHORT_GAP_NS, QUEUED_SHORT, QUEUED)
    fixed[_is_inside_graph(sources, start, gaps.next_row, call)] = IN_GRAPH
    fixed[(gaps.next_row >= 0) & ~has_call] = NOT_RECORDED
    fixed[_hides_lost_work(trace, gaps)] = MISSING
    return _Plan(
        lane=np.where(
            has_call,
            lanes[call],
            np.where(gaps.next_row >= 0, NO_PARENT, _lane_of_last_launch(trace, gaps.end_ns)),
        ),
        launch_ns=np.clip(call_start, gaps.start_ns, gaps.end_ns),
        launched_ns=np.clip(call_end, gaps.start_ns, gaps.end_ns),
        fixed=fixed,
    )


def _hides_lost_work(trace: Trace, gaps: Gaps) -> BoolArray:
    """Return in which gaps work was launched that is not in the file, so that the device may have been busy."""
    launches = launches_of(trace)
    lost = launches.is_missing & np.isin(launches.device, (gaps.device, NO_PARENT))
    launched_ns = trace.events["start_ns"].to_numpy()[launches.row[lost]]
    first, last = (np.searchsorted(launched_ns, side, side="left") for side in (gaps.start_ns, gaps.end_ns))
    return last > first


def _is_inside_graph(sources: IntArray, start_ns: IntArray, next_row: IntArray, call: IntArray) -> BoolArray:
    """Return whether earlier work of the same launch had begun before the next work."""
    target = np.flatnonzero(sources >= 0)
    first_ns = np.full(len(sources) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first_ns, sources[target], start_ns[target])
    return (call >= 0) & (first_ns[call] < start_ns[next_row])


def _lane_of_last_launch(trace: Trace, at_ns: IntArray) -> IntArray:
    calls = launching_calls(trace)
    if len(calls.row) == 0:
        return np.full(len(at_ns), NO_PARENT, np.int64)
    last = np.maximum(np.searchsorted(calls.start_ns, at_ns, side="right") - 1, 0)
    return trace.events["lane"].to_numpy()[calls.row[last]].astype(np.int64)


def _host_pieces(gaps: Gaps, lane: IntArray, lines: dict[int, Timeline], anyone: Timeline) -> Pieces:
    """Cut the gaps by the state of the launching thread, or of all threads where its own says nothing."""
    parts = []
    for number in np.unique(lane).tolist():
        chosen = np.flatnonzero(lane == number)
        line = lines.get(number, anyone)
        own = pieces_of(line, gaps.start_ns[chosen], gaps.end_ns[chosen])
        own = own._replace(of=chosen[own.of])
        if line is anyone:
            parts.append(own)
            continue
        weak = np.flatnonzero(own.state >= WEAK)
        strong = np.flatnonzero(own.state < WEAK)
        others = pieces_of(anyone, own.start_ns[weak], own.end_ns[weak])
        parts += [Pieces(*(column[strong] for column in own)), others._replace(of=own.of[weak][others.of])]
    if not parts:
        return Pieces(*(np.empty(0, np.int64) for _ in Pieces._fields))
    return Pieces(*map(np.concatenate, zip(*parts, strict=True)))


# What idle time is blamed on, and its definition.
CAUSES = {
    "data": "the host waited for the next batch",
    "waiting": "the host was held by a blocking call, which `name` names",
    "compile": "the host compiled code or captured a graph",
    "initialisation": "the host did work that is done once: starting the driver, loading code, the first call of an op",
    "communication": "the host took part in a collective of its own",
    "allocation": "the host allocated or freed memory in the driver",
    "op dispatch": "the host ran ops or launched work, one piece at a time",
    "python": "the host ran Python between ops, or something that was not recorded",
    "queued": "the next work was launched already, but the device had not begun it",
    "profiler": "the profiler itself held the host",
    "missing": "work was launched meanwhile that is not in the file, so that the device may have been busy",
    "unknown": "the file does not say",
}


# What each is called in short, as after "for": "4 ms for op dispatch in aten::batch_norm".
CAUSE_TITLES = {
    "data": "loading data",
    "waiting": "a blocking call",
    "compile": "compilation or graph capture",
    "initialisation": "initialisation",
    "communication": "communication by the host",
    "allocation": "reserving or freeing device memory",
    "op dispatch": "op dispatch",
    "python": "Python between ops",
    "queued": "launch latency",
    "profiler": "the profiler itself",
    "missing": "missing events",
    "unknown": "an unknown reason",
}


_CAUSE_OF = {
    "profiler": "profiler",
    "one-time work": "initialisation",
    "data": "data",
    "compile": "compile",
    "host communication": "communication",
    "op dispatch": "op dispatch",
    "runtime call": "op dispatch",
    "python or other": "python",
    "no host activity": "unknown",
    "launch call": "op dispatch",
    "launch latency": "queued",
    "queued, not started": "queued",
    "queued, short gap": "queued",
    "inside a graph": "queued",
    "not recorded": "unknown",
    "work missing": "missing",
}


_BLOCKED_CAUSE = {"alloc": "allocation", "init": "initialisation", "profiler": "profiler"}  # others: waiting


@once_per_trace
def cause_numbers(trace: Trace) -> IntArray:
    """Return the cause of each of the ``idle_pieces`` as its place in ``CAUSES``."""
    causes = list(CAUSES)
    return np.array([causes.index(name) for name in cause_names()], np.int64)[cause_codes(trace)]


@once_per_trace
def cause_codes(trace: Trace) -> IntArray:
    """Return for each of the ``idle_pieces`` an index into ``cause_names``."""
    pieces = idle_pieces(trace)
    row = np.append(host_nest(trace).row, NO_PARENT)[pieces.cause]
    blocked = np.where(pieces.detail == BLOCKED, np.append(_rules(trace), 0)[row], 0)
    return pieces.detail + blocked * len(DETAILS)


def _rules(trace: Trace) -> IntArray:
    """Return for each event 0, or 1 plus the number of the rule by which it blocks."""
    calls = calls_that_block(trace)
    rules = np.zeros(trace.events.height, np.int64)
    rules[calls.row] = calls.rule + 1
    return rules


def cause_names() -> list[str]:
    """Return the cause of every detail, without a rule and then with each rule."""
    blocked = [_BLOCKED_CAUSE.get(rule, "waiting") for rule in RULE.categories]
    return [
        cause if detail == "blocked" else _CAUSE_OF[detail] for cause in ("waiting", *blocked) for detail in DETAILS
    ]
