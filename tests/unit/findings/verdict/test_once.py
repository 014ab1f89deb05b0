from __future__ import annotations

from typing import Any

import pytest
from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.findings.advice import find_advice
from torchprof_magic.findings.verdict.decision import find_verdict
from torchprof_magic.findings.verdict.once import one_time_work, work_from_before
from torchprof_magic.report.rules import current

Event = dict[str, Any]


def call(name: str, start_us: float, dur_us: float, correlation: int = 0) -> Event:
    return span(name, start_us, dur_us, cat="cuda_runtime", correlation=correlation or int(start_us) + 900_000)


COLD = [
    span("aten::to", 0, 90_000),
    call("cudaDeviceGetStreamPriorityRange", 10, 80_000),
    span("aten::mm", 90_000, 20),
    launch(90_005, 5, 1),
    kernel("gemm", 90_020, 9_980, 1),
]


def test_the_start_of_the_driver_is_the_limit_of_a_cold_recording_and_says_so() -> None:
    verdict = find_verdict(make_trace(*COLD))
    assert (verdict.kind, verdict.name) == ("initialisation", "cudaDeviceGetStreamPriorityRange")
    assert verdict.share == pytest.approx(0.8)
    assert "80 ms of 100 ms (80 %) for initialisation: starting the driver" in str(verdict)
    assert verdict.statement.endswith(" The 100 ms are those from the first op to the last work.")
    # How much it is, and what, is said already.
    assert verdict.doubts == ("Record a later call in the same process: this is done once.",)


def test_what_is_done_once_is_named_by_what_it_consists_of() -> None:
    assert one_time_work(make_trace(*COLD)) == (
        80_000_000,
        0.8,
        "starting the driver",
        "cudaDeviceGetStreamPriorityRange",
        "",
        None,
    )
    slow = [span("aten::add", 0, 5_000), launch(10, 4_000, 1), kernel("add", 5_000, 5_000, 1)]
    assert one_time_work(make_trace(*slow))[2:4] == ("loading kernels at their first launch", "cudaLaunchKernel")


def test_a_warm_recording_has_nothing_that_is_done_once() -> None:
    warm = [span("aten::mm", 0, 20), launch(5, 5, 1), kernel("gemm", 20, 80, 1)]
    assert one_time_work(make_trace(*warm)) == (0, 0.0, "", "", "", None)
    assert find_verdict(make_trace(*warm)).doubts == ()


def test_no_advice_counts_what_is_done_once_as_a_saving() -> None:
    copy = kernel("Memcpy HtoD (Pageable -> Device)", 80_110, 40, 2) | {"cat": "gpu_memcpy"}
    events = [
        span("aten::to", 0, 80_200),
        call("cudaDeviceGetStreamPriorityRange", 10, 80_000),
        call("cudaMemcpyAsync", 80_100, 60, 2),
        copy,
        launch(80_210, 5, 3),
        kernel("gemm", 80_220, 100, 3),
    ]
    savings = {each.rule: each.saving_ns for each in find_advice(make_trace(*events), current()).advice}
    # Of the call for the copy, 10 us before and 10 us after it leave the device idle.
    assert savings.get("pageable_copy", 0) <= 20_000


def test_work_queued_before_the_recording_has_its_share() -> None:
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 100), span("aten::mm", 0, 100), launch(5, 5, 1), kernel("old", 0, 40, 77),
        kernel("gemm", 45, 50, 1),
    )  # fmt: skip
    assert work_from_before(trace) == (40_000, 0.4, True)
    assert "For 40 % of the time (40 µs) the device ran work that was launched before the recording." in str(
        find_verdict(trace).doubts
    )


def test_work_that_waits_on_an_idle_device_waits_for_what_is_not_in_the_file() -> None:
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 10_000),
        span("aten::mm", 0, 20),
        launch(5, 5, 1),
        kernel("gemm", 8_010, 1_990, 1),
    )
    assert work_from_before(trace) == (7_990_000, 0.799, False)  # what is left when the op has ended
    verdict = find_verdict(trace)
    assert (verdict.kind, verdict.title) == ("none", "Not known")
    assert "with work launched that it does not begin" in str(verdict)
