"""Logs of torch.compile, written by hand as several versions of torch write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import torchprof_magic as tp
from torchprof_magic.model.errors import NotATraceError

if TYPE_CHECKING:
    from pathlib import Path

FIRST = {
    "compile_id": "0/0",
    "co_name": "f",
    "co_filename": "/home/me/model.py",
    "co_firstlineno": 3,
    "start_time": 1_800_000_000.5,
    "entire_frame_compile_time_s": 0.1,
    "backend_compile_time_s": 0.06,
    "inductor_compile_time_s": 0.05,
    "code_gen_time_s": 0.02,
}
BROKEN = """Graph break in user code at /home/me/model.py:5
Graph Break Reason: Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print`.
"""


def record(payload: str = "", **values: Any) -> str:
    """Return a record of a log, with what follows it in lines that begin with a tab."""
    lines = "".join(f"\t{line}\n" for line in payload.splitlines())
    return f"V0401 10:00:00.123000 77 torch/_dynamo/utils.py:2009] {json.dumps(values)}\n{lines}"


def of_region(times: int) -> dict[str, Any]:
    return {"frame_id": 0, "frame_compile_id": times, "attempt": 0, "has_payload": "00"}


def event(phase: str, ts: float) -> str:
    body = {"name": "dynamo", "ph": phase, "ts": ts, "pid": 0, "tid": 0, "args": {"dynamo_config": "x" * 99}}
    return record(json.dumps(body, indent=0), chromium_event={}, **of_region(0))


def load(tmp_path: Path, *records: str) -> tp.Report:
    file = tmp_path / "dedicated_log_torch_trace_x.log"
    file.write_text("".join(records))
    report = tp.load(file)
    assert isinstance(report, tp.Report)
    return report


def test_compilations_have_their_reasons_and_breaks(tmp_path: Path) -> None:
    again = {**FIRST, "compile_id": "0/1", "start_time": 1_800_000_001.5}
    report = load(
        tmp_path,
        event("B", 1_800_000_000_500_000.0),
        record(BROKEN, artifact={"name": "dynamo_graph_break_reason"}, **of_region(0)),
        record(compilation_metrics=FIRST),
        event("E", 1_800_000_000_600_000.0),
        record("generated code\nof no interest", inductor_output_code={}, **of_region(0)),
        record(
            '["0/0: n == 2   # return x  # model.py:4 in f"]', artifact={"name": "recompile_reasons"}, **of_region(1)
        ),
        record(compilation_metrics=again),
        record(
            bwd_compilation_metrics={
                "compile_id": "0/1",
                "start_time_us": 1_800_000_002_000_000,
                "end_time_us": 1_800_000_002_000_500,
            }
        ),
    )
    names = ("function", "region", "direction", "start_ns", "again", "guard", "guard_line", "break_line")
    assert report.compilations.select(names).rows() == [
        ("f", "0/0", "forward", 0, False, "", None, 5),
        ("f", "0/1", "forward", 1_000_000_000, True, "n == 2", 4, None),
        ("f", "0/1", "backward", 1_500_000_000, True, "", None, None),
    ]
    first = report.compilations.row(0, named=True)
    assert first["break_reason"] == "Dynamo does not know how to trace builtin operator `print`"
    parts = ("dur_ns", "dynamo_ns", "backend_ns", "inductor_ns", "codegen_ns")
    assert [round(first[name] / 1e6) for name in parts] == [100, 40, 10, 30, 20]
    assert report.compilations["dur_ns"][2] == 500_000
    assert report.events["name"].to_list() == ["dynamo"]
    assert [problem.code for problem in report.problems] == ["compile_log.no_run"]


def test_a_log_without_events_begins_with_its_first_compilation(tmp_path: Path) -> None:
    report = load(tmp_path, record(compilation_metrics=FIRST))
    assert report.compilations["start_ns"].to_list() == [0]


def test_damaged_records_are_counted_and_values_of_other_types_are_unknown(tmp_path: Path) -> None:
    odd = {"compile_id": 7, "co_name": ["f"], "co_firstlineno": 1 << 70, "start_time": 1e300, "fail_reason": {"a": 1}}
    report = load(
        tmp_path,
        record(compilation_metrics=odd),
        record(compilation_metrics=[1]),
        record(artifact="text", chromium_event=3),
        "no record\n",
        "V0401 10:00:00.1 77 a.py:1] {damaged\n",
        record(compilation_metrics=FIRST)[:-9],
    )
    assert report.compilations.select("line", "start_ns", "dur_ns").rows() == [(None, 0, None)]
    assert {problem.code: problem.count for problem in report.problems}["compile_log.damaged"] == 3


def test_a_log_in_which_nothing_was_compiled_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match=r"log of torch\.compile .* nothing was compiled"):
        load(tmp_path, record(artifact={"name": "torch_version"}))


def test_a_log_without_a_readable_record_of_a_compilation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match="nothing was compiled"):
        load(tmp_path, record("damaged", chromium_event={}, **of_region(0)))
