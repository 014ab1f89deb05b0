"""Events that begin inside another one of their thread and end after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.model.intervals import nest

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray

# A call that enters or leaves a range is in the file as well, and begins before the range does, or ends after it. These
# are the frames of torch, those of built-in functions, and those of contextlib.
_ENTERS_RANGES = r"(^|[/\\])torch[/\\]|^<built-in |(^|[/\\])contextlib\.py\("


def count_overlaps(events: pl.DataFrame, steps: pl.DataFrame) -> int:
    """Return how many events overlap another one, not counting what torch or the steps cause.

    A step may begin or end inside a range of torch, as where the hook of an optimizer ends it. In recordings with
    stacks, the calls with which torch enters and leaves a range overlap it.
    """
    if not events["overlaps"].any():
        return 0
    enters = (events["category"] == "python_function") & events["name"].cast(pl.String).str.contains(_ENTERS_RANGES)
    left = events.filter(~enters)
    torn = left.filter(pl.Series(_overlapping(left)))
    start = torn["start_ns"].to_numpy()
    end = start + torn["dur_ns"].to_numpy()
    edges = np.unique(np.concatenate([steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()]))
    holds_edge = np.searchsorted(edges, start, side="left") < np.searchsorted(edges, end, side="left")
    return int((~holds_edge).sum())


def _overlapping(events: pl.DataFrame) -> BoolArray:
    lane, start, dur = (events[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns", "dur_ns"))
    return nest(lane, start, dur)[2]
