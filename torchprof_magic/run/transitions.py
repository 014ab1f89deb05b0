"""When the user's code of each step of a live run began and ended, which torch's ranges do not tell exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.run.scopes import clock_shift_ns, has_moved_steps

if TYPE_CHECKING:
    from torchprof_magic.model.recording import ProgramMarks, Recording
    from torchprof_magic.model.trace import Trace

_CUT = {"cycle": pl.Int32, "number": pl.Int32, "began_ns": pl.Int64, "ended_ns": pl.Int64}


def with_whole_steps(trace: Trace, recording: Recording) -> Trace:
    """Return the trace in which steps that torch has moved begin with the user's code of them.

    The reader can only put the first one of a cycle back to its first op, before which it may have loaded its data.
    """
    if not has_moved_steps(trace):
        return trace
    start, end = pl.col("start_ns"), pl.col("end_ns")
    before = end.shift(1).over("cycle", order_by="start_ns").fill_null(0)
    began = pl.col("began_ns").fill_null(start).clip(lower_bound=before)
    steps = _with_user_times(trace, recording).with_columns(pl.min_horizontal(began, start).alias("start_ns"))
    return replace(trace, steps=steps.select(trace.steps.columns))


def without_transitions(trace: Trace, recording: Recording) -> Trace:
    """Return a trace whose steps reach from where the user's code of each begins to where it ends.

    torch's ranges of the steps also hold what ends a step and begins the next, which is tens of microseconds of our own
    work. They stay as they are in ``trace.events``, and so do the steps of a trace with work of a device, which works
    meanwhile: there the marks of the steps say how long that took.
    """
    steps = _with_user_times(trace, recording)
    start, end = pl.col("start_ns"), pl.col("end_ns")
    began = pl.col("began_ns").fill_null(start).clip(start, end)
    ended = pl.col("ended_ns").fill_null(end).clip(began, end)
    if not trace.has_device:
        cut = steps.with_columns(began.alias("start_ns"), ended.alias("end_ns")).select(trace.steps.columns)
        return replace(trace, steps=cut, scopes=_within_steps(trace, cut))
    around = steps.select("cycle", "number", (began - start).alias("lead"), (end - ended).alias("tail")).rows()
    own = {(cycle, number): (lead, tail) for cycle, number, lead, tail in around}
    marks = []
    for mark in trace.meta.recorded_steps:
        lead_ns, tail_ns = own.get((mark.cycle, mark.number), (0, 0))
        marks.append(replace(mark, lead_ns=lead_ns, tail_ns=tail_ns))
    return replace(trace, meta=replace(trace.meta, recorded_steps=tuple(marks)))


def _within_steps(trace: Trace, steps: pl.DataFrame) -> pl.DataFrame:
    """Return the scopes without what lies beside the steps, where a run of a line begins or ends there.

    The line that fetches the next item does, when one step ends and the next begins. A line that runs through several
    steps stays as it is.
    """
    began, ended = np.sort(steps["start_ns"].to_numpy()), np.sort(steps["end_ns"].to_numpy())
    if len(began) == 0:
        return trace.scopes
    start = trace.scopes["start_ns"].to_numpy()
    end = start + trace.scopes["dur_ns"].to_numpy()
    is_line = (trace.sites["kind"] == "line").to_numpy()[trace.scopes["site"].to_numpy()]
    # The gaps between steps, the last of which has no end: a moment is in the one behind the last step that has ended.
    gap_end = np.append(began[1:], np.iinfo(np.int64).max)
    of_start, of_end = (np.searchsorted(ended, at, side="right") - 1 for at in (start, end))
    begins_beside = is_line & (of_start >= 0) & (start < gap_end[of_start])
    ends_beside = is_line & (of_end >= 0) & (end < gap_end[of_end])
    last = np.where(ends_beside, ended[of_end], end)
    first = np.where(begins_beside, np.minimum(gap_end[of_start], end), start)
    first = np.minimum(first, np.maximum(last, start))
    return trace.scopes.with_columns(pl.Series("start_ns", first), pl.Series("dur_ns", np.maximum(last - first, 0)))


def _with_user_times(trace: Trace, recording: Recording) -> pl.DataFrame:
    """Return the steps with when the user's code of each began and ended, null where that is not known."""
    rows = [row for marks in recording.program for row in _user_times(trace, marks)]
    known = pl.DataFrame(rows, schema=_CUT, orient="row")
    return trace.steps.join(known, on=["cycle", "number"], how="left", maintain_order="left")


def _user_times(trace: Trace, marks: ProgramMarks) -> list[tuple[int, int, int, int]]:
    """Return cycle and number of each step of a cycle, and when the user's code of it began and ended in the trace."""
    shift_ns = clock_shift_ns(trace, marks)
    if shift_ns is None:
        return []
    return [(marks.cycle, step, began + shift_ns, ended + shift_ns) for step, began, ended in marks.steps]
