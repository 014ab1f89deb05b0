"""What the host does at every moment: which of a few states each thread is in, and the event that puts it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.analysis.blocking import blocking_calls
from torchprof_magic.analysis.host_nest import Segments, host_nest, inherited, lanes_of, segments_of
from torchprof_magic.analysis.shared import ask_names, once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, IntArray, depth_of, levels
from torchprof_magic.model.vendors import HOST_COLLECTIVE

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# In this order: where several apply, the first one counts.
STATES = (
    "profiler",
    "blocked",
    "data",
    "compile",
    "host communication",
    "op dispatch",
    "runtime call",
    "python or other",
    "no host activity",
)
PROFILER, BLOCKED, DATA, COMPILE, COMMUNICATION, DISPATCH, RUNTIME_CALL, OTHER, NOTHING = range(len(STATES))
# From here on a state does not say what holds the host.
WEAK = OTHER

DATA_NAME = r"(?i)dataloader|data_load|wait_for_training_batch"
COMPILE_NAME = (
    r"\(dynamo_timed\)|CUDAGraphNode\.record|[/\\]_dynamo[/\\]convert_frame\.py|[/\\]triton[/\\]compiler[/\\]"
    r"|[/\\]cudagraph_trees\.py\(\d+\): (record_function|_record)$"
    r"|[/\\]cuda[/\\]graphs\.py\(\d+\): (capture_begin|capture_end)$|StreamBeginCapture|StreamEndCapture"
)
WRAPPER_NAME = r"^(Torch-Compiled Region|autograd::engine::|torch::autograd::)|^## "
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
    nest = host_nest(trace)
    turns = levels(depth_of(nest.parent))
    state, cause = inherited(nest, _own_states(trace)[nest.row], turns)
    # Within ops the innermost one is named, within Python the innermost frame or annotation.
    return HostStates(state, cause)


def _own_states(trace: Trace) -> IntArray:
    events = trace.events
    category = events["category"]
    own = np.full(events.height, OTHER, np.int64)
    own[(category == "runtime").to_numpy()] = RUNTIME_CALL
    own[(category == "cpu_op").to_numpy()] = DISPATCH
    is_call = (category == "runtime").to_numpy()
    for pattern, state in ((HOST_COLLECTIVE, COMMUNICATION), (COMPILE_NAME, COMPILE), (DATA_NAME, DATA)):
        matches = ask_names(events["name"], pl.col("name").str.contains(pattern)).astype(np.bool_)
        own[matches & (~is_call | (state == COMPILE))] = state
    is_profiler = ask_names(events["name"], pl.col("name").str.contains(PROFILER_NAME)).astype(np.bool_)
    own[is_profiler & (category == "python_function").to_numpy()] = PROFILER
    blocked = blocking_calls(trace)
    rows = blocked["row"].to_numpy()
    own[rows] = np.where((blocked["rule"] == "profiler").to_numpy(), PROFILER, BLOCKED)
    return own


@once_per_trace
def called_ops(trace: Trace) -> IntArray:
    """Return for each event of ``host_nest`` the outermost op at or around it, an index of the nest, or -1.

    Ops that only stand around others, such as a compiled region or a node of autograd, do not count.
    """
    nest, events = host_nest(trace), trace.events
    is_op = (events["category"] == "cpu_op").to_numpy()
    is_op &= ~ask_names(events["name"], pl.col("name").str.contains(WRAPPER_NAME)).astype(np.bool_)
    found = np.where(is_op[nest.row], np.arange(len(nest.row)), NO_PARENT)
    for rows in levels(depth_of(nest.parent))[1:]:
        above = found[nest.parent[rows]]
        found[rows] = np.where(above >= 0, above, found[rows])
    return found


def thread_timelines(trace: Trace) -> dict[int, Timeline]:
    """Return the states over time of every thread that runs ops or runtime calls, by its lane."""
    nest, states = host_nest(trace), host_states(trace)
    works = trace.events["category"].is_in(("cpu_op", "runtime")).to_numpy()[nest.row]
    found = {}
    for lane, rows in lanes_of(nest):
        if works[rows].any():
            found[lane] = _timeline(segments_of(nest, rows), states)
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
    time = np.unique(np.concatenate([line.start_ns for line in timelines]))
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


def pieces_of(timeline: Timeline, start_ns: IntArray, end_ns: IntArray) -> Pieces:
    """Cut intervals at the moments at which the state changes. Empty intervals have no piece."""
    first = np.searchsorted(timeline.start_ns, start_ns, side="right") - 1
    last = np.searchsorted(timeline.start_ns, end_ns, side="left") - 1
    count = np.where(end_ns > start_ns, last - first + 1, 0)
    of = np.repeat(np.arange(len(start_ns)), count)
    ahead = np.cumsum(count) - count
    segment = np.arange(len(of)) - np.repeat(ahead, count) + first[of]
    edges = np.append(timeline.start_ns, np.iinfo(np.int64).max)
    before = segment < 0
    from_ns = np.maximum(np.where(before, np.iinfo(np.int64).min, edges[segment]), start_ns[of])
    to_ns = np.minimum(edges[segment + 1], end_ns[of])
    state = np.where(before, NOTHING, np.append(timeline.state, NOTHING)[segment])
    cause = np.where(before, NO_PARENT, np.append(timeline.cause, NO_PARENT)[segment])
    return Pieces(of, from_ns, to_ns, state, cause)
