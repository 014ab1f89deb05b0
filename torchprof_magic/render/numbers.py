"""Numbers as the page writes them, so that a static copy and the live view say the same.

``js/src/base/format.ts`` has the same rules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.model.shapes import Unit

Ladder = tuple[tuple[str, float], ...]

_NS: Ladder = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_BYTES: Ladder = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
_FLOP: Ladder = (("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3), ("FLOP", 1.0))
_LADDERS: dict[str, Ladder] = {"ns": _NS, "bytes": _BYTES, "flop": _FLOP}
# The largest number of a column shows this many digits, or more where it has more before the point.
_DIGITS = 4
_THREE_DIGITS = Context(prec=3, rounding=ROUND_HALF_UP)
_MISSING = "–"
_MINUS = "−"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFormat:
    """How all numbers of one column are written; ``suffix`` goes into its header."""

    suffix: str
    format: Callable[[float], str]


def column_format(unit: Unit, largest: float) -> ColumnFormat:
    """Return one unit and one number of decimals for a column, by its largest magnitude."""
    if unit == "ratio":
        return ColumnFormat(suffix="%", format=lambda value: _scaled(value, 0.01, 1))
    if unit not in _LADDERS:
        return ColumnFormat(suffix="", format=lambda value: format_value(value, unit))
    suffix, size = _rung(_LADDERS[unit], largest)
    shown = largest / size
    before = math.floor(math.log10(shown)) + 1 if shown >= 1 else 1
    decimals = 0 if size == 1 else max(0, _DIGITS - before)
    return ColumnFormat(suffix=suffix, format=lambda value: _scaled(value, size, decimals))


def unit_of(unit: Unit, largest: float) -> tuple[str, float]:
    """Return the unit for times or sizes of which this is the largest, and how many ns or bytes it has."""
    return _rung(_LADDERS[unit], largest)


def format_value(value: float, unit: Unit) -> str:
    """Return one number in a sentence: times and sizes with three significant digits."""
    if unit in _LADDERS:
        return _in_prose(value, _LADDERS[unit])
    if unit == "ratio":
        return format_share(value)
    return format_mean_count(value)


def format_share(value: float) -> str:
    """Return a ratio (0–1) as a percentage with one decimal, ``21.3 %``."""
    if not math.isfinite(value):
        return _MISSING
    return f"{_with_minus(value, _grouped(abs(value) * 100, 1))} %"


def format_mean_count(value: float) -> str:
    """Return a count, which has two decimals if it is a mean: ``40,573``, ``0.33``."""
    if not math.isfinite(value):
        return _MISSING
    text = _grouped(abs(value), 2).removesuffix(".00")
    return _with_minus(value, text)


def _rung(ladder: Ladder, size: float) -> tuple[str, float]:
    return next((rung for rung in ladder if size >= rung[1]), ladder[-1])


def _in_prose(value: float, ladder: Ladder) -> str:
    if not math.isfinite(value):
        return _MISSING
    if value == 0:
        return "0"
    # Rounded before the unit is chosen: 999.6 becomes 1000.
    size = float(_THREE_DIGITS.create_decimal_from_float(abs(value)))
    suffix, step = _rung(ladder, size)
    shown = size / step
    is_whole = step == 1 and size == int(size)
    decimals = 0 if is_whole or shown >= 100 else 1 if shown >= 10 else 2  # noqa: PLR2004 - three digits in all
    return f"{_with_minus(value, _grouped(shown, decimals))} {suffix}"


def _scaled(value: float, size: float, decimals: int) -> str:
    if not math.isfinite(value):
        return _MISSING
    if value == 0:
        return "0"
    least = 10**-decimals
    # A number that is not zero must not look like zero.
    if abs(value) / size < least / 2:
        return f"<{_with_minus(value, f'{least:.{decimals}f}')}"
    return _with_minus(value, _grouped(abs(value) / size, decimals))


def _grouped(size: float, decimals: int) -> str:
    """Return a number with separators, rounded as browsers do: halves away from zero, by its decimal digits."""
    rounded = Decimal(repr(size)).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    return f"{rounded:,}"


def _with_minus(value: float, text: str) -> str:
    return f"{_MINUS}{text}" if value < 0 else text
