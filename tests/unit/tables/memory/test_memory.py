from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from support import allocation, annotation, make_trace, span

from torchprof_magic.model.trace import TAGS_SCHEMA, Trace
from torchprof_magic.report.trace_report import Report
from torchprof_magic.tables.memory.in_use import memory_series


def three_changes(device: int, *totals: int | None) -> Trace:
    changes = zip((0, 5, 9), (100, 50, -100), totals, (1, 2, 1), strict=True)
    return make_trace(*(allocation(at, delta, total, 1, device, address) for at, delta, total, address in changes))


def test_the_allocators_own_total_is_the_curve_of_an_accelerator_and_its_maximum_the_peak() -> None:
    series = memory_series(three_changes(1, 1000, 1050, 950))
    assert series.frame["allocated_bytes"].to_list() == [1000, 1050, 950]
    assert [(mark.time_ns, mark.label) for mark in series.marks] == [(5000, "peak 1.03 KiB")]


@pytest.mark.parametrize("totals", [(None, None, None), (1000, 1050, 950)])
def test_the_blocks_of_the_host_are_added_up_whatever_its_total_says(totals: tuple[int | None, ...]) -> None:
    assert memory_series(three_changes(0, *totals)).frame["allocated_bytes"].to_list() == [100, 150, 50]


def test_rows_out_of_order_are_put_in_order_of_time() -> None:
    series = memory_series(make_trace(allocation(9, -20, 80), allocation(0, 100, 100)))
    assert series.frame["time_ns"].to_list() == [0, 9000]


def test_accelerators_come_first_and_every_device_has_its_peak() -> None:
    trace = make_trace(annotation("ProfilerStep#4", 0, 50), allocation(1, 10, 10), allocation(2, 99, 99, device=1))
    marks = [(mark.lane, mark.kind, mark.label) for mark in memory_series(trace).marks]
    assert marks == [
        ("cuda:0", "peak", "peak 99 B"),
        ("cpu", "peak", "peak 10 B"),
        ("", "step", "step 4"),
    ]


def test_steps_are_marked_once_for_all_devices() -> None:
    work = [allocation(1 + at, 10, 10, device=1) for at in range(20)]
    for at, event in enumerate(work):
        event["args"]["Device Id"] = at
    steps = [annotation(f"ProfilerStep#{number}", 100 * number, 50) for number in range(30)]
    marks = [mark for mark in memory_series(make_trace(*work, *steps)).marks if mark.kind == "step"]
    assert [(mark.lane, mark.time_ns) for mark in marks[:2]] == [("", 0), ("", 100_000)]
    assert len(marks) == 30


def test_a_running_sum_of_damaged_sizes_stops_instead_of_turning_negative() -> None:
    trace = make_trace(*(allocation(at, 1) for at in range(5)))
    delta = pl.Series("delta_bytes", [*[2**62] * 4, -(2**62)])
    series = memory_series(replace(trace, memory=trace.memory.with_columns(delta)))
    assert series.frame["allocated_bytes"].to_list() == [2**62] * 5


def test_a_figure_of_many_devices_shows_the_first_eight_and_says_how_many_more_there_are() -> None:
    work = [allocation(1 + at, 10, 10, device=1) for at in range(11)]
    for at, event in enumerate(work):
        event["args"]["Device Id"] = at
    figure = Report(make_trace(*work)).figure("memory")
    assert [axes.get_ylabel() for axes in figure.axes] == [f"cuda:{number}, MiB" for number in range(8)]
    assert figure.get_supxlabel() == "3 more devices are not shown."


def test_an_old_gradient_of_the_host_ends_with_zero_grad_when_a_new_one_follows() -> None:
    events = (
        allocation(1, 10),
        annotation("Optimizer.zero_grad#SGD.zero_grad", 5, 1),
        allocation(8, 20),
        allocation(20, 40),
    )
    for at, event in enumerate(events[:1] + events[2:]):
        event["args"]["Addr"] = 4096 * (at + 1)
    tag = {"category": "gradient", "device": "cpu", "bytes": 40, "name": "w", "shape": "[10]", "dtype": "float32"}
    rows = [
        {**tag, "time_ns": -5, "address": 99, "cycle": 0},
        {**tag, "time_ns": 25_000, "address": 4096 * 3, "cycle": 0},
    ]
    trace = replace(make_trace(*events), tags=pl.DataFrame(rows, schema=TAGS_SCHEMA))
    # torch does not report the release: without zero_grad, the old 40 bytes would be there until the new ones are.
    assert memory_series(trace).frame["gradient_bytes"].to_list() == [40, 0, 40]


def test_without_recorded_memory_there_is_no_curve_and_nothing_is_computed_for_one() -> None:
    series = memory_series(make_trace(annotation("ProfilerStep#2", 0, 100)))
    assert (series.frame.height, series.marks, series.phases, series.modules) == (0, (), (), ())


def stacked(*outside: tuple[int, int, int]) -> list[str]:
    """Return the bands from the bottom, of an op that keeps 500 bytes and of these changes outside of ops."""
    changes = [*outside, (12, 500, 99), (90, -500, 99)]
    allocations = (allocation(at, delta, None, 1, 0, address) for at, delta, address in changes)
    return [band.name for band in memory_series(make_trace(span("aten::relu", 10, 10), *allocations)).stacked]


def test_unknown_memory_that_stays_is_the_floor_of_the_stack_and_what_comes_and_goes_lies_on_top() -> None:
    before = (0, 1_000, 1)
    assert stacked(before) == ["unknown_bytes", "activation_bytes"]
    assert stacked(before, (2, 1_000, 2), (8, -1_000, 2)) == ["unknown_bytes", "activation_bytes"]
    assert stacked(before, (2, 1_001, 2), (8, -1_001, 2)) == ["activation_bytes", "unknown_bytes"]
