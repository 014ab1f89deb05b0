"""Limits of the live views, and of their data, that a long session keeps."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest
from support import make_trace, span

from torchprof_magic.render import widget
from torchprof_magic.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def shown(number: int = 0) -> Report:
    report = Report(make_trace(span(f"op{number}", 0, 1)))
    report.widget.layout  # noqa: B018 - makes all that showing makes
    return report


def test_the_newest_views_stay_open_and_older_ones_are_closed_with_their_layouts() -> None:
    reports = [shown(number) for number in range(widget.OPEN_WIDGETS)]
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


def test_data_is_kept_for_open_views_up_to_a_number_and_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    refs = [weakref.ref(shown(number)._shown) for number in range(widget.OPEN_WIDGETS + 3)]
    gc.collect()
    assert [ref() is not None for ref in refs] == [False] * 3 + [True] * widget.OPEN_WIDGETS
    monkeypatch.setattr(widget, "KEPT_FRAME_BYTES", 0)
    last = weakref.ref(shown()._shown)
    gc.collect()
    assert last() is not None
    assert [ref() is not None for ref in refs] == [False] * len(refs)


def test_closing_twice_has_no_effect() -> None:
    report = shown()
    closed = report.widget
    closed.close()
    closed.close()
    assert closed not in widget._open
