from __future__ import annotations

from typing import Any

import pytest
from support import Event, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.analysis.blocking import blocking_calls


def call(name: str, start_us: float, dur_us: float, tid: int = 1, **args: Any) -> Event:
    return span(name, start_us, dur_us, cat="cuda_runtime", tid=tid, **args)


def rules(*events: Event) -> list[tuple[str, str]]:
    """The name and rule of every blocking call, in order of time."""
    trace = make_trace(*events)
    names = trace.events["name"]
    return [(str(names[row]), str(rule)) for row, rule in blocking_calls(trace).select("row", "rule").rows()]


@pytest.mark.parametrize(
    ("name", "dur_us", "rule"),
    [
        ("cudaStreamSynchronize", 0.001, "sync"),
        ("hipEventSynchronize", 1, "sync"),
        ("synchronizeStream", 1, "sync"),
        ("AscendCL@aclrtSynchronizeStream", 1, "sync"),
        ("cudaMalloc", 1, "alloc"),
        ("hipFree", 1, "alloc"),
        ("cudaHostAlloc", 1, "alloc"),
        ("cuMemCreate", 1, "alloc"),
        ("cuModuleLoadData", 1, "init"),
        ("hipGraphInstantiateWithFlags", 1, "init"),
        ("cudaGetDeviceProperties_v2", 50.001, "init"),
        ("cudaMemcpyAsync", 50.001, "copy"),
        ("hipMemcpyWithStream", 51, "copy"),
        ("cudaLaunchKernel", 100.001, "slow launch"),
        ("cudaMemsetAsync", 101, "slow launch"),
    ],
)
def test_a_call_that_meets_a_rule_blocks(name: str, dur_us: float, rule: str) -> None:
    early = kernel("first", 0, 1, correlation=9)  # so that no allocation starts the driver
    assert rules(early, call(name, 10, dur_us)) == [(name, rule)]


@pytest.mark.parametrize(
    ("name", "dur_us"),
    [
        ("cudaMemcpyAsync", 50),
        ("cudaLaunchKernel", 100),
        ("cudaGetDeviceProperties", 50),
        ("cudaStreamWaitEvent", 1000),
        ("enqueueCommand waitOnEvent", 1000),
        ("cudaEventRecord", 1000),
        ("cudaGraphLaunch", 1000),  # the cost of dispatching the graph
    ],
)
def test_a_call_below_its_limit_or_of_no_rule_does_not_block(name: str, dur_us: float) -> None:
    assert rules(kernel("first", 0, 1, correlation=9), call(name, 10, dur_us)) == []


def test_an_op_with_the_name_of_a_call_does_not_block() -> None:
    assert rules(span("cudaStreamSynchronize", 0, 10)) == []


def test_an_allocation_that_starts_the_driver_is_initialisation() -> None:
    work = kernel("first", 5000, 1, correlation=9)
    assert rules(call("cudaFree", 0, 1000.001), work) == [("cudaFree", "init")]
    assert rules(call("cudaFree", 0, 1000), work) == [("cudaFree", "alloc")]
    late = kernel("first", 500, 1, correlation=9)
    assert rules(call("cudaMalloc", 0, 2000), late) == [("cudaMalloc", "alloc")]  # the device worked already


def test_a_call_inside_a_blocking_call_is_not_counted_again() -> None:
    assert rules(call("cudaMalloc", 0, 10), call("cudaStreamSynchronize", 2, 5)) == [("cudaMalloc", "alloc")]


def queued(count: int) -> list[Event]:
    """So many launches, one a us from 0 on, whose kernels begin at 10,000 us and later."""
    return [
        event
        for number in range(count)
        for event in (launch(number, 0.5, correlation=number), kernel("k", 10_000 + number, 1, correlation=number))
    ]


def test_a_long_call_while_512_calls_are_queued_waits_for_room_in_the_queue() -> None:
    assert rules(*queued(512), launch(600, 150, correlation=9999)) == [("cudaLaunchKernel", "queue full")]
    assert rules(*queued(511), launch(600, 150, correlation=9999)) == [("cudaLaunchKernel", "slow launch")]


def test_a_copy_whose_own_work_had_ended_waited_for_that_and_not_for_the_queue() -> None:
    def copying(until_us: float) -> list[Event]:
        work = kernel("Memcpy DtoH", 650, until_us - 650, correlation=7777) | {"cat": "gpu_memcpy"}
        return [call("cudaMemcpyAsync", 600, 200, correlation=7777), work]

    assert rules(*queued(512), *copying(until_us=800)) == [("cudaMemcpyAsync", "copy")]
    assert rules(*queued(512), *copying(until_us=801)) == [("cudaMemcpyAsync", "queue full")]


def test_the_wait_of_the_profiler_is_not_the_programs() -> None:
    at_end = [launch(0, 1, correlation=1), kernel("k", 5, 1, correlation=1), call("cudaDeviceSynchronize", 20, 5)]
    assert rules(*at_end) == [("cudaDeviceSynchronize", "profiler")]
    assert rules(*at_end, annotation("evaluate", 15, 20)) == [("cudaDeviceSynchronize", "sync")]
    under = [frame("torch/profiler/profile.py(8): stop", 0, 50), frame("helper", 5, 40)]
    assert rules(*under, call("cudaDeviceSynchronize", 10, 5), launch(30, 1, correlation=1)) == [
        ("cudaDeviceSynchronize", "profiler")
    ]


def test_the_time_in_which_any_device_works_is_counted_once() -> None:
    trace = make_trace(
        call("cudaDeviceSynchronize", 10, 30),
        kernel("a", 0, 20, correlation=1),
        kernel("b", 15, 10, correlation=2, device=1),
        kernel("c", 38, 10, correlation=3),
        launch(50, 1, correlation=4),
    )
    # busy 10..25 and 38..40
    assert blocking_calls(trace).select("dur_ns", "device_busy_ns").rows() == [(30_000, 17_000)]
