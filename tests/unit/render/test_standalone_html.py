"""The HTML file as text: what its policy lets in, and what it contains."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import re
from typing import TYPE_CHECKING

import polars as pl
import pytest
from support import make_trace, span

from torchprof_magic.ingest import read_chrome
from torchprof_magic.model.errors import TorchProfError
from torchprof_magic.render import arrow, standalone_html
from torchprof_magic.report.trace_report import Report

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "</script><script>alert(1)</script><!-- \u2028 & ]]> $title"


@pytest.fixture
def report() -> Report:
    trace = make_trace(span(HOSTILE, 0, 5), **{HOSTILE: HOSTILE})
    return Report(trace, run_id="run")


def elements(page: str, name: str) -> list[tuple[str, str]]:
    """Return attributes and text of all elements of a name, as a browser finds them."""
    return re.findall(rf"<{name}([^>]*)>(.*?)</{name}>", page, re.DOTALL)


def hashes(page: str, directive: str) -> set[str]:
    found = re.search(rf"{directive} ([^;]*)", page)
    assert found
    return {source.strip("'") for source in found[1].split()}


def hash_of(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def test_the_policy_has_the_hash_of_every_script_and_style_sheet_and_no_other(report: Report, tmp_path: Path) -> None:
    page = report.to_html(tmp_path / "a.html", perfetto=True).read_text("utf-8")
    scripts = [text for attributes, text in elements(page, "script") if "module" in attributes]
    assert {hash_of(text) for text in scripts} == hashes(page, "script-src")
    assert {hash_of(text) for _, text in elements(page, "style")} == hashes(page, "style-src")
    data = [attributes for attributes, _ in elements(page, "script") if "module" not in attributes]
    assert [re.search(r'id="(\w+)"', each)[1] for each in data] == ["header", "data", "trace"]


def test_names_are_inside_the_data_and_nowhere_else(report: Report, tmp_path: Path) -> None:
    page = report.to_html(tmp_path / "a.html").read_text("utf-8")
    assert "<script>alert" not in page
    header = next(text for attributes, text in elements(page, "script") if 'id="header"' in attributes)
    assert HOSTILE in header.encode().decode("unicode_escape")


def test_a_large_view_has_an_element_of_its_own(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "EMBEDDED_ROWS", 1)
    page = report.to_html(tmp_path / "a.html").read_text("utf-8")
    (packed,) = (text for attributes, text in elements(page, "script") if 'id="view-flame"' in attributes)
    frame = pl.read_ipc_stream(io.BytesIO(gzip.decompress(base64.b64decode(packed))))
    assert frame["name"].cast(pl.String).to_list() == ["all", HOSTILE]


def test_the_trace_is_in_the_file_only_on_request(report: Report, tmp_path: Path) -> None:
    plain = report.to_html(tmp_path / "plain.html").read_text("utf-8")
    asked = report.to_html(tmp_path / "asked.html", perfetto=True).read_text("utf-8")
    texts = {attributes: text for attributes, text in elements(asked, "script") if 'id="trace"' in attributes}
    assert 'id="trace"' not in plain
    (packed,) = texts.values()
    assert read_chrome([gzip.decompress(base64.b64decode(packed))]).events["name"].to_list() == [HOSTILE]


def test_the_header_lists_what_is_in_the_file(report: Report, tmp_path: Path) -> None:
    listed = []
    for perfetto in (False, True):
        page = report.to_html(tmp_path / "a.html", perfetto=perfetto).read_text("utf-8")
        header = next(text for attributes, text in elements(page, "script") if 'id="header"' in attributes)
        listed.append([(entry["name"], entry["kind"]) for entry in json.loads(header)["exports"]])
    assert listed == [[], [("chrome", "save"), ("perfetto", "perfetto")]]


@pytest.mark.parametrize("text", ["a</script>b", "a</STYLE >b", "a<!--b"])
def test_a_front_end_that_would_end_its_element_is_refused(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(standalone_html, "built", lambda: (text, ""))
    with pytest.raises(TorchProfError, match="npm run build"):
        report.to_html(tmp_path / "a.html")


def test_line_ends_of_a_front_end_that_was_built_on_windows_are_those_that_a_browser_hashes(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standalone_html, "built", lambda: ("let a;\r\nlet b;\rlet c;", "p {\r\n}"))
    page = report.to_html(tmp_path / "a.html").read_bytes().decode()
    assert "\r" not in page
    assert hash_of("let a;\nlet b;\nlet c;") in hashes(page, "script-src")
