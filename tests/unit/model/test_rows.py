"""Tests of columns that are asked without planning a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from torchprof_magic.model.rows import (
    are_in,
    are_known,
    filled,
    row_keys,
    row_numbers,
    rows_by_number,
    values_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.model.intervals import IntArray


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


def test_missing_numbers_are_filled_in_with_those_that_the_column_cannot_hold() -> None:
    assert filled(pl.Series([5, None], dtype=pl.UInt32), -1).tolist() == [5, -1]


@pytest.mark.parametrize("values", [[5, None, 7], [None, None], [5, 6], []])
def test_values_are_known_where_they_are_not_null(values: list[int | None]) -> None:
    expected = [value is not None for value in values]
    assert are_known(pl.Series(values, dtype=pl.Int64)).tolist() == expected


FARTHEST = np.iinfo(np.int64)
COLUMNS = {
    "small": ([1, 1, 2, 1], [-3, -3, -3, 5]),
    "bools": ([1, 1, 0, 1], [True, True, True, False]),
    "wide": ([0, 0, 10**12, 7], [2**61, 2**61, 2**61, -(2**61)]),
    "widest": ([FARTHEST.min, FARTHEST.min, FARTHEST.max, 0], [FARTHEST.max, FARTHEST.max, FARTHEST.min, 0]),
}


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("number", [row_keys, row_numbers])
def test_rows_share_a_number_if_they_are_equal_in_all_columns(
    number: Callable[..., IntArray], columns: tuple[list[int], ...]
) -> None:
    found = number(*(np.array(column) for column in columns)).tolist()
    assert found[0] == found[1]
    assert len(set(found)) == 3
    assert min(found) >= 0


def test_numbers_of_rows_fit_into_a_table() -> None:
    far = np.array([0, 10**15, 0, 3])
    assert row_numbers(far).tolist() == [0, 2, 0, 1]
    assert row_keys(far).tolist() == [0, 10**15, 0, 3]
    assert row_numbers(np.empty(0, np.int64)).tolist() == []


def test_the_last_row_of_a_number_is_found_by_it() -> None:
    assert rows_by_number(np.array([2, 0, 2]), np.array([10, 20, 30]), 4).tolist() == [20, -1, 30, -1]
