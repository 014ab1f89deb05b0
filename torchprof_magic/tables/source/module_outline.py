"""The modules as they are shown: a tree in which equal siblings are merged into one row that opens."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import polars as pl

from torchprof_magic.facts.shared import once_for_the_whole
from torchprof_magic.model.shapes import Column, Outline, Table, both_passes
from torchprof_magic.tables.source.modules import OUTSIDE, SCHEMA, modules_table, own_times

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace

Row: TypeAlias = dict[str, object]

# This many siblings of one class in a row are merged.
LEAST_MERGED = 3
# Trees of which at most so many rows are in no merged one are open as a whole at first.
SMALL = 32
# Modules with at least so much of the most time are as hot, such as the equal layers of a model.
EQUAL = 0.8
# Which rows are open is a column, however deep they are.
MOST_LEVELS = 10_000
# The bars of both passes.
_BOTH = (
    Column(
        name="both_cpu_ns",
        title="Total CPU",
        unit="ns",
        definition="Host time of its forward and of its backward pass, with everything inside.",
        has_bar=True,
        is_sum=True,
        parts=both_passes("total_cpu_ns", "backward_cpu_ns"),
    ),
    Column(
        name="both_device_ns",
        title="Total device",
        unit="ns",
        definition="Summed time of device work that both passes launched, with everything inside.",
        has_bar=True,
        is_sum=True,
        parts=both_passes("device_ns", "backward_device_ns"),
    ),
)
# What stands after each: the time without the modules inside.
_OWN = {
    total: Column(
        name=name,
        title=f"Self {where}",
        unit="ns",
        definition=f"Total {where} without that of modules inside it; of a row of several modules their sum.",
        has_bar=True,
        is_sum=True,
    )
    for total, name, where in (
        ("both_cpu_ns", "own_cpu_ns", "CPU"),
        ("both_device_ns", "own_device_ns", "device"),
    )
}
_OWN_NAMES = tuple(column.name for column in _OWN.values())
_SUMMED = [*(name for name, dtype in SCHEMA.items() if dtype == pl.Int64), *_OWN_NAMES]


class _Entry(NamedTuple):
    """A row to show: a module, or a run of equal siblings, below the row with the id ``above``."""

    row: Row
    above: str
    run: list[Row]


@once_for_the_whole
def modules_view(trace: Trace, part: TimeRange) -> Table:
    """Return the modules as a tree; ``report.modules`` has the same rows without those that merge siblings.

    The forward and the backward pass of a module are one bar.
    """
    table = modules_table(trace, part)
    schema = {
        "id": pl.String,
        "above": pl.String,
        "is_closed": pl.Boolean,
        "is_extra": pl.Boolean,
        "full_path": pl.String,
        **SCHEMA,
        **dict.fromkeys(_OWN_NAMES, pl.Int64),
    }
    shown = _with_closed(_shown(_with_own(table.frame).to_dicts()), _BOTH[int(trace.has_device)])
    frame = pl.DataFrame(shown, schema=schema).with_columns(
        pl.sum_horizontal(part.column for part in column.parts).alias(column.name) for column in _BOTH
    )
    # Work that no module launched is of neither pass.
    halves = [part.column for column in _BOTH for part in column.parts]
    frame = frame.with_columns(pl.when(pl.col("path") != OUTSIDE).then(pl.col(name)).alias(name) for name in halves)
    columns = _with_both_passes([column for column in table.columns if column.name != "parent"], frame)
    names = dict.fromkeys((*(column.name for column in columns), *(each for each in halves if each in frame.columns)))
    is_rest = (pl.col("path") == OUTSIDE).alias("is_rest")
    frame = frame.select("id", "above", "is_closed", "is_extra", "full_path", is_rest, *names)
    outline = Outline(id="id", parent="above", open_levels=MOST_LEVELS, closed="is_closed", extra="is_extra")
    return Table(frame=frame, columns=columns, outline=outline, rest="is_rest")


def _with_own(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the modules with the times of both passes without those inside; none of what is in no module."""
    is_module = pl.col("path") != OUTSIDE
    owns = [own_times(frame, *(part.column for part in bar.parts)).alias(_OWN[bar.name].name) for bar in _BOTH]
    return frame.with_columns(owns).with_columns(pl.when(is_module).then(pl.col(*_OWN_NAMES)))


def _with_closed(shown: list[Row], heat: Column) -> list[Row]:
    """Return the rows with which are closed at first, and which are no modules.

    Closed are merged rows with all in them, and what is deep in a large tree; but the path of those with the most time
    is open, so that the module with the most time is seen.
    """
    hot, levels = _hot_path(shown, heat), 9 if _count_outside_of_merged(shown) <= SMALL else 2
    depth, in_merged = {"": -1}, {"": False}
    for row in shown:
        own, above = str(row["id"]), str(row["above"])
        depth[own], in_merged[own] = depth[above] + 1, in_merged[above] or bool(row.get("is_merged"))
        row["is_closed"] = own not in hot and (in_merged[own] or depth[own] >= levels)
        row["is_extra"] = bool(row.get("is_merged")) or row["path"] == OUTSIDE
    return shown


def _hot_path(shown: list[Row], heat: Column) -> set[object]:
    """Return the ids of the row with the most time, of that with the most in it, and so on; the first of equals."""
    inside: dict[object, list[tuple[int, object]]] = {}
    for row in shown:
        if row["path"] != OUTSIDE:
            ns = sum(int(str(row[part.column] or 0)) for part in heat.parts)
            inside.setdefault(row["above"], []).append((ns, row["id"]))
    path: set[object] = set()
    own: object = ""
    while rows := inside.get(own):
        least = EQUAL * max(ns for ns, _ in rows)
        own = next(each for ns, each in rows if ns >= least)
        path.add(own)
    return path


def _with_both_passes(columns: list[Column], frame: pl.DataFrame) -> tuple[Column, ...]:
    """Return the columns with the bars of both passes, each before its halves, which are numbers, and own times.

    Where only the forward pass ran, the bar alone says it all.
    """
    of_name = {column.name: column for column in columns}
    first = next(at for at, column in enumerate(columns) if column.name == "self_cpu_ns")
    shown: list[Column] = []
    for bar in _BOTH:
        halves = [of_name.pop(part.column) for part in bar.parts if part.column in of_name]
        if halves:
            has_both = all(frame[half.name].sum() > 0 for half in halves)
            shown += [bar, _OWN[bar.name], *(replace(half, has_bar=False) for half in halves if has_both)]
    # The self times of both passes say more.
    rest = [
        replace(column, is_minor=True) if column.name == "self_cpu_ns" else column
        for column in columns
        if column.name in of_name
    ]
    return (*rest[:first], *shown, *rest[first:])


def _count_outside_of_merged(shown: list[Row]) -> int:
    closed: set[object] = set()
    for row in shown:
        if row.get("is_merged") or row["above"] in closed:
            closed.add(row["id"])
    return sum(row["above"] not in closed for row in shown)


def _shown(rows: list[Row]) -> list[Row]:
    """Return the rows in preorder, runs of equal siblings below a row of their own.

    In a file of another program, modules can be nested deeper than functions may be, and in a ring.
    """
    children: dict[str | None, list[Row]] = {}
    for row in rows:
        children.setdefault(row["parent"], []).append(row)  # type: ignore[arg-type]
    shown: list[Row] = []
    pending = _entries(children.pop(None, []), None, "")[::-1]
    while pending:
        row, above, run = pending.pop()
        own = str(len(shown))
        shown.append({**row, "id": own, "above": above})
        if run:
            pending += [_module(each, row["parent"], own) for each in reversed(run)]
        else:
            path = str(row["full_path"])
            pending += reversed(_entries(children.pop(path, []), path, own))
    return shown


def _entries(rows: list[Row], parent: str | None, above: str) -> list[_Entry]:
    """Return the entries of siblings, in order."""
    return [
        entry
        for run in _runs(rows)
        for entry in (
            [_Entry(_merged(run, parent), above, run)]
            if len(run) >= LEAST_MERGED
            else [_module(row, parent, above) for row in run]
        )
    ]


def _module(row: Row, parent: object, above: str) -> _Entry:
    path = str(row["path"])
    label = path.removeprefix(f"{parent}.") if parent else path
    return _Entry({**row, "path": label or str(row["class_name"]), "full_path": path}, above, [])


def _runs(rows: list[Row]) -> list[list[Row]]:
    """Return runs of siblings of the same class."""
    runs: list[list[Row]] = []
    for row in rows:
        if runs and runs[-1][0]["class_name"] == row["class_name"] and row["path"] != OUTSIDE:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def _merged(run: list[Row], parent: str | None) -> Row:
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
        "parent": parent,
        "is_merged": True,
        "path": label,
        "class_name": f"{run[0]['class_name']} ×{len(run)}",
    }
