from __future__ import annotations

from typing import Any

import polars as pl
from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.facts.device.coverage import launches_of, loss_of, work_without_launch
from torchprof_magic.model.trace import Trace
from torchprof_magic.tables.waiting.idle import idle_table

Event = dict[str, Any]


def call(name: str, start_us: float, dur_us: float, correlation: int, tid: int = 1) -> Event:
    return span(name, start_us, dur_us, cat="cuda_runtime", tid=tid, correlation=correlation)


def fill(start_us: float, dur_us: float, correlation: int) -> Event:
    return kernel("Memset (Device)", start_us, dur_us, correlation) | {"cat": "gpu_memset"}


def wait(start_us: float, dur_us: float) -> Event:
    return call("cudaDeviceSynchronize", start_us, dur_us, 99)


def three_launches(*lost: int) -> list[Event]:
    """Three launches, 100 us apart, each with a kernel unless that is lost."""
    events = [launch(100 * n, 10, n) for n in (1, 2, 3)]
    return events + [kernel("gemm", 100 * n + 20, 50, n) for n in (1, 2, 3) if n not in lost]


def missing(trace: Trace) -> list[int]:
    """The correlations of the launches that miss their work."""
    found = launches_of(trace)
    return trace.events["correlation"].gather(found.row[found.is_missing]).to_list()


def test_a_launch_without_its_kernel_is_missing_it() -> None:
    assert missing(make_trace(*three_launches())) == []
    assert missing(make_trace(*three_launches(2))) == [2]
    assert loss_of(make_trace(*three_launches(1, 2))).ratio == 2 / 3


def test_without_any_kernel_all_launches_are_missing_theirs() -> None:
    assert missing(make_trace(*three_launches(1, 2, 3))) == [1, 2, 3]


def test_work_of_the_last_launch_may_have_run_after_the_recording_unless_a_wait_says_no() -> None:
    trace = make_trace(*three_launches(3))
    assert missing(trace) == []
    assert launches_of(trace).is_pending.tolist() == [False, False, True]
    assert missing(make_trace(*three_launches(3), wait(320, 40))) == [3]


def test_a_last_launch_long_before_the_end_is_missing_its_work() -> None:
    # Its 2 ms are more than any work took, and more than the 1 ms that work may always take.
    assert missing(make_trace(*three_launches(3), span("aten::mm", 400, 1_950))) == [3]


def test_launches_of_a_capture_run_nothing_on_any_thread() -> None:
    trace = make_trace(
        *three_launches(),
        call("cudaStreamBeginCapture", 400, 5, 10),
        launch(410, 5, 11),
        launch(420, 5, 12, tid=2),
        call("cudaStreamEndCapture", 430, 5, 13),
        launch(440, 5, 14),
        wait(500, 5),
    )
    assert missing(trace) == [14]
    assert int(launches_of(trace).is_captured.sum()) == 2


def test_copies_need_their_work_and_questions_about_them_do_not() -> None:
    copy = call("cudaMemcpyAsync", 400, 5, 20)
    question = call("cudaMemcpyToSymbolGetAttribute", 410, 5, 21)
    assert missing(make_trace(*three_launches(), copy, question, wait(500, 5))) == [20]


def test_a_fill_of_nothing_is_known_by_its_place() -> None:
    def workspace(at_us: float, number: int) -> list[Event]:
        """An op that fills a workspace and launches a kernel, which has its work."""
        return [
            span("aten::addmm", at_us, 90),
            call("cudaMemsetAsync", at_us + 5, 5, number),
            launch(at_us + 20, 5, number + 1),
            kernel("gemm", at_us + 40, 20, number + 1),
        ]

    empty = [event for n in (1, 2) for event in workspace(100 * n, 10 * n)]
    assert missing(make_trace(*empty, wait(400, 5))) == []
    # If one of them has work, none of them is of nothing.
    assert missing(make_trace(*empty, fill(112, 2, 10), wait(400, 5))) == [20]


def test_a_fill_beside_a_lost_kernel_is_lost_with_it() -> None:
    trace = make_trace(
        *three_launches(),
        span("aten::addmm", 400, 90),
        call("cudaMemsetAsync", 405, 5, 20),
        launch(420, 5, 21),
        wait(600, 5),
    )
    assert missing(trace) == [20, 21]


def step_of_graphs(number: int, kernels: int) -> list[Event]:
    at = 1_000 * number
    events = [annotation(f"ProfilerStep#{number}", at, 900), call("cudaGraphLaunch", at + 10, 20, number)]
    return [*events, *(kernel(f"k{n}", at + 50 + 10 * n, 5, number) for n in range(kernels))]


def test_a_graph_with_fewer_kernels_than_in_other_steps_misses_the_rest() -> None:
    trace = make_trace(*step_of_graphs(1, 5), *step_of_graphs(2, 3), *step_of_graphs(3, 0), wait(3_950, 5))
    found = loss_of(trace)
    assert (found.missing, found.short, found.steps.tolist()) == (1, 2, [2, 3])


def test_different_graphs_at_the_same_place_are_no_loss() -> None:
    other = [event | {"name": event["name"].replace("k", "other")} for event in step_of_graphs(2, 3)]
    assert loss_of(make_trace(*step_of_graphs(1, 5), *other)).short == 0


def test_work_without_a_launch_is_counted_and_is_no_loss() -> None:
    trace = make_trace(kernel("before", 0, 50, 77), *three_launches())
    assert len(work_without_launch(trace)) == 1
    assert loss_of(trace).missing == 0


def test_the_device_may_have_been_busy_while_lost_work_was_launched() -> None:
    trace = make_trace(*three_launches(2), span("aten::mm", 100, 300), wait(400, 10))
    found = idle_table(trace).frame.filter(pl.col("cause") == "missing").select("name", "start_ns", "idle_ns").rows()
    # From the first kernel's end at 170 us to the third one's start at 320 us; 100 us is the first event.
    assert found == [(None, 70_000, 150_000)]


def test_work_without_a_number_is_not_missing_only_its_launch_is_unknown() -> None:
    kernels = [event | {"args": {}} if event["cat"] == "kernel" else event for event in three_launches()]
    trace = make_trace(*kernels, wait(400, 10))
    assert loss_of(trace).missing == 0
    assert len(work_without_launch(trace)) == 3
    assert loss_of(make_trace(*kernels[:-1], wait(400, 10))).missing == 3  # less work than launches


def test_a_collective_that_still_runs_at_the_end_is_not_missing_although_later_work_has_ended() -> None:
    def step(at: int, *, with_end: bool) -> list[Event]:
        around = span("record_param_comms", at, 30)
        events = [around, launch(at + 5, 5, at + 1), launch(at + 50, 5, at + 2), kernel("gemm", at + 60, 20, at + 2)]
        return [*events, kernel("ncclDevKernel_AllReduce", at + 20, 300, at + 1)] if with_end else events

    trace = make_trace(*step(1_000, with_end=True), *step(2_000, with_end=False))
    assert missing(trace) == []
    assert missing(make_trace(*step(1_000, with_end=False), *step(2_000, with_end=True))) == [1_001]
