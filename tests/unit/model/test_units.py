from __future__ import annotations

import decimal

import numpy as np
import pytest
from golden.number_cases import made_grid, read_numbers

from torchprof_magic.model.shapes import Unit
from torchprof_magic.model.units import (
    column_format,
    counted,
    format_bytes,
    format_change,
    format_count,
    format_flop,
    format_ns,
    format_ratio,
    format_value,
)

GOLDEN = read_numbers()


@pytest.mark.parametrize(("unit", "value", "text"), GOLDEN["alone"])
def test_a_number_alone_is_written_as_the_golden_file_says(unit: Unit, value: float | str, text: str) -> None:
    assert format_value(float(value), unit) == text


@pytest.mark.parametrize(("unit", "largest", "beside", "suffix", "cells"), GOLDEN["columns"])
def test_a_column_has_one_unit_and_one_number_of_decimals(
    unit: Unit, largest: float, beside: float, suffix: str, cells: list[tuple[float | str, str]]
) -> None:
    column = column_format(unit, largest, beside)
    assert column.suffix == suffix
    assert [column.format(float(value)) for value, _ in cells] == [text for _, text in cells]


@pytest.mark.parametrize(("count", "noun", "text"), GOLDEN["counted"])
def test_a_count_has_its_noun_in_the_singular_or_plural(count: float, noun: str, text: str) -> None:
    assert counted(count, noun) == text


def test_the_grid_of_numbers_is_written_as_the_golden_file_says() -> None:
    assert made_grid() == GOLDEN["grid"]


def test_each_kind_of_number_has_its_own_name() -> None:
    assert [format_ns(1.005e6), format_bytes(2_088_508_416), format_flop(1_099_511_627_776)] == [
        "1.01 ms",
        "1.95 GiB",
        "1.10 TFLOP",
    ]
    assert [format_ratio(0.234), format_count(40_573)] == ["23.4 %", "40,573"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.192, "+19.2 %"), (-0.36, "−36 %"), (0, "0 %"), (0.00001, "<0.01 %"), (-0.00001, "−<0.01 %")],
)
def test_a_change_has_its_sign(value: float, text: str) -> None:
    assert format_change(value) == text


def test_numbers_of_numpy_are_written_like_those_of_python() -> None:
    assert [format_ns(np.float64(1_005_000)), format_count(np.int64(40_573))] == ["1.01 ms", "40,573"]


def test_the_precision_that_a_program_sets_for_decimals_does_not_change_numbers() -> None:
    with decimal.localcontext(prec=2):
        assert [format_count(40_573), format_ns(38_314_159)] == ["40,573", "38.3 ms"]
