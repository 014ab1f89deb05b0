"""The lines of the user's that advice changes, as they are and as they should be."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from torchprof_magic.findings.advice.line_edits import edited
from torchprof_magic.model.cell_tree import tree_of_cell
from torchprof_magic.model.shapes import LineChange
from torchprof_magic.model.units import printable

if TYPE_CHECKING:
    from torchprof_magic.findings.advice.kinds import Advice
    from torchprof_magic.model.trace import Trace

# Longer lines, and changes of more of them, are not shown.
MOST_CHARS = 400
MOST_LINES = 6
# So many lines of a statement are put together where its file is not known as a whole.
_MOST_OF_STATEMENT = 30


class _Source(NamedTuple):
    """A piece of the user's code, and the number of its first line."""

    text: str
    first: int


class Changes(NamedTuple):
    """Changed lines, and whether they are all that the advice is to change."""

    lines: tuple[LineChange, ...]
    is_all: bool


NOTHING = Changes((), is_all=False)


def changes_of(trace: Trace, advice: Advice) -> Changes:
    """Return the lines that advice changes, in their order; none where they cannot be written for certain."""
    source = _source_of(trace, advice)
    if source is None or advice.line is None:
        return NOTHING
    text, made = source.text, 0
    for edit in advice.edits:
        changed = edited(text, advice.line - source.first + 1, edit)
        text, made = (text, made) if changed is None else (changed, made + 1)
    pairs = enumerate(zip(source.text.split("\n"), text.split("\n"), strict=True), source.first)
    lines = [(number, before.strip(), after.strip()) for number, (before, after) in pairs if before != after]
    if len(lines) > MOST_LINES or any(len(after) > MOST_CHARS for _, _, after in lines):
        return NOTHING
    changes = (LineChange(line=line, before=printable(old), after=printable(new)) for line, old, new in lines)
    return Changes(tuple(changes), is_all=made == len(advice.edits) > 0)


def _source_of(trace: Trace, advice: Advice) -> _Source | None:
    """Return the cell, or what is known of another file from the line on."""
    cell = trace.meta.cell
    if not advice.edits or not advice.file or advice.line is None:
        return None
    if cell is not None and advice.file == cell.filename:
        return _Source(cell.source, 1)
    is_there = (pl.col("kind") == "line") & (pl.col("file") == advice.file)
    sites = trace.sites.filter(is_there).select("line", pl.col("name").cast(pl.String))
    return _statement(dict(sites.iter_rows()), advice.line)


def _statement(texts: dict[int, str], line: int) -> _Source | None:
    """Return the statement that begins on a line, with something in its block if it has one."""
    lines: list[str] = []
    while len(lines) < _MOST_OF_STATEMENT and texts.get(line + len(lines)):
        lines.append(texts[line + len(lines)])
        whole = textwrap.dedent("\n".join(lines))
        for text in (whole, f"{whole}\n    pass"):
            if tree_of_cell(text) is not None:
                return _Source(text, line)
    return None
