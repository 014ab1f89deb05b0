"""Limits of the live views, and of their data, that a long session keeps."""

from __future__ import annotations

import base64
import gc
import gzip
import json
import sys
import tempfile
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import comm
import ipywidgets
import pytest
from ipywidgets.widgets.widget import _remove_buffers as widgets_remove_buffers
from support import annotation, make_trace, span

from torchprof_magic.ingest import read_chrome
from torchprof_magic.render import widget
from torchprof_magic.render.front_end import built
from torchprof_magic.report.trace_report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    """Start without the views of other tests, and close all views afterwards."""
    while widget._open:
        widget._open[0].close()
    widget._kept.clear()
    yield
    while widget._open:
        widget._open[0].close()
    widget._kept.clear()


@pytest.fixture
def open_views(monkeypatch: pytest.MonkeyPatch) -> int:
    """Keep fewer views open than a kernel does, each of which takes a while to make; return how many."""
    monkeypatch.setattr(widget, "OPEN_WIDGETS", 5)
    return widget.OPEN_WIDGETS


def shown(number: int = 0) -> Report:
    report = Report(make_trace(span(f"op{number}", 0, 1)))
    report.widget.layout  # noqa: B018 - makes all that showing makes
    return report


def test_the_newest_views_stay_open_and_older_ones_are_closed_with_their_layouts(open_views: int) -> None:
    reports = [shown(number) for number in range(open_views)]
    first = reports[0].widget
    parts = [first, first.layout]
    assert all(part.comm is not None for part in parts)
    reports.append(shown(99))
    assert [part.comm for part in parts] == [None, None]
    assert all(report.widget.comm is not None for report in reports[1:])


def test_a_report_whose_view_was_closed_gets_another_when_it_is_shown_again() -> None:
    report = shown()
    first = report.widget
    first.close()
    assert report.widget is not first
    assert report.widget.comm is not None
    assert report.widget is report.widget


def test_data_is_kept_for_open_views_up_to_a_number_and_a_size(
    open_views: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [weakref.ref(shown(number)._kept.shown) for number in range(open_views + 3)]
    gc.collect()
    assert [ref() is not None for ref in refs] == [False] * 3 + [True] * open_views
    monkeypatch.setattr(widget, "KEPT_FRAME_BYTES", 0)
    last = weakref.ref(shown()._kept.shown)
    gc.collect()
    assert last() is not None
    assert [ref() is not None for ref in refs] == [False] * len(refs)


def test_closing_twice_has_no_effect() -> None:
    report = shown()
    closed = report.widget
    closed.close()
    closed.close()
    assert closed not in widget._open


def saved_bytes(model: ipywidgets.Widget) -> int:
    """Return the size of a model in a saved notebook, which holds bytes as Base64."""
    state, _, buffers = widgets_remove_buffers(model.get_state())
    return len(json.dumps(state)) + sum(len(base64.b64encode(buffer)) for buffer in buffers)


def test_reports_share_a_front_end_so_that_a_notebook_saves_it_once() -> None:
    first, second = shown(1).widget, shown(2).widget
    assert first._front_end is second._front_end
    module, style = built()
    assert gzip.decompress(first._front_end._module).decode() == module
    assert gzip.decompress(first._front_end._style).decode() == style
    assert saved_bytes(first._front_end) > len(first._front_end._module)
    # Beside its own data, a report holds what finds the front end.
    own = len(first._header) + len(base64.b64encode(first._data))
    assert saved_bytes(first) - own < 0.1 * saved_bytes(first._front_end)


def test_a_front_end_that_was_closed_with_all_widgets_is_made_anew() -> None:
    before = shown(1).widget._front_end
    ipywidgets.Widget.close_all()
    after = shown(2).widget._front_end
    assert after is not before
    assert after.comm is not None
    assert after._module == before._module


def test_in_marimo_whose_models_do_not_know_one_another_a_report_holds_its_front_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(running_in_notebook=lambda: True))
    found = shown().widget
    assert (found._esm, found._css, found._front_end) == (*built(), None)


class Asked:
    """A page that asks a live view for a resource, and the answers that it gets."""

    def __init__(self, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
        self.widget = report.widget
        self.answers: list[tuple[dict[str, Any], bytes]] = []
        monkeypatch.setattr(self.widget, "send", self._receive)

    def _receive(self, content: dict[str, Any], buffers: tuple[bytes, ...] | list[bytes] = ()) -> None:
        self.answers.append((content, b"".join(buffers)))

    def ask(self, name: str, chunk: int = 0) -> tuple[dict[str, Any], bytes]:
        self.widget._answer(None, {"kind": "get", "id": "tp-1", "name": name, "chunk": chunk}, [])
        return self.answers[-1]

    def count(self, *rows: int) -> None:
        self.widget._answer(None, {"kind": "count", "id": "tp-2", "rows": list(rows)}, [])

    def pull(self, name: str) -> bytes:
        """Return all chunks, asked for one after the other as the page does."""
        head, data = self.ask(name)
        return data + b"".join(self.ask(name, chunk)[1] for chunk in range(1, head["chunks"]))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(shown(), monkeypatch)


def test_a_page_that_does_not_find_the_front_end_gets_it_from_the_kernel(asked: Asked) -> None:
    asked.widget._answer(None, {"kind": "front_end", "id": "front_end"}, [])
    head, data = asked.answers[-1]
    assert head == {"kind": "front_end", "id": "front_end"}
    assert data == asked.widget._front_end._module + asked.widget._front_end._style


def test_every_export_that_the_page_offers_can_be_pulled(asked: Asked) -> None:
    offered = json.loads(asked.widget._header)["exports"]
    assert [entry["name"] for entry in offered] == ["html", "chrome", "perfetto"]
    data = {entry["name"]: asked.pull(f"export:{entry['name']}") for entry in offered}
    assert data["html"].startswith(b"<!DOCTYPE html>")
    assert data["chrome"] == data["perfetto"]


def test_the_trace_for_perfetto_is_a_gzipped_chrome_trace_in_chunks(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(widget, "CHUNK_BYTES", 100)
    data = asked.pull("export:perfetto")
    assert len(data) > 100
    assert asked.answers[0][0]["chunks"] == -(-len(data) // 100)
    assert read_chrome([gzip.decompress(data)]).events["name"].to_list() == ["op0"]


def test_an_export_is_made_once_and_kept_until_its_last_chunk_is_sent(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(widget, "CHUNK_BYTES", 100)
    made: list[str] = []
    resource = widget.Shown.resource
    monkeypatch.setattr(widget.Shown, "resource", lambda self, name: made.append(name) or resource(self, name))
    asked.pull("export:chrome")
    assert made == ["export:chrome"]
    assert asked.widget._exported == {}


def test_a_name_that_the_page_does_not_offer_is_an_error(asked: Asked) -> None:
    for name in ("export:", "export:pickle", "export:__class__", "html", "../header"):
        content, data = asked.ask(name)
        assert content == {"kind": "error", "id": "tp-1", "message": "The report has no data of this name."}
        assert data == b""


def test_a_full_disk_under_an_export_is_said(asked: Asked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    content, _ = asked.ask("export:perfetto")
    assert content["kind"] == "error"
    assert content["message"].startswith("a temporary file could not be written (No such file or directory);")


def test_the_page_gets_an_answer_when_an_export_fails_for_an_unknown_reason(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_self: widget.Shown, _name: str) -> bytes:
        raise MemoryError("too large")

    monkeypatch.setattr(widget.Shown, "resource", fail)
    with pytest.raises(MemoryError):
        asked.ask("export:chrome")
    message = "The kernel failed: MemoryError('too large')"
    assert asked.answers == [({"kind": "error", "id": "tp-1", "message": message}, b"")]


def test_the_page_changes_in_place_when_other_steps_count(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report(
        make_trace(*(annotation(f"ProfilerStep#{n}", 1000 * n, us) for n, us in enumerate((100, 100, 400))))
    )
    page = Asked(report, monkeypatch)
    before = page.widget._header
    assert (json.loads(before)["steps"], json.loads(before)["step_ns"]) == (2, 100_000)
    assert json.loads(before)["can_choose_steps"]
    page.count(0, 1, 2)
    after = json.loads(page.widget._header)
    assert page.answers[-1][0] == {"kind": "opened", "id": "tp-2"}
    assert (after["steps"], after["step_ns"], after["run_id"]) == (3, 200_000, json.loads(before)["run_id"])
    page.count(0, 1)
    assert page.widget._header == before


def test_header_data_and_whether_it_is_more_of_the_same_go_to_the_page_in_one_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Report(make_trace(*(annotation(f"ProfilerStep#{n}", 1000 * n, 100) for n in range(3))))
    page = Asked(Report(make_trace(annotation("ProfilerStep#0", 0, 100))), monkeypatch)
    # Without a kernel nothing is sent, and a test before may have imported what looks for one.
    monkeypatch.setattr(page.widget, "comm", comm.DummyComm())
    sent: list[set[str]] = []
    monkeypatch.setattr(page.widget, "send_state", lambda key=None: sent.append(set(key)))
    whole.take_place_in(page.widget)
    assert sent == [{"_header", "_data", "_is_more"}]
    page.count(0, 1)
    assert not page.widget._is_more


@pytest.mark.parametrize("rows", [(), (3,), (-1,)])
def test_steps_that_are_not_there_cannot_count(monkeypatch: pytest.MonkeyPatch, rows: tuple[int, ...]) -> None:
    page = Asked(Report(make_trace(*(annotation(f"ProfilerStep#{n}", 1000 * n, 100) for n in range(3)))), monkeypatch)
    before = page.widget._header
    page.count(*rows)
    assert page.answers[-1][0]["message"] == "At least one of the recorded steps must count."
    assert page.widget._header == before
