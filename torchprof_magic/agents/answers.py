"""Answers of tools as Markdown of bounded size, in which texts of the recording are data that cannot act."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.model.units import counted, printable_lines
from torchprof_magic.render.markdown import DATA_NOTE, code, table, without_sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchprof_magic.model.shapes import FramedShape

# About 8,000 tokens.
MOST_CHARS = 20_000
_CELL_CHARS = 160
_SECTION = re.compile(r"^## ", re.MULTILINE)
# Columns of shapes whose texts are painted.
_PAINTED = ("name", "lane")


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as the bytes of a PNG file, and what it shows."""

    png: bytes
    text: str


def with_note(*parts: str) -> str:
    """Return parts of an answer under the note that says which of it is data, of at most ``MOST_CHARS``."""
    return limited("\n\n".join([DATA_NOTE, *filter(None, parts)]))


def limited(text: str) -> str:
    """Return a text of at most ``MOST_CHARS``, cut between two lines, which then says so."""
    if len(text) <= MOST_CHARS:
        return text
    kept = text[:MOST_CHARS].rpartition("\n")[0]
    return f"{kept}\n\nThe answer was cut here, because it is too long. Ask for fewer rows or columns."


def rows_text(frame: pl.DataFrame, *, first: int = 0, total: int | None = None) -> str:
    """Return rows as a table with the names of the columns; with ``total``, the answer says what else there is."""
    if frame.width == 0 or frame.height == 0:
        return "No rows."
    numbers = [at for at, kind in enumerate(frame.dtypes) if kind.is_numeric()]
    # The titles are ours, or what a query calls its columns.
    titles = [code(name, in_table=True) for name in frame.columns]
    lines = table(titles, ([_cell(value) for value in row] for row in frame.iter_rows()), numbers=range(0))
    rule = f"| {' | '.join('---:' if at in numbers else '---' for at in range(frame.width))} |"
    return "\n".join([lines[0], rule, *lines[2:], *_rest(first, frame.height, total)])


def sections_of(summary: str, *titles: str) -> str:
    """Return the sections of a summary in Markdown whose titles begin with one of some words."""
    sections = _SECTION.split(summary)[1:]
    return "\n".join(f"## {section.rstrip()}\n" for section in sections if section.startswith(titles)).rstrip()


def error_text(message: str) -> str:
    """Return a message on few lines that cannot act."""
    lines = [line for line in printable_lines(message).splitlines() if line.strip()][:20]
    return "\n".join(lines)[:2_000]


def harmless(shape: FramedShape) -> FramedShape:
    """Return a shape whose names are seen to be names, even in a picture that a program reads."""
    names = [name for name in _PAINTED if name in shape.frame.columns]
    changed = [_renamed(shape.frame[name]) for name in names]
    return replace(shape, frame=shape.frame.with_columns(changed))


def _renamed(names: pl.Series) -> pl.Series:
    texts = names.cast(pl.String)
    known = {text: without_sentences(text) for text in texts.unique().drop_nulls().to_list()}
    return texts.replace(known).alias(names.name)


def _rest(first: int, count: int, total: int | None) -> Iterable[str]:
    if total is not None and total > first + count:
        yield f"\nRows {first + 1} to {first + count} of {counted(total, 'row')}."


def _cell(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool() | int():
            return str(value)
        case float():
            return f"{value:.6g}"
        case list():
            return code(_listed(value), _CELL_CHARS, in_table=True)
        case _:
            return code(str(value), _CELL_CHARS, in_table=True)


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values[:20]))
