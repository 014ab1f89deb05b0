"""A comparison of two runs as plain text, and as HTML without scripts."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from torchprof_magic.findings.compare.change_words import time_or_zero
from torchprof_magic.model.meta import shortened
from torchprof_magic.model.units import format_bytes, printable
from torchprof_magic.render.markdown import DATA_NOTE, Section, code, fitting, prose, source_code, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

    from torchprof_magic.model.shapes import Column, Table

TOP_ROWS = 6
MOST_ROWS = 20
NAME_CHARS = 52
_TIME_CHARS = 15


def change_text(words: Sequence[str], settings: pl.DataFrame, tables: Mapping[str, Table]) -> str:
    """Return the words, what differs, and the largest changes of each table, as one screen of text."""
    lines = [printable(line) for line in words if line]
    lines += [printable(f"Differs: {_difference(row)}") for row in settings.iter_rows(named=True)]
    for title, shape in tables.items():
        if (rows := _largest(shape)).height:
            before, after, change = (column.title.lower() for column in _changed(shape))
            lines += ["", f"{title:<{NAME_CHARS}}{before:>{_TIME_CHARS}}{after:>{_TIME_CHARS}}{change:>{_TIME_CHARS}}"]
            lines += [_row(shape, row) for row in rows.iter_rows(named=True)]
    return "\n".join(lines)


def change_html(words: Sequence[str], settings: pl.DataFrame, tables: Mapping[str, Table]) -> str:
    """Return the same as HTML; every name in it is escaped."""
    head, *rest = [line for line in words if line]
    parts = [f"<p><b>{_escaped(head)}</b></p>", *(f"<p>{_escaped(line)}</p>" for line in rest)]
    parts += [f"<p>Differs: {_escaped(_difference(row))}</p>" for row in settings.iter_rows(named=True)]
    parts += [_html_table(title, shape) for title, shape in tables.items() if _largest(shape).height]
    return f'<div class="mathjax_ignore tex2jax_ignore">{"".join(parts)}</div>'


def change_markdown(words: Sequence[str], settings: pl.DataFrame, tables: Mapping[str, Table], max_tokens: int) -> str:
    """Return the same as Markdown, in at most about so many tokens."""
    head, *rest = [line for line in words if line]
    settings_lines = tuple(
        f"- {_difference({key: code(text) for key, text in row.items()})}" for row in _texts(settings)
    )
    sections = [
        Section("What changed", (f"**{prose(head)}**", *(f"- {prose(line)}" for line in rest)), least=2),
        *(_markdown_section(title, shape) for title, shape in tables.items()),
        Section("What differs in how the runs were recorded", settings_lines, rows="setting"),
    ]
    return fitting(("# Two profiles compared", "", DATA_NOTE), sections, max_tokens)


def _markdown_section(title: str, shape: Table) -> Section:
    rows = []
    for row in _largest(shape, MOST_ROWS).iter_rows(named=True):
        name, *numbers = _cells(shape, row)
        rows.append((source_code(name, in_table=True) if "source" in row else code(name, in_table=True), *numbers))
    titles = (title, *(column.title for column in _changed(shape))) if rows else ()
    lines = table(titles, rows, numbers=range(1, 4)) if rows else ()
    return Section(title, lines, least=min(len(lines), 2 + TOP_ROWS), rows="row")


def signed(value: int, form: Callable[[float], str]) -> str:
    """Return a difference with its sign: ``▲ 7.35 ms`` for more, ``▼ 67.9 ms`` for less."""
    return form(0) if value == 0 else f"{'▲' if value > 0 else '▼'} {form(abs(value))}"


def _texts(settings: pl.DataFrame) -> list[dict[str, str]]:
    return [{key: row[key] or "" for key in ("name", "before", "after")} for row in settings.iter_rows(named=True)]


def _difference(row: Mapping[str, str]) -> str:
    return f"{row['name']} {row['before'] or '–'} → {row['after'] or '–'}"


def _largest(shape: Table, most: int = TOP_ROWS) -> pl.DataFrame:
    """Return the rows that changed most, which come first; those that did not change say nothing."""
    by = shape.sort_by or ""
    return shape.frame.filter(shape.frame[by] != 0).head(most)


def _size(value_bytes: float) -> str:
    """Return a size; nothing has no unit."""
    return format_bytes(value_bytes) if value_bytes else "0"


def _changed(shape: Table) -> tuple[Column, ...]:
    """Return the columns of before, after and the change that the rows are sorted by."""
    at = next(at for at, column in enumerate(shape.columns) if column.name == shape.sort_by)
    return shape.columns[at - 2 : at + 1]


def _cells(shape: Table, row: Mapping[str, object]) -> tuple[str, str, str, str]:
    columns = _changed(shape)
    form = _size if columns[0].unit == "bytes" else time_or_zero
    before, after, delta = (int(str(row[column.name])) for column in columns)
    return _name(row), form(before), form(after), signed(delta, form)


def _name(row: Mapping[str, object]) -> str:
    """Return what a row is about, by the columns that it has."""
    if "source" in row:
        return f"{row['line']} {str(row['source']).strip()}"
    if "path" in row:
        return f"{row['path'] or '(model)'} {row['class_name']}".strip()
    return str(row["name"])


def _row(shape: Table, row: Mapping[str, object]) -> str:
    name, *numbers = _cells(shape, row)
    shown = shortened(printable(name), NAME_CHARS - 1)
    return f"{shown:<{NAME_CHARS}}{''.join(f'{number:>{_TIME_CHARS}}' for number in numbers)}"


def _html_table(title: str, shape: Table) -> str:
    heads = "".join(
        f'<th align="{"left" if at == 0 else "right"}">{name}</th>'
        for at, name in enumerate((title, *(column.title for column in _changed(shape))))
    )
    rows = []
    for row in _largest(shape).iter_rows(named=True):
        name, *numbers = _cells(shape, row)
        cells = "".join(f'<td align="right">{_escaped(number)}</td>' for number in numbers)
        shown = f"<code><bdi>{_escaped(shortened(name, NAME_CHARS))}</bdi></code>"
        rows.append(f'<tr><td align="left">{shown}</td>{cells}</tr>')
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _escaped(text: str) -> str:
    return html.escape(printable(text), quote=True)
