"""The runs that a page can be compared with, and what it shows then."""

from __future__ import annotations

import gc
import json
import re
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support import annotation, make_trace, span

from torchprof_magic.model.errors import StoreError
from torchprof_magic.model.meta import CellSource
from torchprof_magic.render import widget
from torchprof_magic.report.trace_report import Report
from torchprof_magic.runs import this_process
from torchprof_magic.runs.kept_runs import keep_run
from torchprof_magic.runs.known import known_runs, open_run
from torchprof_magic.runs.other_runs import other_runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("TORCHPROF_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(this_process, "_reports", [])
    monkeypatch.setattr(this_process, "_cells", type(this_process._cells)(maxlen=9))
    monkeypatch.setattr(this_process, "_entries", type(this_process._entries)(maxlen=9))
    close_all()
    yield
    close_all()


def close_all() -> None:
    while widget._open:
        widget._open[0].close()
    widget._kept.clear()


def recorded(number: int, mm_ms: float = 40, source: str = "a = 1\nb = 2", *, is_shown: bool = True) -> Report:
    """A run of a cell, with six steps of two ops, of which the second always takes 40 ms."""
    events = []
    for step in range(6):
        at, rest_us = step * 200_000, 40_000 * (1 + 0.001 * (step % 3))
        length_us = 1000 * mm_ms
        events += [
            annotation(f"ProfilerStep#{step}", at, length_us + rest_us + 10),
            span("aten::mm", at + 1, length_us),
            span("aten::add", at + 2 + length_us, rest_us),
        ]
    trace = make_trace(*events)
    cell = CellSource(label=f"In [{number}]", filename=f"<{number}>", source=source)
    report = Report(replace(trace, meta=replace(trace.meta, title=cell.label, cell=cell)))
    this_process.remember(report)
    if is_shown:
        report.widget.layout  # noqa: B018 - as showing does
    return report


class Page:
    """A live page that asks the kernel, and what it shows."""

    def __init__(self, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
        self.widget = report.widget
        self.answers: list[dict[str, Any]] = []
        monkeypatch.setattr(self.widget, "send", lambda content, _buffers=(): self.answers.append(content))

    def ask(self, **request: object) -> dict[str, Any]:
        self.widget._answer(None, {"id": "tp-1", **request}, [])
        return self.answers[-1]

    def runs(self) -> list[dict[str, str]]:
        return self.ask(kind="runs")["runs"]

    @property
    def header(self) -> dict[str, Any]:
        return json.loads(self.widget._header)

    @property
    def change(self) -> tuple[str, list[tuple[str, bool]]]:
        """The word of the change, and the runs in order, each with whether it is the one that the page shows."""
        change = self.header["change"]
        return change["kind"], [(run["title"], run["is_shown"]) for run in change["runs"]]


def test_runs_of_the_same_cell_come_first_then_others_and_kept_ones_the_newest_first() -> None:
    first, other = recorded(1), recorded(2, source="x\ny\nz")
    second, newest = recorded(3), recorded(4)
    keep_run(first, name="base")
    found = other_runs(newest.run_id)
    assert [(run.group, run.title) for run in found] == [
        ("This cell", "In [3]"),
        ("This cell", "In [1]"),
        ("This kernel", "In [2]"),
        ("Kept", "base"),
    ]
    assert re.fullmatch(r"\d\d:\d\d:\d\d · 80\.1 ms per step", found[0].aside)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d · 80\.1 ms per step", found[3].aside)
    assert open_run(found[0].key) is second.trace
    assert open_run(found[2].key) is other.trace
    assert open_run(found[3].key).steps.height == 6


def test_a_run_that_was_kept_by_itself_is_listed_once() -> None:
    first, second = recorded(1), recorded(2)
    for report in (first, second):
        keep_run(report, keep_runs=5)
    assert [run.title for run in other_runs(second.run_id)] == ["In [1]"]
    assert len(other_runs("a later kernel")) == 2
    del first, second, report
    close_all()
    this_process._reports.clear()
    gc.collect()
    # In memory they are gone, and on the disk they are there.
    assert [run.group for run in other_runs("a later kernel")] == ["Kept", "Kept"]


def test_a_run_that_nothing_holds_is_not_offered_and_opening_it_says_why() -> None:
    first, second = recorded(1, is_shown=False), recorded(2)
    (listed,) = other_runs(second.run_id)
    del first
    gc.collect()
    assert other_runs(second.run_id) == []
    with pytest.raises(StoreError, match=r"no longer in memory.*--save NAME"):
        open_run(listed.key)
    with pytest.raises(StoreError, match="no run named"):
        open_run("kept:missing")


def test_known_runs_are_those_of_this_process_and_then_the_kept_ones(tmp_path: Path) -> None:
    first = recorded(1)
    keep_run(first, name="base")
    assert [(run.home, run.title, run.can_open) for run in known_runs()] == [
        ("process", "In [1]", True),
        ("library", "base", True),
    ]
    assert known_runs(tmp_path / "no kept traces") == []


def test_a_key_of_a_page_never_opens_a_file(tmp_path: Path) -> None:
    saved = recorded(1).save(tmp_path / "run.torchprof")
    with pytest.raises(StoreError, match="no longer in memory"):
        open_run(str(saved))


def test_the_page_shows_what_changed_since_the_chosen_run_and_the_other_way_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded(1, mm_ms=40)
    page = Page(recorded(2, mm_ms=80), monkeypatch)
    run_id = page.header["run_id"]
    assert (page.header["can_compare"], page.header["change"]) == (True, None)
    (listed,) = page.runs()
    assert page.ask(kind="compare", run=listed["key"])["kind"] == "opened"
    assert page.change == ("slower", [("In [1]", False), ("In [2]", True)])
    assert (page.header["first"], page.header["run_id"]) == ("compare", run_id)
    page.ask(kind="compare", is_swapped=True)
    assert page.change == ("faster", [("In [2]", True), ("In [1]", False)])
    # Steps of 80 and of 120 ms.
    assert "▼ 40 ms faster per step than before (−33.3 %)" in page.header["change_line"]
    page.ask(kind="compare")
    assert page.change == ("slower", [("In [1]", False), ("In [2]", True)])
    assert "▲ 40 ms slower per step than before (+50 %)" in page.header["change_line"]
    # The other tabs are those of the run.
    assert page.header["title"] == "In [2]"


def test_a_comparison_in_the_page_needs_neither_report(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [recorded(1), recorded(2)]
    page = Page(reports[1], monkeypatch)
    refs = [weakref.ref(report) for report in reports]
    this_process._reports.clear()
    gc.disable()
    try:
        reports.clear()  # nothing that is shown holds a report, and no cycle does
        assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()
    page.ask(kind="compare", run=page.runs()[0]["key"])
    assert page.change[0] == "unclear"
    page.ask(kind="compare", is_swapped=True)
    assert page.change[1] == [("In [2]", True), ("In [1]", False)]


def test_a_comparison_stays_with_the_report_when_other_views_take_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    report, earlier = recorded(2), recorded(1)
    page = Page(report, monkeypatch)
    page.ask(kind="compare", run=page.runs()[0]["key"])
    del earlier
    widget._kept.clear()
    gc.collect()
    assert page.ask(kind="compare", is_swapped=True)["kind"] == "opened"
    assert page.ask(kind="get", name="export:html")["kind"] == "chunk"


def test_a_comparison_that_a_program_made_can_be_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(recorded(2, mm_ms=80).compare(recorded(1)), monkeypatch)
    assert page.change == ("slower", [("In [1]", False), ("In [2]", True)])
    page.ask(kind="compare", is_swapped=True)
    assert page.change[0] == "faster"
    assert [run["title"] for run in page.runs()] == ["In [1]"]  # and not the run itself


def test_what_cannot_be_compared_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(recorded(1), monkeypatch)
    assert page.runs() == []
    assert page.ask(kind="compare")["message"] == "This report is not compared with a run yet."
    assert "no longer in memory" in page.ask(kind="compare", run="recorded:gone")["message"]
    assert page.ask(kind="compare", run="kept:../x")["kind"] == "error"
    assert "invalid request" in page.ask(kind="compare", run=7)["message"]
    empty = Report(make_trace())
    empty_page = Page(empty, monkeypatch)
    other = Report(make_trace(span("x", 0, 1)))
    keep_run(Report(make_trace()), name="nothing")
    assert "no events" in empty_page.ask(kind="compare", run="kept:nothing")["message"]
    assert other.widget._header  # the page stays as it is
    assert empty_page.header["change"] is None
