"""Events that begin inside another one of their thread and end after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl


def count_overlaps(events: pl.DataFrame, steps: pl.DataFrame) -> int:
    """Return how many events overlap another one, not counting steps nor events in which a step begins or ends.

    A step may end inside a range of torch, as where the hook of an optimizer ends it.
    """
    torn = events.filter("overlaps")
    if torn.height == 0:
        return 0
    start = torn["start_ns"].to_numpy()
    end = start + torn["dur_ns"].to_numpy()
    edges = np.unique(np.concatenate([steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()]))
    holds_edge = np.searchsorted(edges, start, side="left") < np.searchsorted(edges, end, side="left")
    return int((~holds_edge).sum())
