"""The tables of a report: properties, SQL and pandas, all from one list of views."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import polars as pl

from torchprof_magic.exporters.pandas_frames import to_pandas
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.report.sql import run_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd

    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.render.view import View

Source = TypeVar("Source")
Owner = TypeVar("Owner", bound="type[HasTables[Any]]")


class Tables(Generic[Source]):
    """The tables of a trace or a part of it, of a job or of two runs, by name, each computed when first asked for."""

    def __init__(self, views: Mapping[str, View[Source]], source: Source, part: TimeRange = WHOLE) -> None:
        self._views = views
        self._source = source
        self._part = part
        self._kept: dict[str, pl.DataFrame] = {}

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self._kept:
            self._kept[name] = self._views[name].data(self._source, self._part)
        return self._kept[name]

    def check(self, name: str) -> None:
        """Raise ``ValueError`` for an unknown table."""
        if name not in self._views:
            raise ValueError(f"unknown table {name!r}; choose from {', '.join(self._views)}")

    def flat(self, name: str) -> pl.DataFrame:
        """Return a table without columns that hold lists, which neither SQL nor CSV has; raises ``ValueError``."""
        self.check(name)
        return self[name].select(column for column in self[name].columns if self[name].schema[column] != pl.List)

    def sql(self, query: str) -> pl.DataFrame:
        """Return the result of a SQL query; only the tables in it are computed."""
        return run_sql(query, {name: partial(self.flat, name) for name in self._views})

    def to_pandas(self, table: str | pl.DataFrame) -> pd.DataFrame:
        """Return a table, or any frame, as a data frame of pandas."""
        return to_pandas(self.flat(table) if isinstance(table, str) else table)


class HasTables(Generic[Source]):
    """A report with a property for every table; see ``with_tables``."""

    _tables: Tables[Source]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> pl.DataFrame:
            """Return a table, as a property that ``with_tables`` made."""

    def sql(self, query: str) -> pl.DataFrame:
        """Return the result of a SQL query over the tables of the report, of which only those in it are computed.

        Events, lanes, stacks and segments have a column ``row`` with their row number, to which ``parent``, ``lane``,
        ``stack``, ``source``, ``target``, ``event`` and ``segment`` refer. Raises ``ValueError`` with the tables and
        columns when the query is invalid.
        """
        return self._tables.sql(query)


def with_tables(views: Mapping[str, View[Any]]) -> Callable[[Owner], Owner]:
    """Give a class a property with a docstring for every table that is not reached in another way."""

    def decorate(owner: Owner) -> Owner:
        for name, view in views.items():
            if not view.python:
                setattr(owner, name, _property(name, view.docstring))
        owner.__doc__ = f"{owner.__doc__}\n    The tables of ``sql``, ``to_pandas`` and CSV: {', '.join(views)}.\n    "
        return owner

    return decorate


def _property(name: str, doc: str) -> property:
    return property(lambda report: report._tables[name], doc=doc)  # noqa: SLF001 - it is a property of the report
