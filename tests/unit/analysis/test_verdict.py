from __future__ import annotations

from dataclasses import replace

import pytest
from support import Event, annotation, kernel, launch, make_trace, span

from torchprof_magic.analysis.verdict import find_verdict
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
