"""How do lists of JSON values become exact columns?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msgspec import Raw


def exact_ns(texts: Sequence[Raw]) -> pl.Series:
    """Return µs written as JSON numbers (or strings) as int64 ns, exactly; null where it is no number.

    Kineto writes µs with three decimals since 2024. A float64 near 4.4e12 µs has steps of 0.98 ns, so going through
    float makes children outlive parents; decimals do not.
    """
    text = _texts(texts, b"")
    micros = text.str.strip_chars('"').cast(pl.Decimal(38, 3), strict=False)
    return (micros * 1000).cast(pl.Int64, strict=False)


def integers(values: Sequence[object], dtype: type[pl.DataType] = pl.Int64) -> pl.Series:
    """Return ids and sizes as integers; null where the value is absent or no integer."""
    try:
        return pl.Series(values, dtype=dtype)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        # One string among the numbers (some vendors do that): go through text, slower.
        text = pl.Series([_whole(value) for value in values], dtype=pl.String)
        return text.cast(dtype, strict=False)


def _whole(value: object) -> str | None:
    """Return a number as text; some vendors write ids as floats (``5.0``)."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return None if value is None else str(value)


def _texts(values: Sequence[Raw], absent: bytes | None) -> pl.Series:
    """Return JSON fragments as text; bytes that are no UTF-8 become replacement characters."""
    raw = [bytes(value) or absent for value in values]
    try:
        return pl.Series(raw, dtype=pl.Binary).cast(pl.String)
    except pl.exceptions.ComputeError:
        return pl.Series([None if one is None else one.decode(errors="replace") for one in raw], dtype=pl.String)


def labels(values: Sequence[object]) -> pl.Series:
    """Return pids, tids and names as text, empty where absent; ``25738`` and ``"25738"`` are the same label."""
    for dtype in (pl.String, pl.Int64):  # nearly every file writes one of the two throughout
        try:
            return pl.Series(values, dtype=dtype).cast(pl.String).fill_null("")
        except (TypeError, OverflowError, pl.exceptions.PolarsError):
            continue
    return pl.Series(["" if value is None else str(value) for value in values], dtype=pl.String)


def raw_text(values: Sequence[Raw]) -> pl.Series:
    """Return JSON fragments as text, null where absent. They repeat a lot, so they are kept as categories."""
    return _texts(values, None).cast(pl.Categorical)
