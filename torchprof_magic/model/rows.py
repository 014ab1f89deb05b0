"""Columns of a trace as arrays, asked without planning a query for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from torchprof_magic.model.intervals import BoolArray, IntArray


def values_at(values: pl.Series, rows: npt.NDArray[np.integer]) -> pl.Series:
    """Return the values in some rows, null where the row is negative."""
    is_none = rows < 0
    if not is_none.any():
        return values[pl.Series(rows.astype(np.uint32))]
    return values[pl.Series(np.where(is_none, 0, rows).astype(np.uint32)).set(pl.Series(is_none), None)]


def are_in(values: pl.Series, wanted: Iterable[str]) -> BoolArray:
    """Return which values of a column without nulls, such as categories, are among a few texts."""
    found = np.zeros(len(values), np.bool_)
    for text in wanted:
        found |= (values == text).to_numpy()
    return found


def filled(values: pl.Series, missing: int) -> IntArray:
    """Return a column of integers as an array, with ``missing`` where it is null."""
    nulls = values.null_count()
    if nulls == len(values):
        return np.full(len(values), missing, np.int64)
    return (values.fill_null(missing) if nulls else values).to_numpy().astype(np.int64)
