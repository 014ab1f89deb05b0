from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from support import allocation, annotation, counter, frame, kernel, launch, make_trace, span

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
            counter("Power (W)", 12, pid="GPU 0 Counters", **{"": 300}),
            counter("Power (W)", 14, pid="GPU 0 Counters", **{"": 310}),
        )
    )


def test_names_and_categories_are_text_so_that_like_finds_them(report: Report) -> None:
    found = report.sql(
        "SELECT name, dur_ns FROM events WHERE name LIKE 'aten::%' AND category = 'cpu_op' ORDER BY dur_ns"
    )
    assert found.rows() == [("aten::add", 5_000), ("aten::mm", 30_000)]


def test_counters_can_be_queried_with_their_units(report: Report) -> None:
    assert report.sql("SELECT * FROM counters WHERE unit = 'W' AND value > 305").rows() == [
        (14_000, 0, "Power", 310.0, "W")
    ]
    mean = report.sql("SELECT device, name, AVG(value) AS mean FROM counters GROUP BY device, name")
    assert mean.rows() == [(0, "Power", 305.0)]


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
        match=r"(?s)pies.*tables: events, ops, kernels, lines, modules, waits, idle, loaders, host, queue, launches, ",
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


CHAIN = "".join(f", c{n} AS (SELECT * FROM c{n - 1})" for n in range(1, 5_000))  # noqa: S608 - refused
JOINS = "".join(f" JOIN ops o{n} ON ops.name = o{n}.name" for n in range(1_000))
DEEP = {
    "+": "SELECT " + "1+" * 10_000 + "1 AS a FROM ops",
    "OR": "SELECT * FROM ops WHERE " + "calls=1 OR " * 10_000 + "calls=1",
    "UNION ALL": "SELECT name FROM ops" + " UNION ALL SELECT name FROM ops" * 2_000,
    "EXCEPT": "SELECT name FROM ops" + " EXCEPT SELECT name FROM ops" * 2_000,
    "||": "SELECT " + "'a'||" * 2_000 + "'b' AS a FROM ops",
    "LIKE": "SELECT name" + " LIKE 'a'" * 2_000 + " AS a FROM ops",
    "IS NULL": "SELECT name" + " IS NULL" * 5_000 + " AS a FROM ops",
    "INTERVAL": "SELECT " + "INTERVAL " * 5_000 + "1 FROM ops",
    "BETWEEN":  "SELECT * FROM ops WHERE calls" + " BETWEEN 1 AND 2" * 200,
    "CASE": "SELECT " + "CASE " * 16 + "calls" + " WHEN 1 THEN 1 WHEN 2 THEN 2 END" * 16 + " AS a FROM ops",
    "::": "SELECT 1" + "::int" * 5_000 + " AS a FROM ops",
    "WITH": f"WITH c0 AS (SELECT 1){CHAIN} SELECT 1",
    "JOIN": f"SELECT 1 FROM ops{JOINS}",  # noqa: S608
    "tables": "SELECT 1 AS z FROM " + ",".join(f"ops o{n}" for n in range(5_000)),  # noqa: S608
    "a chain that looks like a text": "SELECT E'\\' || " + "1+" * 10_000 + "1 || E'\\'' FROM ops",
    "a chain after a comment with a quote": "SELECT 1 -- '\n" + "+1" * 10_000 + " FROM ops --'",
    "length": "SELECT name FROM ops WHERE name IN (" + "1," * 100_000 + "1)",
}  # fmt: skip


@pytest.mark.parametrize("what", DEEP)
def test_a_query_that_would_exhaust_the_engine_is_refused_before_it_sees_it(report: Report, what: str) -> None:
    with pytest.raises(ValueError, match=r"^the query is too (complex|long) \([\d,]+ [\w, ]+; at most [\d,]+\)"):
        report.sql(DEEP[what])


def test_long_lists_and_texts_full_of_operators_are_not_complex(report: Report) -> None:
    names = ", ".join(f"'a::b-{number} OR c'" for number in range(3_000))
    assert report.sql(f"SELECT name FROM events WHERE name IN ('aten::mm', {names})").height == 1  # noqa: S608
    numbers = ", ".join(map(str, range(5_000)))
    assert report.sql(f"SELECT name FROM events WHERE dur_ns IN ({numbers})").height == 1  # noqa: S608


@pytest.mark.parametrize(
    "query", ["/**/" * 20_000, "/**/" * 20_000 + "DROP TABLE ops", "--\n" * 20_000, "( " * 40_000, "/*"]
)
def test_a_query_of_comments_is_refused_at_once(report: Report, query: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="can only read"):
        report.sql(query)
    assert time.process_time() - began < 1


def test_comments_before_and_after_the_name_of_a_function_take_no_time_and_hide_nothing(
    report: Report, tmp_path: Path
) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    comments = "/**/" * 20_000
    assert report.sql(f"/**/ -- x\n (SELECT name FROM {'/**/' * 100} ops)").height  # noqa: S608
    for between in (comments, "/* /* */ */", "/* -- */", "-- /*\n"):
        with pytest.raises(ValueError, match="cannot read files"):
            report.sql(f"SELECT * FROM read_csv{between}('{tmp_path / 'secret.csv'}')")  # noqa: S608
