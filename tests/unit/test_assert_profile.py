from __future__ import annotations

from pathlib import Path

import pytest
from forking import forked_python
from support import allocation, annotation, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.report.trace_report import Report

pytest_plugins = ["pytester"]


def report(step_us: float = 1_000, steps: int = 8) -> Report:
    events = []
    for number in range(steps):
        start = number * step_us
        events += [annotation(f"ProfilerStep#{number}", start, step_us), span("aten::item", start + 1, step_us - 2)]
    return Report(make_trace(*events, allocation(10, 5_000, 5_000)))


def broken(**limits: object) -> str:
    with pytest.raises(tp.ProfileAssertionError) as caught:
        report().assert_profile(**limits)  # type: ignore[arg-type]
    assert isinstance(caught.value, AssertionError)
    return str(caught.value)


def test_a_run_within_its_limits_passes() -> None:
    report().assert_profile(step_ms=1.0, max_peak="5 kB", no=["aten::nonzero"], against=report(), tolerance=0.1)


def test_every_broken_limit_is_a_row_of_the_table() -> None:
    # What was written stands beside what peaks are shown in: 4,900 bytes are 4.785 KiB.
    assert "at most 4.9 kB (4.79 KiB)  4.88 KiB" in broken(max_peak="4.9 kB")
    assert broken(step_ms=0.5, max_peak=4_999, no=["aten::item", "aten::mm"]).splitlines() == [
        "The profile breaks its limits:",
        "What             Limit             Found",
        "step             at most 500 µs    1 ms",
        "memory peak cpu  at most 4.88 KiB  4.88 KiB",
        "aten::item       no calls          8 calls",
    ]


def test_a_slower_run_than_the_file_of_a_baseline_fails_beyond_the_tolerance(tmp_path: Path) -> None:
    path = report(800).save(tmp_path / "baseline.torchprof")
    report(800).assert_profile(against=path)
    slower = report(1_000)
    slow_op = slower.compare(report(800))
    assert slow_op.step_ratio == pytest.approx(1.25)
    with pytest.raises(tp.IngestError):
        slower.assert_profile(against=tmp_path / "missing.torchprof")


def test_a_slower_op_in_the_same_steps_fails() -> None:
    def run(mm_us: float) -> Report:
        parts = []
        for number in range(8):
            start = number * 1_000
            parts += [annotation(f"ProfilerStep#{number}", start, 600 + mm_us), span("aten::mm", start + 1, mm_us)]
            parts += [span("aten::add", start + mm_us + 5, 300)]
        return Report(make_trace(*parts))

    with pytest.raises(AssertionError, match="step against baseline"):
        run(300).assert_profile(against=run(100), tolerance=0.1)
    run(300).assert_profile(against=run(100), tolerance=0.5)


def test_what_cannot_be_checked_fails() -> None:
    empty = Report(make_trace(span("aten::mm", 0, 10)))
    for limits, word in (({"step_ms": 1}, "no complete step"), ({"max_peak": 1}, "not recorded")):
        with pytest.raises(AssertionError, match=word):
            empty.assert_profile(**limits)
    with pytest.raises(AssertionError, match="at least 4 steps"):
        report(steps=2).assert_profile(against=report())


def test_steps_without_their_device_work_are_no_steps_to_check_or_compare() -> None:
    def run(*, is_whole: bool) -> Report:
        events = []
        for number in range(1, 7):
            at = 1_000 * number
            events += [annotation(f"ProfilerStep#{number}", at, 900), span("aten::mm", at, 100)]
            events += [launch(at + 5, 5, number), kernel("old", at + 50, 5, 100 + number)]
            if is_whole:
                events.append(kernel("gemm", at + 20, 20, number))
        return Report(make_trace(*events, span("cudaDeviceSynchronize", 7_000, 5, "cuda_runtime", correlation=900)))

    with pytest.raises(AssertionError, match="no complete step, 6 of 6 launches have no work"):
        run(is_whole=False).assert_profile(step_ms=10)
    run(is_whole=True).assert_profile(step_ms=10)
    lossy = run(is_whole=False).compare(run(is_whole=True))
    assert lossy.warnings == [
        "In the run after 6 of 6 launches have no work of the device, so its times are too short."
    ]


@pytest.mark.parametrize("limits", [{"step_ms": 0}, {"max_peak": "two"}, {"max_peak": -1}, {"tolerance": -0.1}])
def test_an_invalid_limit_is_a_value_error(limits: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        report().assert_profile(**limits)  # type: ignore[arg-type]


def test_the_fixture_records_a_part_of_a_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import torch
        import pytest
        import torchprof_magic as tp

        def test_of_a_user(torchprof):
            with torchprof(wait=0, warmup=0, active=4) as run:
                for _ in tp.steps(range(4)):
                    torch.ones(8, 8) @ torch.ones(8, 8)
            run.report.assert_profile(step_ms=60_000)
            with pytest.raises(AssertionError, match="aten::mm"):
                run.report.assert_profile(no=["aten::mm"])
        """
    )
    # In a process of its own: pytest would forget the modules that the test imports, and torch cannot import some of
    # them twice.
    result = pytester.run(*forked_python("-m", "pytest"))
    result.assert_outcomes(passed=1)
