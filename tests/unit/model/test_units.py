from __future__ import annotations

import pytest

from torchprof_magic.model.units import format_bytes, format_count, format_flop, format_ns, format_ratio


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ns"),
        (12, "12 ns"),
        (999.4, "999 ns"),
        (999.6, "1 µs"),
        (1234, "1.23 µs"),
        (52_500_000, "52.5 ms"),
        (222_368_442, "222 ms"),
        (3_040_000_000, "3.04 s"),
        (-1500, "-1.50 µs"),
    ],
)
def test_durations_have_three_significant_digits_and_one_unit(value: float, text: str) -> None:
    assert format_ns(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (999, "999 B"), (2_088_508_416, "2.09 GB"), (-108, "-108 B")])
def test_sizes_are_decimal(value: float, text: str) -> None:
    assert format_bytes(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 FLOP"), (999, "999 FLOP"), (1_099_511_627_776, "1.10 TFLOP")])
def test_floating_point_operations_have_decimal_units(value: float, text: str) -> None:
    assert format_flop(value) == text


def test_counts_have_thousands_separators() -> None:
    assert format_count(40573) == "40,573"


@pytest.mark.parametrize(("value", "text"), [(0.234, "23.4 %"), (1, "100 %"), (0.0096, "0.96 %")])
def test_ratios_are_percentages(value: float, text: str) -> None:
    assert format_ratio(value) == text
