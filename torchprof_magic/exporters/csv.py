"""Writes a data frame to a CSV file in which no spreadsheet finds formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.system.files.atomic import write_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHUNK_ROWS = 100_000
# Spreadsheets run text that begins like this as a formula (OWASP ASVS 1.2.10); an apostrophe prevents it. Some skip
# control characters in front of one, or take letters of full width for those of ASCII.
_FORMULA = r"^[=+\-@\t\r\n\x00＝＋－＠]"


def write_csv(frame: pl.DataFrame, path: Path, *, safe: bool = True) -> Path:
    """Write a frame as UTF-8 with a header, gzipped if the name ends in ``.gz``, and return the path.

    Text that begins with ``= + - @``, also of full width, a tab, a line break or a null character gets an apostrophe in
    front unless ``safe`` is False; numbers stay numbers.
    """
    return write_text(path, csv_lines(frame, safe=safe))


def csv_lines(frame: pl.DataFrame, *, safe: bool) -> Iterator[str]:
    """Yield the file in large chunks."""
    yield frame.clear().write_csv()
    for part in frame.iter_slices(CHUNK_ROWS):
        yield _as_text(part, safe=safe).write_csv(include_header=False)


def _as_text(frame: pl.DataFrame, *, safe: bool) -> pl.DataFrame:
    texts = [name for name, dtype in frame.schema.items() if dtype in (pl.String, pl.Categorical, pl.Enum)]
    cells = [pl.col(name).cast(pl.String) for name in texts]
    if safe:
        cells = [pl.when(cell.str.contains(_FORMULA)).then("'" + cell).otherwise(cell) for cell in cells]
    return frame.with_columns(cell.alias(name) for name, cell in zip(texts, cells, strict=True))
