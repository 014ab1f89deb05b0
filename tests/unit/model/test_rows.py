"""Tests of columns that are asked without planning a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from torchprof_magic.model.distinct import numbered
from torchprof_magic.model.rows import (
    are_in,
    are_known,
    filled,
    frame_of,
    in_time,
    row_keys,
    row_numbers,
    rows_by_number,
    rows_where,
    values_at,
    with_series,
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


@pytest.mark.parametrize("count", [1, 6_000])
@pytest.mark.parametrize("high", [2**53, 2**53 + 1, 2**63 - 1, -(2**63)])
def test_integers_beside_nulls_stay_exact(high: int, count: int) -> None:
    other = high + 1 if high < 0 else high - 1
    values = pl.Series([high, None, other] * count, dtype=pl.Int64)
    assert filled(values, -1).tolist() == [high, -1, other] * count
    assert are_known(values).tolist() == [True, False, True] * count


def test_columns_are_put_in_the_place_of_those_of_their_names_and_new_ones_behind_them() -> None:
    frame = pl.DataFrame({"a": [1, 2], "b": [3, 4]})
    changed = with_series(frame, pl.Series("a", ["x", "y"]), pl.Series("c", [5, 6]))
    assert changed.to_dict(as_series=False) == {"a": ["x", "y"], "b": [3, 4], "c": [5, 6]}
    assert frame.to_dict(as_series=False) == {"a": [1, 2], "b": [3, 4]}


@pytest.mark.parametrize(("kept", "rows"), [([0, 1, 2], [1, 2, 3]), ([0, 2], [1, 3]), ([], [])])
def test_rows_are_chosen_in_all_columns(kept: list[int], rows: list[int]) -> None:
    frame = pl.DataFrame({"a": [1, 2, 3], "b": ["1", "2", "3"]})
    found = rows_where(frame, np.isin(np.arange(3), kept))
    assert found.schema == frame.schema
    assert found.to_dict(as_series=False) == {"a": rows, "b": [str(row) for row in rows]}


def test_a_frame_has_the_columns_and_the_types_of_its_schema() -> None:
    schema = {"a": pl.Int32(), "b": pl.String(), "c": pl.Int64()}
    frame = frame_of(schema, {"c": [None], "b": pl.Series("x", ["y"], dtype=pl.Categorical()), "a": np.array([7])})
    assert dict(frame.schema) == schema
    assert frame.rows() == [(7, "y", None)]


@pytest.mark.parametrize("codes", [[], [3], [5, 2, 5, 2, 3], [900_000, 7, 900_000]])
def test_rows_of_equal_codes_share_a_number(codes: list[int]) -> None:
    rows, of_rows = numbered(np.array(codes, np.uint32))
    assert [codes[row] for row in rows] == sorted(set(codes))
    assert [codes[rows[number]] for number in of_rows] == codes


@pytest.mark.parametrize("starts", [[], [3], [1, 2, 2], [2, 1, 2, 1]])
def test_rows_are_put_in_order_of_time_and_keep_their_order_within_a_moment(starts: list[int]) -> None:
    frame = pl.DataFrame({"start_ns": pl.Series(starts, dtype=pl.Int64), "row": np.arange(len(starts))})
    assert in_time(frame).rows() == sorted(frame.rows())
