"""What a comparison of two runs has, one row each: its tables in Python and its views of the tab Compare."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.findings.compare.change_flame import change_flame
from torchprof_magic.findings.compare.changes import (
    DEVICE_TIMES,
    KERNEL_COLUMNS,
    SIZE_COLUMNS,
    STEP_COLUMNS,
    TIME_COLUMNS,
    TIMES,
    cell_diff,
    changed_idle,
    changed_kernels,
    changed_lines,
    changed_memory,
    changed_modules,
    changed_ops,
    changed_phases,
    changed_waits,
    sorted_by,
)
from torchprof_magic.findings.compare.setting_changes import changed_settings
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.render.view import View, shown, tables

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
_DEVICE = _named("device", "Device", "Device whose memory it is.")
_SIGN = Column(name="sign", title="Sign", unit="text", definition="+ for a new line, - for one that went, else empty.")
_SETTINGS = tuple(
    Column(name=name, title=name.capitalize(), unit="text", definition=text)
    for name, text in (
        ("name", "What differs."),
        ("before", "What it was in the run before, as text."),
        ("after", "What it was in the run after, as text."),
    )
)


def _times(frame: pl.DataFrame, *columns: Column) -> Table:
    """Return changed times as a table; the columns of what was not recorded are absent."""
    there = [replace(each, has_bar=each.is_change) for each in columns if each.name in frame.columns]
    main = sorted_by(frame)
    if DEVICE_TIMES[-1] in frame.columns:
        there = _on_both(there, main)
    return Table(frame=frame.select(each.name for each in there), columns=tuple(there), sort_by=main)


def _on_both(columns: list[Column], main: str) -> list[Column]:
    """Return the columns of times on host and device: those of the main change first, the others minor."""
    first, second = (DEVICE_TIMES, TIMES) if main in DEVICE_TIMES else (TIMES, DEVICE_TIMES)
    # Where only one of the others fits, it is the change.
    order = (*first, second[-1], *second[:-1])
    titled = {each.name: f"Host {each.title.lower()}" if each.name in TIMES else each.title for each in columns}
    times = {each.name: replace(each, title=titled[each.name]) for each in columns}
    times |= {name: replace(times[name], is_minor=True, has_bar=False) for name in second}
    ordered = iter(order)
    return [times[next(ordered)] if each.name in order else each for each in columns]


def _bytes(frame: pl.DataFrame) -> Table:
    named = frame.select(pl.format("{} {}", "device", "name").alias("name"), *(each.name for each in SIZE_COLUMNS))
    columns = (_NAME, *(replace(each, has_bar=each.is_change) for each in SIZE_COLUMNS))
    return Table(frame=named, columns=columns, sort_by=columns[-1].name)


def _code(runs: Runs) -> Table:
    frame = cell_diff(runs)
    if not (frame["sign"] != "").any():
        frame = frame.clear()
    shown = frame.with_columns(
        pl.format("{} {}", pl.col("sign").replace({"": " ", "-": "−"}), "source").alias("source")
    )
    return Table(frame=shown.select("source", "line_before", "line_after"), columns=(_SOURCE, *_NUMBERS))


def _view(
    table: str,
    sentence: str,
    columns: tuple[Column, ...],
    frame: Callable[[Runs], pl.DataFrame],
    group: str = "",
    build: Callable[[Runs], FramedShape] | None = None,
) -> View[Runs]:
    """Return a table of changes; with a ``group``, it is a part of the tab Compare, of times unless it is built."""
    return View(
        name=f"{TAB}_{table}",
        table=table,
        sentence=sentence,
        columns=columns,
        frame=frame,
        build=build or (lambda runs: _times(frame(runs), *columns)) if group else None,
        title="Compare" if group else "",
        empty="Neither run has any.",
        place="group",
        tab=TAB,
        group=group,
    )


VIEWS: tuple[View[Runs], ...] = (
    replace(
        _view("ops", "One row per op or annotation, by `name`.", (_NAME, *TIME_COLUMNS), changed_ops, "Ops"),
        name=TAB,
        place="tab",
    ),
    _view(
        "kernels",
        "One row per kernel, copy or fill, by `name`, with its time on the device; empty without one in both.",
        (_NAME, *KERNEL_COLUMNS),
        changed_kernels,
        "Kernels",
    ),
    _view(
        "modules",
        "One row per module, by `path` and `class_name`: forward and backward without the modules inside it.",
        (_PATH, _CLASS, *TIME_COLUMNS),
        changed_modules,
        "Modules",
    ),
    _view(
        "lines",
        "One row per line of the program: `file, line, source`. Lines that moved within the cell are recognised.",
        (_SOURCE, _LINE, _FILE, *TIME_COLUMNS),
        changed_lines,
        "Lines",
    ),
    _view(
        "phases",
        "One row per phase of a step, in ns per step.",
        (_NAME, *STEP_COLUMNS),
        changed_phases,
        "Phases",
    ),
    _view("waits", "One row per blocking call, in ns per step.", (_NAME, *STEP_COLUMNS), changed_waits, "Waits"),
    _view(
        "idle",
        "One row per cause for which a device idled, in ns per step.",
        (_NAME, *STEP_COLUMNS),
        changed_idle,
        "Why the device waits",
    ),
    _view(
        "memory",
        "The peak of each `device` in bytes, and what was in use then by `name` of its category.",
        (_DEVICE, _NAME, *SIZE_COLUMNS),
        changed_memory,
        "Memory",
        lambda runs: _bytes(changed_memory(runs)),
    ),
    View(
        name="compare_flame",
        sentence="The call trees of both runs in one, each box with its change.",
        build=change_flame,
        title="Compare",
        empty="Neither run has any.",
        place="group",
        tab=TAB,
        group="Flame",
    ),
    _view(
        "code",
        "The lines of both cells: `sign` is `+` for a new one, `-` for one that went, else empty.",
        (_SIGN, *_NUMBERS, _SOURCE),
        cell_diff,
        "Code",
        _code,
    ),
    _view(
        "settings",
        "What differs besides: versions, devices, flags, shapes, metadata; as text, one row per `name`.",
        _SETTINGS,
        lambda runs: changed_settings(runs.before, runs.after),
    ),
)
TABS = shown(VIEWS)
TABLES = tables(VIEWS)
