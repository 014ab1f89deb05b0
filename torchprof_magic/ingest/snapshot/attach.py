"""Adds the memory snapshot of a live run to its trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.ingest.snapshot.reader import read_snapshot

if TYPE_CHECKING:
    import os

    from torchprof_magic.model.trace import Trace

_TIMES = {"history": ("time_ns",), "annotations": ("start_ns", "end_ns")}


def with_snapshot(trace: Trace, path: str | os.PathLike[str]) -> Trace:
    """Return the trace with the segments, blocks, history, annotations and problems of a snapshot file, on its clock.

    The curve and the steps stay those of the trace. Raises ``IngestError`` if the file cannot be read.
    """
    found = read_snapshot(path)
    # Without times in the snapshot its clock begins at 0.
    shift_ns = found.meta.start_unix_ns - trace.meta.start_unix_ns if found.meta.start_unix_ns else 0
    below = trace.stacks.height
    frames = {name: getattr(found, name) for name in ("segments", "blocks", "history", "annotations")}
    for name, columns in _TIMES.items():
        frames[name] = frames[name].with_columns(pl.col(*columns) + shift_ns)
    for name in ("segments", "blocks", "history"):
        frames[name] = frames[name].with_columns(pl.col("stack") + below)
    callers = pl.col("parent")
    stacks = found.stacks.with_columns(pl.when(callers >= 0).then(callers + below).otherwise(callers).alias("parent"))
    return replace(
        trace,
        **frames,
        stacks=pl.concat([trace.stacks, stacks]),
        problems=(*trace.problems, *found.problems),
    )
