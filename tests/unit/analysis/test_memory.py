from __future__ import annotations

from support import allocation, annotation, make_trace

from torchprof_magic.analysis.memory import memory_series


def test_the_allocators_own_total_is_the_curve_and_its_maximum_the_peak() -> None:
    series = memory_series(make_trace(allocation(0, 100, 1000), allocation(5, 50, 1050), allocation(9, -150, 900)))
    assert series.frame["allocated_bytes"].to_list() == [1000, 1050, 900]
    assert [(mark.time_ns, mark.label) for mark in series.marks] == [(5000, "peak 1.05 kB")]


def test_without_totals_allocations_are_summed_up_from_zero() -> None:
    series = memory_series(make_trace(allocation(0, 100), allocation(5, 50), allocation(9, -150)))
    assert series.frame["allocated_bytes"].to_list() == [100, 150, 0]


def test_rows_out_of_order_are_put_in_order_of_time() -> None:
    series = memory_series(make_trace(allocation(9, -20, 80), allocation(0, 100, 100)))
    assert series.frame["time_ns"].to_list() == [0, 9000]


def test_accelerators_come_first_and_every_device_has_its_peak_and_steps() -> None:
    trace = make_trace(annotation("ProfilerStep#4", 0, 50), allocation(1, 10, 10), allocation(2, 99, 99, device=1))
    marks = [(mark.lane, mark.kind, mark.label) for mark in memory_series(trace).marks]
    assert marks == [
        ("cuda:0", "peak", "peak 99 B"),
        ("cpu", "peak", "peak 10 B"),
        ("cuda:0", "step", "step 4"),
        ("cpu", "step", "step 4"),
    ]
