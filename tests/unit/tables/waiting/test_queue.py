from __future__ import annotations

from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.tables.waiting.queue import launch_totals, launches_table, queue_series

TRACE = (
    annotation("ProfilerStep#0", 0, 100),
    launch(0, 1, correlation=1),
    launch(10, 1, correlation=2),
    launch(20, 1, correlation=3),
    kernel("a", 5, 20, correlation=1),
    kernel("b", 25, 5, correlation=2),
    kernel("b", 30, 40, correlation=2),
    kernel("a", 80, 10, correlation=3, stream=8),
)


def test_work_counts_from_its_launch_to_its_start_and_a_call_until_its_first_work() -> None:
    frame = queue_series(make_trace(*TRACE)).frame.filter(lane="all streams")
    assert [(time // 1000, work, calls) for time, work, calls in frame.select("time_ns", "work", "calls").rows()] == [
        (0, 1, 1), (5, 0, 0), (10, 2, 1), (20, 3, 2), (25, 2, 1), (30, 1, 1), (80, 0, 0),
    ]  # fmt: skip


def test_each_stream_has_a_queue_of_its_own() -> None:
    frame = queue_series(make_trace(*TRACE)).frame.filter(lane="device 0 stream 8")
    assert frame.select("time_ns", "work").rows() == [(20_000, 1), (80_000, 0)]


def test_the_totals_are_of_kernels_that_began_in_the_recorded_steps() -> None:
    totals = launch_totals(make_trace(*TRACE, kernel("late", 200, 1, correlation=9)))
    assert (totals.kernels, totals.with_launch, totals.delay_max_ns) == (4, 4, 60_000)
    assert totals.delay_mean_ns == (5 + 15 + 20 + 60) * 1000 / 4
    assert (totals.queue_max, totals.queue_max_at_ns, totals.queue_calls_max) == (3, 20_000, 2)
    # 0..5: 1, 10..20: 2, 20..25: 3, 25..30: 2, 30..80: 1, of 100
    assert totals.queue_mean == (5 + 20 + 15 + 10 + 50) / 100
    assert (totals.short_kernels, totals.short_share, totals.short_time_share) == (1, 0.25, 5 / 75)


def test_work_that_seems_to_begin_before_its_launch_was_never_queued() -> None:
    early = (annotation("ProfilerStep#0", 0, 100), launch(50, 1, correlation=1), kernel("a", 40, 5, correlation=1))
    totals = launch_totals(make_trace(*early))
    assert (totals.kernel_before_launch, totals.queue_max, totals.delay_max_ns) == (1, 0, -10_000)


def test_delays_are_by_name_of_the_kernel() -> None:
    rows = launches_table(make_trace(*TRACE)).frame.rows()
    assert rows == [("a", 2, 32_500.0, 32_500.0, 60_000, 0.0), ("b", 2, 17_500.0, 17_500.0, 20_000, 0.5)]


def test_a_run_without_a_device_has_no_queue() -> None:
    trace = make_trace(span("aten::mm", 0, 10))
    assert queue_series(trace).frame.height == 0
    assert launch_totals(trace).delay_mean_ns is None
    assert launches_table(trace).frame.height == 0


def test_a_kernel_belongs_to_the_part_in_which_it_begins_with_all_of_its_delay() -> None:
    rows = launches_table(make_trace(*TRACE), TimeRange(25_000, 100_000)).frame.select("name", "count", "mean_delay_ns")
    assert rows.rows() == [("a", 1, 60_000.0), ("b", 2, 17_500.0)]
