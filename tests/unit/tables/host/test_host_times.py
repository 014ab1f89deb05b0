from __future__ import annotations

import pytest
from support import annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.model.trace import Trace
from torchprof_magic.report.trace_report import Report
from torchprof_magic.tables.host.host_times import host_table


def times(trace: Trace) -> dict[str, tuple[int, float]]:
    frame = host_table(trace).frame
    return {name: (count, ns / 1000) for name, count, ns in frame.select("name", "count", "self_ns").rows()}


def test_self_time_is_without_what_is_directly_inside_of_any_category() -> None:
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 100), frame("a.py(1): f", 5, 90), span("op", 10, 60), launch(20, 15, 1)
    )
    assert times(trace) == {
        "ProfilerStep#*": (1, 10),
        "a.py(1): f": (1, 30),
        "op": (1, 45),
        "cudaLaunchKernel": (1, 15),
    }


def test_all_steps_are_one_row_and_the_largest_comes_first() -> None:
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 10), annotation("ProfilerStep#2", 20, 10), span("op", 22, 2), span("op", 25, 2)
    )
    frame = host_table(trace).frame
    assert frame.rows() == [
        ("ProfilerStep#*", "user_annotation", 2, 16_000, pytest.approx(16 / 30)),
        ("op", "cpu_op", 2, 4_000, pytest.approx(4 / 30)),
    ]


def test_only_time_within_the_window_counts() -> None:
    step = annotation("ProfilerStep#1", 100, 100)
    ops = (
        span("before", 0, 50, tid=2),
        span("across", 60, 80, tid=2),
        span("inner", 90, 20, tid=2),
        span("after", 300, 5),
    )
    # across is inside from 100 to 140, of which inner takes 100 to 110
    assert times(make_trace(step, *ops)) == {"ProfilerStep#*": (1, 100), "across": (1, 30), "inner": (1, 10)}


def test_threads_on_which_only_python_ran_are_left_out() -> None:
    parked = frame("threading.py(1): wait", 0, 100, tid=2), frame("threading.py(1): wait", 0, 50, tid=3)
    trace = make_trace(span("op", 0, 100), *parked, launch(60, 10, 1, tid=3))
    assert times(trace) == {"op": (1, 100), "threading.py(1): wait": (1, 50), "cudaLaunchKernel": (1, 10)}


def test_work_on_a_device_is_no_host_time() -> None:
    assert times(make_trace(span("op", 0, 10), launch(2, 2, 1), kernel("k", 5, 50, 1))) == {
        "op": (1, 8),
        "cudaLaunchKernel": (1, 2),
    }


def test_one_name_in_two_categories_is_two_rows() -> None:
    frame = host_table(make_trace(span("x", 0, 10), annotation("x", 20, 5), span("op", 30, 1))).frame
    assert frame.select("name", "category").rows() == [("x", "cpu_op"), ("x", "user_annotation"), ("op", "cpu_op")]


def test_the_table_is_a_frame_of_the_report() -> None:
    report = Report(make_trace(span("op", 0, 10)))
    assert report.sql("SELECT name, self_ns FROM host").rows() == [("op", 10_000)]
    assert Report(make_trace()).host.height == 0


def test_a_part_has_the_self_time_in_it_and_its_share_of_the_recorded_steps_there() -> None:
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 100), span("op", 10, 60), span("inner", 20, 30), launch(30, 10, 1)
    )
    found = host_table(trace, TimeRange(40_000, 120_000)).frame
    # From 40 to 100: inner until 50, the op until 70, the step for the rest. The launch has ended.
    assert found.select("name", "count", "self_ns", "share_ratio").rows() == [
        ("ProfilerStep#*", 1, 30_000, 0.5),
        ("op", 1, 20_000, pytest.approx(1 / 3)),
        ("inner", 1, 10_000, pytest.approx(1 / 6)),
    ]
    assert host_table(trace, TimeRange(200_000, 300_000)).frame.height == 0
