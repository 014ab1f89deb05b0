"""Turns what a live run noted about waits and collections of garbage into the frame ``waits`` of its trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.model.trace import FRAME_SCHEMAS, MAX_NAME_CHARS, WAIT_KIND
from torchprof_magic.run.scopes import clock_shift_ns, lane_of_steps, within
from torchprof_magic.run.waits_by_line import divided_by_line, watched_lines

if TYPE_CHECKING:
    from torchprof_magic.model.recording import ProgramMarks, Recording, WaitSite
    from torchprof_magic.model.trace import Trace
    from torchprof_magic.run.waits_by_line import Watched

_SCHEMA = FRAME_SCHEMAS["waits"]
_COLLECTS = r"\bgc\.collect\("


def with_waits(trace: Trace, recording: Recording) -> Trace:
    """Return the trace with its frame ``waits``, on its clock, as far as they lie within the recorded steps."""
    lane = lane_of_steps(trace)
    if lane is None:
        return trace
    sites = _described(recording.wait_sites)
    frames = [_of_cycle(trace, marks, sites, lane) for marks in recording.program]
    waits = pl.concat([pl.DataFrame(schema=_SCHEMA), *(frame for frame in frames if frame is not None)])
    watched = watched_lines(trace)
    divided = divided_by_line(trace, watched, waits.sort("start_ns", maintain_order=True))
    return replace(trace, waits=_with_watched_lines(trace, watched, divided))


def _described(sites: tuple[WaitSite, ...]) -> pl.DataFrame:
    rows = [(site.kind, site.call or None, site.file or None, site.line or None) for site in sites]
    texts = {"call": pl.String, "file": pl.String}
    frame = pl.DataFrame(rows, schema={"kind": WAIT_KIND, **texts, "line": pl.Int32}, orient="row")
    return frame.with_columns(pl.col(*texts).str.head(MAX_NAME_CHARS))


def _of_cycle(trace: Trace, marks: ProgramMarks, sites: pl.DataFrame, lane: int) -> pl.DataFrame | None:
    """Return the rows of one cycle; None if its clock cannot be compared with the trace's."""
    shift_ns = clock_shift_ns(trace, marks)
    steps = trace.steps.filter(pl.col("cycle") == marks.cycle)
    if shift_ns is None or steps.height == 0:
        return None
    table = np.array(marks.waits, np.int64).reshape(-1, 3)
    frame = sites[(table[:, 2] - 1).tolist()].with_columns(
        pl.lit(lane).alias("lane"),
        pl.Series("start_ns", table[:, 0] + shift_ns),
        pl.Series("dur_ns", table[:, 1] - table[:, 0]),
        pl.lit(marks.cycle).alias("cycle"),
    )
    return within(frame.cast(_SCHEMA), steps)


def _with_watched_lines(trace: Trace, watched: Watched, waits: pl.DataFrame) -> pl.DataFrame:
    """Return the waits with the watched line that ran at the start of each whose line is not known."""
    site = pl.Series(watched.at(*(waits[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns"))))
    at = site.set(site < 0, None)
    lines = [trace.sites[name].gather(at).alias(f"watched_{name}") for name in ("name", "file", "line")]
    known = waits.hstack(lines)
    collects = (pl.col("kind") == "collection") & pl.col("watched_name").cast(pl.String).str.contains(_COLLECTS)
    is_unknown = pl.col("file").is_null()
    call = pl.when(is_unknown & collects).then(pl.lit("gc.collect")).otherwise(pl.col("call").cast(pl.String))
    place = (
        pl.when(is_unknown).then(pl.col(f"watched_{name}")).otherwise(pl.col(name)).alias(name)
        for name in ("file", "line")
    )
    return known.with_columns(call.alias("call"), *place).select(pl.col(name).cast(_SCHEMA[name]) for name in _SCHEMA)
