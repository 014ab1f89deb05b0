"""What the thread of the steps imported, and in which of the user's lines it was, as far as a live run noted it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, IntArray, merge

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


@once_per_trace
def imports_of(trace: Trace) -> IntArray:
    """Return the imports that are done once, rows of ``trace.host_lines``: each of a module that has only one.

    They are in the order of time, and none begins before the one before has ended.
    """
    if trace.host_lines.height == 0:
        return np.empty(0, np.int64)
    is_once = pl.col("module").is_not_null() & (pl.col("dur_ns") > 0) & (pl.len().over("module") == 1)
    return trace.host_lines.select(is_once.arg_true())["module"].to_numpy().astype(np.int64)


def import_spans(trace: Trace) -> tuple[IntArray, IntArray]:
    """Return the disjoint times in which modules are imported, but for those that are imported again."""
    rows = trace.host_lines[imports_of(trace).tolist()]
    start = rows["start_ns"].to_numpy()
    return merge(start, start + rows["dur_ns"].to_numpy())


def import_at(trace: Trace, at_ns: IntArray) -> IntArray:
    """Return the import of ``imports_of`` that runs at each moment, a row of ``trace.host_lines``, or -1."""
    rows = imports_of(trace)
    start, dur = (trace.host_lines[name].to_numpy()[rows] for name in ("start_ns", "dur_ns"))
    at = np.searchsorted(start, at_ns, side="right") - 1
    runs = (at >= 0) & (at_ns < np.append(start + dur, 0)[at])
    return np.where(runs, np.append(rows, NO_PARENT)[at], NO_PARENT)


class SeenLines(NamedTuple):
    """Lines of the user's that the thread of the steps was in at some moments, in the order of time."""

    at_ns: IntArray
    file: pl.Series
    line: IntArray
    call: pl.Series


_NO_NUMBERS, _NO_TEXT = np.empty(0, np.int64), pl.Series(dtype=pl.String)
_NONE_SEEN = SeenLines(at_ns=_NO_NUMBERS, file=_NO_TEXT, line=_NO_NUMBERS, call=_NO_TEXT)


@once_per_trace
def seen_lines(trace: Trace) -> SeenLines:
    """Return the lines in which the thread imported, ran or waited when a live run looked."""
    if trace.host_lines.height == trace.waits.height == 0:
        return _NONE_SEEN
    columns = ("start_ns", "file", "line", "call")
    called = pl.coalesce("import " + pl.col("module").cast(pl.String), pl.col("call").cast(pl.String)).alias("call")
    found = pl.concat(
        [
            trace.host_lines.with_columns(called, pl.col("file").cast(pl.String)).select(columns),
            trace.waits.with_columns(pl.col("file", "call").cast(pl.String)).select(columns),
        ]
    )
    found = found.drop_nulls(["file", "line"]).sort("start_ns", maintain_order=True)
    return SeenLines(found["start_ns"].to_numpy(), found["file"], found["line"].to_numpy(), found["call"])


def line_seen_in(trace: Trace, start_ns: IntArray, end_ns: IntArray) -> IntArray:
    """Return the first of the ``seen_lines`` in each interval, or -1."""
    at_ns = np.append(seen_lines(trace).at_ns, np.iinfo(np.int64).max)
    at = np.searchsorted(at_ns, start_ns, side="left")
    return np.where(at_ns[at] < end_ns, at, NO_PARENT)
