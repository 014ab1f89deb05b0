from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import polars as pl
import pytest
from support import allocation, annotation, counter, frame, kernel, launch, make_trace, span

from torchprof_magic.report import sql
from torchprof_magic.report.sql import run_sql
from torchprof_magic.report.trace_report import Report

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
    with pytest.raises(ValueError, match=r"(?s)wrong_column.*kernels: name, .*other tables: graph_ops, "):
        report.sql("SELECT wrong_column FROM kernels")
    with pytest.raises(
        ValueError,
        match=r"(?s)pies.*tables: graph_ops, graph_tensors, ops, lines, modules, ",
    ):
        report.sql("SELECT * FROM pies")
    with pytest.raises(ValueError, match="tables: graph_ops"):
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


def nested(opening: str, inner: str, closing: str, count: int) -> str:
    return f"SELECT {opening * count}{inner}{closing * count} AS a FROM ops"  # noqa: S608


NESTED = {
    "cast": nested("cast(", "calls", " AS int)", 50),
    "cast, in thirteen layers": nested("cast(", "calls", " AS int)", 13),
    "try_cast": nested("try_cast(", "calls", " AS int)", 60),
    "substring": nested("substring(", "name", " from 1 for 2)", 55),
    "ceil": nested("ceil(", "calls", ")", 55),
    "overlay": nested("overlay(", "name", " placing 'x' from 1)", 55),
    "brackets": nested("(", "calls", ")", 5_000),
    "an array": nested("ARRAY[", "calls", "]", 52),
    "a window": nested("sum(", "calls", ") over ()", 20),
    "nullif": nested("nullif(", "calls", ",1)", 16),
    "CASE": nested("CASE WHEN calls=1 THEN ", "1", " ELSE 2 END", 60),
    "a query": "SELECT * FROM " + "(SELECT * FROM " * 60 + "ops" + ") t" * 60,
    "EXISTS": "SELECT name FROM ops WHERE " + "EXISTS (SELECT name FROM ops WHERE " * 60 + "1=1" + ")" * 60,
    "IN": "SELECT name FROM ops WHERE " + "name IN (SELECT name FROM ops WHERE " * 60 + "1=1" + ")" * 60,
    "NOT": "SELECT * FROM ops WHERE " + "NOT " * 200 + "calls=1",
    "minus": "SELECT " + "- " * 200 + "calls AS a FROM ops",
    "brackets behind a text with brackets": "SELECT ')))))))))))))' || " + nested("cast(", "1", " AS int)", 50)[7:],
    "brackets behind a comment": "SELECT /* ))))))))))))))) */ " + nested("cast(", "1", " AS int)", 50)[7:],
    "brackets in a text of another kind": "SELECT E'((((((((((((((((' FROM ops",
}  # fmt: skip


@pytest.mark.parametrize("what", NESTED)
def test_a_query_that_the_engine_would_take_years_to_parse_is_refused_before_it_sees_it(
    report: Report, what: str
) -> None:
    with pytest.raises(ValueError, match=r"^the query is too complex \([\d,]+ [\w, ]+; at most [\d,]+\)"):
        report.sql(NESTED[what])


SOUND = (
    "SELECT name, count(*) AS n FROM events GROUP BY name ORDER BY n DESC, name",
    "SELECT category, sum(dur_ns) / 1e6 AS ms FROM events WHERE dur_ns > 0 GROUP BY category HAVING sum(dur_ns) > 1000",
    "WITH longest AS (SELECT name, max(dur_ns) AS ns FROM events GROUP BY name) SELECT * FROM longest WHERE ns > 10",
    "SELECT e.name, l.name AS thread FROM events AS e JOIN lanes AS l ON e.lane = l.row",
    "SELECT e.name FROM events e LEFT JOIN flows f ON f.source = e.row WHERE f.target IS NULL",
    "SELECT c.name, p.name AS caller FROM events c JOIN events p ON c.parent = p.row WHERE NOT (c.name LIKE 'cuda%')",
    "SELECT CASE WHEN dur_ns < 10000 THEN 'short' WHEN dur_ns < 50000 THEN 'mid' ELSE 'long' END AS size FROM events",
    "SELECT name, row_number() OVER (PARTITION BY category ORDER BY dur_ns DESC) AS place FROM events",
    "SELECT round(cast(sum(coalesce(dur_ns, 0)) AS double) / (1 + count(*)), 2) AS mean_ns FROM events",
    "SELECT name FROM events WHERE (category = 'cpu_op' AND (dur_ns > 5 OR (dur_ns < 2 AND (lane = 0 OR lane = 1))))",
    "SELECT name FROM events WHERE dur_ns > (SELECT avg(dur_ns) FROM events)",
    "SELECT name FROM events WHERE row IN (SELECT source FROM flows WHERE target IN (SELECT row FROM events))",
    "SELECT upper(substr(name, 1, 4)) AS beginning, -dur_ns AS minus, dur_ns - -1 AS more FROM events",
    "SELECT name FROM ops UNION ALL SELECT name FROM kernels ORDER BY name LIMIT 5",
    "SELECT name FROM (SELECT name FROM (SELECT name FROM (SELECT name FROM events) AS c) AS b) AS a",
    "SELECT name, dur_ns FROM events WHERE start_ns BETWEEN 0 AND 100000 AND name NOT IN ('gemm', '((((((((((((((')",
    "SELECT regexp_like(name, '^aten::(mm|add)[(]?\\d*$') AS is_op FROM events -- (((((((((((((( a comment",
    "SELECT count(*) AS pairs FROM events a CROSS JOIN events b",
)


@pytest.mark.parametrize("query", SOUND)
def test_queries_as_people_write_them_are_answered(report: Report, query: str) -> None:
    assert report.sql(query).width > 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM events a CROSS JOIN events b CROSS JOIN events c",
        "SELECT a.name FROM events a, events b, events c",
        "SELECT a.name FROM events a JOIN events b ON a.pid = b.pid JOIN events c ON b.pid = c.pid",
        """WITH a AS (SELECT name FROM events UNION ALL SELECT name FROM events),
        b AS (SELECT name FROM a UNION ALL SELECT name FROM a) SELECT x.name FROM b AS x CROSS JOIN b AS y""",
    ],
)
def test_a_result_of_far_more_rows_than_the_tables_have_is_refused_and_not_made(
    monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(sql, "MAX_ROWS", 10)
    events = pl.DataFrame({"name": [f"op {number}" for number in range(4_000)], "pid": [1] * 4_000})
    with pytest.raises(
        ValueError,
        match=r"more than 8,000 rows; add a condition to the join, or a LIMIT|joins events 3 times; at most 2",
    ):
        run_sql(query, {"events": lambda: events})  # of which the whole result would have 64 billion rows


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (
            "SELECT name || name || name || name || name || name || name || name || name || name AS n FROM events",
            "9 || and CONCAT",
        ),
        ("SELECT replace(replace(replace(name, 'a', 'b'), 'b', 'c'), 'c', 'd') FROM events", "3 REPLACE and REPEAT"),
        ("SELECT string_agg(a.name, ',') FROM events a CROSS JOIN events b", "cannot gather the texts"),
        (
            "SELECT count(*) FROM events a JOIN events b ON a.pid = b.pid JOIN events c ON b.pid = c.pid",
            "joins events 3",
        ),
        ("WITH q AS (SELECT * FROM events) SELECT count(*) FROM q a, q b, q c", "joins q 3 times"),
    ],
)
def test_queries_that_make_texts_or_rows_beyond_number_are_refused(query: str, says: str) -> None:
    events = pl.DataFrame({"name": ["a"] * 4_000, "pid": [1] * 4_000})
    with pytest.raises(ValueError, match=re.escape(says)):
        run_sql(query, {"events": lambda: events})


def test_a_union_may_use_a_table_many_times() -> None:
    events = pl.DataFrame({"name": ["a"] * 4_000})
    query = " UNION ALL ".join(["SELECT count(*) AS n FROM events"] * 5)
    assert run_sql(query, {"events": lambda: events}).height == 5


def test_a_result_may_have_twice_as_many_rows_as_the_largest_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "MAX_ROWS", 10)
    tables = {"events": lambda: pl.DataFrame({"name": ["a"] * 100})}
    assert run_sql("SELECT name FROM events UNION ALL SELECT name FROM events", tables).height == 200
    with pytest.raises(ValueError, match="more than 200 rows"):
        run_sql("SELECT name FROM events" + " UNION ALL SELECT name FROM events" * 2, tables)


@pytest.mark.parametrize(
    "query",
    [
        "WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c) SELECT * FROM c",
        "WITH /* */ RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c) SELECT * FROM c",
        "SELECT * FROM generate_series(1, 1000000000000)",
        "SELECT * FROM range(1000000000000)",
        "SELECT rpad(name, 1000000000, 'x') FROM ops",
    ],
)
def test_rows_and_texts_out_of_nothing_are_refused(report: Report, query: str) -> None:
    with pytest.raises(ValueError, match="which makes rows or texts of any number and length"):
        report.sql(query)
