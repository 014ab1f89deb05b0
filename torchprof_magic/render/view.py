"""``View``: one row of the list of what a report has: a table in Python, a tab of the page, or both."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import polars as pl

from torchprof_magic.facts.time_range import WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.shapes import Column, Series, Shape, Table
    from torchprof_magic.model.trace import FrameColumn

Source = TypeVar("Source")
Result = TypeVar("Result")
# How wide docstrings are.
_WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class View(Generic[Source]):
    """One row of the list of what a report has.

    A row with a ``frame`` is a table: a property of the report with its docstring, a table of ``sql``, ``to_pandas``
    and CSV, and a section of docs/definitions.md. A row with a ``title`` is a part of the page.

    Attributes:
        name: Stable name in the page, as in ``report.figure(name)``.
        table: Name of the table, where that is not ``name``.
        sentence: What it has or shows, in one sentence.
        details: More of it, in Markdown.
        columns: The columns of the table, or the bands of its curves, with unit and definition.
        frame: Returns the table of a trace, or of a job of many ranks.
        python: How the table is reached in Python, where it is no property of the report.
        build: Returns what the page shows, where that is not the table as it is.
        title: What the tab is called; empty for a table that the page does not show.
        empty: The sentence that stands there when there is nothing to show.
        is_counted: Whether the tab carries its number of entries.
        place: Where it is shown: in a tab, as a grouping of the tab called ``tab``, in the strip of the steps, or in
            "About this run".
        tab: Name of the tab that a grouping belongs to.
        group: What a grouping is called.
        flag: What brings it, if it was not recorded: a flag of ``%%torchprof``.
        is_there: Whether a recording has it. Such a view is built when it is first shown, unless it has a tab.
        is_live: Whether it asks the objects of the process, which only the one that recorded has. Files have no such
            view.
        follows_range: Whether ``frame`` and ``build`` also take a ``part`` of the time. The page asks the kernel for
            that part when a step or a range is chosen; otherwise it shows all steps.
        is_per_step: Whether the page gives what it shows per step: of the steps that count. Such a view follows ranges.
    """

    name: str
    table: str = ""
    sentence: str
    details: str = ""
    columns: tuple[Column | FrameColumn, ...] = ()
    frame: Callable[..., pl.DataFrame | Table | Series] | None = None
    python: str = ""
    build: Callable[..., Shape] | None = None
    title: str = ""
    empty: str = ""
    is_counted: bool = False
    place: Literal["tab", "group", "strip", "about"] = "tab"
    tab: str = ""
    group: str = ""
    flag: str = ""
    is_there: Callable[[Source], bool] | None = None
    is_live: bool = False
    follows_range: bool = False
    is_per_step: bool = False

    def data(self, source: Source, part: TimeRange = WHOLE) -> pl.DataFrame:
        """Return the table of a part of the time; raises ``TypeError`` for a row that has none."""
        if self.frame is None:
            raise TypeError(f"{self.name} is not a table")
        found = self._called(self.frame, source, part)
        return found if isinstance(found, pl.DataFrame) else found.frame

    def shape(self, source: Source, part: TimeRange = WHOLE) -> Shape:
        """Return what the page shows of a part of the time; raises ``TypeError`` for a row that it does not show."""
        build = self.build or self.frame
        found = self._called(build, source, part) if build is not None else None
        if found is None or isinstance(found, pl.DataFrame):
            raise TypeError(f"the page does not show {self.name}")
        return found

    def _called(self, build: Callable[..., Result], source: Source, part: TimeRange) -> Result:
        return build(source, part=part) if self.follows_range else build(source)

    @property
    def table_name(self) -> str:
        """The name of the table in ``sql`` and CSV."""
        return self.table or self.name

    @property
    def docstring(self) -> str:
        """What ``help(report)`` says of the table: the sentence, the details, and every column with its unit."""
        columns = "\n".join(f"    {column.name} ({column.unit})" for column in self.columns)
        text = "\n\n".join(textwrap.fill(part, _WIDTH) for part in (self.sentence, *self.details.split("\n\n")) if part)
        known = f"Columns with their units; docs/definitions.md has every definition:\n\n{columns}" if columns else ""
        return f"{text}\n\n{known}".strip() + "\n"


def shown(views: tuple[View[Source], ...]) -> tuple[View[Source], ...]:
    """Return the views that the page shows, in its order."""
    return tuple(view for view in views if view.title)


def tables(views: tuple[View[Source], ...]) -> dict[str, View[Source]]:
    """Return the views that are tables, by the names of the tables."""
    return {view.table_name: view for view in views if view.frame is not None}
