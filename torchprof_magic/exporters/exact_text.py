"""Turns columns into exact text: strictly valid JSON, and times without rounding."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable


def micros(ns: pl.Expr) -> pl.Expr:
    """Return times of at least 0 ns as µs with three decimals, exactly."""
    return pl.concat_str((ns // 1000).cast(pl.String), pl.lit("."), (ns % 1000).cast(pl.String).str.zfill(3))


def json_text(text: str) -> str:
    """Return a name as a JSON string in ASCII, which every reader can decode."""
    return json.dumps(text)


def json_value(text: str) -> str:
    """Return a JSON fragment unchanged if it is strictly valid, or else as a JSON string."""
    try:
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
        json.dumps(value, ensure_ascii=False).encode()  # raises for lone surrogates
    except (ValueError, RecursionError):
        return json_text(text)
    return text


def json_list(text: str) -> list[object]:
    """Return the values of a strictly valid JSON array; none of anything else."""
    value = json.loads(json_value(text))
    return value if isinstance(value, list) else []


def translated(column: pl.Series, translate: Callable[[str], str | None]) -> pl.Series:
    """Return a column of text with each distinct text translated once; null stays null."""
    old = column.unique().drop_nulls().cast(pl.String)
    new = pl.Series([translate(text) for text in old], dtype=pl.String)
    return column.cast(pl.String).replace_strict(old, new, default=None, return_dtype=pl.String)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not valid JSON")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found
