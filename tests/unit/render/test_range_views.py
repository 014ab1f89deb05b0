"""The views of a part of the time: what the page asks, and what the kernel keeps."""

from __future__ import annotations

import io
import json
from typing import Any

import polars as pl
import pytest
from support import annotation, make_trace, span

from torchprof_magic.render import range_views, widget
from torchprof_magic.render.page import build_page
from torchprof_magic.report.trace_report import Report
from torchprof_magic.report.views import TABS

GET = {"kind": "get", "id": 7, "name": "flame", "start_ns": 100_000.0, "end_ns": 200_000.0}


@pytest.fixture
def report() -> Report:
    """Return a report of two steps of 100 us, with an op of 20 us in the first and one of 40 us in the second."""
    return Report(
        make_trace(
            annotation("ProfilerStep#0", 0, 100),
            span("aten::mm", 10, 20),
            annotation("ProfilerStep#1", 100, 100),
            span("aten::relu", 110, 40),
        )
    )


def ask(report: Report, question: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Return the reply of the live view."""
    sent: list[tuple[dict[str, Any], list[bytes]]] = []
    view = report.widget
    view.send = lambda content, buffers=None: sent.append((content, buffers or []))
    view._answer(view, question, [])
    return sent[-1]


def opened(data: bytes) -> tuple[dict[str, Any], pl.DataFrame]:
    """Return the header and the columns of a view that comes with both."""
    length = int.from_bytes(data[:4], "little")
    return json.loads(data[4 : 4 + length]), pl.read_ipc_stream(io.BytesIO(data[4 + length :]))


def test_a_page_is_told_which_views_can_be_asked_for(report: Report) -> None:
    # Neither lines nor modules were recorded, and one thread. Groupings are built when they are first shown.
    assert json.loads(report._forms.page.header)["ranged"] == ["overview", "ops", "flame", "ops_phase", "ops_step"]
    file = build_page(report.trace, TABS, report._analysis, report.verdict, "file", is_standalone=True)
    assert json.loads(file.header)["ranged"] == []


def test_a_view_is_answered_with_its_own_header_and_what_lies_in_the_range(report: Report) -> None:
    head, buffers = ask(report, GET)
    assert head == {"kind": "chunk", "id": 7, "name": "flame", "chunk": 0, "chunks": 1}
    header, frame = opened(b"".join(buffers))
    assert (header["shape"], header["empty"]) == ("tree", None)
    assert frame["name"].to_list() == ["all", "ProfilerStep", "aten::relu"]
    assert frame["total_cpu_ns"].to_list() == [100_000, 100_000, 40_000]


def test_the_overview_is_answered_with_the_numbers_of_the_range(report: Report) -> None:
    _, buffers = ask(report, GET | {"name": "overview"})
    header, frame = opened(b"".join(buffers))
    assert (header["shape"], header["empty"], frame.height) == ("facts", None, 0)
    times = {
        section["title"]: [(fact["label"], fact["value"]) for fact in section["facts"]]
        for section in header["sections"]
        if "in this range" in section["aside"]
    }
    assert times["Ops"] == [("aten::relu", 40_000)]
    assert times["Where the host's time goes"] == [("forward", 40_000), ("python", 60_000)]


def test_a_grouping_is_answered_for_a_range_before_it_was_shown_for_all_steps(report: Report) -> None:
    _, buffers = ask(report, GET | {"name": "ops_step"})
    header, frame = opened(b"".join(buffers))
    assert (header["shape"], header["empty"]) == ("table", None)
    assert frame.select("name", "calls", "self_cpu_ns").rows() == [("1", 1, 40_000), ("aten::relu", 1, 40_000)]


def test_an_answer_of_several_chunks_is_sent_one_by_one(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    _, whole = ask(report, GET)
    monkeypatch.setattr(widget, "CHUNK_BYTES", 1000)
    head, first = ask(report, GET)
    parts = first + [ask(report, GET | {"chunk": chunk})[1][0] for chunk in range(1, head["chunks"])]
    assert head["chunks"] > 1
    assert b"".join(parts) == whole[0]


def test_a_range_in_which_nothing_ran_says_so(report: Report) -> None:
    _, buffers = ask(report, GET | {"start_ns": 9e9, "end_ns": 1e10})
    assert opened(buffers[0])[0]["empty"] == "Nothing in this range."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "notes"}, "This view cannot be computed for a range of time."),
        ({"start_ns": 5.0, "end_ns": 4.0}, "The range ends before it begins."),
        ({"start_ns": float("nan")}, "A time is not a number."),
        ({"end_ns": None}, "The report has no such range."),
        ({"chunk": 1}, "The report has no such chunk."),
    ],
)
def test_what_no_page_asks_is_answered_with_an_error(report: Report, change: dict[str, Any], message: str) -> None:
    assert ask(report, GET | change)[0] == {"kind": "error", "id": 7, "message": message}


def test_times_beyond_those_of_any_trace_are_its_ends(report: Report) -> None:
    _, buffers = ask(report, GET | {"start_ns": float("-inf"), "end_ns": 1e300})
    assert opened(buffers[0])[1]["total_cpu_ns"][0] == 200_000


def test_the_last_answers_are_kept_and_the_oldest_forgotten(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_views, "KEPT_ANSWERS", 2)
    views = report._forms.page.ranges
    assert views is not None
    first = views.encoded("flame", 0, 1e5)
    second = views.encoded("flame", 1e5, 2e5)
    assert views.encoded("flame", 0, 1e5) is first
    views.encoded("flame", 0, 5e4)
    assert views.encoded("flame", 0, 1e5) is first
    assert views.encoded("flame", 1e5, 2e5) is not second


def test_large_answers_are_kept_one_at_a_time(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_views, "KEPT_BYTES", 1)
    views = report._forms.page.ranges
    assert views is not None
    first = views.encoded("flame", 0, 1e5)
    assert views.encoded("flame", 0, 1e5) is first
    views.encoded("flame", 1e5, 2e5)
    assert views.encoded("flame", 0, 1e5) is not first
