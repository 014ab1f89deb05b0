"""The views of the tab Compare, in display order, one entry each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import polars as pl

from torchprof_magic.findings.compare.change_flame import change_flame
from torchprof_magic.findings.compare.changes import (
    TIME_COLUMNS,
    cell_diff,
    changed_idle,
    changed_kernels,
    changed_lines,
    changed_memory,
    changed_modules,
    changed_ops,
    changed_phases,
    changed_waits,
)
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.render.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.findings.compare.changes import Runs
    from torchprof_magic.model.shapes import FramedShape

TAB = "compare"


def _named(name: str, title: str, definition: str) -> Column:
    return Column(name=name, title=title, unit="code", definition=definition)


_NAME = _named("name", "Name", "Name of the row, equal in both runs.")
_PATH = _named("path", "Module", "Path of attributes from the model.")
_CLASS = replace(_named("class_name", "Class", "Class of the module."), is_minor=True)
_SOURCE = Column(name="source", title="Source", unit="code", definition="Text of the line.", is_verbatim=True)
_LINE = Column(name="line", title="Line", unit="count", definition="Its number after, or before if it went.")
_FILE = Column(name="file", title="File", unit="text", definition="File of the line, or the cell.", is_minor=True)
_NUMBERS = tuple(
    Column(name=name, title=title, unit="count", definition=f"Number of the line {title.lower()}.")
    for name, title in (("line_before", "Before"), ("line_after", "After"))
)


def _times(frame: pl.DataFrame, *keys: Column) -> Table:
    """Return changed times as a table; the columns of what was not recorded are absent."""
    columns = [replace(each, has_bar=each.is_change) for each in TIME_COLUMNS if each.name in frame.columns]
    return Table(frame=frame.select(*(each.name for each in (*keys, *columns))), columns=(*keys, *columns))


def _bytes(frame: pl.DataFrame) -> Table:
    named = frame.with_columns(pl.format("{} {}", "device", "name").alias("name"))
    columns = [
        replace(each, unit="bytes", has_bar=each.is_change, definition=each.definition.split(", in ns")[0])
        for each in TIME_COLUMNS
        if each.name in ("before", "after", "delta")
    ]
    return Table(frame=named.select("name", "before", "after", "delta"), columns=(_NAME, *columns))


def _code(runs: Runs) -> Table:
    frame = cell_diff(runs)
    if not (frame["sign"] != "").any():
        frame = frame.clear()
    shown = frame.with_columns(
        pl.format("{} {}", pl.col("sign").replace({"": " ", "-": "−"}), "source").alias("source")
    )
    return Table(frame=shown.select("source", "line_before", "line_after"), columns=(_SOURCE, *_NUMBERS))


def _modules(runs: Runs) -> Table:
    return _times(changed_modules(runs), _PATH, _CLASS)


def _lines(runs: Runs) -> Table:
    return _times(changed_lines(runs), _SOURCE, _LINE, _FILE)


def _view(
    name: str, group: str, build: Callable[[Runs], FramedShape], *, place: Literal["tab", "group"] = "group"
) -> View[Runs]:
    return View(
        name=name, title="Compare", build=build, empty="Neither run has any.", place=place, tab=TAB, group=group
    )


COMPARED_VIEWS = (
    _view(TAB, "Ops", lambda runs: _times(changed_ops(runs), _NAME), place="tab"),
    _view("compare_kernels", "Kernels", lambda runs: _times(changed_kernels(runs), _NAME)),
    _view("compare_modules", "Modules", _modules),
    _view("compare_lines", "Lines", _lines),
    _view("compare_phases", "Phases", lambda runs: _times(changed_phases(runs), _NAME)),
    _view("compare_waits", "Waits", lambda runs: _times(changed_waits(runs), _NAME)),
    _view("compare_idle", "GPU waits", lambda runs: _times(changed_idle(runs), _NAME)),
    _view("compare_memory", "Memory", lambda runs: _bytes(changed_memory(runs))),
    _view("compare_flame", "Flame", change_flame),
    _view("compare_code", "Code", _code),
)
