"""The cases of ``numbers.json``: how each number is written, in Python and in the page alike."""

from __future__ import annotations

import json
from pathlib import Path

from torchprof_magic.model.units import column_format, format_value

NUMBERS = Path(__file__).with_name("numbers.json")
# Around every change of the number of decimals and of the unit, with halves that binary numbers do not hold.
MANTISSAS = (1.0, 1.004, 1.005, 1.2345, 1.995, 2.675, 4.35, 9.994, 9.995, 9.9995)
POWERS = range(-4, 17)
UNITS = ("ns", "bytes", "flop", "ratio", "count")
NEGATIVE_POWERS = range(-3, 10, 3)


def grid_values() -> list[float]:
    """Return the fixed values of the grid, each the number that its decimal text stands for."""
    values = [float(f"{mantissa}e{power}") for power in POWERS for mantissa in MANTISSAS]
    return values + [-float(f"{mantissa}e{power}") for power in NEGATIVE_POWERS for mantissa in MANTISSAS]


def made_grid() -> list[list[object]]:
    """Return each value of the grid with its text alone, and in a column of which it is the largest, for each unit."""
    return [[unit, value, *_texts(value, unit)] for unit in UNITS for value in grid_values()]


def _texts(value: float, unit: str) -> tuple[str, str]:
    column = column_format(unit, abs(value))  # type: ignore[arg-type]
    return format_value(value, unit), f"{column.format(value)} {column.suffix}".rstrip()  # type: ignore[arg-type]


def numbers_text(cases: dict[str, list[list[object]]]) -> str:
    """Return the cases as they are kept: one a line, so that a change can be read."""
    parts = []
    for name, rows in cases.items():
        lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
        parts.append(f' "{name}": [\n  {lines}\n ]')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def read_numbers() -> dict[str, list[list[object]]]:
    """Return the kept cases; numbers that JSON lacks are texts, such as ``"NaN"``."""
    kept: dict[str, list[list[object]]] = json.loads(NUMBERS.read_text(encoding="utf-8"))
    return kept
