"""Tests of columns that are asked without planning a query."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from torchprof_magic.model.rows import are_in, filled, values_at


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical(), pl.Enum(["a", "b", "c"])])
def test_values_of_rows_are_null_where_the_row_is_negative(dtype: pl.DataType) -> None:
    values = pl.Series("name", ["a", "b", "c"], dtype=dtype)
    found = values_at(values, np.array([2, -1, 0]))
    assert found.to_list() == ["c", None, "a"]
    assert found.dtype == dtype
    assert values_at(values, np.array([1, 1])).to_list() == ["b", "b"]


@pytest.mark.parametrize("rows", [[], [-1], [-1, -1]])
def test_no_row_has_a_value_where_there_is_none(rows: list[int]) -> None:
    assert values_at(pl.Series([7]), np.array(rows, np.int64)).to_list() == [None] * len(rows)


def test_values_are_among_the_wanted_ones_or_not() -> None:
    values = pl.Series(["kernel", "cpu_op", "memcpy"], dtype=pl.Enum(["kernel", "cpu_op", "memcpy", "memset"]))
    assert are_in(values, ("kernel", "memcpy", "memset")).tolist() == [True, False, True]
    assert are_in(values, ()).tolist() == [False] * 3


@pytest.mark.parametrize(("values", "expected"), [([5, None], [5, -1]), ([None, None], [-1, -1]), ([5, 6], [5, 6])])
def test_missing_numbers_are_filled_in(values: list[int | None], expected: list[int]) -> None:
    found = filled(pl.Series(values, dtype=pl.Int32), -1)
    assert found.tolist() == expected
    assert found.dtype == np.int64
