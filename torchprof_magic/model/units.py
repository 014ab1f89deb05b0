"""Formats times, sizes and counts with three significant digits and decimal units."""

from __future__ import annotations

import re
import sys
from typing import TextIO

_TIME_STEPS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_FLOP_STEPS = ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"), (1.0, "FLOP"))
_BYTE_STEPS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def format_ns(value_ns: float) -> str:
    """Return a duration with three significant digits, such as ``222 ms`` or ``3.04 µs``."""
    return _scaled(value_ns, _TIME_STEPS)


def format_bytes(value_bytes: float) -> str:
    """Return a size with three significant digits in decimal units, such as ``2.09 GB``."""
    return _scaled(value_bytes, _BYTE_STEPS)


def format_flop(value: float) -> str:
    """Return a number of floating-point operations with three significant digits, such as ``1.10 TFLOP``."""
    return _scaled(value, _FLOP_STEPS)


def format_count(value: float) -> str:
    """Return a whole number with thousands separators, such as ``40,573``."""
    return f"{value:,.0f}"


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


def counted(value: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 call`` or ``1,590 calls``."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def format_ratio(value: float) -> str:
    """Return a ratio (0–1) as a percentage with three significant digits at most, such as ``23.4 %``."""
    return f"{_significant(value * 100)} %"


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    # Rounding can carry into the next unit (999.6 ns is 1 µs), so compare what would be printed.
    for factor, unit in steps:
        if abs(value) >= factor * 0.9995:
            return f"{_significant(value / factor)} {unit}"
    smallest = steps[-1][1]
    return f"{_significant(value)} {smallest}" if value else f"0 {smallest}"


def _significant(value: float) -> str:
    magnitude = abs(value)
    for bound, digits in ((9.995, 2), (99.95, 1)):
        if magnitude < bound:
            text = f"{value:.{digits}f}"
            return text.rstrip("0").rstrip(".") if float(text) == round(value) else text
    return f"{value:,.0f}"
