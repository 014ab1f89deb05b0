"""Which line, module, op or wait makes most of the change of a step between two runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from torchprof_magic.findings.compare.change_words import time_or_zero
from torchprof_magic.model.meta import shortened
from torchprof_magic.model.units import format_ratio, printable, short_file

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
# The next row is told beside one that does not explain nearly all, from this part of it on.
_LEAST_NEXT = 0.2
# From here on, two rows that changed are said to make more than the change.
_MORE_THAN_ALL = 1.1
# What only one run does is told from this part of a step on.
_LEAST_ALONE = 0.05


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
    table, row = tables[title], tops[title]
    return _with_next(title, table, row, difference_ns) or Cause(title, _words(title, table, row))


def new_or_gone(tables: Mapping[str, Table], step_ns: float, difference_ns: float = 0) -> Cause | None:
    """Return the row with most of what only one of the runs does; None below a twentieth of the typical step.

    It is there whatever the steps are, also where these vary so much that their change may be chance. Beside it stands
    what else makes a large part of the difference of the typical steps, where that is given.
    """
    alone = {title: only_of_one(tables[title]) for title in _KINDS if title in tables}
    for title, table in alone.items():
        tops = [row for row in (_top(table, 1.0), _top(table, -1.0)) if row is not None]
        row = max(tops, key=lambda each: abs(float(each[str(table.sort_by)])), default=None)
        if row is not None and abs(float(row[str(table.sort_by)])) >= _LEAST_ALONE * step_ns:
            return _with_next(title, tables[title], row, difference_ns) or Cause(title, _words_alone(title, table, row))
    return None


def _with_next(title: str, table: Table, row: Mapping[str, Any], difference_ns: float) -> Cause | None:
    """Return a row and the largest other one, in their order; None if it makes nearly all, or the other little."""
    rows = _rows(table, difference_ns)
    other = next((each for each in rows[:2].iter_rows(named=True) if each != row), None)
    own = _share(table, row, difference_ns) if difference_ns else 0
    share = _share(table, other, difference_ns) if other is not None else 0
    if other is None or own <= 0 or share < _LEAST_NEXT * own or share <= own >= _NEARLY:
        return None
    both = (row, other) if own >= share else (other, row)
    return Cause(title, _words_of_both(title, table, both, difference_ns))


def only_of_one(table: Table) -> Table:
    """Return the rows of a table of changes that only one of the runs has."""
    frame = table.frame
    return replace(
        table, frame=frame.filter(pl.col("status") != "both") if "status" in frame.columns else frame.clear()
    )


def _top(table: Table, difference_ns: float) -> dict[str, Any] | None:
    """Return the row of a table that changed most in the direction of the steps."""
    return next(_rows(table, difference_ns).iter_rows(named=True), None)


def _rows(table: Table, difference_ns: float) -> pl.DataFrame:
    """Return the rows of a table that changed in the direction of the steps, the largest change first."""
    main = table.sort_by
    if main is None or not main.endswith("_ns") or not difference_ns:
        return table.frame.clear()
    frame = table.frame.filter(pl.col(main) * difference_ns > 0)
    return frame.sort(pl.col(main).abs(), descending=True, maintain_order=True)


def _share(table: Table, row: Mapping[str, Any], difference_ns: float) -> float:
    return float(row[str(table.sort_by)] / difference_ns)


def _words(title: str, table: Table, row: Mapping[str, Any]) -> str:
    main = str(table.sort_by)
    before, after = (time_or_zero(row[main.replace("delta", side)]) for side in ("before", "after"))
    times = {"new": after, "gone": before}.get(str(row.get("status")), f"{before} → {after}")
    return f"Mostly {_called(title, row)}: {times} per step."


def _words_alone(title: str, table: Table, row: Mapping[str, Any]) -> str:
    word, side = ("New", "after") if row["status"] == "new" else ("Gone", "before")
    time = time_or_zero(row[str(table.sort_by).replace("delta", side)])
    return f"{word}: {_KINDS[title]} {_name(row)}, {time} per step."


def _words_of_both(
    title: str, table: Table, rows: tuple[Mapping[str, Any], Mapping[str, Any]], difference_ns: float
) -> str:
    """Return two rows with their changes, and what they make of the difference together."""
    sign = "+" if difference_ns > 0 else "−"
    both = ", and ".join(f"{_called(title, row)}, {sign}{time_or_zero(abs(row[str(table.sort_by)]))}" for row in rows)
    share = sum(_share(table, row, difference_ns) for row in rows)
    if share > _MORE_THAN_ALL:
        return f"Largest changes are {both}: more than the whole change."
    return f"Largest changes are {both}: {format_ratio(share) if share < 1 else 'all'} of the change."


def _called(title: str, row: Mapping[str, Any]) -> str:
    """Return what a row is, and whether only one of the runs has it."""
    status = row.get("status")
    return f"{_KINDS[title]} {_name(row)}{f', which is {status}' if status in ('new', 'gone') else ''}"


def _name(row: Mapping[str, Any]) -> str:
    """Return what a row is called: a line by its number and its text, and by its file where it has no text."""
    if "line" not in row:
        return printable(str(row.get("path") or row["name"]))
    text = shortened(str(row["source"] or "").strip())
    place = str(row["line"]) if text else f"{short_file(str(row.get('file') or ''))}:{row['line']}"
    return printable(f"{place}, {text}" if text else place)
