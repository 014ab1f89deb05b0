"""Writes a speedscope file with one evented profile per thread or stream. Every opened frame is closed.

Format: https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.exporters.exact_text import json_text
from torchprof_magic.exporters.tracks import lay_tracks
from torchprof_magic.model.intervals import rolled_up
from torchprof_magic.system.files.atomic import write_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchprof_magic.exporters.tracks import Tracks
    from torchprof_magic.model.trace import Trace

SCHEMA_URL = "https://www.speedscope.app/file-format-schema.json"
CHUNK_ROWS = 200_000


def write_speedscope(trace: Trace, path: Path) -> Path:
    """Write every thread and stream as a profile in ns, gzipped if the name ends in ``.gz``, and return the path.

    Events that end after the event in which they began are in a separate profile beside that of their thread.
    """
    return write_text(path, speedscope_lines(trace))


def speedscope_lines(trace: Trace) -> Iterator[str]:
    """Yield the file in large chunks."""
    tracks = lay_tracks(trace)
    frames = trace.events.select("name").unique(maintain_order=True).with_row_index("frame")
    head = {"$schema": SCHEMA_URL, "name": trace.meta.title or "torchprof", "exporter": "torchprof-magic"}
    yield f'{json.dumps(head)[:-1]}, "activeProfileIndex": 0, "shared": {{"frames": [\n'
    yield ",\n".join(_frame_lines(frames, trace.stacks))
    yield '\n]}, "profiles": [\n'
    moves = _moves(trace, tracks, frames)
    end_ns = trace.events.select((pl.col("start_ns") + pl.col("dur_ns")).max()).item() or 0
    names = tracks.frame.select(pl.int_range(pl.len()).alias("track"), "name", "process")
    separator = ""
    for (track,), rows in moves.group_by("track", maintain_order=True):
        _, name, process = names.row(int(str(track)))
        values = {"type": "evented", "name": f"{name} ({process})", "unit": "nanoseconds"}
        start_ns = min(0, rows["at"][0])
        yield f'{separator}{json.dumps(values)[:-1]}, "startValue": {start_ns}, "endValue": {end_ns}, "events": [\n'
        for offset in range(0, rows.height, CHUNK_ROWS):
            yield ("" if offset == 0 else ",\n") + ",\n".join(rows["line"].slice(offset, CHUNK_ROWS))
        yield "\n]}"
        separator = ",\n"
    yield "\n]}\n"


def _frame_lines(frames: pl.DataFrame, stacks: pl.DataFrame) -> list[str]:
    """Return each name once, with file and line for Python functions."""
    places = stacks.select("name", "file", "line").unique("name").cast({"file": pl.String})
    rows = frames.join(places, on="name", how="left", maintain_order="left").select("name", "file", "line").rows()
    lines = []
    for name, file, line in rows:  # one iteration per distinct name
        place = f', "file": {json_text(file)}' if file is not None else ""
        place += f', "line": {line}' if line is not None else ""
        lines.append(f'{{"name": {json_text(name)}{place}}}')
    return lines


def _moves(trace: Trace, tracks: Tracks, frames: pl.DataFrame) -> pl.DataFrame:
    """Return open and close events in the order of a walk through the tree of each track.

    In preorder, row i at depth d opens behind i openings and i - d closings; its closing follows all that is inside.
    """
    order = np.argsort(tracks.track, kind="stable")
    new_row = np.empty(len(order) + 1, np.int64)
    new_row[order], new_row[-1] = np.arange(len(order)), -1
    parent, depth = new_row[tracks.parent[order]], tracks.depth[order]
    inside = rolled_up(np.ones(len(order), np.int64), parent)
    opens = 2 * np.arange(len(order)) - depth
    events = trace.events[order].join(frames, on="name", maintain_order="left", nulls_equal=True)
    base = events.select(
        pl.Series("track", tracks.track[order], dtype=pl.Int64),
        pl.col("frame"),
        pl.col("start_ns"),
        (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"),
    )
    opening = _lines(base, "start_ns", "O", opens)
    closing = _lines(base, "end_ns", "C", opens + 2 * inside - 1)
    return pl.concat([opening, closing]).sort("position")


def _lines(base: pl.DataFrame, time: str, kind: str, position: np.ndarray) -> pl.DataFrame:
    line = pl.concat_str(
        pl.lit(f'{{"type": "{kind}", "frame": '),
        pl.col("frame").cast(pl.String),
        pl.lit(', "at": '),
        pl.col(time).cast(pl.String),
        pl.lit("}"),
    )
    return base.select("track", pl.col(time).alias("at"), line.alias("line"), pl.Series("position", position))
