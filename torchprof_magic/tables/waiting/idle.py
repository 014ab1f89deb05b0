"""Why a device idles: every gap in its work, split by what the host did before the next work was launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from torchprof_magic.facts.device.idle_pieces import (
    CAUSES,
    DETAILS,
    LAUNCH_CALL,
    cause_codes,
    cause_names,
    cause_numbers,
    idle_pieces,
)
from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.host_states import (
    DISPATCH,
    STATES,
    called_ops,
)
from torchprof_magic.facts.shared import name_numbers, once_for_the_whole, once_per_trace
from torchprof_magic.facts.source.places import Places, places_of
from torchprof_magic.model.intervals import NO_PARENT, IntArray, interval_at
from torchprof_magic.model.rows import filled, frame_of, in_time, row_keys, values_at
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.trace import TEXT

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import DType, Trace


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
        "time from the first recorded step to the end of the last, in each cycle, minus its busy time; what lies "
        "between two steps has no step.",
        has_bar=True,
    ),
    Column(
        name="gap",
        title="Gap",
        unit="count",
        definition="Number of the gap: a time without work, which is one however many rows it has.",
        is_minor=True,
    ),
)
CAUSE_BEGINS, GAP_BEGINS = 1, 2
_TYPES: dict[str, DType] = {
    "device": pl.Int32,
    "step": pl.Int32,
    "line": pl.Int32,
    "start_ns": pl.Int64,
    "idle_ns": pl.Int64,
    "gap": pl.Int32,
}
_SUMS_SCHEMA: dict[str, DType] = {
    "cause": pl.String,
    "name": pl.String,
    "file": pl.String,
    "line": pl.Int32,
    "ns": pl.Int64,
}
SCHEMA: dict[str, DType] = {column.name: _TYPES.get(column.name, pl.String) for column in COLUMNS}
_RUNS_SCHEMA: dict[str, DType] = {column.name: _TYPES.get(column.name, TEXT) for column in COLUMNS}


@once_for_the_whole
def idle_table(trace: Trace, part: TimeRange) -> Table:
    """Return the idle time of every device in order of time, one row per gap, cause, name and line in it.

    Times are cut at the edges of the part. Causes are those of the whole gap.
    """
    pieces = idle_pieces(trace)
    start_ns = np.maximum(pieces.start_ns, part.start_ns)
    _, idle_ns = part.cut(pieces.start_ns, pieces.end_ns - pieces.start_ns)
    inside = np.flatnonzero(idle_ns)
    if len(inside) == 0:
        return Table(frame=pl.DataFrame(schema=SCHEMA), columns=COLUMNS)
    labels = _idle_labels(trace)
    first, sums = _summed(tuple(column[inside] for column in labels.same), idle_ns[inside])
    row = inside[first]
    return Table(frame=frame_of(SCHEMA, _idle_columns(trace, labels, row, start_ns[row], sums)), columns=COLUMNS)


def idle_runs(trace: Trace) -> pl.DataFrame:
    """Return the same as ``idle_table``, but with a row for each time that the cause, name or line changed in a gap.

    Texts are categories, as these rows are many.
    Where only the detail changed, it is that of the first part. ``begins`` is ``GAP_BEGINS`` where a gap begins, and
    ``CAUSE_BEGINS`` where another cause begins in it, so that a gap can be counted once, and once for each cause.
    """
    pieces = idle_pieces(trace)
    if len(pieces.gap) == 0:
        return pl.DataFrame(schema={**_RUNS_SCHEMA, "begins": pl.UInt32})
    labels = _idle_labels(trace)
    changes = np.zeros(len(pieces.gap), np.bool_)
    changes[0] = True
    for column in (pieces.gap, cause_numbers(trace), *labels.names):
        changes[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(changes)
    idle_ns = np.add.reduceat(pieces.end_ns - pieces.start_ns, first)
    frame = frame_of(_RUNS_SCHEMA, _idle_columns(trace, labels, first, pieces.start_ns[first], idle_ns))
    return frame.with_columns(pl.Series("begins", _begins(pieces.gap[first], cause_numbers(trace)[first])))


def idle_sums(trace: Trace, device: int, part: TimeRange) -> pl.DataFrame:
    """Return the idle time of a device in a part, by ``cause``, ``name``, ``file`` and ``line``, as ``ns``."""
    pieces = idle_pieces(trace)
    _, idle_ns = part.cut(pieces.start_ns, pieces.end_ns - pieces.start_ns)
    here = np.flatnonzero((pieces.device == device) & (idle_ns > 0))
    if len(here) == 0:
        return pl.DataFrame(schema=_SUMS_SCHEMA)
    labels = _idle_labels(trace)
    causes, (name, file, line) = cause_numbers(trace), labels.names
    same = tuple(column[here] for column in (causes, name, file, np.maximum(line, 0)))
    first, sums = _summed(same, idle_ns[here])
    row = here[first]
    file_of, line_of = Places(labels.places.files, labels.places.file[row], labels.places.line[row]).columns()
    columns: dict[str, object] = {
        "cause": _labels(list(CAUSES), causes[row]),
        "name": values_at(trace.events["name"], labels.row[row]).cast(pl.String),
        "file": file_of,
        "line": line_of,
        "ns": sums,
    }
    return frame_of(_SUMS_SCHEMA, columns)


def _begins(gap: IntArray, cause: IntArray) -> npt.NDArray[np.uint32]:
    """Return what begins with each row of sorted gaps: the gap, a cause in it, or neither."""
    begins = np.zeros(len(gap), np.uint32)
    key = gap * (int(cause.max(initial=0)) + 1) + cause
    begins[np.unique(key, return_index=True)[1]] = CAUSE_BEGINS
    begins[np.unique(gap, return_index=True)[1]] = GAP_BEGINS
    return begins


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
    places, step, codes = places_of(trace, row, pieces.start_ns), _step_at(trace, pieces.start_ns), cause_codes(trace)
    file = (
        filled(places.files.cast(pl.Categorical).to_physical(), NO_PARENT)
        if len(places.files)
        else np.empty(0, np.int64)
    )
    name = name_numbers(trace).astype(np.int64)
    names = (np.append(name, NO_PARENT)[row], np.append(file, NO_PARENT)[places.file], places.line.astype(np.int64))
    same = (pieces.gap, filled(step, NO_PARENT), codes, pieces.host, *names)
    return _IdleLabels(row, places, step, codes, names, same)


def _idle_columns(
    trace: Trace, labels: _IdleLabels, first: IntArray, start_ns: IntArray, idle_ns: IntArray
) -> dict[str, object]:
    """Return the columns of the rows that begin with the pieces ``first``."""
    pieces, places = idle_pieces(trace), labels.places
    file_of, line_of = Places(places.files.cast(TEXT), places.file[first], places.line[first]).columns()
    return {
        "device": pieces.device[first],
        "step": values_at(labels.step, first),
        "cause": _labels(cause_names(), labels.codes[first]),
        "detail": _labels(list(DETAILS), pieces.detail[first]),
        "host": _labels(list(STATES), pieces.host[first]),
        "name": values_at(trace.events["name"], labels.row[first]),
        "file": file_of,
        "line": line_of,
        "start_ns": start_ns,
        "idle_ns": idle_ns,
        "gap": pieces.gap[first],
    }


def _summed(same: tuple[IntArray, ...], values: IntArray) -> tuple[IntArray, IntArray]:
    """Add up the values of rows that are equal in all columns; return the first row of each, in order, and its sum."""
    key = row_keys(*same)
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=NO_PARENT))
    first, sums = order[starts], np.add.reduceat(values[order], starts)
    in_order = np.argsort(first)
    return first[in_order], sums[in_order]


def _labels(labels: list[str], numbers: IntArray) -> pl.Series:
    return values_at(pl.Series(labels, dtype=TEXT), numbers)


def _step_at(trace: Trace, time_ns: IntArray) -> pl.Series:
    """Return the step that holds each moment, null outside of steps."""
    steps = in_time(trace.steps)
    at = interval_at(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy(), time_ns)
    return values_at(steps["number"], at).cast(pl.Int32)
