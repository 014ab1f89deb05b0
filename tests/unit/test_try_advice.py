from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
import torch
from support import annotation, make_trace, span

import torchprof_magic as tp
from torchprof_magic.findings.advice.trial_plan import Call, TrialPlan
from torchprof_magic.report.trace_report import Report
from torchprof_magic.system.process.other_programs import OtherPrograms
from torchprof_magic.trials import run_trial


def recorded(*, has_shapes: bool = True) -> Report:
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(12)])
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    x = torch.randn(4, 64)
    with tp.profile(record_shapes=has_shapes) as run:
        for _ in tp.steps(range(8)):
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert run.report is not None
    return run.report


def place_of(report: Report, rule: str) -> int:
    return [advice.rule for advice in report.advice].index(rule)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def test_what_was_estimated_is_measured_here_and_takes_its_place() -> None:
    report = recorded()
    at = place_of(report, "single_tensor_optimizer")
    said = report.advice[at]
    numbers, threads = torch.get_rng_state(), torch.get_num_threads()
    found = report.try_advice(at, seconds=0.2)
    assert torch.equal(torch.get_rng_state(), numbers)
    assert torch.get_num_threads() == threads
    assert (said.certainty, found.certainty) == ("estimated", "measured here")
    assert found.saving_ns is not None
    assert found.saving_ns > 0
    assert found.evidence.startswith("Tried here on the recorded shapes: ")
    assert found in report.advice
    assert said not in report.advice
    assert "measured here" in report._repr_html_()


def test_without_shapes_nothing_is_tried() -> None:
    report = recorded(has_shapes=False)
    with pytest.raises(ValueError, match="needs the shapes of the ops; record them with --shapes"):
        report.try_advice(place_of(report, "single_tensor_optimizer"))


def test_what_needs_the_users_data_is_not_tried() -> None:
    steps = annotation("ProfilerStep#0", 0, 10_000), annotation("ProfilerStep#1", 10_000, 10_000)
    loads = [annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, 8_000) for at in (0, 10_000)]
    report = Report(make_trace(*steps, *loads, span("aten::mm", 9_000, 100)))
    with pytest.raises(ValueError, match="dataloader_workers cannot be tried without your data; these can: single"):
        report.try_advice(0)
    with pytest.raises(IndexError):
        report.try_advice(7)
    with pytest.raises(ValueError, match="seconds must be more than 0"):
        report.try_advice(0, seconds=0)


PLANS = (
    TrialPlan("optimizer", (Call("step", ((8, 8), (8,)), "float32", 1.0),), name="SGD"),
    TrialPlan(
        "threads", (Call("mm", ((16, 16), (16, 16)), "float32", 2.0), Call("exp", ((9,),), "float64", 1.0)), "", 1, 2
    ),
    TrialPlan("autocast", (Call("addmm", ((8,), (4, 16), (16, 8)), "float32", 1.0),)),
    TrialPlan(
        "channels_last",
        (
            Call(
                "convolution",
                ((2, 4, 9, 9), (6, 2, 3, 3)),
                "float32",
                1.0,
                ("", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2"),
            ),
        ),
    ),
    TrialPlan("attention", (Call("attention", ((6, 8, 4), (6, 8, 4), (6, 8, 4)), "float32", 1.0),)),
)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.kind)
def test_every_kind_of_trial_measures_both_ways(plan: TrialPlan) -> None:
    found = run_trial(plan, 0.01)
    assert found.before_ns > 0
    assert found.after_ns > 0
    assert found.rounds >= 3


def test_a_trial_for_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="a device that this machine lacks"):
        run_trial(PLANS[2]._replace(on_device=True), 0.01)


def test_an_interrupt_ends_a_trial_and_restores_the_threads() -> None:
    torch.set_num_threads(1)
    plan = PLANS[1]
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    timer.start()
    many = plan._replace(calls=(Call("mm", ((700, 700), (700, 700)), "float32", 1.0),) * 40)
    with pytest.raises(KeyboardInterrupt):
        run_trial(many, 60)
    timer.join()
    assert torch.get_num_threads() == 1


def test_the_cores_and_threads_of_a_run_are_recorded_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OtherPrograms, "share", lambda _: 0.25)
    report = recorded()
    loaded = tp.load(report.save(tmp_path / "run.torchprof")).trace.meta
    meta = report.trace.meta
    assert (meta.cpu_cores or 0) >= 1
    assert meta.cpu_threads == 1
    assert (loaded.cpu_cores, loaded.cpu_threads, loaded.cpu_features) == (meta.cpu_cores, 1, meta.cpu_features)
    assert loaded.cpu_model == meta.cpu_model != ""
    assert loaded.others_share == meta.others_share == 0.25
