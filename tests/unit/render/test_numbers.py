from __future__ import annotations

import math

import pytest

from torchprof_magic.render.numbers import column_format, format_mean_count, format_share, format_value

# The same cases as in js/src/base/format.test.ts: the page and the static copy write the same numbers.


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7, "7 ns"),
        (1_500, "1.50 µs"),
        (38_314_159, "38.3 ms"),
        (222_400_000, "222 ms"),
        (1_504_000_000, "1.50 s"),
        (-2_000_000, "−2.00 ms"),
        (999_600, "1.00 ms"),
        (math.nan, "–"),
    ],
)
def test_a_time_in_a_sentence_has_three_digits(value: float, text: str) -> None:
    assert format_value(value, "ns") == text


@pytest.mark.parametrize(
    ("value", "text"), [(512, "512 B"), (1_000, "1.00 kB"), (312_000_000, "312 MB"), (2_090_000_000, "2.09 GB")]
)
def test_a_size_has_decimal_units(value: float, text: str) -> None:
    assert format_value(value, "bytes") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (512, "512 FLOP"),
        (276_824_064, "277 MFLOP"),
        (8_388_608_000, "8.39 GFLOP"),
        (1_099_511_627_776, "1.10 TFLOP"),
        (2_500_000_000_000_000, "2.50 PFLOP"),
    ],
)
def test_floating_point_operations_read_as_gflop_and_tflop(value: float, text: str) -> None:
    assert format_value(value, "flop") == text


def test_counts_are_grouped_and_means_have_two_decimals() -> None:
    assert [format_mean_count(value) for value in (40_573, 2.5, 1 / 3, math.nan)] == ["40,573", "2.50", "0.33", "–"]


def test_a_ratio_is_a_percentage() -> None:
    assert [format_share(0.213), format_value(0.5, "ratio"), format_share(math.nan)] == ["21.3 %", "50.0 %", "–"]


@pytest.mark.parametrize(
    ("unit", "largest", "suffix", "values", "texts"),
    [
        ("ns", 308_290_000, "ms", (308_290_000, 52_050_000), ["308.3", "52.1"]),
        ("bytes", 2_739_400_000_000_000, "TB", (2_739_400_000_000_000,), ["2,739"]),
        ("ns", 3_254_290, "ms", (3_254_290, 542_190), ["3.254", "0.542"]),
        ("ns", 308_290_000, "ms", (1_000, 0, math.nan), ["<0.1", "0", "–"]),
        ("ns", 93_990_000, "ms", (1_000,), ["<0.01"]),
        ("bytes", 24_000_000, "MB", (-12_500_000,), ["−12.50"]),
        ("flop", 36_507_222_016, "GFLOP", (36_507_222_016, 412_000_000), ["36.51", "0.41"]),
        ("ratio", 1, "%", (0.535,), ["53.5"]),
        ("ns", 812, "ns", (812, 3), ["812", "3"]),
        ("count", 40_573, "", (40_573,), ["40,573"]),
    ],
)
def test_a_column_has_one_unit_and_one_number_of_decimals(
    unit: str, largest: float, suffix: str, values: tuple[float, ...], texts: list[str]
) -> None:
    column = column_format(unit, largest)
    assert column.suffix == suffix
    assert [column.format(value) for value in values] == texts
