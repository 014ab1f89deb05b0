"""Turns what a live run noted about imports and running lines into the frame ``host_lines`` of its trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.model.trace import FRAME_SCHEMAS, MAX_NAME_CHARS
from torchprof_magic.run.scopes import clock_shift_ns, lane_of_steps, within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.model.recording import ProgramMarks, Recording, WaitSite
    from torchprof_magic.model.trace import Trace

_SCHEMA = FRAME_SCHEMAS["host_lines"]
_NOTED = {
    "module": pl.String,
    "call": pl.String,
    "file": pl.String,
    "line": pl.Int32,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
}


def with_host_lines(trace: Trace, recording: Recording) -> Trace:
    """Return the trace with its frame ``host_lines``, on its clock, as far as they lie within the recorded steps."""
    lane = lane_of_steps(trace)
    if lane is None:
        return trace
    parts = [_of_cycle(trace, marks, recording.wait_sites, lane) for marks in recording.program]
    found = pl.concat([pl.DataFrame(schema=_SCHEMA), *(part for part in parts if part is not None)])
    return replace(trace, host_lines=found.sort("start_ns", maintain_order=True))


def _of_cycle(trace: Trace, marks: ProgramMarks, sites: tuple[WaitSite, ...], lane: int) -> pl.DataFrame | None:
    """Return the rows of one cycle; None if its clock cannot be compared with the trace's."""
    shift_ns = clock_shift_ns(trace, marks)
    steps = trace.steps.filter(pl.col("cycle") == marks.cycle)
    if shift_ns is None or steps.height == 0:
        return None
    pairs = [(at_ns, sites[number - 1]) for at_ns, number in np.array(marks.looks, np.int64).reshape(-1, 2).tolist()]
    looks = _frame(
        [(None, site.call or None, site.file, site.line, at_ns + shift_ns, 0) for at_ns, site in pairs],
        marks.cycle,
        lane,
    )
    imports = [
        (each.module, None, each.file, each.line, each.start_ns + shift_ns, each.end_ns - each.start_ns)
        for each in marks.imports
    ]
    is_within = pl.col("start_ns").is_between(max(0, *steps["start_ns"].head(1)), max(steps["end_ns"].to_list()))
    return pl.concat([within(_frame(imports, marks.cycle, lane), steps), looks.filter(is_within)])


def _frame(rows: Sequence[tuple[object, ...]], cycle: int, lane: int) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=_NOTED, orient="row")
    known = frame.with_columns(
        pl.col("module", "call", "file").str.head(MAX_NAME_CHARS),
        pl.when(pl.col("file") != "").then(pl.col("line")).alias("line"),
        pl.lit(lane).alias("lane"),
        pl.lit(cycle).alias("cycle"),
    )
    return known.with_columns(pl.col("file").replace("", None)).select(list(_SCHEMA)).cast(pl.Schema(_SCHEMA))
