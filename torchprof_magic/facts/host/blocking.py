"""The runtime calls that hold their thread: they wait for the device, the driver or a full launch queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.busy import any_busy_ns
from torchprof_magic.facts.device.launches import launching_calls
from torchprof_magic.facts.host.host_nest import HostNest, host_nest
from torchprof_magic.facts.shared import device_rows, in_category, is_named, once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray
from torchprof_magic.model.rows import frame_of, values_at
from torchprof_magic.model.vendors import (
    COPY_CALL,
    DEVICE_WAIT,
    FILL_CALL,
    GRAPH_LAUNCH,
    MEMORY_CALL,
    QUERY_CALL,
    SETUP_CALL,
    STREAM_WAIT,
    WAITING_CALL,
)

if TYPE_CHECKING:
    from torchprof_magic.model.trace import DType, Trace

# A rule of this table makes a call a blocking one; the first that fits counts.
RULES = {
    "sync": "Waits until the device has finished what it names; any length.",
    "alloc": "Allocates or frees memory in the driver; any length.",
    "init": "Loads or compiles code for the device, makes a graph, or starts the driver: an allocation of more than "
    "1 ms that ended before the first device work, or a query of more than 50 us.",
    "copy": "Copies memory and took more than 50 us.",
    "slow launch": "Launches work and took more than 100 us, although the queue was not full.",
    "queue full": "Launches or copies as above while at least 512 earlier calls had not begun on the device.",
    "profiler": "Waits for the device on behalf of the profiler, not of the program.",
}
LONG_COPY_NS = 50_000
LONG_QUERY_NS = 50_000
LONG_LAUNCH_NS = 100_000
STARTING_DRIVER_NS = 1_000_000
FULL_QUEUE_CALLS = 512

RULE = pl.Enum(tuple(RULES))
RULE_NUMBERS = {rule: number for number, rule in enumerate(RULES)}
SCHEMA: dict[str, DType] = {
    "row": pl.Int64,
    "rule": RULE,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "device_busy_ns": pl.Int64,
}
_PROFILER_FRAME = r"(^|[/\\])torch[/\\](profiler|autograd[/\\]profiler)"
_NAMES = (
    ("sync", f"({WAITING_CALL})", STREAM_WAIT),
    ("query", f"({QUERY_CALL})", ""),
    ("init", f"({SETUP_CALL})", ""),
    ("copy", f"({COPY_CALL})", ""),
    ("launch", f"(?i)Launch|({FILL_CALL})", ""),
    ("alloc", f"({MEMORY_CALL})", ""),
)
_KINDS = ("", "sync", "query", "init", "copy", "launch", "alloc")


class BlockingCalls(NamedTuple):
    """The blocking calls in order of time: rows of ``events``, numbers of ``RULES``, and times in ns."""

    row: IntArray
    rule: IntArray
    start_ns: IntArray
    end_ns: IntArray

    def meet(self, *rules: str) -> BoolArray:
        """Return which of them meet one of some rules."""
        found = np.zeros(len(self.rule), np.bool_)
        for rule in rules:
            found |= self.rule == RULE_NUMBERS[rule]
        return found


@once_per_trace
def calls_that_block(trace: Trace) -> BlockingCalls:
    """Return the blocking calls; a call inside a blocking call is not listed."""
    nest = host_nest(trace)
    if not in_category(trace, "runtime").any() or len(nest.row) == 0:
        return BlockingCalls(*(np.empty(0, np.int64) for _ in BlockingCalls._fields))
    found = _blocking(trace, nest)
    chosen = np.flatnonzero(found >= 0)
    chosen = chosen[np.lexsort((nest.row[chosen], nest.start_ns[chosen]))]
    return BlockingCalls(nest.row[chosen], found[chosen], nest.start_ns[chosen], nest.end_ns[chosen])


@once_per_trace
def blocking_calls(trace: Trace) -> pl.DataFrame:
    """Return one row per blocking call: its row in ``events``, the rule that it meets, and its times in ns.

    ``device_busy_ns`` is the part of it in which some device worked; only the rest can be what limits the program. A
    call inside a blocking call is not listed.
    """
    row, rule, start, end = calls_that_block(trace)
    columns = {
        "row": row,
        "rule": rules_named(rule),
        "start_ns": start,
        "dur_ns": end - start,
        "device_busy_ns": any_busy_ns(trace, start, end),
    }
    return frame_of(SCHEMA, columns)


def rules_named(numbers: IntArray) -> pl.Series:
    """Return the rules with these numbers."""
    return values_at(pl.Series([*RULES], dtype=RULE), numbers)


def _blocking(trace: Trace, nest: HostNest) -> IntArray:
    """Return for each host event the number of the rule that it meets, or -1."""
    kind = _kinds(trace)[nest.row]
    length = nest.end_ns - nest.start_ns
    rule = np.full(len(kind), NO_PARENT, np.int64)

    def choose(which: BoolArray, name: str) -> None:
        rule[which & (rule == NO_PARENT)] = RULE_NUMBERS[name]

    of = {name: kind == number for number, name in enumerate(_KINDS)}
    choose(of["sync"] & _by_profiler(trace, nest), "profiler")
    choose(of["sync"], "sync")
    choose(of["alloc"] & (length > STARTING_DRIVER_NS) & (nest.end_ns <= _first_work_ns(trace)), "init")
    choose(of["alloc"], "alloc")
    choose(of["init"] | (of["query"] & (length > LONG_QUERY_NS)), "init")
    is_long = (of["copy"] & (length > LONG_COPY_NS)) | (of["launch"] & (length > LONG_LAUNCH_NS))
    is_full, is_graph = _with_full_queue(trace, nest, is_long), _is_graph_launch(trace)[nest.row]
    choose(is_long & is_full, "queue full")
    choose(is_long & of["copy"], "copy")
    choose(is_long & ~is_graph, "slow launch")
    return _outermost(nest, rule)


def _kinds(trace: Trace) -> IntArray:
    """Return for each event which kind of call its name says it is, a number of ``_KINDS``."""
    found = np.zeros(trace.events.height, np.int64)
    for kind, pattern, but in reversed(_NAMES):
        fits = is_named(trace, pattern, "runtime")
        found[fits & ~is_named(trace, but, "runtime") if but else fits] = _KINDS.index(kind)
    return found


def _is_graph_launch(trace: Trace) -> BoolArray:
    return is_named(trace, GRAPH_LAUNCH)


def _first_work_ns(trace: Trace) -> int:
    start_ns = trace.events["start_ns"].to_numpy()[device_rows(trace)]
    return int(start_ns.min(initial=np.iinfo(np.int64).max))


def _by_profiler(trace: Trace, nest: HostNest) -> BoolArray:
    """Return which waits for a whole device belong to the profiler.

    They are under frames of ``torch.profiler``, or after the last launch and outside of all other events.
    """
    is_wait = is_named(trace, DEVICE_WAIT)[nest.row]
    waits = np.flatnonzero(is_wait)
    result = np.zeros(len(nest.row), np.bool_)
    is_profiler = is_named(trace, _PROFILER_FRAME, "python_function")[nest.row]
    last_launch_ns = launching_calls(trace).start_ns.max(initial=np.iinfo(np.int64).min)
    result[waits] = (nest.parent[waits] < 0) & (nest.start_ns[waits] >= last_launch_ns)
    above = nest.parent[waits]
    while (above >= 0).any():
        result[waits] |= np.append(is_profiler, False)[above]
        above = np.append(nest.parent, NO_PARENT)[above]
    return result


def _with_full_queue(trace: Trace, nest: HostNest, is_long: BoolArray) -> BoolArray:
    """Return which of the long calls had to wait for room in the launch queue.

    A copy whose own work had ended when it returned waited for that instead.
    """
    long = np.flatnonzero(is_long)
    result = np.zeros(len(nest.row), np.bool_)
    calls = launching_calls(trace)
    if len(long) == 0 or len(calls.row) == 0:
        return result
    work_end = np.full(trace.events.height, np.iinfo(np.int64).max)
    work_end[calls.row] = calls.work_end_ns
    is_copy = is_named(trace, COPY_CALL)[nest.row[long]]
    had_ended = work_end[nest.row[long]] <= nest.end_ns[long]
    result[long] = (calls.pending_at(nest.start_ns[long]) >= FULL_QUEUE_CALLS) & ~(is_copy & had_ended)
    return result


def _outermost(nest: HostNest, rule: IntArray) -> IntArray:
    """Return the rules without those of calls inside another blocking call."""
    is_blocking, parent = np.append(rule >= 0, False), np.append(nest.parent, NO_PARENT)
    rows = np.flatnonzero(is_blocking)
    inside, above = np.zeros(len(rows), np.bool_), parent[rows]
    while (above >= 0).any():
        inside |= is_blocking[above]
        above = parent[above]
    found = rule.copy()
    found[rows[inside]] = NO_PARENT
    return found
