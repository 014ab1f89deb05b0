from __future__ import annotations

import polars as pl
import pytest
from support import Event, frame, kernel, launch, make_trace, span

from torchprof_magic.facts.host.blocking import FULL_QUEUE_CALLS, blocking_calls


def call(name: str, start_us: float, dur_us: float, correlation: int = 0, cat: str = "cuda_runtime") -> Event:
    return span(name, start_us, dur_us, cat=cat, correlation=correlation)


def rules(*events: Event) -> list[tuple[str, str]]:
    trace = make_trace(*events)
    calls = blocking_calls(trace)
    names = trace.events["name"].cast(pl.String).gather(calls["row"])
    return list(zip(names.to_list(), calls["rule"].to_list(), strict=True))


# The first work of the device begins at 10 ms, so that nothing at 20 ms starts the driver.
WORK = (launch(9_999, 1, 1), kernel("k", 10_000, 1, 1))


@pytest.mark.parametrize(
    ("name", "cat", "dur_us", "rule"),
    [
        ("cudaStreamSynchronize", "cuda_runtime", 0.001, "sync"),
        ("cuStreamSynchronize", "cuda_driver", 1, "sync"),
        ("hipDeviceSynchronize", "hip_runtime", 1, "sync"),
        ("synchronizeStream", "mtia_runtime", 1, "sync"),
        ("cudaStreamWaitEvent", "cuda_runtime", 500, ""),
        ("hipStreamWaitEvent", "hip_runtime", 500, ""),
        ("cudaMalloc", "cuda_runtime", 0.001, "alloc"),
        ("hipFree", "hip_runtime", 5_000, "alloc"),
        ("cudaHostAlloc", "cuda_runtime", 1, "alloc"),
        ("cudaHostRegister", "cuda_runtime", 1, "alloc"),
        ("cuMemCreate", "cuda_driver", 1, "alloc"),
        ("cuModuleLoadData", "cuda_driver", 1, "init"),
        ("cuLibraryLoadData", "cuda_driver", 1, "init"),
        ("hipGraphInstantiateWithFlags", "hip_runtime", 1, "init"),
        ("cudaGetDeviceProperties", "cuda_runtime", 50, ""),
        ("cudaGetDeviceProperties", "cuda_runtime", 50.001, "init"),
        ("hipGetDeviceCount", "hip_runtime", 51, "init"),
        ("cudaMemcpyAsync", "cuda_runtime", 50, ""),
        ("cudaMemcpyAsync", "cuda_runtime", 50.001, "copy"),
        ("hipMemcpyWithStream", "hip_runtime", 51, "copy"),
        ("cudaLaunchKernel", "cuda_runtime", 100, ""),
        ("cudaLaunchKernel", "cuda_runtime", 100.001, "slow launch"),
        ("hipModuleLaunchKernel", "hip_runtime", 101, "slow launch"),
        ("cudaMemsetAsync", "cuda_runtime", 100, ""),
        ("cudaMemsetAsync", "cuda_runtime", 101, "slow launch"),
        ("cudaGraphLaunch", "cuda_runtime", 5_000, ""),
        ("hipGraphLaunch", "hip_runtime", 5_000, ""),
        ("cudaGetLastError", "cuda_runtime", 5_000, ""),
    ],
)
def test_the_name_and_length_of_a_call_say_whether_it_blocks(name: str, cat: str, dur_us: float, rule: str) -> None:
    found = rules(*WORK, call(name, 20_000, dur_us, cat=cat), launch(40_000, 1, 2), kernel("k", 40_002, 1, 2))
    assert found == ([(name, rule)] if rule else [])


def test_an_op_with_the_name_of_a_call_does_not_block() -> None:
    assert rules(*WORK, span("cudaStreamSynchronize", 20_000, 100)) == []


@pytest.mark.parametrize(
    ("start_us", "dur_us", "rule"),
    [(0, 1_000, "alloc"), (0, 1_000.001, "init"), (0, 10_000, "init"), (0, 10_001, "alloc"), (20_000, 2_000, "alloc")],
)
def test_a_long_allocation_before_the_first_device_work_starts_the_driver(
    start_us: float, dur_us: float, rule: str
) -> None:
    first = kernel("k", 10_000, 1, 1)
    assert rules(span("op", 0, 50_000), first, call("cudaFree", start_us, dur_us)) == [("cudaFree", rule)]


def test_a_call_inside_a_blocking_call_is_not_counted_again() -> None:
    inner = call("cuStreamSynchronize", 20_010, 10, cat="cuda_driver")
    assert rules(*WORK, call("cudaMemcpy", 20_000, 80), inner) == [("cudaMemcpy", "copy")]


def queue(calls: int) -> list[Event]:
    """Launches at 0, 1, 2 ... us whose kernels run one after the other from 100 ms on."""
    kernels = [kernel("k", 100_000 + 10 * number, 10, number + 1) for number in range(calls)]
    return [span("op", 0, 1), *(launch(number, 0.5, number + 1) for number in range(calls)), *kernels]


@pytest.mark.parametrize(("pending", "rule"), [(FULL_QUEUE_CALLS - 1, "slow launch"), (FULL_QUEUE_CALLS, "queue full")])
def test_a_long_launch_behind_512_pending_calls_waits_for_the_queue(pending: int, rule: str) -> None:
    last = launch(50_000, 101, 9_999), kernel("k", 200_000, 10, 9_999)
    assert rules(*queue(pending), *last) == [("cudaLaunchKernel", rule)]


def test_a_graph_launch_blocks_only_when_the_queue_is_full() -> None:
    last = call("cudaGraphLaunch", 50_000, 200, 9_999), kernel("k", 200_000, 10, 9_999)
    assert rules(*queue(FULL_QUEUE_CALLS), *last) == [("cudaGraphLaunch", "queue full")]
    assert rules(*queue(FULL_QUEUE_CALLS - 1), *last) == []


@pytest.mark.parametrize(("ends_us", "rule"), [(50_100, "copy"), (50_100.001, "queue full")])
def test_a_copy_whose_own_work_had_ended_waited_for_that_rather_than_for_the_queue(ends_us: float, rule: str) -> None:
    copy = call("cudaMemcpyAsync", 50_000, 100, 9_999)
    work = kernel("Memcpy DtoH", 50_000, ends_us - 50_000, 9_999) | {"cat": "gpu_memcpy"}
    assert rules(*queue(FULL_QUEUE_CALLS), copy, work) == [("cudaMemcpyAsync", rule)]


def test_a_device_synchronise_after_the_last_launch_and_outside_of_everything_is_the_profilers() -> None:
    wait = call("cudaDeviceSynchronize", 20_000, 100)
    assert rules(*WORK, wait) == [("cudaDeviceSynchronize", "profiler")]
    assert rules(*WORK, wait, span("op", 19_000, 5_000)) == [("cudaDeviceSynchronize", "sync")]
    assert rules(*WORK, wait, launch(30_000, 1, 2), kernel("k", 30_010, 1, 2)) == [("cudaDeviceSynchronize", "sync")]
    stream = call("cudaStreamSynchronize", 20_000, 100)
    assert rules(*WORK, stream) == [("cudaStreamSynchronize", "sync")]


def test_a_device_synchronise_under_frames_of_the_profiler_is_the_profilers() -> None:
    later = launch(30_000, 1, 2), kernel("k", 30_010, 1, 2)
    wait = frame("inner", 19_500, 2_000), call("cudaDeviceSynchronize", 20_000, 100)
    above = frame("torch/profiler/profiler.py(5): stop", 19_000, 3_000)
    assert rules(*WORK, above, *wait, *later) == [("cudaDeviceSynchronize", "profiler")]
    mine = frame("mine/profiler/profiler.py(5): stop", 19_000, 3_000)
    assert rules(*WORK, mine, *wait, *later) == [("cudaDeviceSynchronize", "sync")]


def test_device_busy_is_the_part_of_a_wait_in_which_any_device_worked() -> None:
    first = launch(0, 1, 1), kernel("a", 5, 20, 1)
    second = launch(2, 1, 2), kernel("b", 20, 15, 2, device=1)
    calls = blocking_calls(make_trace(span("op", 0, 60), *first, *second, call("cudaStreamSynchronize", 10, 40)))
    # 10 to 50: device 0 works until 25, device 1 from 20 to 35
    assert calls.select("start_ns", "dur_ns", "device_busy_ns").row(0) == (10_000, 40_000, 25_000)


def test_a_trace_without_runtime_calls_has_no_blocking_calls() -> None:
    assert rules(span("op", 0, 10)) == []
    assert rules() == []
