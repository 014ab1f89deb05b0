"""A comparison of two runs as plain text, and as HTML without scripts."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from torchprof_magic.model.meta import shortened
from torchprof_magic.model.units import format_bytes, format_ns, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

TOP_ROWS = 6
NAME_CHARS = 52


def change_text(words: Sequence[str], settings: pl.DataFrame, tables: Mapping[str, pl.DataFrame]) -> str:
    """Return the words, what differs, and the largest changes of each table, as one screen of text."""
    lines = [printable(line) for line in words if line]
    lines += [printable(f"Differs: {_difference(row)}") for row in settings.iter_rows(named=True)]
    for title, frame in tables.items():
        if frame.height:
            lines += ["", f"{title:<{NAME_CHARS}}{'before':>12}{'after':>12}{'change':>14}"]
            lines += [_row(title, row) for row in frame.head(TOP_ROWS).iter_rows(named=True)]
    return "\n".join(lines)


def change_html(words: Sequence[str], settings: pl.DataFrame, tables: Mapping[str, pl.DataFrame]) -> str:
    """Return the same as HTML; every name in it is escaped."""
    head, *rest = [line for line in words if line]
    parts = [f"<p><b>{_escaped(head)}</b></p>", *(f"<p>{_escaped(line)}</p>" for line in rest)]
    parts += [f"<p>Differs: {_escaped(_difference(row))}</p>" for row in settings.iter_rows(named=True)]
    parts += [_html_table(title, frame) for title, frame in tables.items() if frame.height]
    return f'<div class="mathjax_ignore tex2jax_ignore">{"".join(parts)}</div>'


def signed(value: int, form: Callable[[float], str]) -> str:
    """Return a difference with its sign: ``▲ 7.35 ms`` for more, ``▼ 67.9 ms`` for less."""
    return form(0) if value == 0 else f"{'▲' if value > 0 else '▼'} {form(abs(value))}"


def _difference(row: Mapping[str, str]) -> str:
    return f"{row['name']} {row['before'] or '–'} → {row['after'] or '–'}"


def _cells(title: str, row: Mapping[str, object]) -> tuple[str, str, str, str]:
    unit, form = ("bytes", format_bytes) if title == "Memory" else ("ns", format_ns)
    before, after, delta = (int(str(row[f"{name}_{unit}"])) for name in ("before", "after", "delta"))
    return _name(row), form(before), form(after), signed(delta, form)


def _name(row: Mapping[str, object]) -> str:
    """Return what a row is about, by the columns that it has."""
    if "source" in row:
        return f"{row['line']} {str(row['source']).strip()}"
    if "path" in row:
        return f"{row['path'] or '(model)'} {row['class_name']}".strip()
    return " ".join(str(row[name]) for name in ("device", "name") if name in row)


def _row(title: str, row: Mapping[str, object]) -> str:
    name, before, after, change = _cells(title, row)
    return f"{shortened(printable(name), NAME_CHARS - 1):<{NAME_CHARS}}{before:>12}{after:>12}{change:>14}"


def _html_table(title: str, frame: pl.DataFrame) -> str:
    heads = "".join(
        f'<th align="{"left" if at == 0 else "right"}">{name}</th>'
        for at, name in enumerate((title, "Before", "After", "Change"))
    )
    rows = []
    for row in frame.head(TOP_ROWS).iter_rows(named=True):
        name, *numbers = _cells(title, row)
        cells = "".join(f'<td align="right">{_escaped(number)}</td>' for number in numbers)
        shown = f"<code><bdi>{_escaped(shortened(name, NAME_CHARS))}</bdi></code>"
        rows.append(f'<tr><td align="left">{shown}</td>{cells}</tr>')
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _escaped(text: str) -> str:
    return html.escape(printable(text), quote=True)
