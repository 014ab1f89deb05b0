"""The tables of a part of the time, as users ask for them."""

from __future__ import annotations

import inspect

import pytest
from support import annotation, make_trace, span

from torchprof_magic.report.part import PART_TABLES, ReportPart
from torchprof_magic.report.trace_report import Report


def two_steps() -> Report:
    """A wait of 30 us in the first step and one of 60 us that ends 20 us into the second, on another thread."""
    return Report(
        make_trace(
            annotation("ProfilerStep#0", 0, 100),
            span("cudaStreamSynchronize", 10, 30, cat="cuda_runtime", tid=2),
            span("cudaStreamSynchronize", 60, 60, cat="cuda_runtime", tid=2),
            annotation("ProfilerStep#1", 100, 100),
        )
    )


def test_a_part_has_the_tables_of_the_report_for_its_time() -> None:
    report = two_steps()
    found = [report.between(start, start + 100_000).waits.select("count", "total_ns").rows() for start in (0, 100_000)]
    assert found == [[(2, 70_000)], [(1, 20_000)]]
    assert report.waits.select("count", "total_ns").rows() == [(2, 90_000)]


def test_the_tables_of_a_part_are_queried_together() -> None:
    part = two_steps().between(0, 50_000)
    assert part.sql("SELECT total_ns FROM waits").item() == 30_000
    with pytest.raises(ValueError, match="steps"):
        part.sql("SELECT * FROM steps")


@pytest.mark.parametrize("table", PART_TABLES)
def test_every_table_of_a_part_has_a_docstring(table: str) -> None:
    assert (inspect.getdoc(getattr(ReportPart, table)) or "").startswith(PART_TABLES[table].sentence[:40])


def test_a_part_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match=r"end_ns must be at least start_ns \(got 5 and 4\)"):
        two_steps().between(5, 4)
