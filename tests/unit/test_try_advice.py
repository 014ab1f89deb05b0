from __future__ import annotations

import json
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from support import annotation, make_trace, span

import torchprof_magic as tp
from torchprof_magic.findings.advice import Advice, chosen_card, plan_trial
from torchprof_magic.findings.advice.trial_plan import Call, Input, TrialPlan, tensors
from torchprof_magic.report.trace_report import Report
from torchprof_magic.system.process.other_programs import OtherPrograms
from torchprof_magic.trials import run_trial

RULE = "single_tensor_optimizer"
TRIES = 5


def recorded(*, has_shapes: bool = True) -> Report:
    """Return a recording with advice on its optimizer; on a busy machine not every one of them is told any."""
    reports = (_record(has_shapes=has_shapes) for _ in range(TRIES))
    return next(report for report in reports if RULE in [advice.rule for advice in report.advice])


def _record(*, has_shapes: bool) -> Report:
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


def place_of(report: Report) -> int:
    """Return the number of its card."""
    return [advice.rule for advice in report.advice].index(RULE) + 1


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def test_what_was_estimated_is_measured_here_and_takes_its_place() -> None:
    report = recorded()
    at = place_of(report)
    said = report.advice[at - 1]
    assert f"  {at}. {said.title}" in report.summary()
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
        report.try_advice(place_of(report))


def test_what_needs_the_users_data_is_not_tried() -> None:
    steps = annotation("ProfilerStep#0", 0, 10_000), annotation("ProfilerStep#1", 10_000, 10_000)
    loads = [annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, 8_000) for at in (0, 10_000)]
    report = Report(make_trace(*steps, *loads, span("aten::mm", 9_000, 100)))
    with pytest.raises(ValueError, match="dataloader_workers cannot be tried without your data; these can: single"):
        report.try_advice(1)
    with pytest.raises(ValueError, match="seconds must be more than 0"):
        report.try_advice(1, seconds=0)


def scalars(*values: str) -> tuple[Input, ...]:
    return tuple(Input("ScalarList" if value.startswith("[") else "Scalar", (), value) for value in values)


CONVOLUTION = (
    *tensors((2, 4, 9, 9), (6, 2, 3, 3)),
    Input("", ()),
    *scalars("[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2"),
)
PRODUCT = (*tensors((8,), (4, 16), (16, 8)), *scalars("1", "1"))
PLANS = (
    TrialPlan("optimizer", (Call("step", tensors((8, 8), (8,)), 1.0),), name="SGD", settings=(("momentum", 0.9),)),
    TrialPlan(
        "threads",
        (Call("mm", tensors((16, 16), (16, 16)), 2.0), Call("exp", tensors((9,), dtype="double"), 1.0)),
        threads=1,
        cores=2,
    ),
    TrialPlan("autocast", (Call("addmm", PRODUCT, 1.0),)),
    TrialPlan("channels_last", (Call("convolution", CONVOLUTION, 1.0),)),
    TrialPlan("attention", (Call("attention", tensors((6, 8, 4), (6, 8, 4), (6, 8, 4)), 1.0),)),
)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.kind)
def test_every_kind_of_trial_measures_both_ways(plan: TrialPlan) -> None:
    found = run_trial(plan, 0.01)
    assert found.before_ns > 0
    assert found.after_ns > 0
    assert found.rounds >= 3


def test_a_call_that_cannot_be_run_again_is_left_out_and_named() -> None:
    listed = Call("cat", (Input("TensorList", None), *scalars("0")), 1.0, 5_000.0)
    known = Call("exp", tensors((9,)), 1.0, 2_000.0)
    plan = TrialPlan("threads", (listed, known), threads=1, cores=1)
    found = run_trial(plan, 0.01)
    reason = "it takes a list of tensors, whose types torch does not record"
    assert (found.left_out, found.recorded_ns) == ((f"`cat`: {reason}",), 2_000.0)
    with pytest.raises(ValueError, match=f"none of the ops can be run again \\(`cat`: {reason}\\)"):
        run_trial(plan._replace(calls=(listed,)), 0.01)


def test_a_trial_leaves_random_numbers_as_they_are_though_its_ops_draw_some() -> None:
    numbers = torch.get_rng_state()
    run_trial(TrialPlan("threads", (Call("dropout", (*tensors((64,)), *scalars("0.5", "True")), 1.0),)), 0.01)
    assert torch.equal(torch.get_rng_state(), numbers)


def test_ops_with_scalars_keywords_and_texts_are_tried_in_a_real_recording() -> None:
    a = torch.randn(600, 600)
    with tp.profile(record_shapes=True) as run:
        for _ in tp.steps(range(8)):
            x = torch.add(a, 1 - a * 2.0, alpha=3)
            x = torch.mul(a, a, out=torch.softmax(x, dim=0)).clamp(None, 0.5)
            x = torch.nn.functional.gelu(x, approximate="tanh").mul_(0.5)
    assert run.report is not None
    plan = plan_trial(run.report.trace, Advice(rule="undersubscribed_threads", title=""))
    assert {call.op for call in plan.calls} == {"add", "rsub", "mul", "softmax", "clamp", "gelu", "mul_"}
    found = run_trial(plan._replace(threads=1, cores=1), 0.05)
    assert found.left_out == ("`gelu`: its argument `approximate` is a text, which torch does not record",)
    assert found.before_ns > 0


def test_each_optimizer_is_tried_with_its_own_parameters_and_settings() -> None:
    small, large = torch.nn.Linear(3, 3), torch.nn.Linear(5, 5)
    first = torch.optim.SGD(small.parameters(), momentum=0.9, foreach=False)
    second = torch.optim.AdamW(large.parameters(), amsgrad=True, foreach=False)
    x, y = torch.randn(2, 3), torch.randn(2, 5)
    with tp.profile(record_shapes=True) as run:
        for _ in tp.steps(range(8)):
            (small(x).sum() + large(y).sum()).backward()
            first.step()
            second.step()
    assert run.report is not None
    trace = run.report.trace
    plans = {}
    for name in ("SGD", "AdamW"):
        plan = plan_trial(trace, Advice(rule="single_tensor_optimizer", title="", op=f"Optimizer.step#{name}.step"))
        plans[plan.name] = (plan.calls[0].shapes, dict(plan.settings))
    assert plans == {
        "SGD": (((3, 3), (3,)), {"momentum": 0.9}),
        "AdamW": (((5, 5), (5,)), {"amsgrad": 1.0}),
    }


def test_an_advice_that_is_not_there_is_refused_in_words() -> None:
    report = Report(make_trace(annotation("ProfilerStep#0", 0, 10_000), span("aten::mm", 0, 100)))
    with pytest.raises(IndexError, match=r"there is no advice 3; the report has none$"):
        report.try_advice(3)


FIRST = Advice(rule="data", title="Load data ahead", fix="`num_workers=2`")
SECOND = Advice(rule="loop", title="Do it at once")
ALIKE = Advice(rule="loop", title="Do that at once")


@pytest.mark.parametrize("which", [2, "loop", "Do it at once", SECOND])
def test_advice_is_chosen_by_the_number_of_its_card_its_rule_its_title_or_itself(which: int | str | Advice) -> None:
    assert chosen_card((FIRST, SECOND), which) is SECOND


@pytest.mark.parametrize("which", [0, 3, -1, True, "none", "", FIRST])
def test_numbers_and_names_that_no_card_has_are_refused_with_those_that_there_are(which: int | str | Advice) -> None:
    asked = repr("data" if which is FIRST else which)
    said = f"there is no advice {asked}; the report has 1 (loop), 2 (loop)"
    with pytest.raises(IndexError, match=f"^{re.escape(said)}$"):
        chosen_card((SECOND, ALIKE), which)


def test_a_rule_with_several_cards_is_chosen_by_number() -> None:
    said = "2 cards are called 'loop'; choose by number: the report has 1 (data), 2 (loop), 3 (loop)"
    with pytest.raises(IndexError, match=f"^{re.escape(said)}$"):
        chosen_card((FIRST, SECOND, ALIKE), "loop")


def test_a_trial_for_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="a device that this machine lacks"):
        run_trial(PLANS[2]._replace(on_device=True), 0.01)


def test_an_interrupt_ends_a_trial_and_restores_the_threads() -> None:
    torch.set_num_threads(1)
    plan = PLANS[1]
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    timer.start()
    many = plan._replace(calls=(Call("mm", tensors((700, 700), (700, 700)), 1.0),) * 40)
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


def test_the_page_has_a_card_measured_and_shows_what_it_saves_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchprof_magic.report.trying.SECONDS", 0.2)
    report = recorded()
    at = place_of(report)
    answers: list[dict[str, Any]] = []
    monkeypatch.setattr(report.widget, "send", lambda head, _=(): answers.append(head))

    def card() -> dict[str, Any]:
        header = json.loads(report.widget._header)
        assert header["can_try"]
        (overview,) = (view for view in header["views"] if view["name"] == "overview")
        return next(card for card in overview["cards"] if card["rule"] == RULE)

    assert (card()["can_try"], card()["certainty"]) == (True, "estimated")
    report.widget._answer(None, {"kind": "try", "id": "tp-1", "card": at}, [])
    assert answers == [{"kind": "opened", "id": "tp-1"}]
    assert (card()["can_try"], card()["certainty"]) == (False, "measured here")
    report.widget._answer(None, {"kind": "try", "id": "tp-2", "card": 99}, [])
    assert answers[-1]["kind"] == "error"
    assert answers[-1]["message"].startswith("It cannot be tried here: there is no advice 99; the report has 1 (")


def test_a_recording_without_shapes_offers_no_trial() -> None:
    report = recorded(has_shapes=False)
    (overview,) = (view for view in json.loads(report.widget._header)["views"] if view["name"] == "overview")
    assert not any(card["can_try"] for card in overview["cards"])
