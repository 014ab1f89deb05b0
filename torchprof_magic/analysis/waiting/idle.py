"""Why a device idles: every gap in its work, split by what the host did before the next work was launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.analysis.host.host_nest import host_nest
from torchprof_magic.analysis.host.host_states import (
    BLOCKED,
    DISPATCH,
    STATES,
    WEAK,
    Pieces,
    Timeline,
    called_ops,
    does_more_than_python,
    pieces_of,
    strongest_of,
    thread_timelines,
)
from torchprof_magic.analysis.shared import launch_sources, once_per_trace
from torchprof_magic.analysis.source.places import Places, places_of
from torchprof_magic.analysis.waiting.blocking import RULE, blocking_calls
from torchprof_magic.analysis.waiting.launches import launching_calls
from torchprof_magic.analysis.waiting.window import windows_of
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, merge
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.trace import DEVICE_CATEGORIES, MAX_SUM, DType

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# A gap of less than this before work that had been launched earlier is the device's own switching time.
SHORT_GAP_NS = 10_000
# What a piece of idle time is, besides the state of the host.
ELSE = ("launch call", "launch latency", "queued, not started", "queued, short gap", "inside a graph", "not recorded")
LAUNCH_CALL, LATENCY, QUEUED, QUEUED_SHORT, IN_GRAPH, NOT_RECORDED = range(len(STATES), len(STATES) + len(ELSE))
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
    windows = windows_of(trace)
    work = trace.events.with_row_index("row").filter(pl.col("category").is_in(DEVICE_CATEGORIES))
    work = work.select("row", "start_ns", "dur_ns", pl.col("device").fill_null(0))
    found = []
    for (device,), rows in work.sort("start_ns", "row").group_by("device", maintain_order=True):
        found.append(_gaps(trace, int(device), rows, windows.start_ns, windows.end_ns))
    return sorted(found, key=lambda gaps: gaps.device)


def _gaps(trace: Trace, device: int, work: pl.DataFrame, window_start: IntArray, window_end: IntArray) -> Gaps:
    start = work["start_ns"].to_numpy()
    busy_start, busy_end = merge(start, start + work["dur_ns"].to_numpy())
    starts, ends = [], []
    for from_ns, to_ns in zip(window_start.tolist(), window_end.tolist(), strict=True):
        inside = (busy_end > from_ns) & (busy_start < to_ns)
        starts.append(np.concatenate(([from_ns], np.clip(busy_end[inside], from_ns, to_ns))))
        ends.append(np.concatenate((np.clip(busy_start[inside], from_ns, to_ns), [to_ns])))
    start_ns, end_ns = np.concatenate(starts), np.concatenate(ends)
    is_gap = end_ns > start_ns
    start_ns, end_ns = start_ns[is_gap], end_ns[is_gap]
    return Gaps(device, start_ns, end_ns, _next_work(trace, work, end_ns))


def _next_work(trace: Trace, work: pl.DataFrame, end_ns: IntArray) -> IntArray:
    """Return for each gap the work that begins at its end, that which was launched first of several; -1 for none."""
    row, start = work["row"].to_numpy().astype(np.int64), work["start_ns"].to_numpy()
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
            own = np.where(state == BLOCKED, BLOCKED, LAUNCH_CALL)
        else:
            own = state if zone == 0 else np.full(len(of), LATENCY)
        detail = np.where(plan.fixed[of] >= 0, plan.fixed[of], own)
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
    "initialisation": "the host loaded code for the device or started the driver",
    "communication": "the host took part in a collective of its own",
    "allocation": "the host allocated or freed memory in the driver",
    "op dispatch": "the host ran ops or launched work, one piece at a time",
    "python": "the host ran Python between ops, or something that was not recorded",
    "queued": "the next work was launched already, but the device had not begun it",
    "profiler": "the profiler itself held the host",
    "unknown": "the file does not say",
}
# What each is called in short.
CAUSE_TITLES = {
    "data": "loading data",
    "waiting": "blocking call",
    "compile": "compiling, capturing",
    "initialisation": "loading code",
    "communication": "collective on the host",
    "allocation": "driver memory",
    "op dispatch": "launching ops",
    "python": "Python",
    "queued": "queued work",
    "profiler": "profiler",
    "unknown": "unknown",
}
_CAUSE_OF = {
    "profiler": "profiler",
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
}
_BLOCKED_CAUSE = {"alloc": "allocation", "init": "initialisation", "profiler": "profiler"}  # others: waiting
COLUMNS = (
    Column(name="device", title="Device", unit="text", definition="Number of the device in the trace."),
    Column(name="step", title="Step", unit="step", definition="Step in which the idle time began; null outside steps."),
    Column(
        name="cause",
        title="Cause",
        unit="text",
        definition="What the host did between the end of the last work and the launch of the next, on the thread that "
        "launched it. " + "; ".join(f"{cause}: {text}" for cause, text in CAUSES.items()) + ".",
    ),
    Column(
        name="detail",
        title="Detail",
        unit="text",
        definition=f"The same more finely: one of {', '.join(DETAILS)}.",
        is_minor=True,
    ),
    Column(
        name="host",
        title="Host",
        unit="text",
        definition="What the host did at that time, whether or not the next work had been launched already.",
        is_minor=True,
    ),
    Column(
        name="name",
        title="Name",
        unit="code",
        definition="The call, op, range or function that the host was in; the outermost of nested ops.",
    ),
    Column(name="file", title="File", unit="text", definition="File of the user's line or function, if known."),
    Column(name="line", title="Line", unit="count", definition="Line that ran, or at which the function is defined."),
    Column(name="start_ns", title="Start", unit="ns", definition="Start, relative to the first recorded event."),
    Column(
        name="idle_ns",
        title="Idle",
        unit="ns",
        definition="Time in which the device had no kernel, copy or fill to run. All rows of a device add up to the "
        "recorded steps minus its busy time.",
        has_bar=True,
    ),
)
_TYPES: dict[str, DType] = {
    "device": pl.Int32,
    "step": pl.Int32,
    "line": pl.Int32,
    "start_ns": pl.Int64,
    "idle_ns": pl.Int64,
}
SCHEMA: dict[str, DType] = {column.name: _TYPES.get(column.name, pl.String) for column in COLUMNS}


@once_per_trace
def idle_table(trace: Trace) -> Table:
    """Return the idle time of every device in order of time, one row per gap, cause, name and line in it."""
    pieces = idle_pieces(trace)
    if len(pieces.gap) == 0:
        return Table(frame=pl.DataFrame(schema=SCHEMA), columns=COLUMNS)
    labels = _idle_labels(trace)
    first, idle_ns = _summed(labels.same, pieces.end_ns - pieces.start_ns)
    return Table(frame=_idle_frame(trace, labels, first, idle_ns), columns=COLUMNS)


def idle_runs(trace: Trace) -> pl.DataFrame:
    """Return the same as ``idle_table``, but with a row for each time that the cause, name or line changed in a gap.

    Where only the detail changed, it is that of the first part.
    """
    pieces = idle_pieces(trace)
    if len(pieces.gap) == 0:
        return pl.DataFrame(schema=SCHEMA)
    labels = _idle_labels(trace)
    changes = np.zeros(len(pieces.gap), np.bool_)
    changes[0] = True
    for column in (pieces.gap, cause_numbers(trace), *labels.names):
        changes[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(changes)
    return _idle_frame(trace, labels, first, np.add.reduceat(pieces.end_ns - pieces.start_ns, first))


class _IdleLabels(NamedTuple):
    """What each of the ``idle_pieces`` is called, and the columns in which those that belong together are equal.

    ``names`` are the columns of them for the name, the file and the line.
    """

    row: IntArray
    places: Places
    step: pl.Series
    codes: IntArray
    names: tuple[IntArray, ...]
    same: tuple[IntArray, ...]


@once_per_trace
def _idle_labels(trace: Trace) -> _IdleLabels:
    pieces, nest = idle_pieces(trace), host_nest(trace)
    is_dispatch = (pieces.detail == DISPATCH) | (pieces.detail == LAUNCH_CALL)
    outer = np.append(called_ops(trace), NO_PARENT)[pieces.cause]
    cause = np.where(is_dispatch & (outer >= 0), outer, pieces.cause)
    row = np.append(nest.row, NO_PARENT)[cause]
    places, step, codes = places_of(trace, row, pieces.start_ns), _step_at(trace, pieces.start_ns), _cause_codes(trace)
    file = places.files.cast(pl.Categorical).to_physical().fill_null(NO_PARENT).to_numpy().astype(np.int64)
    name = trace.events["name"].to_physical().to_numpy().astype(np.int64)
    names = (np.append(name, NO_PARENT)[row], np.append(file, NO_PARENT)[places.file], places.line.astype(np.int64))
    same = (pieces.gap, step.fill_null(NO_PARENT).to_numpy().astype(np.int64), codes, pieces.host, *names)
    return _IdleLabels(row, places, step, codes, names, same)


def _idle_frame(trace: Trace, labels: _IdleLabels, first: IntArray, idle_ns: IntArray) -> pl.DataFrame:
    """Return the rows that begin with the pieces ``first``."""
    pieces, places = idle_pieces(trace), labels.places
    at = pl.Series(labels.row[first])
    file_of, line_of = Places(places.files, places.file[first], places.line[first]).columns()
    frame = pl.DataFrame(
        {
            "device": pieces.device[first],
            "step": labels.step.gather(first),
            "cause": _labels(_cause_names(), labels.codes[first]),
            "detail": _labels(list(DETAILS), pieces.detail[first]),
            "host": _labels(list(STATES), pieces.host[first]),
            "name": trace.events["name"].gather(at.set(at < 0, None)),
            "file": file_of,
            "line": line_of,
            "start_ns": pieces.start_ns[first],
            "idle_ns": idle_ns,
        }
    )
    return frame.select(SCHEMA.keys()).cast(SCHEMA)  # type: ignore[arg-type]


def _summed(same: tuple[IntArray, ...], values: IntArray) -> tuple[IntArray, IntArray]:
    """Add up the values of rows that are equal in all columns; return the first row of each, in order, and its sum."""
    key = np.zeros(len(values), np.int64)
    for column in same:
        width = int(column.max()) - int(column.min()) + 1
        if (int(key.max()) + 1) * width > MAX_SUM:
            key = np.unique(key, return_inverse=True)[1]
        key = key * width + (column - column.min())
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=NO_PARENT))
    first, sums = order[starts], np.add.reduceat(values[order], starts)
    in_order = np.argsort(first)
    return first[in_order], sums[in_order]


@once_per_trace
def cause_numbers(trace: Trace) -> IntArray:
    """Return the cause of each of the ``idle_pieces`` as its place in ``CAUSES``."""
    causes = list(CAUSES)
    return np.array([causes.index(name) for name in _cause_names()], np.int64)[_cause_codes(trace)]


def _cause_codes(trace: Trace) -> IntArray:
    """Return for each of the ``idle_pieces`` an index into ``_cause_names``."""
    pieces = idle_pieces(trace)
    row = np.append(host_nest(trace).row, NO_PARENT)[pieces.cause]
    blocked = np.where(pieces.detail == BLOCKED, np.append(_rules(trace), 0)[row], 0)
    return pieces.detail + blocked * len(DETAILS)


def _rules(trace: Trace) -> IntArray:
    """Return for each event 0, or 1 plus the number of the rule by which it blocks."""
    calls = blocking_calls(trace)
    rules = np.zeros(trace.events.height, np.int64)
    rules[calls["row"].to_numpy()] = calls["rule"].to_physical().to_numpy().astype(np.int64) + 1
    return rules


def _cause_names() -> list[str]:
    """Return the cause of every detail, without a rule and then with each rule."""
    blocked = [_BLOCKED_CAUSE.get(rule, "waiting") for rule in RULE.categories]
    return [
        cause if detail == "blocked" else _CAUSE_OF[detail] for cause in ("waiting", *blocked) for detail in DETAILS
    ]


def _labels(labels: list[str], numbers: IntArray) -> pl.Series:
    return pl.Series(labels, dtype=pl.Categorical()).gather(numbers)


def _step_at(trace: Trace, time_ns: IntArray) -> pl.Series:
    """Return the step that holds each moment, null outside of steps."""
    steps = trace.steps.sort("start_ns")
    at = np.searchsorted(steps["start_ns"].to_numpy(), time_ns, side="right") - 1
    is_inside = (at >= 0) & (time_ns < np.append(steps["end_ns"].to_numpy(), 0)[at])
    number = pl.Series(np.append(steps["number"].to_numpy(), 0)[at], dtype=pl.Int32)
    return number.set(pl.Series(~is_inside), None)
