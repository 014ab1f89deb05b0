"""Columns of a trace as arrays, asked without planning a query for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.model.intervals import NO_PARENT
from torchprof_magic.model.trace import CATEGORIES, MAX_SUM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import DType

# Where numbers are further apart, a table of them would be larger than the rows.
_MOST_NUMBERS_PER_ROW = 8
# Columns with nulls become float64 on their way to an array, in which larger integers are not exact. Of more rows, that
# takes longer than a query.
_EXACT_INTEGER = 2**53
_FEW_ROWS = 10_000


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


def in_categories(numbers: npt.NDArray[np.integer], *names: str) -> BoolArray:
    """Return which events are in one of a few categories; ``numbers`` are the places of theirs in ``CATEGORIES``."""
    places = [CATEGORIES.index(name) for name in names]
    found: BoolArray = numbers == places[0] if places else np.zeros(len(numbers), np.bool_)
    for place in places[1:]:
        found |= numbers == place
    return found


def filled(values: pl.Series, missing: int) -> IntArray:
    """Return a column of integers as an array, with ``missing`` where it is null."""
    nulls = values.null_count()
    if nulls == len(values):
        return np.full(len(values), missing, np.int64)
    if not nulls:
        return values.to_numpy().astype(np.int64)
    if not _are_quick_floats(values):
        return values.cast(pl.Int64).set(values.is_null(), missing).to_numpy().astype(np.int64)
    floats = values.to_numpy()
    is_null = np.isnan(floats)
    numbers = np.where(is_null, 0, floats).astype(np.int64)
    numbers[is_null] = missing
    return numbers


def are_known(values: pl.Series) -> BoolArray:
    """Return which values of a column are not null."""
    nulls = values.null_count()
    if nulls in (0, len(values)):
        return np.full(len(values), nulls == 0)
    return ~np.isnan(values.to_numpy()) if _are_quick_floats(values) else values.is_not_null().to_numpy()


def _are_quick_floats(values: pl.Series) -> bool:
    """Return whether a column has few values, which are integers and float64 numbers as well."""
    if len(values) > _FEW_ROWS or not values.dtype.is_integer():
        return False
    return max(int(values.max()), -int(values.min())) <= _EXACT_INTEGER  # type: ignore[arg-type]


def with_series(frame: pl.DataFrame, *columns: pl.Series) -> pl.DataFrame:
    """Return the frame with some columns in place of those of their names, and new ones behind the others."""
    result = frame.clone()
    for column in columns:
        if column.name in result.columns:
            result.replace_column(result.get_column_index(column.name), column)
        else:
            result.insert_column(result.width, column)
    return result


def in_time(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows by their ``start_ns``; the same frame if they are."""
    start_ns = frame["start_ns"].to_numpy()
    is_sorted = (start_ns[1:] >= start_ns[:-1]).all()
    return frame if is_sorted else frame[np.argsort(start_ns, kind="stable")]


def rows_where(frame: pl.DataFrame, is_kept: BoolArray) -> pl.DataFrame:
    """Return some rows of a frame; the same frame if these are all."""
    if is_kept.all():
        return frame
    mask = pl.Series(is_kept)
    return pl.DataFrame([column.filter(mask) for column in frame.get_columns()])


def keys_of(steps: pl.DataFrame) -> list[tuple[int, int]]:
    """Return the cycle and the number of each step, which no other step has."""
    return list(zip(steps["cycle"].to_list(), steps["number"].to_list(), strict=True))


def frame_of(schema: Mapping[str, DType], columns: Mapping[str, object]) -> pl.DataFrame:
    """Return a frame with the columns of a schema, from values that polars needs not look at to know their type."""
    return pl.DataFrame([_series(name, columns[name], dtype) for name, dtype in schema.items()])


def _series(name: str, values: object, dtype: DType) -> pl.Series:
    if isinstance(values, pl.Series):
        return (values if values.dtype == dtype else values.cast(dtype)).alias(name)
    return pl.Series(name, values, dtype=dtype)  # type: ignore[arg-type]


def row_keys(*columns: npt.NDArray[np.integer] | BoolArray) -> IntArray:
    """Return a number for each row, from 0 on, which exactly the rows share that are equal in all columns."""
    keys = np.zeros(len(columns[0]), np.int64)
    for column in columns if len(keys) else ():
        values, low = column.astype(np.int64), int(column.min())
        width = int(column.max()) - low + 1
        if (int(keys.max()) + 1) * width > MAX_SUM:
            keys, values = (np.unique(each, return_inverse=True)[1] for each in (keys, values))
            low, width = 0, int(values.max()) + 1
        keys = keys * width + (values - low)
    return keys


def row_numbers(*columns: npt.NDArray[np.integer] | BoolArray) -> IntArray:
    """Return the same as ``row_keys``, but few enough numbers for a table of all of them."""
    keys = row_keys(*columns)
    is_wide = len(keys) > 0 and int(keys.max()) > _MOST_NUMBERS_PER_ROW * len(keys)
    return np.unique(keys, return_inverse=True)[1] if is_wide else keys


def rows_by_number(numbers: IntArray, rows: IntArray, count: int) -> IntArray:
    """Return for each number below ``count`` the last of the rows that have it, or -1."""
    found = np.full(count, NO_PARENT, np.int64)
    found[numbers] = rows
    return found
