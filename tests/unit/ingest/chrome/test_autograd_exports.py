"""Exports of torch's autograd profiler before torch 1.8, written as its ``EventList.export_chrome_trace`` did.

That function wrote a list, without categories, with ``%s`` for all numbers, and cut off the last comma.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import pytest

from torchprof_magic.ingest import read_chrome
from torchprof_magic.loading import load
from torchprof_magic.report.trace_report import Report

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.trace import Trace


class Call(NamedTuple):
    """One call of an op: µs on the host, and on the device if it has any."""

    name: str
    start_us: float
    dur_us: float
    device_start_us: float | None = None
    device_dur_us: float = 0.0


# aten::linear calls aten::addmm, and both took time on the device; aten::relu follows.
CALLS = (
    Call("aten::linear", 100.5, 40.25, 200.0, 30.0),
    Call("aten::addmm", 110.125, 20.0, 202.0, 25.0),
    Call("aten::relu", 150.0, 10.0, 240.0, 5.5),
    Call("aten::item", 170.0, 4.0),
)


def exported(calls: tuple[Call, ...], device: str = "CUDA") -> bytes:
    rows: list[str] = []
    arrow = 0
    for call in calls:
        rows.append(
            f'{{"name": "{call.name}", "ph": "X", "ts": {call.start_us}, "dur": {call.dur_us}, "tid": 1, '
            '"pid": "CPU functions", "args": {}}'
        )
        if call.device_start_us is None:
            continue
        cat = f"cpu_to_{device.lower()}"
        for phase, ts, tid, pid in (("s", call.start_us, 1, "CPU"), ("f", call.device_start_us, 0, device)):
            rows.append(
                f'{{"name": "{call.name}", "ph": "{phase}", "ts": {ts}, "tid": {tid}, "pid": "{pid} functions", '
                f'"id": {arrow}, "cat": "{cat}", "args": {{}}}}'
            )
        rows.append(
            f'{{"name": "{call.name}", "ph": "X", "ts": {call.device_start_us}, "dur": {call.device_dur_us}, '
            f'"tid": 0, "pid": "{device} functions", "args": {{}}}}'
        )
        arrow += 1
    return f"[{', '.join(rows)}]".encode()


@pytest.fixture
def trace() -> Trace:
    return read_chrome([exported(CALLS)])


def test_cpu_functions_are_ops_and_the_innermost_device_times_are_work(trace: Trace) -> None:
    rows = trace.events.select(pl.col("category", "name").cast(pl.String), "dur_ns", "device", "stream").rows()
    assert sorted(rows, key=str) == sorted(
        [
            ("cpu_op", "aten::linear", 40_250, None, None),
            ("cpu_op", "aten::addmm", 20_000, None, None),
            ("cpu_op", "aten::relu", 10_000, None, None),
            ("cpu_op", "aten::item", 4_000, None, None),
            ("gpu_user_annotation", "aten::linear", 30_000, None, None),
            ("kernel", "aten::addmm", 25_000, 0, 0),
            ("kernel", "aten::relu", 5_500, 0, 0),
        ],
        key=str,
    )
    assert [problem.code for problem in trace.problems] == ["chrome.autograd_export"]


def test_device_time_belongs_to_the_op_that_its_arrow_comes_from(trace: Trace) -> None:
    ops = Report(trace).ops
    found = {name: (own, whole) for name, own, whole in ops.select("name", "self_device_ns", "total_device_ns").rows()}
    assert found == {
        "aten::linear": (0, 25_000),
        "aten::addmm": (25_000, 25_000),
        "aten::relu": (5_500, 5_500),
        "aten::item": (0, 0),
    }


def test_calls_nest_on_the_host(trace: Trace) -> None:
    ops = trace.events.filter(pl.col("category") == "cpu_op")
    assert ops["depth"].to_list() == [0, 1, 0, 0]
    own = dict(Report(trace).ops.select("name", "self_cpu_ns").rows())
    assert own["aten::linear"] == 20_250


def test_an_export_without_a_device_has_ops_only() -> None:
    trace = read_chrome([exported(tuple(call._replace(device_start_us=None) for call in CALLS))])
    assert trace.events["category"].unique().to_list() == ["cpu_op"]
    assert Report(trace).ops.height == 4


def test_other_devices_are_read_alike() -> None:
    trace = read_chrome([exported(CALLS, "XPU")])
    assert trace.events["category"].to_list().count("kernel") == 2
    assert trace.flows.filter(pl.col("kind") == "launch").height == 2


def test_a_process_of_that_name_in_a_trace_with_categories_stays_what_it_is() -> None:
    event = {"ph": "X", "cat": "python_function", "name": "f", "pid": "CPU functions", "tid": 1, "ts": 1, "dur": 1}
    trace = read_chrome([json.dumps([event]).encode()])
    assert trace.events["category"].to_list() == ["python_function"]
    assert trace.problems == ()


def test_a_report_of_it_is_shown_saved_and_exported(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_bytes(exported(CALLS))
    report = load(tmp_path / "old.json")
    assert "aten::addmm" in report.summary()
    assert report.to_html(tmp_path / "old.html").stat().st_size
    again = load(report.save(tmp_path / "old.torchprof"))
    assert again.ops.equals(report.ops)
    assert set(load(report.export(tmp_path / "again.json")).ops["name"]) >= set(report.ops["name"])


def test_the_torch_of_today_writes_its_legacy_exports_alike(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with torch.autograd.profiler.profile(use_kineto=False) as profiler:
        torch.ones(2).add(1)
    profiler.export_chrome_trace(str(tmp_path / "legacy.json"))
    report = load(tmp_path / "legacy.json")
    assert {"aten::ones", "aten::add"} <= set(report.ops["name"])
