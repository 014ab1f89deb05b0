"""Lays events out on the tracks of an exported file, so that no two on one track partly overlap."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.model.intervals import NO_PARENT, IntArray, levels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.trace import Trace

# Viewers store thread and process ids in 32 bits. Labels that are not a number below this get one above it.
UNUSED_NUMBER = 2**30
MAX_DIGITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracks:
    """The tracks of all events. ``track`` holds for each event a row of ``frame``; tracks of one lane are adjacent.

    ``parent`` and ``depth`` are within the track: -1 and 0 for events moved to a spill track. ``frame`` has
    ``lane``, ``kind``, ``name``, ``process``, ``pid`` and ``tid``; the pair of the last two is unique.
    """

    track: IntArray
    parent: IntArray
    depth: IntArray
    frame: pl.DataFrame


def lay_tracks(trace: Trace) -> Tracks:
    """Return one track per lane, and spill tracks for events that end after the event in which they began."""
    events = trace.events
    parent = events["parent"].to_numpy().astype(np.int64)
    depth = events["depth"].to_numpy().astype(np.int64)
    moved = np.flatnonzero(events["overlaps"].to_numpy())
    root = _spill_roots(parent, depth, moved)
    is_moved = root >= 0
    spill = np.zeros(events.height, np.int64)
    spill[moved] = _spill_numbers(events, moved)
    spill[is_moved] = spill[root[is_moved]]
    parent[moved] = NO_PARENT
    depth[is_moved] -= depth[root[is_moved]]
    lane = events["lane"].to_numpy().astype(np.int64)
    frame = _with_numbers(_named(trace.lanes, lane, spill))
    keys = frame.select("lane", "spill", pl.int_range(pl.len()).alias("track"))
    placed = pl.DataFrame({"lane": lane, "spill": spill}).join(keys, on=["lane", "spill"], maintain_order="left")
    return Tracks(track=placed["track"].to_numpy().astype(np.int64), parent=parent, depth=depth, frame=frame)


def _spill_roots(parent: IntArray, depth: IntArray, moved: IntArray) -> IntArray:
    """Return for each event the row of the closest moved event at or around it, or -1."""
    root = np.full(len(parent), NO_PARENT, np.int64)
    root[moved] = moved
    if len(moved) == 0:
        return root
    for rows in levels(depth)[1:]:
        still = rows[root[rows] < 0]
        root[still] = root[parent[still]]
    return root


def _spill_numbers(events: pl.DataFrame, moved: IntArray) -> list[int]:
    """Return for each moved event the first spill track of its lane, from 1, that is free when it begins."""
    chosen = events[moved].select("lane", "start_ns", (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"))
    numbers: list[int] = []
    busy: dict[int, list[tuple[int, int]]] = {}
    for lane, start_ns, end_ns in chosen.iter_rows():  # overlapping events only, sorted by time within a lane
        open_until = busy.setdefault(lane, [])
        is_free = bool(open_until) and open_until[0][0] <= start_ns
        number = heapq.heappop(open_until)[1] if is_free else len(open_until) + 1
        heapq.heappush(open_until, (end_ns, number))
        numbers.append(number)
    return numbers


def _named(lanes: pl.DataFrame, lane: IntArray, spill: IntArray) -> pl.DataFrame:
    """Return the tracks with their names; the spill tracks of a lane follow it."""
    used = pl.DataFrame({"lane": lane, "spill": spill}).unique()
    every = pl.DataFrame({"lane": np.arange(lanes.height), "spill": np.zeros(lanes.height, np.int64)})
    tracks = pl.concat([used, every]).unique().sort("lane", "spill")
    tracks = tracks.join(lanes.with_row_index("lane").cast({"lane": pl.Int64}), on="lane", maintain_order="left")
    is_annotations = (pl.col("kind") == "stream annotations") & ~pl.col("name").str.ends_with("annotations")
    name = pl.col("name").fill_null("").str.strip_chars_end() + pl.when(is_annotations).then(
        pl.lit(" annotations")
    ).otherwise(pl.lit(""))
    suffix = pl.when(pl.col("spill") == 0).then(pl.lit("")).when(pl.col("spill") == 1).then(pl.lit(" (overlapping)"))
    return tracks.with_columns(name + suffix.otherwise(pl.format(" (overlapping {})", "spill")))


def _with_numbers(tracks: pl.DataFrame) -> pl.DataFrame:
    """Return the tracks with numeric ``pid`` and ``tid``, as in the original file if possible.

    A stream has its device as process, as Kineto writes it.
    """
    rows = tracks.select("kind", "pid", "tid", "device", "stream", "spill", "name").rows()
    fresh = itertools.count(UNUSED_NUMBER + 1)
    pid_of: dict[str, int] = {}
    taken: set[tuple[int, int]] = set()
    pids, tids, processes = [], [], []
    devices = {
        _number(str(device or 0)): name.partition(" stream ")[0] or f"device {device or 0}"
        for kind, _, _, device, _, _, name in reversed(rows)
        if kind == "stream"
    }
    for kind, pid_label, tid_label, device, stream, spill, _ in rows:
        is_stream = kind == "stream"
        label = str(device or 0) if is_stream else pid_label or ""
        if label not in pid_of:
            pid_of[label] = _chosen(_number(label), fresh)
        pid = pid_of[label]
        wanted = None if spill else _number(str(stream or 0) if is_stream else tid_label or "")
        tid = next(fresh) if wanted is None or (pid, wanted) in taken else wanted
        taken.add((pid, tid))
        pids.append(pid)
        tids.append(tid)
        processes.append(devices.get(pid, f"process {label}".strip()))
    return tracks.with_columns(
        pl.Series("pid", pids, dtype=pl.Int64),
        pl.Series("tid", tids, dtype=pl.Int64),
        pl.Series("process", processes, dtype=pl.String),
    )


def _number(label: str) -> int | None:
    """Return the number that a label is, if viewers accept it."""
    is_plain = label.isascii() and label.isdigit() and len(label) <= MAX_DIGITS and label == str(int(label))
    return int(label) if is_plain and int(label) < UNUSED_NUMBER else None


def _chosen(number: int | None, fresh: Iterator[int]) -> int:
    return next(fresh) if number is None else number
