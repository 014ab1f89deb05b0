from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import allocation, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.report import Report

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def report() -> Report:
    return Report(
        make_trace(
            annotation("ProfilerStep#3", 0, 100),
            frame("train.py(3): step", 1, 90),
            span("aten::mm", 2, 30),
            span("aten::add", 40, 5),
            launch(4, 2, correlation=1),
            kernel("gemm", 20, 70, correlation=1),
            allocation(12, 512, 512),
        )
    )


def test_names_and_categories_are_text_so_that_like_finds_them(report: Report) -> None:
    found = report.sql(
        "SELECT name, dur_ns FROM events WHERE name LIKE 'aten::%' AND category = 'cpu_op' ORDER BY dur_ns"
    )
    assert found.rows() == [("aten::add", 5_000), ("aten::mm", 30_000)]


def test_rows_can_be_joined_by_row_numbers(report: Report) -> None:
    found = report.sql(
        "SELECT calls.name AS call, work.name AS work FROM flows JOIN events AS calls ON flows.source = calls.row "
        "JOIN events AS work ON flows.target = work.row"
    )
    assert found.rows() == [("cudaLaunchKernel", "gemm")]


@pytest.mark.parametrize(
    "table", ["events", "ops", "kernels", "steps", "flows", "memory", "lanes", "stacks", "devices"]
)
def test_every_frame_is_a_table(report: Report, table: str) -> None:
    assert report.sql(f"SELECT * FROM {table}").height > 0  # noqa: S608 - the names above


def test_a_wrong_query_names_the_tables_and_columns(report: Report) -> None:
    with pytest.raises(ValueError, match=r"(?s)wrong_column.*kernels: name, .*other tables: events, ops"):
        report.sql("SELECT wrong_column FROM kernels")
    with pytest.raises(
        ValueError,
        match=r"(?s)pies.*tables: events, ops, kernels, steps, flows, allocations, memory, lanes, stacks, devices",
    ):
        report.sql("SELECT * FROM pies")
    with pytest.raises(ValueError, match="tables: events"):
        report.sql("SELECT FROM WHERE")


@pytest.mark.parametrize(
    "source", ["read_csv('{}')", "READ_CSV ('{}')", "\"read_csv\"('{}')", "read_csv/**/('{}')", "read_csv--\n('{}')"]
)
def test_a_query_cannot_read_files(report: Report, tmp_path: Path, source: str) -> None:
    path = tmp_path / "secret.csv"
    path.write_text("a\n1\n")
    with pytest.raises(ValueError, match="cannot read files"):
        report.sql(f"SELECT * FROM {source.format(path)}")  # noqa: S608 - refused
    with pytest.raises(ValueError, match="cannot read files"):
        report.sql("SELECT * FROM events JOIN read_parquet('https://example.org/x') AS x ON true")


def test_names_like_those_of_functions_that_read_files_can_be_queried(report: Report) -> None:
    assert report.sql("SELECT name FROM events WHERE name LIKE '%read_csv%'").height == 0


@pytest.mark.parametrize(
    "query", ["DROP TABLE events", "CREATE TABLE a AS SELECT * FROM ops", "TRUNCATE TABLE ops", ""]
)
def test_a_query_that_would_change_anything_is_refused(report: Report, query: str) -> None:
    with pytest.raises(ValueError, match="can only read"):
        report.sql(query)


def test_a_query_does_not_change_the_frames(report: Report) -> None:
    before = report.events
    report.sql("WITH a AS (SELECT name FROM events) SELECT * FROM a")
    assert report.events is before
    assert "row" not in report.events.columns
