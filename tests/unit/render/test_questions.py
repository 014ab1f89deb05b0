"""What the page asks of a timeline that is too long for it, and how the kernel answers."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import polars as pl
import pytest
from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.model.trace import Trace
from torchprof_magic.render import widget
from torchprof_magic.render.page import build_page
from torchprof_magic.report.trace_report import Report
from torchprof_magic.report.views import TABS
from torchprof_magic.tables.timeline import slice_windows

CALLS = 400
SPAN_US = CALLS * 100.0
WINDOW = {
    "kind": "window",
    "id": "w",
    "view": "timeline",
    "layer": "depth",
    "start_ns": 0,
    "end_ns": 40e6,
    "pixels": 100,
}
SLICE = {"kind": "slice", "id": 2, "view": "timeline", "layer": "depth", "slice": 0}
SEARCH = {
    "kind": "search",
    "id": 3,
    "view": "timeline",
    "layer": "depth",
    "text": "gemm",
    "is_wait": False,
    "least_ns": 0,
    "most_ns": None,
    "start_ns": 0,
    "end_ns": 40e6,
    "at": None,
}
RANGE = {"kind": "range", "id": 4, "view": "timeline", "start_ns": 1e6, "end_ns": 2e6}


@pytest.fixture(scope="module")
def trace() -> Trace:
    events = [annotation(f"ProfilerStep#{step}", step * SPAN_US / 4, SPAN_US / 4) for step in range(4)]
    for call in range(CALLS):
        at = call * 100.0 + 2
        events += [span("aten::mm", at, 40), launch(at + 5, 5, call), kernel("gemm", at + 20, 30, call)]
    return make_trace(*events)


@pytest.fixture
def report(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> Report:
    """Return a report of 2,000 slices, which are too many for a page of 500."""
    monkeypatch.setattr(slice_windows, "WHOLE_SLICES", 500)
    return Report(trace, run_id="long")


class Asked:
    """A live view whose replies are kept."""

    def __init__(self, report: Report) -> None:
        self.view = report.widget
        self.sent: list[tuple[dict[str, Any], list[bytes]]] = []
        self.view.send = lambda content, buffers=None: self.sent.append((content, buffers or []))

    def __call__(self, content: object) -> tuple[dict[str, Any], list[bytes]]:
        self.view._answer(self.view, content, [])
        return self.sent[-1]


def frame_of(data: bytes) -> pl.DataFrame:
    return pl.read_ipc_stream(io.BytesIO(data))


def timeline_of(header: str) -> dict[str, Any]:
    return next(view for view in json.loads(header)["views"] if view["name"] == "timeline")


def test_a_page_gets_an_overview_and_is_told_how_much_there_is(report: Report) -> None:
    page = report._forms.page
    slices = report._analysis["timeline"].frame.height
    excerpt = timeline_of(page.header)["excerpt"]
    assert slices > 1500
    assert (excerpt["slices"], excerpt["start_ns"], excerpt["end_ns"]) == (slices, 0, 40_000_000)
    view = timeline_of(page.header)
    overview = frame_of(page.data[view["offset"] : view["offset"] + view["length"]])
    assert overview["merged"].sum() == slices


def test_a_short_timeline_is_sent_whole_and_answers_no_questions(report: Report) -> None:
    short = Report(make_trace(span("aten::mm", 0, 5)))
    assert timeline_of(short._forms.page.header)["excerpt"] is None
    reply, _ = Asked(short)(WINDOW)
    assert reply == {"kind": "error", "id": "w", "message": "The report has no such timeline."}
    assert report._forms.page.answers.keys() == {"timeline"}


def test_a_file_contains_the_longest_slices_and_says_that_others_are_merged(report: Report) -> None:
    page = build_page(report.trace, TABS, report._analysis, report.verdict, "file", is_standalone=True)
    view = timeline_of(page.header)
    frame = frame_of(page.data[view["offset"] : view["offset"] + view["length"]])
    assert 100 < frame.height <= 500
    assert frame["merged"].sum() == view["excerpt"]["slices"]
    assert view["excerpt"]["bucket_ns"] > 1


def test_a_window_is_answered_with_its_slices(report: Report) -> None:
    reply, buffers = Asked(report)(WINDOW)
    assert (reply["kind"], reply["id"]) == ("answer", "w")
    assert reply["facts"] == {"start_ns": -262144, "end_ns": 40_108_032, "bucket_ns": 262_144, "is_exact": False}
    assert frame_of(buffers[0]).filter(pl.col("name") == "gemm")["merged"].sum() == CALLS


def test_a_slice_is_answered_with_what_belongs_to_it(report: Report) -> None:
    frame = report._analysis["timeline"].frame
    number = frame.with_row_index().filter(pl.col("name") == "gemm")["index"][7]
    _, buffers = Asked(report)(SLICE | {"slice": number})
    found = frame_of(buffers[0])
    row = found.filter(pl.col("slice") == number).row(0, named=True)
    assert found["name"][row["source"]] == "cudaLaunchKernel"
    assert found["name"][row["op"]] == "aten::mm"


def test_a_search_counts_its_matches_and_goes_from_one_to_the_next(report: Report) -> None:
    asked = Asked(report)
    first = asked(SEARCH)[0]["facts"]
    assert (first["count"], first["ns"], first["at"], first["start_ns"]) == (CALLS, CALLS * 30_000, 0, 22_000)
    assert (first["name"], first["dur_ns"], first["kind"]) == ("gemm", 30_000, "kernel")
    assert asked(SEARCH | {"at": 1})[0]["facts"]["start_ns"] == 122_000
    assert asked(SEARCH | {"at": -1})[0]["facts"]["at"] == CALLS - 1
    assert asked(SEARCH | {"at": CALLS})[0]["facts"]["at"] == 0
    # The first in the window, and the first of all where the window has none.
    assert asked(SEARCH | {"start_ns": 1e6, "end_ns": 2e6})[0]["facts"]["at"] == 10
    assert asked(SEARCH | {"start_ns": 1e6, "end_ns": 1.01e6})[0]["facts"]["at"] == 0
    assert asked(SEARCH | {"text": "conv"})[0]["facts"] == {"count": 0, "ns": 0, "at": -1}


def test_a_range_is_answered_with_the_waits_in_it(report: Report) -> None:
    reply, buffers = Asked(report)(RANGE)
    sums = {(each["cause"], each["ns"]) for each in reply["facts"]["sums"]}
    # Ten kernels of 30 us each.
    assert ("", 300_000) in sums
    assert sum(ns for _, ns in sums) == 1_000_000
    assert (list(reply["facts"]), buffers) == (["sums"], [])


GARBAGE: tuple[object, ...] = (
    None,
    7,
    "window",
    [],
    {},
    {"kind": "window"},
    {"kind": "eval", "id": 1, "code": "1"},
    WINDOW | {"view": "../../etc/passwd"},
    WINDOW | {"view": 3},
    WINDOW | {"layer": "name"},
    WINDOW | {"layer": "depth; DROP TABLE"},
    WINDOW | {"pixels": 0},
    WINDOW | {"pixels": 10**9},
    WINDOW | {"pixels": 1.5},
    WINDOW | {"pixels": True},
    WINDOW | {"start_ns": math.nan},
    WINDOW | {"end_ns": "soon"},
    WINDOW | {"start_ns": [0]},
    WINDOW | {"lanes": [1]},
    {key: value for key, value in WINDOW.items() if key != "end_ns"},
    SLICE | {"slice": -1},
    SLICE | {"slice": 10**30},
    SLICE | {"slice": 10**6},
    SLICE | {"slice": None},
    SEARCH | {"text": "x" * 10_000},
    SEARCH | {"text": None},
    SEARCH | {"is_wait": "yes"},
    SEARCH | {"start_ns": math.nan},
    SEARCH | {"at": 0.5},
    RANGE | {"end_ns": math.nan},
    RANGE | {"start_ns": "0"},
)


@pytest.mark.parametrize("content", GARBAGE, ids=lambda each: str(each)[:60])
def test_what_no_page_asks_is_answered_with_an_error(report: Report, content: object) -> None:
    asked = Asked(report)
    reply, buffers = asked(content)
    assert (reply["kind"], buffers) == ("error", [])
    known = content.get("id") if isinstance(content, dict) else None
    assert reply["id"] == known
    assert reply["message"]
    # The view still works.
    assert asked(WINDOW)[0]["kind"] == "answer"


EXTREME: tuple[dict[str, Any], ...] = (
    WINDOW | {"start_ns": -1e300, "end_ns": 1e300},
    WINDOW | {"start_ns": 40e6, "end_ns": 0},
    WINDOW | {"start_ns": 5, "end_ns": 5},
    WINDOW | {"start_ns": math.inf, "end_ns": math.inf},
    WINDOW | {"pixels": 16_384},
    SEARCH | {"text": "/(a+)+$/"},
    SEARCH | {"text": "/(((((/"},
    SEARCH | {"text": "\x00\ud7ff'\";--"},
    SEARCH | {"at": 10**12},
    SEARCH | {"least_ns": math.inf},
    SEARCH | {"least_ns": math.nan},
    RANGE | {"start_ns": 2e6, "end_ns": 1e6},
    RANGE | {"start_ns": -1e300, "end_ns": 1e300},
)


@pytest.mark.parametrize("content", EXTREME, ids=lambda each: str(each)[:120])
def test_extreme_but_possible_questions_are_answered(report: Report, content: dict[str, Any]) -> None:
    assert Asked(report)(content)[0]["kind"] == "answer"


def test_questions_about_released_data_are_answered_with_an_error(report: Report) -> None:
    asked = Asked(report)
    widget._kept.clear()
    report._kept.shown = None
    reply, _ = asked(WINDOW)
    assert "no longer has the data" in reply["message"]
