"""Counter events become rows of values: of which device, under which name and unit, on the clock of the events."""

from __future__ import annotations

import json
import math
from typing import Any

import polars as pl
import pytest
from support import PID, Event, allocation, annotation, chrome, counter, kernel, launch, make_trace, span

from torchprof_magic.ingest import read_chrome
from torchprof_magic.model.cycle_filter import of_cycle
from torchprof_magic.model.trace import MAX_NAME_CHARS, Trace
from torchprof_magic.report.trace_report import Report


def torch_counter(name: str, at_us: float, value: float, device: int = 0) -> Event:
    """Return a counter as torch 2.15 writes it: of a process that is named by its id, with a series without a name."""
    return counter(name, at_us, pid=f"GPU {device} Counters", **{"": value})


def rows(trace: Trace) -> list[tuple[Any, ...]]:
    return trace.counters.drop("cycle").rows()


def problems(trace: Trace) -> dict[str, int]:
    return {problem.code: problem.count for problem in trace.problems}


OP = span("aten::mm", 10, 100)


def test_counters_of_torch_have_their_device_their_unit_and_the_time_of_the_events() -> None:
    trace = make_trace(
        OP,
        torch_counter("Power (W)", 12.5, 312.25),
        torch_counter("SM Active (%)", 13, 87.5, device=1),
        torch_counter("Cycles (Current Kernel)", 14, 7_050_000),
        torch_counter("NVLink RX", 15, 1.9e10),
    )
    assert rows(trace) == [
        (2_500, 0, "Power", 312.25, "W"),
        (3_000, 1, "SM Active", 87.5, "%"),
        (4_000, 0, "Cycles (Current Kernel)", 7_050_000.0, None),
        (5_000, 0, "NVLink RX", 1.9e10, None),
    ]
    assert problems(trace) == {}
    assert Report(trace).counters.columns == ["time_ns", "device", "name", "value", "unit"]


def test_a_counter_of_kineto_has_several_series_and_the_number_of_a_device_as_its_process() -> None:
    values = {"dram__throughput.avg.pct_of_peak_sustained_elapsed": 31, "sm__inst_executed.sum": 4096}
    event = counter("CUPTI PM Sampling", 11, pid=0, **values) | {"cat": "hardware_counters", "tid": 0}
    labels = {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 0, "args": {"labels": "GPU 0"}}
    assert rows(make_trace(OP, event, labels)) == [
        (1_000, 0, "CUPTI PM Sampling: dram__throughput.avg.pct_of_peak_sustained_elapsed", 31.0, "%"),
        (1_000, 0, "CUPTI PM Sampling: sm__inst_executed.sum", 4096.0, None),
    ]


def test_the_process_of_device_work_is_a_device_also_without_a_name_and_that_of_ops_is_none() -> None:
    work = (launch(12, 2, 1), kernel("gemm", 20, 5, 1, device=3))
    trace = make_trace(OP, *work, counter("load", 11, pid=3, value=1), counter("rss", 11, pid=PID, value=2))
    assert rows(trace) == [(1_000, 3, "load", 1.0, None), (1_000, None, "rss", 2.0, None)]


def test_ops_in_the_process_of_a_device_make_its_counters_those_of_no_device_unless_it_is_named() -> None:
    work = (launch(12, 2, 1), kernel("gemm", 20, 5, 1, device=PID))
    assert rows(make_trace(OP, *work, counter("rss", 11, value=2))) == [(1_000, None, "rss", 2.0, None)]
    label = {"ph": "M", "name": "process_name", "pid": PID, "args": {"name": f"GPU {PID}"}}
    assert rows(make_trace(OP, *work, label, counter("load", 11, value=2))) == [(1_000, PID, "load", 2.0, None)]


def test_the_only_device_has_the_counters_of_a_process_that_is_an_accelerator_without_a_number() -> None:
    label = {"ph": "M", "name": "process_labels", "pid": 705, "args": {"labels": "NPU"}}
    of_npu = counter("AI Core Freq", 11, pid=705, MHz=1650)
    work = (launch(12, 2, 1), kernel("gemm", 20, 5, 1, device=4))
    assert rows(make_trace(OP, *work, label, of_npu)) == [(1_000, 4, "AI Core Freq", 1650.0, "MHz")]
    two = (*work, launch(15, 2, 2), kernel("gemm", 20, 5, 2, device=5))
    assert rows(make_trace(OP, *two, label, of_npu)) == [(1_000, None, "AI Core Freq", 1650.0, "MHz")]
    assert rows(make_trace(OP, label, of_npu)) == [(1_000, None, "AI Core Freq", 1650.0, "MHz")]


def test_the_id_of_a_counter_is_a_part_of_its_name() -> None:
    events = [counter("Queue Length", 11, value=at) | {"id": at} for at in (7, 20)]
    assert rows(make_trace(OP, *events)) == [
        (1_000, None, "Queue Length[7]", 7.0, None),
        (1_000, None, "Queue Length[20]", 20.0, None),
    ]


def test_counters_of_one_name_in_several_processes_say_whose_they_are() -> None:
    trace = make_trace(OP, counter("rss", 11, pid=1, value=5), counter("rss", 12, pid=2, value=6))
    assert rows(trace) == [(1_000, None, "rss (process 1)", 5.0, None), (2_000, None, "rss (process 2)", 6.0, None)]
    of_devices = make_trace(OP, torch_counter("Power (W)", 11, 5, 0), torch_counter("Power (W)", 11, 6, 1))
    assert of_devices.counters["name"].to_list() == ["Power", "Power"]


def test_values_as_text_are_read_and_those_that_are_no_finite_number_are_left_out_and_counted() -> None:
    values = {"text": "12.5", "none": None, "true": True, "list": [1], "word": "N/A", "huge": 1e308, "least": -1e300}
    trace = make_trace(OP, counter("mixed", 11, **values), counter("empty", 12), counter("void", 13) | {"args": None})
    assert rows(trace) == [(1_000, None, "mixed: text", 12.5, None), (1_000, None, "mixed: least", -1e300, None)]
    # None, true, the list, the word and the one beyond 1e300; and the two events without values.
    assert problems(trace)["chrome.counter_value"] == 7


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_json_number_is_left_out_and_the_rest_of_the_event_is_kept(token: str) -> None:
    text = json.dumps({"traceEvents": [OP, counter("load", 11, a=1, b=2)]}).replace('"b": 2', f'"b": {token}')
    trace = read_chrome([text.encode()])
    assert rows(trace) == [(1_000, None, "load: a", 1.0, None)]
    assert problems(trace) == {"json.not_a_number": 1, "chrome.counter_value": 1}


def test_counters_in_damaged_json_are_read_with_all_their_values() -> None:
    text = json.dumps({"traceEvents": [OP, counter("load", 11, a=1, b=2), counter("load", 12, a=3, b=4)]})
    trace = read_chrome([text.replace('"load"', r'"C:\new\load"', 1).encode()])
    assert [row[3] for row in rows(trace)] == [1.0, 2.0, 3.0, 4.0]
    assert problems(trace) == {"json.bad_escape": 1}


def test_counters_before_the_first_event_have_negative_times_and_do_not_move_the_others() -> None:
    trace = make_trace(span("aten::mm", 100, 10), torch_counter("Power (W)", 40, 90))
    assert trace.events["start_ns"].to_list() == [0]
    assert trace.counters["time_ns"].to_list() == [-60_000]


def test_a_file_with_nothing_but_counters_begins_with_the_first() -> None:
    trace = make_trace(counter("load", 250, value=1), counter("load", 200, value=2))
    assert trace.counters.select("time_ns", "value").rows() == [(0, 2.0), (50_000, 1.0)]


def test_a_counter_of_a_wrong_clock_is_left_out_and_counted() -> None:
    trace = make_trace(OP, counter("load", 1e14, value=1), counter("load", 11, value=2) | {"ts": "soon"})
    assert trace.counters.height == 0
    assert problems(trace) == {"chrome.stray_time": 1, "chrome.no_time": 1}


def test_times_are_exact_as_those_of_events_and_may_have_an_exponent() -> None:
    text = json.dumps({"traceEvents": [span("a", 0, 1), counter("n", 1, value=1), counter("n", 2, value=2)]})
    exact = text.replace('"ts": 0,', '"ts": 9007199254740.992,').replace('"ts": 1,', '"ts": 9007199254740.993,')
    trace = read_chrome([exact.replace('"ts": 2,', '"ts": "9.0071992547410e12",').encode()])
    assert trace.counters["time_ns"].to_list() == [1, 8]


def test_counters_of_several_cycles_are_on_one_clock_and_each_cycle_has_its_own() -> None:
    base = 1_700_000_000_000_000_000
    files = [
        chrome(
            annotation(f"ProfilerStep#{cycle}", 0, 100),
            torch_counter("Power (W)", 10, cycle),
            baseTimeNanoseconds=base + cycle * 5_000_000,
        )
        for cycle in range(2)
    ]
    trace = read_chrome(files)
    assert trace.counters.select("time_ns", "value", "cycle").rows() == [(10_000, 0.0, 0), (5_010_000, 1.0, 1)]
    assert of_cycle(trace, 1).counters["value"].to_list() == [1.0]


def test_counters_of_memory_are_counters_and_no_allocations() -> None:
    trace = make_trace(OP, allocation(12, 512, 512), counter("Memory", 12, allocated=512, reserved=2048))
    assert trace.memory["delta_bytes"].to_list() == [512]
    assert rows(trace) == [
        (2_000, None, "Memory: allocated", 512.0, None),
        (2_000, None, "Memory: reserved", 2048.0, None),
    ]
    assert Report(trace).memory["total_bytes"].to_list() == [512]


def test_a_name_that_is_too_long_is_cut_and_counted() -> None:
    trace = make_trace(OP, counter("n" * 20_000, 11, value=1), counter("short", 11, **{"k" * 20_000: 2}))
    assert [len(name) for name in trace.counters["name"]] == [MAX_NAME_CHARS, MAX_NAME_CHARS]
    assert problems(trace) == {"chrome.long_text": 2}


def test_a_counter_is_no_event_and_leaves_the_rest_of_the_file_as_it_was() -> None:
    counted = make_trace(OP, torch_counter("Power (W)", 5, 1))
    plain = make_trace(OP)
    assert counted.events.equals(plain.events)
    assert (counted.lanes.rows(), counted.meta) == (plain.lanes.rows(), plain.meta)


def test_many_counters_are_read_in_order_of_time() -> None:
    count = 50_000
    events = [torch_counter(name, at, at) for at in range(count, 0, -1) for name in ("Power (W)", "SM Clock (MHz)")]
    found = make_trace(span("aten::mm", 0, count), *events).counters
    assert found.height == 2 * count
    assert found["time_ns"].is_sorted()
    assert (
        found.group_by("name").agg(pl.col("value").sum()).sort("name")["value"].to_list()
        == [math.comb(count + 1, 2)] * 2
    )
