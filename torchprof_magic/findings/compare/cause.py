"""Which line, module, op or wait makes most of the change of a step between two runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from torchprof_magic.findings.compare.change_words import time_or_zero
from torchprof_magic.model.meta import shortened
from torchprof_magic.model.units import printable, short_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchprof_magic.model.shapes import Table

# The tables that can explain a change and what their rows are called, those that say most of the code first.
_KINDS = {
    "Lines": "line",
    "Waits": "waiting in",
    "Modules": "module",
    "Ops": "op",
    "Kernels": "kernel",
    "Why the device waits": "the device waiting for",
}
# A row explains a change if it makes at least half of it, and about as much as any row of the other tables.
_LEAST_SHARE = 0.5
_NEARLY = 0.8


class Cause(NamedTuple):
    """The row that explains a change: the title of its table, and what it is and does, as a sentence."""

    table: str
    words: str


def cause_of(tables: Mapping[str, Table], difference_ns: float) -> Cause | None:
    """Return the row that makes most of the difference of the typical steps; None if no single one does.

    ``tables`` are those of a comparison by their titles.
    """
    found = {title: _top(tables[title], difference_ns) for title in _KINDS if title in tables}
    tops = {title: row for title, row in found.items() if row is not None}
    most = max((_share(tables[title], row, difference_ns) for title, row in tops.items()), default=0.0)
    if most < _LEAST_SHARE:
        return None
    title = next(each for each, row in tops.items() if _share(tables[each], row, difference_ns) >= _NEARLY * most)
    return Cause(title, _words(title, tables[title], tops[title]))


def _top(table: Table, difference_ns: float) -> dict[str, Any] | None:
    """Return the row of a table that changed most in the direction of the steps."""
    main = table.sort_by
    if main is None or not main.endswith("_ns") or not difference_ns:
        return None
    frame = table.frame.filter(pl.col(main) * difference_ns > 0)
    return frame.sort(pl.col(main).abs(), descending=True).row(0, named=True) if frame.height else None


def _share(table: Table, row: Mapping[str, Any], difference_ns: float) -> float:
    return float(row[str(table.sort_by)] / difference_ns)


def _words(title: str, table: Table, row: Mapping[str, Any]) -> str:
    main = str(table.sort_by)
    before, after = (time_or_zero(row[main.replace("delta", side)]) for side in ("before", "after"))
    new = {"new": ", which is new", "gone": ", which is gone"}.get(str(row.get("status")), "")
    return f"Mostly {_KINDS[title]} {_name(row)}{new}: {before} → {after} per step."


def _name(row: Mapping[str, Any]) -> str:
    """Return what a row is called: a line by its number and its text, and by its file where it has no text."""
    if "line" not in row:
        return printable(str(row.get("path") or row["name"]))
    text = shortened(str(row["source"] or "").strip())
    place = str(row["line"]) if text else f"{short_file(str(row.get('file') or ''))}:{row['line']}"
    return printable(f"{place}, {text}" if text else place)
