"""Numbers as people read them. Every text, page, figure and message takes its numbers from here.

``js/src/base/format.ts`` follows the same rules, and ``tests/golden/numbers.json`` has cases that both write alike.

In a sentence or alone, a number has

- three significant digits and at most two decimals, and all digits before the point: ``1.50 s``, ``38.3 ms``,
  ``222 ms``, ``0.33``, ``40,573``;
- no decimals if they would all be zero: ``3 ms``, ``30 %``, ``12``;
- the largest unit in which it is at least 1 as rounded, so 999.96 µs is ``1 ms``, never ``1,000 µs``. A ratio (0-1) is
  written in percent.

Memory is binary, as it is sold and as torch and ``nvidia-smi`` count it: 1 KiB is 1024 B, so a card of 80 GB never
holds more than ``80 GiB``. Files, disks and the limits that users write as ``2GB`` are decimal, and so is what passes
in a second, as data sheets have it.

In a column, all numbers have one unit and one number of decimals, by the largest: ``308.3`` and ``52.1``.

Everywhere

- a half is rounded away from zero, by the shortest decimal digits of the number: 1.005 is ``1.01``, although the binary
  number is a little less;
- thousands are separated by commas, and a unit follows after a space. The space is an ordinary one, so that a text can
  be searched; where a page breaks lines, it keeps the two together;
- minus is U+2212, ``−12.5 ms``;
- what is not zero does not look like zero: ``<0.01 %``, ``−<0.01 %``;
- what is not finite, such as an unknown mean, is an en dash.

Files that programs read, such as CSV and JSON, and the table in torch's own format have their numbers from elsewhere.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Literal, NamedTuple, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchprof_magic.model.shapes import Unit


class Rung(NamedTuple):
    """One unit of a ladder of units: ``suffix`` stands for ``base`` to this ``power``."""

    suffix: str
    power: int
    base: Literal[2, 10] = 10

    @property
    def size(self) -> float:
        """What one of this unit is in the unit of the numbers."""
        return float(self.base) ** self.power


_NS = (Rung("s", 9), Rung("ms", 6), Rung("µs", 3), Rung("ns", 0))
_BYTES = (Rung("TiB", 40, 2), Rung("GiB", 30, 2), Rung("MiB", 20, 2), Rung("KiB", 10, 2), Rung("B", 0))
_DECIMAL_BYTES = (Rung("TB", 12), Rung("GB", 9), Rung("MB", 6), Rung("kB", 3), Rung("B", 0))
_FLOP = (
    Rung("PFLOP", 15), Rung("TFLOP", 12), Rung("GFLOP", 9), Rung("MFLOP", 6), Rung("kFLOP", 3), Rung("FLOP", 0),
)  # fmt: skip
_RATIO = (Rung("%", -2),)
_COUNT = (Rung("", 0),)
_LADDERS = {"ns": _NS, "bytes": _BYTES, "flop": _FLOP, "ratio": _RATIO}
MIB = 2**20
_DIGITS = 3
# The largest number of a column shows this many digits, or more where it has more before the point.
_COLUMN_DIGITS = 4
# In the unit of the columns beside it, the largest number of a column is at least this.
_LEAST_SHARED = Decimal("0.1")
_MISSING = "–"
_MINUS = "−"
# Own contexts, because programs may set decimal's to few digits. A float has at most 309 digits before the point.
_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)
_ROUNDING = {digits: Context(prec=digits, rounding=ROUND_HALF_UP) for digits in (_DIGITS, _COLUMN_DIGITS)}


def format_ns(value_ns: float) -> str:
    """Return a duration, such as ``222 ms`` or ``3.04 µs``."""
    return _alone(value_ns, _NS)


def format_bytes(value_bytes: float) -> str:
    """Return a size of memory, such as ``1.95 GiB``."""
    return _alone(value_bytes, _BYTES)


def format_file_size(value_bytes: float) -> str:
    """Return the size of a file or of free space, a limit or a bandwidth, such as ``2.09 GB``."""
    return _alone(value_bytes, _DECIMAL_BYTES)


def saving_words(saving_ns: int | None, saving_bytes: int | None, certainty: str, per: str = "") -> str:
    """Return what a change saves, such as ``up to 5.83 ms`` or ``80 KiB per step``; empty if no number is known.

    A wait or a time that was recorded is the most that can be saved, and nothing more where other advice saves it all;
    what was ``measured here`` is what is saved, which may be nothing.
    """
    if saving_ns is not None and not saving_ns:
        return "nothing" if certainty == "measured here" else "nothing more"
    if saving_ns is not None and certainty == "measured here":
        return format_ns(saving_ns)
    if saving_ns is not None:
        return f"up to {format_ns(saving_ns)}"
    return f"{format_bytes(saving_bytes)}{per}" if saving_bytes is not None else ""


def format_flop(value: float) -> str:
    """Return a number of floating-point operations, such as ``1.10 TFLOP``."""
    return _alone(value, _FLOP)


def format_ratio(value: float) -> str:
    """Return a ratio (0-1) in percent, such as ``23.4 %``."""
    return _alone(value, _RATIO)


def format_change(value: float) -> str:
    """Return the ratio by which something changed, with its sign: ``+1.25 %``, ``−36 %``."""
    text = format_ratio(value)
    return f"+{text}" if value > 0 and text[0].isdigit() else text


def format_count(value: float) -> str:
    """Return a count, a mean count or a factor, such as ``40,573``, ``0.33`` or ``1.25``."""
    return _alone(value, _COUNT)


def format_value(value: float, unit: Unit) -> str:
    """Return a number in its unit."""
    if unit == "bool":
        return "yes" if value else "no"
    if unit == "step" and math.isfinite(value):
        return f"{value:.0f}"
    return _alone(value, _LADDERS.get(unit, _COUNT))


def counted(value: float, noun: str) -> str:
    """Return a count with its noun, such as ``1 call``, ``1,590 calls`` or ``2 batches``."""
    ending = "" if value == 1 else "es" if re.search(r"(?:s|x|ch|sh)$", noun) else "s"
    return f"{format_count(value)} {noun}{ending}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFormat:
    """How all numbers of one column are written; ``suffix`` goes into its header."""

    suffix: str
    format: Callable[[float], str]


def enumerated(words: Sequence[str], last: str = "and") -> str:
    """Return words as a list in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def column_format(unit: Unit, largest: float, beside: float = 0.0) -> ColumnFormat:
    """Return one unit and one number of decimals for a column, by its largest magnitude.

    ``beside`` is the largest magnitude of the columns beside it; their unit is taken where numbers can be read in it.
    """
    if unit == "bool":
        return ColumnFormat(suffix="", format=lambda value: "yes" if value else "")
    if unit not in _LADDERS:
        return ColumnFormat(suffix="", format=lambda value: format_value(value, unit))
    rung = column_unit(unit, largest, beside)
    decimals = 1 if unit == "ratio" else _column_decimals(largest, rung)
    return ColumnFormat(suffix=rung.suffix, format=lambda value: _in_column(value, rung, decimals))


def column_unit(unit: Unit, largest: float, beside: float = 0.0) -> Rung:
    """Return the unit of a column or an axis with this largest magnitude."""
    ladder = _LADDERS[unit]
    shared = _rung(ladder, max(abs(largest), abs(beside)), _COLUMN_DIGITS)
    # Zeros read alike in every unit.
    is_readable = largest == 0 or _rounded(largest, shared, _COLUMN_DIGITS) >= _LEAST_SHARED
    return shared if is_readable else _rung(ladder, largest, _COLUMN_DIGITS)


def _column_decimals(largest: float, rung: Rung) -> int:
    return 0 if rung.power == 0 else _decimals(largest, rung, _COLUMN_DIGITS)


def _decimals(value: float, rung: Rung, digits: int) -> int:
    """Return the decimals with which a number shows so many digits in a unit."""
    return max(0, digits - len(str(int(_rounded(value, rung, digits)))))


def _in_column(value: float, rung: Rung, decimals: int) -> str:
    return "0" if value == 0 else _written(value, rung, decimals)


def _alone(value: float, ladder: tuple[Rung, ...]) -> str:
    if not math.isfinite(value):
        return _MISSING
    rung = _rung(ladder, value, _DIGITS)
    text = _written(value, rung, _decimals(value, rung, _DIGITS))
    whole, _, decimals = text.partition(".")
    return f"{text if decimals.strip('0') else whole} {rung.suffix}".rstrip()


def _written(value: float, rung: Rung, decimals: int) -> str:
    """Return a number in a unit with a fixed number of decimals, without the unit."""
    if not math.isfinite(value):
        return _MISSING
    least = Decimal(1).scaleb(-decimals, _EXACT)
    size = _in_unit(value, rung).quantize(least, ROUND_HALF_UP, _EXACT)
    if value != 0 and size == 0:
        return f"<{least}" if value > 0 else f"{_MINUS}<{least}"
    return f"{_MINUS if value < 0 else ''}{size:,}"


def _rung(ladder: tuple[Rung, ...], value: float, digits: int) -> Rung:
    return next((rung for rung in ladder if _rounded(value, rung, digits) >= 1), ladder[-1])


def _in_unit(value: float, rung: Rung) -> Decimal:
    """Return the magnitude of a number in a unit, by its shortest decimal digits.

    Dividing a binary number by a power of two changes none of its digits but the exponent.
    """
    if rung.base == 2:  # noqa: PLR2004 - the base itself
        return _decimal(value / rung.size)
    return _decimal(value).scaleb(-rung.power, _EXACT)


def _rounded(value: float, rung: Rung, digits: int) -> Decimal:
    """Return the magnitude of a number in a unit with this many significant digits, 0 if it is not finite."""
    return _ROUNDING[digits].plus(_in_unit(value, rung)) if math.isfinite(value) else Decimal(0)


def _decimal(value: float) -> Decimal:
    # NumPy's floats have another repr.
    return Decimal(repr(abs(float(value))))


def short_file(file: str) -> str:
    """Return the last two parts of a path."""
    return "/".join(re.split(r"[/\\]", file)[-2:])


def printable(text: str) -> str:
    """Return a string with control and bidirectional characters escaped, for terminals."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_lines(text: str) -> str:
    """Return a text of several lines, each of them ``printable``."""
    return "\n".join(printable(line) for line in text.split("\n"))


def print_text(text: str, file: TextIO | None = None) -> None:
    """Print a text; characters that the output cannot hold, as under the locale ``C``, are escaped."""
    encoding = getattr(file or sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=file)
