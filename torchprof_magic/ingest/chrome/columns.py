"""Turns lists of JSON values into exact columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import polars as pl
from msgspec import Raw

from torchprof_magic.ingest.findings import example_of
from torchprof_magic.ingest.json.schema import NO_RAW
from torchprof_magic.model.trace import TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.ingest.findings import Findings

_ENCODER = msgspec.json.Encoder()
_NULL = Raw(b"null")
_NO_TEXT = pl.Series([None], dtype=TEXT)
_MICROS = pl.Decimal(38, 3)
EXACT_MICROS = 2.0**43
# What files contain in place of an unknown number.
_ABSENT = ("", "null", "None", "N/A", "nan", "NaN", "inf", "-inf")
# polars splits so many values in less time than Python needs, which makes an object of each.
MANY_VALUES = 4000
_DIGITS = "0123456789"
_DIGITS_OF_INT32 = 11
LAST_MICROS = 2**63 // 1000 - 1  # later times do not fit into int64 ns


def fragments(values: Sequence[Raw] | Sequence[Sequence[Raw]], *, without: bytes = b"") -> pl.Series:
    """Return JSON fragments, or arrays of them, as text, empty where missing.

    Bytes that are not UTF-8 become replacement characters. ``without`` are bytes that are left out of all.
    """
    text = _text_of(_ENCODER.encode_lines(values), without.replace(b"\n", b""))
    if len(values) < MANY_VALUES:
        lines = pl.Series(text.split("\n"), dtype=pl.String)
    else:
        lines = pl.select(pl.lit(text).str.split("\n").explode()).to_series()
    if len(lines) == len(values) + 1:
        return lines.head(len(values))
    return pl.Series([_text_of(_ENCODER.encode(value), without) for value in values], dtype=pl.String)


def _text_of(encoded: bytes, without: bytes) -> str:
    return (encoded.translate(None, without) if without else encoded).decode(errors="replace")


class InexactError(ValueError):
    """The times of a file need more digits than float64 has, so they must be parsed from their text."""


def exact_ns(micros: Sequence[object]) -> pl.Series:
    """Return µs written as JSON numbers (or strings) as int64 ns, exactly; null if it is not a number.

    Kineto writes µs with three decimals since 2024. Below 2^43 µs (101 days) float64 represents every ns
    exactly; beyond it, rounding would make children outlive parents. Raises ``InexactError`` for such a float.
    """
    if micros and isinstance(micros[0], Raw):
        return _ns_of_text(fragments(micros))  # type: ignore[arg-type]
    if micros and isinstance(micros[0], int) and (whole := _whole_ns(micros)) is not None:
        return whole
    try:
        floats = pl.Series(micros, dtype=pl.Float64)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return _ns_of_text(plain_text(micros))
    known = floats.is_not_null().to_numpy() if floats.null_count() else None
    micros_of = floats.to_numpy() if known is None else floats.fill_null(0).to_numpy()
    if len(micros_of) == 0 or max(micros_of.max(), -micros_of.min()) < EXACT_MICROS:
        whole = np.floor(micros_of)  # multiplying everything by 1000 at once would round twice
        ns = whole.astype(np.int64) * 1000 + np.rint((micros_of - whole) * 1000).astype(np.int64)
        return pl.Series(ns) if known is None else pl.Series(ns).set(pl.Series(~known), None)
    if float in set(map(type, micros)):
        raise InexactError
    exact = pl.Series(micros, dtype=pl.Int64, strict=False)
    return exact.set(~exact.is_between(-LAST_MICROS, LAST_MICROS), None) * 1000


def _whole_ns(micros: Sequence[object]) -> pl.Series | None:
    """Return whole µs as ns; ``None`` if one is no such number, or so large that it is none."""
    try:
        exact = pl.Series(micros, dtype=pl.Int64)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return None
    values = exact.to_numpy()
    if exact.null_count() or max(int(values.max()), -int(values.min())) > LAST_MICROS:
        return None
    return exact * 1000


def _ns_of_text(text: pl.Series) -> pl.Series:
    ns = text.cast(_MICROS, strict=False).to_physical().cast(pl.Int64, strict=False)
    if ns.null_count():
        text = text.str.strip_chars('"').str.strip_chars()
        ns = text.cast(_MICROS, strict=False).to_physical().cast(pl.Int64, strict=False)
    return ns


def integers(
    values: Sequence[object],
    findings: Findings,
    dtype: type[pl.DataType] = pl.Int64,
    *,
    what: str = "",
    names: Sequence[object] = (),
) -> pl.Series:
    """Return ids and sizes as integers; null if missing, too large, or not an integer (which is counted).

    ``what`` is the name of the value in the file, and ``names`` those of the events, for an example of what is odd.
    """
    if values.count(None) == len(values):
        return pl.Series([None], dtype=dtype).new_from_index(0, len(values))
    try:
        return pl.Series(values, dtype=dtype)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        # Some vendors mix strings with numbers: convert through text, which is slower.
        text = pl.Series([_whole(value) for value in values], dtype=pl.String)
        numbers = text.cast(dtype, strict=False)
        odd = (numbers.is_null() & ~text.is_in(_ABSENT).fill_null(value=True)).arg_true()
        if len(odd):
            row = odd[0]
            example = example_of(what, values[row], names[row] if names else "") if what else ""
            findings.add("chrome.odd_value", len(odd), example=example)
        return numbers


def _whole(value: object) -> str | None:
    """Return a number as text; some vendors write ids as floats (``5.0``)."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return None if value is None else str(value)


def identities(values: Sequence[object]) -> pl.Series:
    """Return ids as integers that are equal if the ids are; strings are hashed."""
    try:
        return pl.Series(values, dtype=pl.Int64)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return _as_text(values).hash().reinterpret(signed=True)


def plain_text(values: Sequence[object]) -> pl.Series:
    """Return pids, tids and names as text, empty where missing; ``25738`` and ``"25738"`` are the same."""
    text = _as_text(values)
    return text.fill_null("") if text.null_count() else text


def labels(values: Sequence[object]) -> pl.Series:
    """Return texts with many repetitions as categories, empty where missing."""
    return plain_text(values).cast(TEXT)


def _as_text(values: Sequence[object]) -> pl.Series:
    # Nearly every file uses one of the two types throughout, and trying the wrong one first raises an exception.
    order = (pl.Int64, pl.String) if values and isinstance(values[0], int) else (pl.String, pl.Int64)
    for dtype in order:
        try:
            found = pl.Series(values, dtype=dtype)
        except (TypeError, OverflowError, pl.exceptions.PolarsError):
            continue
        return found if dtype == pl.String else found.cast(pl.String)
    return pl.Series([_whole(value) for value in values], dtype=pl.String)


def number_behind(text: str) -> int | None:
    """Return the number that a text ends with, None if there is none or it does not fit into int32."""
    digits = text[len(text.rstrip(_DIGITS)) :]
    if not digits:
        return None
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) < _DIGITS_OF_INT32 and int(significant) < 2**31 else None


def no_text(count: int) -> pl.Series:
    """Return so many missing texts."""
    return _NO_TEXT.new_from_index(0, count)


def optional_text(values: Sequence[object]) -> pl.Series:
    """Return texts with many repetitions as categories, null where missing."""
    if values.count(None) == len(values):
        return no_text(len(values))
    return _as_text(values).cast(TEXT)


def raw_text(values: Sequence[Raw]) -> pl.Series:
    """Return JSON fragments as categories, because they repeat a lot; null where missing."""
    missing = values.count(NO_RAW)
    if missing == len(values):
        return no_text(len(values))
    text = fragments(values)
    return (text.set(text == "", None) if missing else text).cast(TEXT)


def json_arrays(*members: Sequence[Raw], blanks: bytes = b" \r\n\t") -> pl.Series:
    """Return one JSON array of a fragment of each list as categories, null where the first fragment is missing.

    ``blanks`` are what indented files have between the values; texts with spaces keep them if it leaves those out.
    """
    first = members[0]
    missing = first.count(NO_RAW)
    if missing == len(first):
        return no_text(len(first))
    arrays = fragments(list(zip(*map(_with_nulls, members), strict=True)), without=blanks)
    if missing:
        arrays = arrays.set(pl.Series([value == NO_RAW for value in first]), None)
    return arrays.cast(TEXT)


def _with_nulls(values: Sequence[Raw]) -> Sequence[Raw]:
    """Return JSON fragments with null in place of those that are missing."""
    return [_NULL if value == NO_RAW else value for value in values] if NO_RAW in values else values
