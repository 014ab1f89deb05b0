"""Memory of the host that torch's recording itself held, although the program had let it go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


def cycles_with_own(trace: Trace) -> pl.Series:
    """Return the numbers of the cycles in which torch's recording held memory: none unless a live run has seen it."""
    return trace.storages.filter(~pl.col("is_older") & ~pl.col("is_in_use"))["cycle"].unique()
