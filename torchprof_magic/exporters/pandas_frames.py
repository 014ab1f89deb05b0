"""Turns a data frame into one of pandas, without pyarrow, which polars' own conversion needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from types import ModuleType

    import pandas as pd

_INSTALL = 'to_pandas() needs pandas: pip install "torchprof-magic[pandas]"'


def to_pandas(frame: pl.DataFrame) -> pd.DataFrame:
    """Return the frame as one of pandas, with the same columns and rows.

    Numbers stay numbers of the same width. Where values are missing, integers and booleans become pandas' nullable
    types (``Int64``, ``boolean``), so that no integer is rounded; texts of few values stay categories. Lists are
    objects. Raises ``ImportError`` if pandas is not installed.
    """
    try:
        import pandas as pd  # noqa: PLC0415 - optional: the frames themselves are those of polars
    except ImportError as exc:
        raise ImportError(_INSTALL) from exc
    columns = {name: _column(pd, frame[name]) for name in frame.columns}
    return pd.DataFrame(columns, index=pd.RangeIndex(frame.height), columns=pd.Index(frame.columns, dtype=object))


def _column(pandas: ModuleType, column: pl.Series) -> object:
    """Return the values of a column as an array that pandas takes over unchanged."""
    dtype = column.dtype
    if dtype in (pl.Categorical, pl.Enum):
        return _categories(pandas, column)
    if dtype.is_integer() or dtype == pl.Boolean:
        return _whole(pandas, column)
    if dtype.is_float():
        return column.to_numpy()  # a missing value is NaN
    return pandas.Series(column.to_list(), dtype=object).array


def _whole(pandas: ModuleType, column: pl.Series) -> object:
    """Return integers or booleans, with a mask of those that are missing if any is."""
    if column.null_count() == 0:
        return column.to_numpy()
    is_boolean = column.dtype == pl.Boolean
    values = column.fill_null(value=False if is_boolean else 0).to_numpy(writable=True)
    array = pandas.arrays.BooleanArray if is_boolean else pandas.arrays.IntegerArray
    return array(values, column.is_null().to_numpy(writable=True))


def _categories(pandas: ModuleType, column: pl.Series) -> object:
    """Return categories: those of an ``Enum`` all in their order, else those that occur, in order of appearance."""
    texts = column.cast(pl.String)
    is_ordered = isinstance(column.dtype, pl.Enum)
    known = (
        column.dtype.categories if isinstance(column.dtype, pl.Enum) else texts.drop_nulls().unique(maintain_order=True)
    )
    codes = texts.replace_strict(known, range(len(known)), default=-1, return_dtype=pl.Int32) if len(known) else None
    numbers = [-1] * len(column) if codes is None else codes.fill_null(-1).to_numpy()
    return pandas.Categorical.from_codes(numbers, categories=known.to_list(), ordered=is_ordered)
