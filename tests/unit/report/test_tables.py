"""One list of tables: properties with docstrings, SQL, pandas, CSV and the page all come from it."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import polars as pl
import pytest
from support import make_trace, span

import torchprof_magic as tp
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.trace import Trace
from torchprof_magic.render.page import build_page
from torchprof_magic.render.view import View, shown, tables
from torchprof_magic.report import changed_views
from torchprof_magic.report.analysis import Analysis
from torchprof_magic.report.tables import HasTables, Tables, with_tables
from torchprof_magic.report.trace_report import Report
from torchprof_magic.report.views import TABLES, VIEWS

LONGEST = Column(name="name", title="Name", unit="code", definition="Name of the event.")
DURATION = Column(name="dur_ns", title="Duration", unit="ns", definition="How long it ran.")


def longest_table(trace: Trace) -> Table:
    frame = trace.events.sort("dur_ns", descending=True).select(pl.col("name").cast(pl.String), "dur_ns")
    return Table(frame=frame, columns=(LONGEST, DURATION))


ADDED: View[Trace] = View(
    name="longest",
    sentence="One row per event, the longest first.",
    columns=(LONGEST, DURATION),
    frame=longest_table,
    title="Longest",
    empty="Nothing ran.",
)


def traced() -> Trace:
    return make_trace(span("aten::mm", 0, 5), span("aten::add", 10, 20))


def test_a_table_is_added_by_one_row_and_one_function() -> None:
    views = (*VIEWS, ADDED)

    @with_tables(tables(views))
    class Larger(HasTables[Trace]):
        """A report with one table more."""

        def __init__(self, trace: Trace) -> None:
            self._tables = Tables(tables(views), trace)

    report = Larger(traced())
    names = ["aten::add", "aten::mm"]
    assert report.longest["name"].to_list() == names
    assert report.sql("SELECT name FROM longest").to_series().to_list() == names
    assert report._tables.flat("longest").write_csv().startswith("name,dur_ns\naten::add,")
    assert "One row per event, the longest first." in (inspect.getdoc(Larger.longest) or "")
    assert "dur_ns (ns)" in (inspect.getdoc(Larger.longest) or "")
    analysis = Analysis(report._tables._source)
    shapes = dict(analysis) | {"longest": ADDED.shape(analysis.trace)}
    page = build_page(analysis.trace, shown(views), shapes, analysis.verdict, "run")
    assert "Longest" in [view["title"] for view in json.loads(page.header)["views"]]
    pytest.importorskip("pandas")
    assert report._tables.to_pandas("longest")["name"].to_list() == names


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_a_docstring_a_definition_of_every_column_and_a_section_in_the_docs(name: str) -> None:
    view, report = TABLES[name], Report(traced())
    described = {column.name for column in view.columns}
    assert name == "metadata" or set(view.data(report.trace).columns) <= described | {"addresses"}
    if not view.python:
        assert " ".join((inspect.getdoc(getattr(Report, name)) or "").split()).startswith(view.sentence)
    page = (Path(__file__).parents[3] / "docs" / "definitions.md").read_text(encoding="utf-8")
    assert view.python or f"report.{name}" in page


@pytest.mark.parametrize("name", changed_views.TABLES)
def test_the_tables_of_a_comparison_come_from_a_list_too(name: str) -> None:
    comparison = Report(traced()).compare(Report(traced()))
    assert isinstance(getattr(comparison, name), pl.DataFrame)
    assert comparison.sql("SELECT * FROM " + name).height == getattr(comparison, name).height  # noqa: S608 - a name of ours


def test_columns_that_hold_lists_are_in_the_property_and_not_in_sql_and_csv() -> None:
    report = Report(traced())
    assert "addresses" in report.leaks.columns
    assert "addresses" not in report.sql("SELECT * FROM leaks").columns


def test_help_lists_the_tables() -> None:
    for name in TABLES:
        assert name in (tp.Report.__doc__ or "")


def test_an_unknown_attribute_is_no_table() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = Report(traced()).nonsense
