"""The modules as they are shown: a tree in which equal siblings are merged into one row that opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import polars as pl

from torchprof_magic.analysis.modules import OUTSIDE, SCHEMA, modules_table
from torchprof_magic.analysis.shared import once_per_trace
from torchprof_magic.model.shapes import Outline, Table

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# This many siblings of one class in a row are merged.
LEAST_MERGED = 3
# Trees of which at most so many rows are in no merged one are open as a whole at first.
SMALL = 32
# Modules that are deeper stand beside the one around them; no program nests them so deep.
MAX_LEVELS = 64
_SUMMED = [name for name, dtype in SCHEMA.items() if dtype == pl.Int64]
_Row: TypeAlias = "dict[str, object]"


class _Siblings(NamedTuple):
    """Modules of one class that follow each other, the id of the row around them, and how many are around that."""

    run: list[_Row]
    above: str
    level: int


@once_per_trace
def modules_view(trace: Trace) -> Table:
    """Return the modules as a tree; ``report.modules`` has the same rows without those that merge siblings."""
    table = modules_table(trace)
    shown = _outlined(table.frame.to_dicts())
    names = [column.name for column in table.columns if column.name != "parent"]
    schema = {"id": pl.String, "above": pl.String, "is_merged": pl.Boolean, **SCHEMA}
    frame = pl.DataFrame(shown, schema=schema).select("id", "above", pl.col("is_merged").fill_null(value=False), *names)
    columns = tuple(column for column in table.columns if column.name != "parent")
    depth = 9 if _count_outside_of_merged(shown) <= SMALL else 2
    outline = Outline(id="id", parent="above", open_levels=depth, closed="is_merged")
    return Table(frame=frame, columns=columns, outline=outline)


def _count_outside_of_merged(shown: list[_Row]) -> int:
    closed: set[object] = set()
    for row in shown:
        if row.get("is_merged") or row["above"] in closed:
            closed.add(row["id"])
    return sum(row["above"] not in closed for row in shown)


def _outlined(rows: list[_Row]) -> list[_Row]:
    """Return every module followed by those in it, runs of equal siblings below a row of their own."""
    children: dict[object, list[_Row]] = {}
    for row in rows:
        children.setdefault(row["parent"], []).append(row)
    shown: list[_Row] = []
    waiting = [_Siblings(run, "", 0) for run in reversed(_runs(children.pop(None, [])))]
    while waiting:
        run, above, level = waiting.pop()
        if len(run) >= LEAST_MERGED:
            around = f"{above}\n{run[0]['path']}"
            shown.append({**_merged(run), "id": around, "above": above})
        else:
            around = above
        if len(run) > 1:
            waiting.extend(_Siblings([row], around, level) for row in reversed(run))
            continue
        (row,) = run
        own = f"{above}\n={row['path']}"
        shown.append({**row, "id": own, "above": above, "path": _label(row) or str(row["class_name"])})
        below = _runs(children.pop(row["path"], []))
        deeper = (own, level + 1) if level < MAX_LEVELS else (above, level)
        waiting.extend(_Siblings(inside, *deeper) for inside in reversed(below))
    return shown


def _label(row: _Row) -> str:
    """Return the path of a module from the one around it."""
    path, parent = str(row["path"]), row["parent"]
    return path.removeprefix(f"{parent}.") if parent else path


def _runs(rows: list[_Row]) -> list[list[_Row]]:
    """Return runs of siblings of the same class."""
    runs: list[list[_Row]] = []
    for row in rows:
        if runs and runs[-1][0]["class_name"] == row["class_name"] and row["path"] != OUTSIDE:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def _merged(run: list[_Row]) -> _Row:
    sums = {
        name: None if any(row[name] is None for row in run) else sum(int(str(row[name])) for row in run)
        for name in _SUMMED
    }
    shapes = {name: run[0][name] if len({row[name] for row in run}) == 1 else None for name in ("inputs", "outputs")}
    return {
        **sums,
        **shapes,
        "is_merged": True,
        "path": f"{_label(run[0])} … {_label(run[-1])}",
        "class_name": f"{run[0]['class_name']} ×{len(run)}",
    }
