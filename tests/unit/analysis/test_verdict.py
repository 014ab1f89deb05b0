from __future__ import annotations

from dataclasses import replace

import pytest
from support import Event, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.analysis.verdict import find_verdict
from torchprof_magic.meta import Problem
from torchprof_magic.report import Report

STEP = annotation("ProfilerStep#0", 0, 100)


@pytest.mark.parametrize(
    ("events", "title", "evidence"),
    [
        ([], "Nothing recorded", "No torch op ran"),
        ([STEP, span("enumerate(DataLoader)#x", 0, 40), span("aten::mm", 40, 60)], "Data-bound", "40 µs of 100 µs"),
        ([STEP, span("aten::mm", 0, 30)], "Python-bound", "70 µs of 100 µs"),
        ([STEP, annotation("gloo:all_reduce", 0, 50), span("aten::mm", 50, 50)], "Communication-bound", "50 µs"),
        ([STEP, annotation("Optimizer.step#A", 0, 60), span("aten::mm", 60, 40)], "Optimizer-bound", "60 µs"),
        ([STEP, span("aten::mm", 0, 90), span("aten::add", 90, 10)], "Bound by CPU ops", "aten::mm takes 90 %"),
        (
            [STEP, span("aten::mm", 0, 90), launch(5, 1, correlation=1), kernel("k", 10, 20, correlation=1)],
            "Host-bound",
            "20 µs of 100 µs",
        ),
        (
            [STEP, span("aten::mm", 0, 90), launch(5, 1, correlation=1), kernel("k", 10, 85, correlation=1)],
            "Compute-bound",
            "aten::mm takes 100 % of device time",
        ),
    ],
)
def test_the_verdict_names_the_limit_and_its_evidence(events: list[Event], title: str, evidence: str) -> None:
    verdict = find_verdict(make_trace(*events))
    assert verdict.title == title
    assert evidence in str(verdict)


def test_advice_to_record_stacks_is_given_only_while_there_are_none() -> None:
    idle = [STEP, span("aten::mm", 0, 30)]
    assert "Record with --stack" in str(find_verdict(make_trace(*idle)))
    assert "Record with" not in str(find_verdict(make_trace(*idle, with_stack=1)))


def test_averages_leave_out_a_step_that_was_cut() -> None:
    trace = make_trace(STEP, annotation("ProfilerStep#1", 100, 900), span("aten::mm", 0, 30), span("aten::mm", 100, 30))
    cut = replace(trace, steps=trace.steps.with_columns(complete=trace.steps["number"] == 0))
    assert "70 µs of 100 µs" in str(find_verdict(cut))
    assert "Mean step 100 µs" in Report(cut).summary()


def test_collectives_that_nothing_hides_are_named() -> None:
    events = [
        STEP,
        span("aten::mm", 0, 90),
        launch(5, 1, correlation=1),
        kernel("ncclDevKernel_AllReduce", 10, 60, correlation=1),
        kernel("gemm", 10, 20, correlation=1, stream=8),
    ]
    verdict = find_verdict(make_trace(*events))
    # 60 us of the collective, 20 us of them beside a kernel
    assert (verdict.title, "40 µs of 100 µs" in str(verdict)) == ("Communication-bound", True)


def device_work(busy_us: float) -> list[Event]:
    """An op of 90 us that launches one kernel at 0, and a last kernel that ends the window at 100 us."""
    first = launch(0, 1, correlation=1), kernel("gemm", 0, busy_us - 1, correlation=1)
    last = launch(2, 1, correlation=2), kernel("tail", 99, 1, correlation=2)
    return [span("aten::mm", 0, 90), *first, *last]


@pytest.mark.parametrize(
    ("busy_us", "title", "evidence"),
    [
        (20, "Host-bound", "The device is busy 20 µs of 100 µs (20 %)"),
        (95, "Compute-bound", "aten::mm takes 100 % of device time"),
    ],
)
def test_without_steps_the_busy_share_of_the_device_decides(busy_us: float, title: str, evidence: str) -> None:
    verdict = find_verdict(make_trace(*device_work(busy_us)))
    assert verdict.title == title
    assert evidence in str(verdict).replace("20.0 %", "20 %")


def test_of_two_parts_that_are_too_large_the_larger_one_is_named() -> None:
    data, optimizer = span("enumerate(DataLoader)#x", 0, 30), annotation("Optimizer.step#A", 30, 60)
    assert find_verdict(make_trace(STEP, data, optimizer)).title == "Optimizer-bound"
    data, optimizer = span("enumerate(DataLoader)#x", 0, 50), annotation("Optimizer.step#A", 50, 45)
    assert find_verdict(make_trace(STEP, data, optimizer)).title == "Data-bound"


def test_kernels_without_any_op_ask_for_the_cpu_side() -> None:
    verdict = find_verdict(make_trace(kernel("gemm", 0, 10, correlation=1)))
    assert verdict.title == "Only device work"
    assert "record the cpu activity" in str(verdict)


def test_python_frames_without_any_op_are_not_called_nothing() -> None:
    verdict = find_verdict(make_trace(frame("train.py(3): step", 0, 10)))
    assert (verdict.title, str(verdict)) == (
        "No ops",
        "No ops. No torch op was recorded on the threads that were watched.",
    )


def test_a_lost_recording_is_explained_by_its_first_loss() -> None:
    lost = Problem(code="run.unreadable_cycle", severity="data_loss", count=1, message="The file is gone.")
    verdict = find_verdict(replace(make_trace(STEP), problems=(lost,)))
    assert (verdict.title, str(verdict)) == ("Nothing recorded", "Nothing recorded. The file is gone.")
