from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from torchprof_magic.render.thinning import band_values, columns_of, rows_to_draw

NAN = float("nan")


def kept(values: list[float], columns_px: int, time_ns: list[int] | None = None) -> list[int]:
    moments = np.array(range(len(values)) if time_ns is None else time_ns, np.int64)
    return rows_to_draw(moments, [np.array(values)], columns_px).tolist()


def test_few_rows_are_all_drawn() -> None:
    assert kept([3.0, 1.0, 2.0, 5.0, 4.0, 0.0, 7.0, 6.0], 2) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_curve_without_rows_has_none_to_draw() -> None:
    assert kept([], 10) == []


def test_a_column_keeps_its_first_lowest_highest_and_last_row() -> None:
    # The first column holds rows 0 to 4, the second one rows 5 to 9.
    assert kept([5.0, 9.0, 5.0, 1.0, 5.0, 6.0, 6.0, 8.0, 2.0, 3.0], 2) == [0, 1, 3, 4, 5, 7, 8, 9]


def test_of_equal_peaks_the_first_stays() -> None:
    assert kept([0.0, 7.0, 3.0, 7.0, 3.0, 7.0, 2.0, 2.0, 1.0], 1) == [0, 1, 8]


def test_one_row_among_a_million_that_is_the_peak_stays_where_it_is() -> None:
    values = np.zeros(1_000_000)
    values[123_456] = 1.0
    rows = rows_to_draw(np.arange(len(values)), [values], 900)
    assert 123_456 in rows
    assert len(rows) <= 4 * 900
    assert (np.diff(rows) > 0).all()


@pytest.mark.parametrize("curves", [1, 2, 3])
def test_a_picture_costs_its_pixels_whatever_the_length(curves: int) -> None:
    random = np.random.default_rng(0)
    time_ns = np.sort(random.integers(0, 10**9, 200_000))
    lines = [random.normal(size=len(time_ns)) for _ in range(curves)]
    rows = rows_to_draw(time_ns, lines, 100)
    assert len(rows) <= (2 + 2 * curves) * 100
    assert {0, len(time_ns) - 1} <= set(rows.tolist())
    for line in lines:
        assert (line[rows].min(), line[rows].max()) == (line.min(), line.max())


def test_rows_at_the_same_moment_are_in_one_column() -> None:
    assert kept([0.0, 4.0, 9.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0], 2, [0, 0, 0, 0, 0, 0, 0, 0, 8]) == [0, 2, 7, 8]


def test_a_gap_that_is_wider_than_a_column_stays() -> None:
    # Columns of five rows: values, a gap, values.
    values = [1.0, 3.0, 2.0, 2.0, 2.0, *[NAN] * 5, 2.0, 2.0, 0.0, 4.0, 2.0]
    rows = kept(values, 3)
    assert rows == [0, 1, 4, 5, 9, 10, 12, 13, 14]
    assert np.isnan(np.array(values)[rows]).tolist() == [False] * 3 + [True] * 2 + [False] * 4


def test_a_gap_within_a_column_hides_no_peak() -> None:
    assert kept([1.0, NAN, 5.0, NAN, NAN, 0.0, 1.0, 1.0, NAN], 1) == [0, 2, 5, 8]


def test_whole_rows_are_chosen_so_that_bands_still_add_up() -> None:
    frame = pl.DataFrame({"a": range(1000), "b": [(7 * at) % 11 for at in range(1000)]})
    frame = frame.with_columns(total=pl.col("a") + pl.col("b"))
    drawn = frame[rows_to_draw(np.arange(1000), [band_values(frame, "total")], 10)]
    assert drawn.height <= 40
    assert (drawn["a"] + drawn["b"]).equals(drawn["total"])


def test_the_first_and_the_last_moment_are_the_edges_of_the_picture() -> None:
    assert columns_of(np.array([100, 124, 125, 175, 200]), 4).tolist() == [0, 0, 1, 3, 3]
    assert columns_of(np.array([100]), 4).tolist() == [0]


def test_a_band_without_a_value_is_a_gap() -> None:
    values = band_values(pl.DataFrame({"band": [1, None, 3]}), "band")
    assert values[[0, 2]].tolist() == [1.0, 3.0]
    assert np.isnan(values[1])
