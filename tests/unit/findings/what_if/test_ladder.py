"""What limits a step, and what does once that is fixed, on traces whose answers are worked out by hand."""

from __future__ import annotations

from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.findings.overview import LADDER, overview_facts
from torchprof_magic.findings.what_if.ladder import Rung, ladder

FETCH = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def test_after_loading_the_device_limits_and_after_that_the_host() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 2_000),
        annotation(FETCH, 0, 1_000),
        span("aten::mm", 1_000, 20),
        launch(1_010, 10, correlation=1),
        kernel("gemm", 1_025, 700, correlation=1),
        span("cudaDeviceSynchronize", 1_030, 700, cat="cuda_runtime", correlation=2),
        span("aten::add", 1_730, 260),
    )
    before_ns, rungs = ladder(trace)
    assert before_ns == 2_000_000
    assert rungs == (
        Rung("loading data gone", step_ns=1_000_000, then="work of the device"),
        Rung("work of the device 2× as fast", step_ns=650_000, then="work of the device"),
    )
    section = next(each for each in overview_facts(trace).sections if each.title == LADDER)
    assert [(fact.label, fact.value, fact.note) for fact in section.facts] == [
        ("Now", 2_000_000, "as recorded"),
        ("Loading data gone", 1_000_000, ""),
        ("Work of the device 2× as fast", 650_000, ""),
    ]


def test_what_only_helps_together_is_one_rung() -> None:
    # The device and the host take equally long, side by side: only both together help.
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 1_000),
        span("cudaLaunchKernel", 0, 10, cat="cuda_runtime", correlation=1),
        kernel("gemm", 12, 980, correlation=1),
        span("aten::add", 10, 970),
        span("cudaDeviceSynchronize", 985, 12, cat="cuda_runtime", correlation=2),
    )
    _, (rung,) = ladder(trace)
    assert rung.change == "work of the device and ops on the host 2× as fast"
    assert rung.step_ns < 550_000


def test_work_whose_launch_is_not_known_has_no_ladder() -> None:
    # Nothing says whether the device could have begun earlier.
    assert ladder(make_trace(annotation("ProfilerStep#0", 0, 1_000), kernel("gemm", 12, 980, correlation=1)))[1] == ()


def test_steps_of_which_much_is_done_only_once_have_no_ladder() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 1_000_000),
        span("aten::mm", 0, 700_000),
        launch(10, 600_000, correlation=1),
        kernel("gemm", 600_020, 100, correlation=1),
    )
    assert ladder(trace)[1] == ()


def test_nothing_recorded_has_no_ladder() -> None:
    assert ladder(make_trace()) == (0.0, ())
