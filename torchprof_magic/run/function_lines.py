"""Puts lines of functions, which were timed in a step of their own, into the steps whose times the report has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.ingest import moved_scopes
from torchprof_magic.model.intervals import nesting_order
from torchprof_magic.model.problems import problem
from torchprof_magic.model.trace import SCOPES_SCHEMA
from torchprof_magic.run.scopes import function_scopes

if TYPE_CHECKING:
    from torchprof_magic.model.meta import CellSource
    from torchprof_magic.model.recording import Recording
    from torchprof_magic.model.trace import Trace


def own_function_scopes(trace: Trace, recording: Recording, cell: CellSource | None) -> pl.DataFrame:
    """Return the scopes of the lines of functions in the steps that were recorded for them alone."""
    passes = recording.two_pass
    if passes is None or passes.lines_cycle is None:
        return pl.DataFrame(schema=SCOPES_SCHEMA)
    return function_scopes(trace, recording, cell, passes.lines_cycle)


def with_function_lines(trace: Trace, functions: pl.DataFrame) -> Trace:
    """Return the trace with the lines of functions in the steps of the times.

    Timing them makes a step longer, most where Python does much between two ops. So each line gets its part of the time
    that the step of the times took there.
    """
    passes = trace.meta.two_pass
    if passes is None or passes.lines_cycle is None:
        return trace
    moved = moved_scopes(trace, functions, passes.lines_cycle, passes.times_cycle)
    if not moved.steps:
        ended = trace.steps.filter(pl.col("complete"), pl.col("cycle") == passes.lines_cycle)
        if not (ended.height and functions.height):  # the run says why it timed none
            return trace
        differs = problem("capture.no_lines", reason="the step that times them did other work than those of the times")
        return replace(trace, problems=(*trace.problems, differs))
    every = pl.concat([trace.scopes, moved.scopes])
    order = nesting_order(*(every[name].to_numpy() for name in ("lane", "start_ns", "dur_ns")))
    known = replace(trace.meta, two_pass=replace(passes, line_steps=moved.steps))
    return replace(trace, scopes=every[order], meta=known)
