"""Runs that are watched as a whole: ``--watch`` and ``profile(watch=...)``."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from amount import sampled
from IPython.core.interactiveshell import InteractiveShell
from torch import nn

import torchprof_magic as tp
from torchprof_magic.capture import busy_profiler
from torchprof_magic.findings.overview import overview_facts
from torchprof_magic.model.errors import OptionsError

if TYPE_CHECKING:
    from pathlib import Path

SLOW_S = 0.5


def hold_up() -> None:
    time.sleep(SLOW_S)


def watched(steps: int = 500, slow: int | None = 300, **options: Any) -> tp.Report:
    """Watch a loop of steps of which one sleeps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(16, 32)
    with tp.profile(**{"watch": 1_000, **options}) as run:
        for number in run.steps(range(steps)):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()
            time.sleep(0.002)
            if number == slow:
                hold_up()
    return run.report


@pytest.fixture(scope="module")
def report() -> tp.Report:
    before = threading.enumerate()
    with pytest.MonkeyPatch.context() as patch:
        # On a busy machine other steps are slow, too, and use up what details may cost.
        patch.setattr("torchprof_magic.capture.watched_run.MOST_DETAILS_NS", 10**12)
        made = watched()
    assert threading.enumerate() == before
    return made


def test_a_planted_slow_step_in_500_is_found_with_its_line(report: tp.Report) -> None:
    slow = report.slow_steps.sort("step_ns", descending=True).row(0, named=True)
    assert (slow["step"], slow["file"]) == (300, __file__)
    if slow["seen_ratio"] is not None:  # else the step was recorded, as it can be on a busy machine
        assert slow["call"] == "time.sleep"
        assert slow["line"] == hold_up.__code__.co_firstlineno + 1
    assert slow["step_ns"] >= SLOW_S * 1e9 > 10 * slow["usual_ns"]
    assert "Step 300 took" in report.summary()
    assert f"test_watch.py:{slow['line']}" in report.summary()


def test_details_are_recorded_after_the_slow_step_and_those_steps_do_not_count(report: tp.Report) -> None:
    steps = report.steps
    detailed = steps.filter(left_out="recorded with details")["number"].to_list()
    assert any(number > 300 for number in detailed)
    assert not set(detailed) & {2, 3, 4}
    counted = steps.filter(left_out="")["number"].to_list()
    assert counted
    assert set(counted) <= {2, 3, 4}
    assert report.trace.meta.has_shapes
    assert report.trace.memory.height > 0


def test_the_strip_has_every_step_of_the_run(report: tp.Report) -> None:
    strip = report.strip
    assert strip["steps"].sum() == 500
    assert strip["recorded"].sum() >= report.steps.height  # of many, the newest are kept
    assert (strip["start_ns"].diff().drop_nulls() > 0).all()
    assert strip.filter(step=300)["longest_ns"].item() == report.slow_steps.filter(step=300)["step_ns"].item()
    assert strip["memory_bytes"].min() > 1_000_000  # type: ignore[operator]
    assert "500 steps in" in report.summary()


def test_the_page_shows_the_run_and_its_slow_steps(report: tp.Report) -> None:
    (section,) = (each for each in overview_facts(report.trace).sections if each.kind == "strip")
    assert [lane.title for lane in section.lanes] == ["Step time", "Data wait", "Memory"]
    assert section.marks
    assert max(value for value in section.lanes[0].values if value is not None) == section.lanes[0].most
    assert "Step 300" in [fact.label for fact in section.facts]


def test_a_saved_run_has_them_too(report: tp.Report, tmp_path: Path) -> None:
    report.save(tmp_path / "run.torchprof")
    again = tp.load(tmp_path / "run.torchprof")
    assert again.strip.equals(report.strip)
    assert again.slow_steps.equals(report.slow_steps)
    assert again.step_ns == report.step_ns


def test_nothing_of_it_is_left_when_the_run_ends(report: tp.Report) -> None:
    assert busy_profiler() is None
    # A machine can be busy, and this process have threads of other tests.
    allowed = {"run.distorted", "capture.calls_not_counted"}
    assert {problem.code for problem in report.problems} <= allowed, report.problems


@pytest.mark.parametrize("kept", sampled([1, None]))
def test_only_so_many_recordings_of_a_long_run_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kept: int | None
) -> None:
    watching = "torchprof_magic.capture.watched_run"
    monkeypatch.setattr(f"{watching}.MOST_SHARE", 0.9)
    for limit in ("KEPT_TIMES", "KEPT_DETAILS", "KEPT_SLOW") if kept else ():
        monkeypatch.setattr(f"{watching}.{limit}", kept)
    made = watched(600 if kept is None else 120, None, watch=0.02, trace_dir=tmp_path)
    cycles = made.steps["cycle"].unique().sort().to_list()
    assert cycles[0] == 0
    assert max(cycles) > len(cycles)
    assert len(cycles) <= (12 if kept is None else 1 + 3 * kept)
    assert len(list(tmp_path.rglob("*.json"))) == len(cycles)
    assert made.strip["recorded"].sum() > made.steps.height


def test_an_exception_leaves_what_is_known_so_far() -> None:
    def fail_at_50(run: tp.profile) -> None:
        for number in run.steps(range(100)):
            torch.ones(3).sum()
            _ = 1 / (50 - number)

    with pytest.raises(ZeroDivisionError), tp.profile(watch=1_000) as run:
        fail_at_50(run)
    assert run.report.strip["steps"].sum() == 50
    assert busy_profiler() is None


def test_a_block_without_steps_is_recorded_and_says_that_it_was_not_watched() -> None:
    with tp.profile(watch=True) as run:
        torch.ones(3).sum()
    assert "capture.not_watched" in [problem.code for problem in run.report.problems]
    assert run.report.strip.height == run.report.slow_steps.height == 0
    assert "aten::sum" in run.report.ops["name"].to_list()


def test_a_cell_without_a_loop_is_recorded_and_says_that_it_was_not_watched() -> None:
    shell = InteractiveShell.instance()
    try:
        shell.run_line_magic("load_ext", "torchprof_magic")
        shell.run_cell("import torch\ntorch.set_num_threads(1)")
        shell.run_cell("%%torchprof --watch -q -o made\ntorch.ones(3).sum()")
        made = shell.user_ns["made"]
    finally:
        InteractiveShell.clear_instance()
    assert [problem.code for problem in made.problems] == ["capture.not_watched"]
    assert made.strip.height == 0
    assert made.steps.height == 1


def test_other_reports_have_no_strip() -> None:
    with tp.profile() as run:
        torch.ones(3).sum()
    assert run.report.strip.height == run.report.slow_steps.height == 0


def test_the_switches_that_are_given_are_the_details() -> None:
    made = watched(80, None, profile_memory=True)
    assert made.trace.memory.height > 0
    assert not made.trace.meta.has_stacks
    assert not watched(80, None, preset="quick").trace.meta.has_shapes


@pytest.mark.parametrize(
    "options", [{"active": 3}, {"two_pass": True, "with_stack": True}, {"schedule": lambda _: None}]
)
def test_a_schedule_of_ones_own_cannot_be_watched(options: dict[str, Any]) -> None:
    with pytest.raises(OptionsError, match="it decides itself which steps are recorded"):
        tp.profile(watch=5, **options)


@pytest.mark.parametrize("watch", [0, -1, float("nan"), "soon"])
def test_an_interval_is_a_number_of_seconds_above_0(watch: Any) -> None:
    with pytest.raises(OptionsError, match="watch"):
        tp.profile(watch=watch)


def test_python_calls_are_limited_in_each_recording_of_a_long_run() -> None:
    def call_often() -> None:
        for _ in range(2_000):
            str(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torchprof_magic.capture.watched_run.MOST_DETAILS_NS", 10**12)
        with tp.profile(watch=1_000, budget_calls=15_000) as run:
            for number in run.steps(range(120)):
                torch.ones(3).sum()
                call_often()
                if number in (40, 60, 80, 100):
                    time.sleep(0.1)
    # Five recordings of two steps, each of some 4,000 calls.
    assert "capture.stacks_ended" not in [problem.code for problem in run.report.problems]
