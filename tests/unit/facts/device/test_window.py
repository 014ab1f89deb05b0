from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.facts.device.window import Windows, windows_of
from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.model.trace import Trace


def window_us(trace: Trace) -> list[tuple[float, float]]:
    windows = windows_of(trace)
    return [(a / 1000, b / 1000) for a, b in zip(windows.start_ns.tolist(), windows.end_ns.tolist(), strict=True)]


def test_the_window_lasts_from_the_first_step_to_the_end_of_the_last() -> None:
    trace = make_trace(
        span("before", 0, 5), annotation("ProfilerStep#1", 10, 20), annotation("ProfilerStep#2", 40, 20),
        span("after", 70, 10),
    )  # fmt: skip
    assert window_us(trace) == [(10, 60)]
    assert windows_of(trace).has_steps
    assert windows_of(trace).whole_ns == 50_000


def test_an_interrupted_step_is_outside_the_window_unless_all_were_interrupted() -> None:
    trace = make_trace(annotation("ProfilerStep#1", 0, 20), annotation("ProfilerStep#2", 20, 20))
    first = replace(trace, steps=trace.steps.with_columns(complete=pl.col("number") == 1))
    assert window_us(first) == [(0, 20)]
    neither = replace(trace, steps=trace.steps.with_columns(complete=pl.lit(value=False)))
    assert window_us(neither) == [(0, 40)]


def test_without_steps_the_window_ends_with_the_last_op_or_the_last_device_work_whichever_is_later() -> None:
    late_call = span("cudaDeviceSynchronize", 40, 60, cat="cuda_runtime")
    op = span("op", 10, 20)
    assert window_us(make_trace(op, late_call)) == [(0, 20)]  # times count from the first event
    assert window_us(make_trace(op, launch(12, 1, 1), kernel("k", 25, 15, 1))) == [(0, 30)]
    assert not windows_of(make_trace(op)).has_steps


def test_without_steps_the_window_begins_with_the_host_not_with_work_queued_before() -> None:
    trace = make_trace(kernel("queued", 0, 30, 9), span("op", 20, 20))
    assert window_us(trace) == [(20, 40)]


def test_work_of_a_device_alone_is_its_own_window() -> None:
    assert window_us(make_trace(kernel("k", 5, 10, 1), kernel("k", 25, 10, 2))) == [(0, 30)]


def test_each_cycle_has_a_window() -> None:
    trace = make_trace(annotation("ProfilerStep#1", 0, 10), annotation("ProfilerStep#5", 100, 10))
    two = replace(trace, steps=trace.steps.with_columns(cycle=pl.Series([0, 1], dtype=pl.Int32)))
    assert window_us(two) == [(0, 10), (100, 110)]
    assert windows_of(two).whole_ns == 20_000


def test_cycles_with_damaged_times_count_no_moment_twice() -> None:
    trace = make_trace(annotation("ProfilerStep#1", 0, 50), annotation("ProfilerStep#5", 60, 10))
    steps = trace.steps.with_columns(
        cycle=pl.Series([0, 1], dtype=pl.Int32), start_ns=pl.Series([0, 20_000]), end_ns=pl.Series([50_000, 70_000])
    )
    assert window_us(replace(trace, steps=steps)) == [(0, 50), (50, 70)]


def test_a_trace_without_events_has_no_window() -> None:
    assert windows_of(make_trace()).whole_ns == 0


# Of two cycles.
TWO = Windows(np.array([10, 50]), np.array([30, 70]), has_steps=True)


def test_a_moment_is_in_a_window_from_its_start_until_just_before_its_end() -> None:
    assert TWO.holds(np.array([9, 10, 29, 30, 49, 50, 70])).tolist() == [False, True, True, False, False, True, False]
    nothing = np.empty(0, np.int64)
    assert Windows(nothing, nothing, has_steps=False).holds(np.array([5])).tolist() == [False]


def test_the_windows_of_a_part_are_cut_at_its_edges() -> None:
    assert TWO.in_part(TimeRange(20, 55)).whole_ns == 10 + 5
    assert TWO.in_part(TimeRange(30, 50)).whole_ns == 0


def test_what_no_interval_covers_of_the_windows_is_left() -> None:
    start, end = TWO.without(np.array([5, 25, 60]), np.array([15, 55, 65]))
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == [(15, 25), (55, 60), (65, 70)]
    nothing = np.empty(0, np.int64)
    assert [each.tolist() for each in TWO.without(nothing, nothing)] == [[10, 50], [30, 70]]
