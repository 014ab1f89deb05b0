"""The modules as they are shown: a tree in which equal siblings are merged into one row that opens."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
_SUMMED = [name for name, dtype in SCHEMA.items() if dtype == pl.Int64]


@once_per_trace
def modules_view(trace: Trace) -> Table:
    """Return the modules as a tree; ``report.modules`` has the same rows without those that merge siblings."""
    table = modules_table(trace)
    rows = table.frame.to_dicts()
    children: dict[str | None, list[dict[str, object]]] = {}
    for row in rows:
        children.setdefault(row["parent"], []).append(row)
    shown: list[dict[str, object]] = []
    _add(shown, children, None, "")
    names = [column.name for column in table.columns if column.name != "parent"]
    schema = {"id": pl.String, "above": pl.String, "is_merged": pl.Boolean, **SCHEMA}
    frame = pl.DataFrame(shown, schema=schema).select("id", "above", pl.col("is_merged").fill_null(value=False), *names)
    columns = tuple(column for column in table.columns if column.name != "parent")
    depth = 9 if _count_outside_of_merged(shown) <= SMALL else 2
    outline = Outline(id="id", parent="above", open_levels=depth, closed="is_merged")
    return Table(frame=frame, columns=columns, outline=outline)


def _count_outside_of_merged(shown: list[dict[str, object]]) -> int:
    closed: set[object] = set()
    for row in shown:
        if row.get("is_merged") or row["above"] in closed:
            closed.add(row["id"])
    return sum(row["above"] not in closed for row in shown)


def _add(
    shown: list[dict[str, object]],
    children: dict[str | None, list[dict[str, object]]],
    parent: str | None,
    above: str,
) -> None:
    """Add the children of a module, runs of equal siblings below a row of their own."""
    for run in _runs(children.get(parent, [])):
        around = above
        if len(run) >= LEAST_MERGED:
            around = f"{above}\n{run[0]['path']}"
            shown.append(_merged(run, parent, around, above))
        for row in run:
            path = str(row["path"])
            own = f"{around}\n={path}"
            label = path.removeprefix(f"{parent}.") if parent else path
            shown.append({**row, "id": own, "above": around, "path": label or str(row["class_name"])})
            if path != parent:
                _add(shown, children, path, own)


def _runs(rows: list[dict[str, object]]) -> list[list[dict[str, object]]]:
    """Return runs of siblings of the same class."""
    runs: list[list[dict[str, object]]] = []
    for row in rows:
        if runs and runs[-1][0]["class_name"] == row["class_name"] and row["path"] != OUTSIDE:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def _merged(run: list[dict[str, object]], parent: str | None, own: str, above: str) -> dict[str, object]:
    first, last = (
        str(row["path"]).removeprefix(f"{parent}.") if parent else str(row["path"]) for row in (run[0], run[-1])
    )
    sums = {
        name: None if any(row[name] is None for row in run) else sum(int(str(row[name])) for row in run)
        for name in _SUMMED
    }
    shapes = {name: run[0][name] if len({row[name] for row in run}) == 1 else None for name in ("inputs", "outputs")}
    label = f"{first} … {last}"
    return {
        **sums,
        **shapes,
        "id": own,
        "above": above,
        "is_merged": True,
        "path": label,
        "class_name": f"{run[0]['class_name']} ×{len(run)}",
    }
