"""What a report gives to front ends: forms without widgets, and the live view for marimo."""

from __future__ import annotations

import base64

import pytest
from support import annotation, make_trace, span

from torchprof_magic.report.trace_report import Report


@pytest.fixture(scope="module")
def report() -> Report:
    return Report(make_trace(annotation("ProfilerStep#2", 0, 50), span("aten::mm", 5, 30)))


def test_a_front_end_without_widgets_gets_the_static_copy_as_text_html_and_image(report: Report) -> None:
    forms = report._repr_mimebundle_()
    assert list(forms) == ["text/plain", "text/html", "image/png"]
    assert forms["text/plain"] == report.summary()
    assert forms["text/html"] == report._repr_html_()
    assert base64.b64decode(forms["image/png"]).startswith(b"\x89PNG")


def test_a_report_without_steps_has_no_image() -> None:
    assert list(Report(make_trace(span("aten::mm", 5, 30)))._repr_mimebundle_()) == ["text/plain", "text/html"]


def test_a_front_end_chooses_the_forms(report: Report) -> None:
    assert list(report._repr_mimebundle_(include={"text/plain", "image/svg+xml"})) == ["text/plain"]
    assert list(report._repr_mimebundle_(exclude={"image/png", "text/html"})) == ["text/plain"]


def test_marimo_gets_the_live_view(report: Report) -> None:
    assert report._display_() is report.widget
