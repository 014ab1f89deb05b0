"""The critical path of each step: what decided how long it took."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.step_graph.edges import KINDS
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.facts.step_graph.on_path import is_path_shown
from torchprof_magic.facts.step_graph.path import critical_path
from torchprof_magic.facts.step_graph.spans import spans_of_steps
from torchprof_magic.model.rows import frame_of, values_at
from torchprof_magic.model.shapes import Column, Table

if TYPE_CHECKING:
    from torchprof_magic.facts.step_graph.path import CriticalPath
    from torchprof_magic.facts.step_graph.spans import Spans
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import DType, Trace

# The category of time in which a thread of the path was in no event.
UNTRACKED = "untracked"
ON_PATH = "on_path_ns"
COLUMNS = (
    Column(
        name="step",
        title="Step",
        unit="step",
        definition="Number of the step; null for a recording without steps.",
    ),
    Column(name="order", title="Order", unit="count", definition="Place on the path of the step, from 0."),
    Column(
        name="event",
        title="Event",
        unit="count",
        definition="The innermost event, a row of `events`; null where an edge took the time, or nothing was recorded.",
    ),
    Column(name="name", title="Name", unit="code", definition="Name of the event; null without one."),
    Column(
        name="category",
        title="Category",
        unit="text",
        definition=f"Category of the event; {UNTRACKED} where the thread was in no event; or the kind of edge that "
        "took the time: " + "; ".join(f"{name}: {text}" for name, text in KINDS.items() if name != "thread") + ".",
    ),
    Column(name="lane", title="Lane", unit="count", definition="Thread or stream, a row of `lanes`; null for an edge."),
    Column(name="start_ns", title="Start", unit="ns", definition="When it began, from the first recorded event."),
    Column(name="dur_ns", title="Duration", unit="ns", definition="How long it was what the step waited for."),
    Column(
        name="slack_ns",
        title="Slack",
        unit="ns",
        definition="By how much it can become shorter, and the step with it, until another path decides.",
    ),
)
_TYPES: dict[str, DType] = {
    "step": pl.Int32,
    "event": pl.Int32,
    "lane": pl.Int32,
    "name": pl.String,
    "category": pl.String,
}
SCHEMA: dict[str, DType] = {column.name: _TYPES.get(column.name, pl.Int64) for column in COLUMNS}


@once_per_trace
def critical_path_table(trace: Trace) -> Table:
    """Return the paths of all steps; what follows one another on a path takes the whole step, without a pause."""
    return Table(frame=frame_of_path(trace, critical_path(trace), spans_of_steps(trace)), columns=COLUMNS)


def frame_of_path(trace: Trace, path: CriticalPath, spans: Spans) -> pl.DataFrame:
    """Return critical paths as a frame with these columns."""
    pieces = step_graph(trace).pieces
    ran = path.piece >= 0
    row = np.where(ran, np.append(pieces.row, -1)[path.piece], -1)
    lane = np.where(ran, np.append(pieces.lane, -1)[path.piece], -1)
    step = spans.step[path.span]
    columns: dict[str, object] = {
        "step": values_at(trace.steps["number"], step) if trace.steps.height else [None] * len(step),
        "order": _places(path),
        "event": _nullable(row),
        "name": values_at(trace.events["name"], row).cast(pl.String),
        "category": _categories(trace, path, row),
        "lane": _nullable(lane),
        "start_ns": path.start_ns,
        "dur_ns": path.dur_ns,
        "slack_ns": path.slack_ns,
    }
    return frame_of(SCHEMA, columns)


def _places(path: CriticalPath) -> IntArray:
    first = np.flatnonzero(np.diff(path.span, prepend=-1))
    count = np.diff(np.append(first, len(path.span)))
    return np.arange(len(path.span)) - np.repeat(first, count)


def _categories(trace: Trace, path: CriticalPath, row: IntArray) -> pl.Series:
    of_event = values_at(trace.events["category"], row).cast(pl.String)
    kinds = values_at(pl.Series([*KINDS]), path.kind)
    series = of_event.zip_with(pl.Series(row >= 0), kinds)
    return series.set(pl.Series((row < 0) & (path.piece >= 0)), UNTRACKED)


def _nullable(rows: IntArray) -> pl.Series:
    return pl.Series(rows).set(pl.Series(rows < 0), None)


def with_path_in_sight(trace: Trace, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns; the time on the path is a minor one where it is all of the own time, as without a device.

    It is none where it is not known.
    """
    shown = columns if is_path_shown(trace) else [each for each in columns if each.name != ON_PATH]
    return tuple(replace(each, is_minor=not trace.has_device) if each.name == ON_PATH else each for each in shown)


def known_on_path(trace: Trace, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with null as the time on the path where it is not known."""
    return frame if is_path_shown(trace) else frame.with_columns(pl.lit(None, pl.Int64).alias(ON_PATH))
