"""Ranges that begin and end with events of their own (``b`` and ``e``), and that no thread runs."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from torchprof_magic.ingest import read_chrome
from torchprof_magic.ingest.chrome import async_ranges
from torchprof_magic.report.trace_report import Report


def bound(phase: str, name: str, ts: float, number: object = 1, cat: str = "request", **more: Any) -> dict[str, Any]:
    return {"ph": phase, "name": name, "ts": ts, "id": number, "cat": cat, "pid": 7, "tid": 1} | more


def rows(*events: dict[str, Any]) -> list[tuple[str, str, int, int, int]]:
    """Return name, lane, start, duration and depth of each event."""
    trace = read_chrome([json.dumps(list(events)).encode()])
    named = trace.events.with_columns(
        pl.col("name").cast(pl.String), trace.lanes["name"].gather(trace.events["lane"]).alias("on")
    )
    return named.select("name", "on", "start_ns", "dur_ns", "depth").rows()


def problems(*events: dict[str, Any]) -> dict[str, int]:
    trace = read_chrome([json.dumps(list(events)).encode()])
    return {problem.code: problem.count for problem in trace.problems}


def test_a_range_is_a_span_on_a_lane_of_its_own() -> None:
    assert rows(bound("b", "GET", 10), bound("e", "GET", 25.5)) == [("GET", "request (async)", 0, 15_500, 0)]


def test_ranges_of_one_id_are_nested_in_one_another() -> None:
    events = (bound("b", "GET", 10), bound("b", "parse", 12), bound("e", "parse", 14), bound("e", "GET", 20))
    assert rows(*events) == [("GET", "request (async)", 0, 10_000, 0), ("parse", "request (async)", 2_000, 2_000, 1)]


def test_ranges_at_the_same_time_are_on_different_lanes_and_a_free_lane_is_used_again() -> None:
    events = (
        bound("b", "a", 0, 1), bound("b", "b", 5, 2), bound("e", "a", 10, 1), bound("b", "c", 12, 3),
        bound("e", "b", 20, 2), bound("e", "c", 30, 3),
    )  # fmt: skip
    assert [row[:4] for row in rows(*events)] == [
        ("a", "request (async)", 0, 10_000),
        ("c", "request (async)", 12_000, 18_000),
        ("b", "request (async) 2", 5_000, 15_000),
    ]
    assert problems(*events) == {}


def test_categories_have_lanes_of_their_own_and_ids_may_be_texts_and_the_same() -> None:
    events = (bound("b", "a", 0, "0x1", "one"), bound("b", "b", 1, "0x1", "two"))
    ends = (bound("e", "b", 3, "0x1", "two"), bound("e", "a", 9, "0x1", "one"))
    assert [row[:4] for row in rows(*events, *ends)] == [
        ("a", "one (async)", 0, 9_000),
        ("b", "two (async)", 1_000, 2_000),
    ]


def test_an_end_may_come_from_another_thread_and_process() -> None:
    assert rows(bound("b", "a", 0), bound("e", "a", 4, pid=8, tid=9)) == [("a", "request (async)", 0, 4_000, 0)]


def test_ranges_without_an_end_and_ends_without_a_beginning_are_counted() -> None:
    events = (bound("b", "a", 0), bound("e", "b", 3, 2), bound("b", "c", 8, 3), bound("e", "c", 9, 3))
    assert problems(*events) == {"chrome.end_without_begin": 1, "chrome.unclosed_event": 1}
    assert [row[:4:3] for row in rows(*events)] == [("a", 9_000), ("c", 1_000)]


def test_the_older_letters_mean_the_same() -> None:
    assert rows(bound("S", "a", 0), bound("F", "a", 4)) == [("a", "request (async)", 0, 4_000, 0)]


def test_they_are_beside_the_ops_and_change_none_of_them() -> None:
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 1, "ts": 1, "dur": 5}
    trace = read_chrome([json.dumps([op, bound("b", "a", 0), bound("e", "a", 9)]).encode()])
    report = Report(trace)
    assert report.ops["name"].to_list() == ["aten::mm"]
    assert report.sql("SELECT dur_ns FROM events WHERE name = 'a'")["dur_ns"].to_list() == [9_000]


def test_there_are_no_more_lanes_than_anyone_looks_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_ranges, "MAX_LANES", 3)
    found = rows(*(bound("b", f"r{n}", n, n) for n in range(10)), *(bound("e", f"r{n}", 50 + n, n) for n in range(10)))
    assert len(found) == 10
    assert len({row[1] for row in found}) == 3
