"""A trainer in a cell makes its steps by a callback, or else its optimizer does, and the report says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from made_trainers import TrainerCallback, Work, as_library, fails, install

import torchprof_magic as tp
from torchprof_magic.capture import busy_profiler

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


TRAINERS = "/made/site-packages/transformers/trainer.py"


@pytest.fixture(autouse=True)
def _trainers(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "transformers", TrainerCallback=TrainerCallback)
    shell.user_ns |= {
        "tp": tp,
        "Work": Work,
        "fails": fails,
        "Trainer": as_library("transformers.trainer").MadeTrainer,
        "Fabric": as_library("fabric.loops").MadeTrainer,
        "ALL": {"wait": 0, "warmup": 0, "active": 100, "repeat": 1},
    }


def run(shell: InteractiveShell, cell: str, flags: str = "--preset quick") -> Any:
    """Record a cell, and return its report."""
    result = shell.run_cell(f"%%torchprof --quiet {flags}\n{cell}")
    assert result.error_before_exec is None
    return tp.last


def codes(report: Any) -> list[str]:
    return [problem.code for problem in report.problems if problem.code.startswith("capture.")]


def sentence(report: Any) -> str:
    return str(report.summary().partition(" — ")[2].partition("\n")[0])


def test_without_a_callback_the_report_names_the_trainer_and_its_callback(shell: InteractiveShell) -> None:
    report = run(shell, "Trainer(batches=6).train()")
    assert sentence(report).startswith("steps 0–3 recorded, one per call of optimizer.step() in ")
    assert sentence(report).endswith("train()")
    (found,) = [problem for problem in report.problems if problem.code == "capture.by_optimizer"]
    assert found.message.startswith("The loop in ")
    assert found.fix == "For the trainer's own steps, give it the callback that torchprof_magic.callbacks.hf() returns."


def test_a_function_of_another_library_is_named_without_a_callback(shell: InteractiveShell) -> None:
    report = run(shell, "Fabric(batches=6).train()")
    assert sentence(report).endswith("train()")
    assert codes(report) == []


def test_a_cell_that_steps_its_optimizer_itself_names_no_function(shell: InteractiveShell) -> None:
    report = run(shell, "work = Work()\nwork.train()\nwork.optimizer.step()\nwork.train()\nwork.optimizer.step()")
    assert sentence(report) == "steps 0–1 recorded, one per call of optimizer.step()"


@pytest.mark.parametrize("callback", ["", "tp.callbacks.hf(), "])
def test_the_line_of_the_cell_that_trains_has_the_time_of_each_step(shell: InteractiveShell, callback: str) -> None:
    report = run(shell, f"x = 1\nTrainer({callback}batches=8).train()\nx = 2")
    lines = dict(report.lines.select("source", "total_cpu_ns").rows())
    assert report.steps.height > 1
    assert lines[f"Trainer({callback}batches=8).train()"] > 0.9 * report.steps["dur_ns"].sum()


def test_code_around_a_cell_has_no_lines_in_its_report(shell: InteractiveShell) -> None:
    """As that of a program that embeds IPython; the last expression of a cell is code of its own."""
    report = run(shell, "x = 1\nTrainer(batches=8).train()", "--lines")
    assert set(report.lines["file"].cast(str)) == {report.trace.meta.cell.filename, TRAINERS}


def test_with_a_callback_the_steps_are_those_of_the_training(shell: InteractiveShell) -> None:
    report = run(shell, "callback = tp.callbacks.hf()\nTrainer(callback, batches=8).train()\nx = 1")
    assert sentence(report) == "steps 2–4 recorded, stepped by callbacks.hf()"
    assert codes(report) == []
    assert shell.user_ns["callback"].report is report


def test_a_loop_before_the_training_is_not_recorded_in_its_place(shell: InteractiveShell) -> None:
    loop = "import torch\nfor number in range(8):\n    torch.ones(8).cumsum(0)\n"
    report = run(shell, f"{loop}Trainer(tp.callbacks.hf(), batches=8).train()")
    assert sentence(report) == "steps 2–4 recorded, stepped by callbacks.hf()"
    assert report.trace.events.filter(report.trace.events["name"] == "aten::cumsum").height == 0
    assert codes(report) == []


def test_a_loop_around_trainings_makes_no_steps_where_a_callback_does(shell: InteractiveShell) -> None:
    report = run(shell, "for number in range(3):\n    Trainer(tp.callbacks.hf(), batches=8).train()")
    assert sentence(report) == "steps 2–4 recorded, stepped by callbacks.hf()"
    assert codes(report) == ["capture.later_training"]


@pytest.mark.parametrize("step", ["optimizer", "cell"])
def test_a_flag_that_says_what_a_step_is_has_its_way(shell: InteractiveShell, step: str) -> None:
    report = run(shell, "Trainer(tp.callbacks.hf(), batches=8).train()", f"--preset quick --step {step}")
    assert report.trace.meta.stepping.how == step
    assert codes(report) == []


def test_with_step_manual_the_callback_makes_the_steps(shell: InteractiveShell) -> None:
    report = run(shell, "Trainer(tp.callbacks.hf(), batches=8).train()", "--step manual")
    assert sentence(report) == "steps 2–4 recorded, details from 6–7, stepped by callbacks.hf()"


def test_a_training_that_fails_under_the_magic_is_reported_until_there(shell: InteractiveShell) -> None:
    report = run(shell, "Trainer(tp.callbacks.hf(), work=Work(at=3, act=fails)).train()")
    assert report.steps["complete"].to_list() == [True, False]
    assert codes(report) == ["capture.partial"]
    assert busy_profiler() is None


def test_a_training_that_fails_in_a_plain_cell_is_reported_when_the_cell_has_ended(shell: InteractiveShell) -> None:
    events = shell.events.callbacks["post_run_cell"]
    before = [*events]
    result = shell.run_cell("callback = tp.callbacks.hf(**ALL)\nTrainer(callback, work=Work(at=3, act=fails)).train()")
    assert isinstance(result.error_in_exec, RuntimeError)
    assert busy_profiler() is None
    report = tp.last
    assert report is shell.user_ns["callback"].report
    assert report.steps["complete"].to_list() == [True, True, True, False]
    assert events == before


def test_a_training_in_a_plain_cell_is_reported_and_leaves_nothing_behind(shell: InteractiveShell) -> None:
    events = shell.events.callbacks["post_run_cell"]
    before = [*events]
    result = shell.run_cell("callback = tp.callbacks.hf()\nTrainer(callback, batches=8).train()\ncallback.report")
    assert result.result is tp.last
    assert sentence(tp.last) == "steps 2–4 recorded, stepped by callbacks.hf()"
    assert events == before


def test_a_report_that_a_later_run_has_replaced_is_not_taken_for_that_of_the_callback(shell: InteractiveShell) -> None:
    run(shell, "callback = tp.callbacks.hf()\nTrainer(callback, batches=8).train()")
    run(shell, "1 + 1")
    with pytest.raises(tp.CaptureError, match="is that of the cell"):
        assert shell.user_ns["callback"].report
