"""Digits of other scripts than ASCII's, and far too many of them, are part of a name and no number."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest
from support import annotation, frame, kernel, make_trace, span

from torchprof_magic.findings.savings.saved_by_sizes import _is_larger_storage
from torchprof_magic.ingest.chrome.columns import number_behind
from torchprof_magic.jobs.choose import rank_named
from torchprof_magic.report.trace_report import Report

if TYPE_CHECKING:
    from pathlib import Path

ARABIC, FULL_WIDTH, SUPERSCRIPT, MANY = "٣", "３", "³", "9" * 5_000
ODD = (ARABIC, FULL_WIDTH, SUPERSCRIPT, f"1{ARABIC}", MANY, "1_000", "-1", " 5")


@pytest.mark.parametrize("number", ODD)
def test_a_step_without_a_number_is_a_range_and_the_report_is_there(number: str) -> None:
    report = Report(make_trace(annotation(f"ProfilerStep#{number}", 0, 50), span("aten::mm", 2, 30)))
    assert report.steps.height == 0
    assert "aten::mm" in report.ops["name"].to_list()
    assert report.summary()
    assert report.events["name"][0].startswith("ProfilerStep#")


@pytest.mark.parametrize("number", ODD)
def test_every_view_is_made_of_names_that_end_in_such_digits(number: str, tmp_path: Path) -> None:
    trace = make_trace(
        annotation(f"ProfilerStep#{number}", 0, 200),
        frame(f"train.py({number}): step", 1, 190),
        frame(f"nn.Module: Linear_{number}", 2, 180),
        span("aten::conv2d", 4, 40, **{"Input Dims": [[number], [2, 3]]}),
        span(f"Torch-Compiled Region: {number}/{number}", 50, 40),
        kernel(f"triton_poi_fused_add_{number}", 60, 30, correlation=1),
        kernel(f"void gemm_{number}x{number}x{number}<{number}>", 95, 30, correlation=2),
        {"ph": "M", "name": "process_name", "pid": number, "args": {"name": f"MTIA {number}"}},
        {"ph": "X", "cat": "kernel", "name": "work", "pid": number, "tid": f"stream {number}", "ts": 150, "dur": 5},
    )
    report = Report(trace)
    for table in ("ops", "kernels", "lines", "modules", "host", "waits", "idle", "steps", "stacks", "lanes"):
        assert report.sql(f"SELECT * FROM {table}").width > 0  # noqa: S608 - the names above
    assert report.to_html(tmp_path / "report.html").stat().st_size > 0
    assert json.loads(report.export(tmp_path / "trace.json").read_bytes())["traceEvents"]


@pytest.mark.parametrize("number", [ARABIC, FULL_WIDTH, SUPERSCRIPT])
def test_the_name_of_a_file_tells_a_rank_in_ascii_only(number: str) -> None:
    assert rank_named(f"rank{number}.json") is None
    assert rank_named("rank3.json") == 3


def test_shapes_with_such_digits_have_the_elements_that_are_known() -> None:
    shapes = pl.DataFrame(
        {
            "category": ["input"] * 2,
            "shape": [f"[{ARABIC}, 4]", f"[{MANY}]"],
            "dtype": ["float32"] * 2,
            "size_bytes": [10_000, 10_000],
        }
    )
    assert _is_larger_storage(shapes).tolist() == [True, False]


@pytest.mark.parametrize("number", ODD)
def test_a_text_ends_with_a_number_only_if_that_fits_and_has_common_digits(number: str) -> None:
    assert number_behind(f"GPU {number}") == {"1_000": 0, "-1": 1, " 5": 5}.get(number)


def test_a_text_may_end_with_zeros_or_with_the_largest_number_of_32_bits() -> None:
    texts = ("stream 007", "0" * 5_000, "2147483647", "2147483648", "7 streams", "")
    assert [number_behind(text) for text in texts] == [7, 0, 2**31 - 1, None, None, None]
