"""The page of a memory timeline runs nothing, loads nothing, and cannot be broken by names."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from support import allocation, make_trace, span

import torchprof_magic as tp
from torchprof_magic.render.memory_page import write_memory_page
from torchprof_magic.report.trace_report import Report

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&$x"


def test_names_are_text_wherever_they_stand(tmp_path: Path) -> None:
    path = write_memory_page([1, 2], [[0, 5] + [0] * 7] * 2, tmp_path / "a.html", device=HOSTILE, title=HOSTILE)
    text = path.read_text()
    assert "<img src=x" not in text
    assert text.count("<script") == text.count("</script>") == 1
    found = re.search(r'id="memory-timeline">(.*?)</script>', text)
    assert found is not None
    assert json.loads(found[1])["device"] == HOSTILE
    assert tp.load(path).memory["device"].unique().to_list() == [HOSTILE]


def test_the_page_may_load_nothing_but_the_picture_in_it(tmp_path: Path) -> None:
    report = Report(make_trace(allocation(1, 5_000_000), span("a", 0, 9)))
    text = report.export_memory_timeline(tmp_path / "a.html").read_text()
    assert "content=\"default-src 'none'; img-src data:\"" in text
    assert 'src="data:image/png;base64,' in text
    assert "Peak 4.77 MiB" in text


def test_a_timeline_without_any_time_is_a_page_as_well(tmp_path: Path) -> None:
    assert write_memory_page([], [], tmp_path / "a.html", device="cpu", title="").stat().st_size > 0
    assert tp.load(tmp_path / "a.html").memory.height == 0


def test_the_title_of_the_run_is_that_of_the_page(tmp_path: Path) -> None:
    trace = make_trace(allocation(1, 5), span("a", 0, 9))
    report = Report(replace(trace, meta=replace(trace.meta, title="In [4]")))
    assert "<title>In [4]: memory on cpu</title>" in report.export_memory_timeline(tmp_path / "a.html").read_text()
