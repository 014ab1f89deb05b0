"""What the host does at every moment: which of a few states each thread is in, and the event that puts it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.device.captures import captures_of
from torchprof_magic.facts.host.blocking import calls_that_block
from torchprof_magic.facts.host.host_lines import import_spans
from torchprof_magic.facts.host.host_nest import (
    HostNest,
    Segments,
    host_nest,
    indexes_of,
    inherited,
    lanes_of,
    nest_levels,
    segments_of,
    thread_segments,
)
from torchprof_magic.facts.host.one_time import one_time_events
from torchprof_magic.facts.host.transitions import own_work
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, all_moments, each_from, latest_at, nest
from torchprof_magic.model.vendors import HOST_COLLECTIVE

if TYPE_CHECKING:
    from torchprof_magic.facts.device.captures import Captures
    from torchprof_magic.model.trace import Trace

# In this order: where several apply, the first one counts.
STATES = (
    "profiler",
    "one-time work",
    "blocked",
    "data",
    "compile",
    "host communication",
    "op dispatch",
    "runtime call",
    "python or other",
    "no host activity",
)
PROFILER, ONCE, BLOCKED, DATA, COMPILE, COMMUNICATION, DISPATCH, RUNTIME_CALL, OTHER, NOTHING = range(len(STATES))
# From here on a state does not say what holds the host.
WEAK = OTHER
# What a thread may be in while it imports, or captures a graph: the import or the capture says more.
_IMPORTING = (DATA, COMMUNICATION, DISPATCH, RUNTIME_CALL, OTHER, NOTHING)
_CAPTURING = (COMMUNICATION, DISPATCH, RUNTIME_CALL, OTHER, NOTHING)

DATA_NAME = r"(?i)dataloader|data_load|wait_for_training_batch"
COMPILE_NAME = (
    r"\(dynamo_timed\)|CUDAGraphNode\.record|[/\\]_dynamo[/\\]convert_frame\.py|(^|[/\\])triton[/\\]compiler[/\\]"
    r"|[/\\]cudagraph_trees\.py\([0-9]+\): (record_function|_record)$"
    r"|[/\\]cuda[/\\]graphs\.py\([0-9]+\): (capture_begin|capture_end)$|StreamBeginCapture|StreamEndCapture"
)
WRAPPER_NAME = r"^(Torch-Compiled Region|CompiledFunction(Backward)?$|autograd::engine::|torch::autograd::)|^## "
_SCOPE = ("site", "lane", "start_ns", "dur_ns")
PROFILER_NAME = r"(^|[/\\])torch[/\\]profiler[/\\]"


class HostStates(NamedTuple):
    """The state of each host event, an index into ``STATES``, and the event of the nest that puts it there."""

    state: IntArray
    cause: IntArray


class Timeline(NamedTuple):
    """States of one or several threads over time: from each ``start_ns`` to the next; ``cause`` is -1 for nothing.

    ``cause`` is an index into the host nest.
    """

    start_ns: IntArray
    state: IntArray
    cause: IntArray


@once_per_trace
def host_states(trace: Trace) -> HostStates:
    """Return the state that each event of ``host_nest`` puts its thread into, with the events around it counted."""
    host = host_nest(trace)
    state, cause = inherited(host, _own_states(trace)[host.row], nest_levels(trace))
    return HostStates(state, cause)


def _own_states(trace: Trace) -> IntArray:
    own = np.full(trace.events.height, OTHER, np.int64)
    is_call = in_category(trace, "runtime")
    own[is_call] = RUNTIME_CALL
    own[in_category(trace, "cpu_op")] = DISPATCH
    for pattern, state in ((HOST_COLLECTIVE, COMMUNICATION), (COMPILE_NAME, COMPILE), (DATA_NAME, DATA)):
        matches = is_named(trace, pattern)
        own[matches & (~is_call | (state == COMPILE))] = state
    own[is_named(trace, PROFILER_NAME, "python_function")] = PROFILER
    blocked = calls_that_block(trace)
    own[blocked.row] = np.where(blocked.meet("profiler"), PROFILER, BLOCKED)
    own[one_time_events(trace)] = ONCE
    return own


@once_per_trace
def called_ops(trace: Trace) -> IntArray:
    """Return for each event of ``host_nest`` the outermost op at or around it, an index of the nest, or -1.

    Ops that only stand around others, such as a compiled region or a node of autograd, do not count.
    """
    host = host_nest(trace)
    is_op = in_category(trace, "cpu_op")
    is_op &= ~is_named(trace, WRAPPER_NAME)
    found = np.where(is_op[host.row], np.arange(len(host.row)), NO_PARENT)
    for rows in nest_levels(trace)[1:]:
        above = found[host.parent[rows]]
        found[rows] = np.where(above >= 0, above, found[rows])
    return found


@once_per_trace
def compile_ranges(trace: Trace) -> IntArray:
    """Return for each event of ``host_nest`` the outermost annotation of compiling or capturing around it, or -1."""
    host = host_nest(trace)
    is_range = in_category(trace, "user_annotation")[host.row]
    found = np.where((host_states(trace).state == COMPILE) & is_range, np.arange(len(host.row)), NO_PARENT)
    for rows in nest_levels(trace)[1:] if (found >= 0).any() else ():
        above = found[host.parent[rows]]
        found[rows] = np.where(above >= 0, above, found[rows])
    return found


@once_per_trace
def thread_timelines(trace: Trace) -> dict[int, Timeline]:
    """Return the states over time of every thread, by its lane; captures from other files took no time."""
    host, states = host_nest(trace), host_states(trace)
    found = {lane: _timeline(segments, states) for lane, segments in thread_segments(trace).items()}
    captures = captures_of(trace)
    for lane in np.unique(captures.lane).tolist() if found else ():
        if lane in found:
            found[lane] = _with_captures(found[lane], captures, captures.lane == lane, indexes_of(host, captures.row))
    start_ns, end_ns = import_spans(trace)
    lane = int(trace.host_lines["lane"][0]) if len(start_ns) else NO_PARENT  # that of the steps, the only one there
    if lane in found:
        nobody = np.full(len(start_ns), NO_PARENT)
        found[lane] = _overlaid(found[lane], start_ns, end_ns, nobody, ONCE, _IMPORTING)
    own = own_work(trace)
    for lane in np.unique(own.lane).tolist():
        if lane in found:
            here = own.lane == lane
            nobody = np.full(int(here.sum()), NO_PARENT)
            found[lane] = _overlaid(
                found[lane], own.start_ns[here], own.end_ns[here], nobody, PROFILER, (OTHER, NOTHING)
            )
    return found


def _with_captures(line: Timeline, captures: Captures, here: BoolArray, cause: IntArray) -> Timeline:
    """Return the states of a thread with the times of captures in them, where no stronger state is known."""
    return _overlaid(line, captures.start_ns[here], captures.end_ns[here], cause[here], COMPILE, _CAPTURING)


def _overlaid(
    line: Timeline, start: IntArray, end: IntArray, causes: IntArray, put: int, replaced: tuple[int, ...]
) -> Timeline:
    """Return the states of a thread with ``put`` in some intervals, in place of the states to be ``replaced``."""
    time = np.unique(np.concatenate((line.start_ns, start, end)))
    at = np.searchsorted(line.start_ns, time, side="right") - 1
    state = np.where(at >= 0, line.state[at], NOTHING)
    because = np.where(at >= 0, line.cause[at], NO_PARENT)
    order = np.argsort(start, kind="stable")
    before = np.searchsorted(start[order], time, side="right") - 1
    latest_ns = np.append(np.maximum.accumulate(end[order]), np.iinfo(np.int64).min)  # the end of those that have begun
    inside = (time < latest_ns[before]) & np.isin(state, replaced)
    return Timeline(
        time, np.where(inside, put, state), np.where(inside, np.append(causes[order], NO_PARENT)[before], because)
    )


def does_more_than_python(timeline: Timeline) -> bool:
    """Return whether a thread ever does anything else; others may just be parked in a wait of Python's."""
    return bool((timeline.state < WEAK).any())


@once_per_trace
def line_timelines(trace: Trace) -> dict[int, Timeline]:
    """Return the innermost watched line of each thread over time, as a row of ``sites`` in ``cause``; by lane."""
    is_line = (trace.sites["kind"] == "line").to_numpy()
    site, lane, start, dur = (trace.scopes[name].to_numpy().astype(np.int64) for name in _SCOPE)
    chosen = np.flatnonzero(is_line[site])
    return timelines_of(site[chosen], lane[chosen], start[chosen], dur[chosen])


def timelines_of(site: IntArray, lane: IntArray, start_ns: IntArray, dur_ns: IntArray) -> dict[int, Timeline]:
    """Return the innermost of some intervals over time, by lane, its site in ``cause``; they are in nesting order."""
    parent, _, _ = nest(lane, start_ns, dur_ns)
    scopes = HostNest(site, lane, start_ns, start_ns + dur_ns, parent)
    found = {}
    for number, rows in lanes_of(scopes):
        segments = segments_of(scopes, rows)
        inside = np.append(site, NO_PARENT)[segments.event]
        found[number] = Timeline(segments.start_ns, np.zeros(len(inside), np.int64), inside)
    return found


def _timeline(segments: Segments, states: HostStates) -> Timeline:
    event = segments.event
    state = np.append(states.state, NOTHING)[event]
    cause = np.append(states.cause, NO_PARENT)[event]
    return Timeline(segments.start_ns, state, cause)


def strongest_of(timelines: list[Timeline]) -> Timeline:
    """Return the strongest state of several threads at every moment, with its cause."""
    if len(timelines) <= 1:
        return timelines[0] if timelines else Timeline(*(np.empty(0, np.int64) for _ in range(3)))
    time = all_moments(*(line.start_ns for line in timelines))
    state = np.full(len(time), NOTHING, np.int64)
    cause = np.full(len(time), NO_PARENT, np.int64)
    for line in timelines:
        at = np.searchsorted(line.start_ns, time, side="right") - 1
        here = np.where(at >= 0, line.state[at], NOTHING)
        is_stronger = here < state
        state = np.where(is_stronger, here, state)
        cause = np.where(is_stronger, line.cause[at], cause)
    return Timeline(time, state, cause)


class Pieces(NamedTuple):
    """Parts of intervals, each with one state: ``of`` is the interval's number."""

    of: IntArray
    start_ns: IntArray
    end_ns: IntArray
    state: IntArray
    cause: IntArray


def cause_and_changes(timeline: Timeline, start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, BoolArray]:
    """Return the cause at the start of each interval, and in which of them something changes."""
    at = latest_at(timeline.start_ns, start_ns)
    changes = np.append(timeline.start_ns, np.iinfo(np.int64).max)[at + 1] < end_ns
    return np.append(timeline.cause, NO_PARENT)[at], changes


def pieces_of(timeline: Timeline, start_ns: IntArray, end_ns: IntArray) -> Pieces:
    """Cut intervals at the moments at which the state changes. Empty intervals have no piece."""
    first = latest_at(timeline.start_ns, start_ns)
    last = latest_at(timeline.start_ns, end_ns - 1)
    count = np.where(end_ns > start_ns, last - first + 1, 0)
    of, segment = each_from(first, count)
    # What is appended stands for -1, before the first change; and for the first moment, after the last one.
    limits = np.iinfo(np.int64)
    edges = np.append(timeline.start_ns, (limits.max, limits.min))
    from_ns, to_ns = np.maximum(edges[segment], start_ns[of]), np.minimum(edges[segment + 1], end_ns[of])
    state, cause = np.append(timeline.state, NOTHING)[segment], np.append(timeline.cause, NO_PARENT)[segment]
    return Pieces(of, from_ns, to_ns, state, cause)
