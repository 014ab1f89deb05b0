"""The same recording as torch has written it over the years: what differs in the file makes no difference here."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from support import PID, Event, annotation, chrome, kernel, launch, span

from torchprof_magic.ingest import read_chrome
from torchprof_magic.model.trace import Trace
from torchprof_magic.report.trace_report import Report

START_US = 1_623_142_623_460_111
CAPITALS = {
    "cpu_op": "Operator",
    "user_annotation": "Operator",
    "cuda_runtime": "Runtime",
    "kernel": "Kernel",
    "gpu_memcpy": "Memcpy",
    "ac2g": "async",
}


def recording() -> list[Event]:
    """Return a step with a matrix product and a copy to the device, in us from its start."""
    shapes = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}
    copy = {"correlation": 2, "stream": 7, "device": 0, "bytes": 96}
    return [
        annotation("ProfilerStep#4", 0, 100),
        span("aten::linear", 10, 30, **{"External id": 1, **shapes}),
        span("aten::mm", 15, 20, **{"External id": 2, **shapes}),
        launch(20, 5, 1),
        kernel("gemm", 30, 40, 1, **{"External id": 2}),
        span("aten::copy_", 50, 10, **{"External id": 3}),
        span("cudaMemcpyAsync", 52, 4, cat="cuda_runtime", correlation=2),
        span("Memcpy HtoD (Pageable -> Device)", 72, 8, cat="gpu_memcpy", **copy) | {"pid": 0, "tid": 7},
        {"ph": "s", "id": 1, "cat": "ac2g", "name": "ac2g", "pid": PID, "tid": 1, "ts": 20},
        {"ph": "f", "id": 1, "cat": "ac2g", "name": "ac2g", "pid": 0, "tid": 7, "ts": 30, "bp": "e"},
        memory(16, 96),
        memory(90, -96),
    ]


def memory(at_us: int, delta: int) -> Event:
    args = {"Device Type": 1, "Device Id": 0, "Addr": 4096, "Bytes": delta, "Total Allocated": 1000 + max(delta, 0)}
    known = {"cat": "cpu_instant_event", "name": "[memory]", "pid": PID, "tid": 1, "ts": at_us}
    return {"ph": "i", "s": "t", **known, "args": args}


def with_capitals() -> bytes:
    """2021: categories with capitals, threads as text, other keys, no category and total of allocations."""
    events = []
    for event in recording():
        old = event | {"ts": START_US + event["ts"], "tid": str(event["tid"])}
        if event["name"] == "[memory]":
            del old["cat"]
            old["args"] = {key: event["args"][key] for key in ("Device Type", "Device Id", "Bytes")}
        else:
            old["cat"] = CAPITALS[event["cat"]]
        if event["ph"] == "X":
            lower = {"External id": "external id"} if old["cat"] != "Operator" else {}
            old["args"] = {lower.get(key, key): value for key, value in event["args"].items()}
        events.append(old)
    return chrome(*events)


def with_whole_microseconds() -> bytes:
    """2022 and 2023: today's categories; times in whole us since 1970; the id of device events is their correlation."""
    events = [event | {"ts": START_US + event["ts"]} for event in recording()]
    for event in events:
        if event["ph"] == "X" and event["cat"] in ("kernel", "gpu_memcpy"):
            event["args"] = event["args"] | {"External id": event["args"]["correlation"]}
        if event["ph"] == "X" and event["cat"] == "cpu_op":
            event["args"] = event["args"] | {"Ev Idx": event["args"]["External id"], "Trace iteration": 0}
    return chrome(*events, traceName="worker0.pt.trace.json")


def with_base_time() -> bytes:
    """2024 and later: us with three decimals since a base time in ns, ranges on the device, other kinds of ids."""
    events = [event | {"ts": event["ts"] + 0.25} for event in recording()]
    for number, event in enumerate(events):
        if event["ph"] == "X" and event["cat"] == "cpu_op":
            event["args"] = event["args"] | {"Record function id": 0, "Ev Idx": number, "Concrete Inputs": ["", ""]}
    events.append(
        span("ProfilerStep#4", 30.25, 50, cat="gpu_user_annotation", **{"External id": 0}) | {"pid": 0, "tid": 7}
    )
    base = {"baseTimeNanoseconds": START_US * 1000 - 250, "displayTimeUnit": "ms"}
    return chrome(*events, traceName="worker0.pt.trace.json", **base)


def with_decimals_since_1970() -> bytes:
    """Decimals that a float would round: the file has 1623142623460111.000."""
    text = json.dumps(
        {"schemaVersion": 1, "traceEvents": [event | {"ts": f"<{event['ts']}>"} for event in recording()]}
    )
    for event in recording():
        text = text.replace(f'"<{event["ts"]}>"', f"{START_US + event['ts']}.000")
    return text.encode()


def with_times_as_text() -> bytes:
    """As profilers of other devices write them."""
    return chrome(*[event | {"ts": f"{START_US + event['ts']}.000"} for event in recording()])


SCHEMAS = (
    with_capitals,
    with_whole_microseconds,
    with_base_time,
    with_decimals_since_1970,
    with_times_as_text,
)


@pytest.fixture(params=SCHEMAS, ids=lambda make: make.__name__)
def trace(request: pytest.FixtureRequest) -> Trace:
    make: Callable[[], bytes] = request.param
    return read_chrome([make()])


def test_the_recording_begins_at_the_same_time(trace: Trace) -> None:
    assert trace.meta.start_unix_ns == START_US * 1000
    assert trace.steps.select("number", "start_ns", "end_ns").rows() == [(4, 0, 100_000)]


def test_ops_have_the_same_times_on_host_and_device_and_the_same_shapes(trace: Trace) -> None:
    ops = {row["name"]: row for row in Report(trace).ops.iter_rows(named=True) if row["kind"] == "cpu_op"}
    found = {
        name: tuple(row[f"{kind}_ns"] for kind in ("self_cpu", "total_cpu", "self_device", "total_device"))
        for name, row in ops.items()
    }
    assert found == {
        "aten::linear": (10_000, 30_000, 0, 40_000),
        "aten::mm": (20_000, 20_000, 40_000, 40_000),
        "aten::copy_": (10_000, 10_000, 8_000, 8_000),
    }
    by_shape = Report(trace).ops_by("shapes")
    assert by_shape.filter(by_shape["name"] == "aten::mm")["shapes"].cast(str).to_list() == ["[[2, 3], [3, 4]]"]


def test_device_work_is_one_kernel_and_one_copy_on_one_stream(trace: Trace) -> None:
    report = Report(trace)
    assert sorted(report.kernels.select("name", "sum_ns").rows()) == [
        ("Memcpy HtoD (Pageable -> Device)", 8_000),
        ("gemm", 40_000),
    ]
    assert report.devices.select("device", "busy_ns").rows() == [(0, 48_000)]
    launches = trace.flows.filter(trace.flows["kind"] == "launch")
    names = trace.events["name"].cast(str)
    assert sorted((names[a], names[b]) for a, b in launches.select("source", "target").rows()) == [
        ("cudaLaunchKernel", "gemm"),
        ("cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)"),
    ]


def test_allocations_are_those_of_the_op(trace: Trace) -> None:
    assert trace.memory.select("time_ns", "delta_bytes").rows() == [(16_000, 96), (90_000, -96)]
    at = trace.memory["event"][0]
    assert trace.events["name"].cast(str)[at] == "aten::mm"


def test_nothing_in_such_a_file_is_odd(trace: Trace) -> None:
    assert [problem.code for problem in trace.problems] == []
