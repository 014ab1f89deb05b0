"""The callbacks make the steps of trainers, of which there are stand-ins here that call them as the real ones do."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from amount import thorough
from forking import forked_python
from made_trainers import Callback, TrainerCallback, Work, as_library, install

import torchprof_magic as tp
from torchprof_magic.capture import busy_profiler, switch_off
from torchprof_magic.capture.torch_api import features
from torchprof_magic.model.errors import CaptureError, OptionsError
from torchprof_magic.trainers import steps as steps_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MadeTrainer = as_library("transformers.trainer").MadeTrainer
MadeLightning = as_library("lightning.pytorch.trainer").MadeLightning
ALL = {"wait": 0, "warmup": 0, "active": 100, "repeat": 1}


@pytest.fixture(autouse=True)
def _libraries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install(monkeypatch, "transformers", TrainerCallback=TrainerCallback)
    install(monkeypatch, "lightning.pytorch", Callback=Callback)
    yield
    busy = busy_profiler()
    switch_off()
    assert busy is None


def ops(report: Any, name: str) -> int:
    """Return how often an op was recorded."""
    return int(report.trace.events.filter(report.trace.events["name"] == f"aten::{name}").height)


def numbers(report: Any) -> list[int]:
    return list(report.steps["number"])


def is_complete(report: Any) -> list[bool]:
    return list(report.steps["complete"])


def codes(report: Any) -> list[str]:
    """Return the problems of the recording; how steps compare with one another is not asked here."""
    return [problem.code for problem in report.problems if problem.code.startswith("capture.")]


def _refusal(callback: Any) -> str:
    with pytest.raises(CaptureError) as refused:
        _ = callback.report
    return str(refused.value)


def fails() -> None:
    raise RuntimeError("the data is gone")


def fails_once() -> Callable[[], None]:
    """Return a function that fails when it is first called."""
    left = [fails]
    return lambda: left.pop()() if left else None


TRAININGS: list[Callable[..., Any]] = [
    lambda *callbacks, **how: MadeTrainer(*callbacks, **how).train(),
    lambda *callbacks, **how: MadeLightning(*callbacks, **how).fit(),
]
MADE = [tp.callbacks.hf, tp.callbacks.lightning]
NAMES = ["hf", "lightning"]
each = pytest.mark.parametrize(("train", "make", "name"), list(zip(TRAININGS, MADE, NAMES, strict=True)), ids=NAMES)


@each
def test_the_schedule_fits_the_training_as_it_fits_a_loop(train: Any, make: Any, name: str) -> None:
    callback = make()
    train(callback, batches=8)
    report = callback.report
    assert numbers(report) == [2, 3, 4]
    assert ops(report, "addmm") == 3
    assert report.trace.meta.stepping.code == f"callbacks.{name}"
    assert f"steps 2–4 recorded, stepped by callbacks.{name}()" in report.summary()
    assert report.trace.meta.title.startswith("test_made_trainers.py:")
    assert tp.last is report
    assert codes(report) == []


@each
def test_a_step_has_all_batches_whose_gradients_are_accumulated(train: Any, make: Any, name: str) -> None:
    del name
    callback = make(**ALL)
    train(callback, batches=8, accumulates=3)  # three, three and the last two
    assert numbers(callback.report) == [0, 1, 2]
    assert ops(callback.report, "addmm") == 8
    assert [mark.is_complete for mark in callback.report.trace.meta.recorded_steps] == [True] * 3


@each
def test_epochs_are_counted_as_those_of_a_loop(train: Any, make: Any, name: str) -> None:
    del name
    callback = make(**ALL)
    train(callback, batches=2, epochs=3)
    marks = callback.report.trace.meta.recorded_steps
    assert [(mark.epoch, mark.batch) for mark in marks] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


EVALUATIONS = [
    (MadeTrainer, "hf", {"evaluates": 2}),
    (MadeTrainer, "hf", {"evaluates": "epoch"}),
    (MadeTrainer, "hf", {"evaluates": 4, "on_start": True}),
    (MadeLightning, "lightning", {"validates": 2}),
    (MadeLightning, "lightning", {"validates": 4}),
]


@pytest.mark.skipif(features.lack_of("toggle_collection_dynamic") is not None, reason="torch cannot leave ops out")
@pytest.mark.parametrize(("trainer", "name", "how"), EVALUATIONS)
def test_evaluation_is_in_no_step_and_its_ops_are_not_recorded(trainer: Any, name: str, how: dict[str, Any]) -> None:
    callback = getattr(tp.callbacks, name)(**ALL)
    made = trainer(callback, batches=4, epochs=2, **how)
    made.train() if trainer is MadeTrainer else made.fit()
    report = callback.report
    assert numbers(report) == [*range(8)]
    assert is_complete(report) == [True] * 8
    assert (ops(report, "addmm"), ops(report, "cumsum")) == (8, 0)
    assert codes(report).count("capture.evaluation") == 1
    assert [mark.epoch for mark in report.trace.meta.recorded_steps] == [0] * 4 + [1] * 4


@pytest.mark.parametrize("is_of_hf", [True, False], ids=NAMES)
def test_a_step_in_which_an_unforeseen_evaluation_begins_is_incomplete(is_of_hf: bool) -> None:
    if is_of_hf:
        callback = tp.callbacks.hf(**ALL)
        MadeTrainer(callback, batches=4, evaluates=2, announces=False).train()
    else:
        callback = tp.callbacks.lightning(**ALL)
        MadeLightning(callback, batches=4, validates=2, foresees=False).fit()
    # Two steps, the beginning of the third, which the evaluation ended, two more, and again the beginning of one.
    assert is_complete(callback.report) == [True, True, False, True, True, False]


def test_with_manual_optimization_each_batch_is_a_step() -> None:
    callback = tp.callbacks.lightning(**ALL)
    MadeLightning(callback, batches=4, is_automatic=False).fit()
    assert numbers(callback.report) == [0, 1, 2, 3]


@each
def test_a_training_that_fails_raises_its_own_error_and_is_reported_until_there(
    train: Any, make: Any, name: str
) -> None:
    del name
    callback = make(**ALL)
    with pytest.raises(RuntimeError, match="the data is gone"):
        train(callback, work=Work(at=3, act=fails))
    report = callback.report
    assert is_complete(report) == [True, True, True, False]
    assert "capture.partial" in codes(report)
    assert busy_profiler() is None
    assert callback.report is report


def test_stop_ends_the_recording_of_a_training_that_failed() -> None:
    callback = tp.callbacks.hf(**ALL)
    with pytest.raises(RuntimeError):
        MadeTrainer(callback, work=Work(at=3, act=fails)).train()
    assert busy_profiler() is not None
    callback.stop()
    assert busy_profiler() is None
    callback.stop()


def test_before_the_end_of_a_training_there_is_no_report_which_says_where_those_of_other_processes_are() -> None:
    callback = tp.callbacks.hf(**ALL)
    with pytest.raises(CaptureError, match=r"before the end of the training; .* trace_dir keeps the traces"):
        _ = callback.report
    said = []
    MadeTrainer(callback, work=Work(at=1, act=lambda: said.append(_refusal(callback)))).train()
    assert "before the end of the training" in said[0]


def test_the_next_recording_ends_that_of_a_training_that_failed_and_keeps_its_report() -> None:
    callback = tp.callbacks.hf(**ALL)
    with pytest.raises(RuntimeError):
        MadeTrainer(callback, work=Work(at=3, act=fails)).train()
    with tp.profile() as p:
        torch.ones(3)
    assert is_complete(callback.report) == [True, True, True, False]
    assert p.report.trace.steps.height == 1


def test_the_next_training_ends_the_recording_of_one_that_failed() -> None:
    callback = tp.callbacks.hf(**ALL)
    with pytest.raises(RuntimeError):
        MadeTrainer(callback, work=Work(at=3, act=fails)).train()
    MadeTrainer(callback, batches=2).train()
    assert numbers(callback.report) == [0, 1]
    assert is_complete(callback.report) == [True, True]


def test_a_training_that_the_trainer_tries_again_is_recorded_from_its_second_start() -> None:
    callback = tp.callbacks.hf(**ALL)
    MadeTrainer(callback, batches=4, work=Work(at=3, act=fails_once()), tries=2).train()
    assert numbers(callback.report) == [0, 1, 2, 3]
    assert ops(callback.report, "addmm") == 4


@each
@pytest.mark.parametrize(
    "options", [{}, {"active": 3, "wait": 1, "warmup": 1, "repeat": 1}], ids=["default", "scheduled"]
)
def test_in_a_block_the_steps_of_the_block_are_those_of_the_training(
    train: Any, make: Any, name: str, options: dict[str, int]
) -> None:
    with tp.profile(**options) as p:
        torch.ones(8).cumsum(0)
        callback = make()
        train(callback, batches=8)
        torch.ones(8).cumsum(0)
    report = p.report
    assert (numbers(report), ops(report, "cumsum")) == ([2, 3, 4], 0)
    assert report.trace.meta.stepping.code == f"callbacks.{name}"
    assert callback.report is report


def test_options_of_a_callback_that_joins_a_recording_are_not_used_and_the_report_says_so() -> None:
    with tp.profile() as p:
        MadeTrainer(tp.callbacks.hf(active=1), batches=8).train()
    assert numbers(p.report) == [2, 3, 4]
    (found,) = [problem for problem in p.report.problems if problem.code == "capture.callback_options"]
    assert found.message.startswith("The options of callbacks.hf() were not used, because profile() was")


def test_steps_that_the_user_makes_in_a_block_stay() -> None:
    with tp.profile(**ALL) as p:
        p.step()
        MadeTrainer(tp.callbacks.hf(), batches=3).train()
        p.step()
    assert numbers(p.report) == [0, 1]


def test_two_callbacks_of_one_trainer_make_its_steps_once() -> None:
    first, second = tp.callbacks.hf(**ALL), tp.callbacks.hf()
    MadeTrainer(first, second, batches=3).train()
    assert numbers(first.report)[:3] == [0, 1, 2]


@pytest.mark.parametrize("part", ["begin", "step", "end", "go_to_work"])
@each
def test_a_failure_of_ours_does_not_end_the_training(
    train: Any,
    make: Any,
    name: str,
    part: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("ours")

    del name
    work, callback = Work(), make(**ALL)
    monkeypatch.setattr(steps_module.TrainerSteps, part, broken)
    train(callback, work=work, batches=5)
    assert work.batches == 5
    assert capsys.readouterr().out.count("The training goes on without a recording: ZeroDivisionError: ours") == 1
    assert busy_profiler() is None
    with pytest.raises(CaptureError, match="the training was not recorded: ZeroDivisionError: ours"):
        assert callback.report


@each
def test_a_recording_that_cannot_be_made_does_not_end_the_training(
    train: Any, make: Any, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    del name
    work, callback = Work(), make()
    with torch.profiler.profile():
        train(callback, work=work)
    assert work.batches == 6
    assert "The training goes on without a recording: a torch profiler is already running" in capsys.readouterr().out
    with pytest.raises(CaptureError, match="the training was not recorded"):
        assert callback.report


@each
def test_an_exception_of_the_users_own_signal_handler_ends_the_training(train: Any, make: Any, name: str) -> None:
    """As a timeout does, wherever it arrives."""
    del name

    def timeout(*_: object) -> None:
        raise TimeoutError("the user's")

    before = signal.signal(signal.SIGALRM, timeout)
    callback = make(**ALL)
    try:
        with pytest.raises(TimeoutError, match="the user's"):
            train(callback, work=Work(at=2, act=lambda: signal.raise_signal(signal.SIGALRM)))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert is_complete(callback.report) == [True, True, False]


@each
def test_an_interrupt_ends_the_training_and_the_report_is_there(train: Any, make: Any, name: str) -> None:
    del name
    callback = make(**ALL)
    with pytest.raises(KeyboardInterrupt):
        train(callback, work=Work(at=3, act=lambda: signal.raise_signal(signal.SIGINT)))
    assert is_complete(callback.report) == [True, True, True, False]


def test_a_report_is_asked_for_in_vain_before_the_training() -> None:
    with pytest.raises(CaptureError, match="not available"):
        assert tp.callbacks.hf().report


def test_mistakes_in_the_options_are_told_when_the_callback_is_made() -> None:
    with pytest.raises(OptionsError):
        tp.callbacks.hf(active=-1)
    with pytest.raises(TypeError):
        tp.callbacks.lightning(activ=1)


def test_callbacks_travel_to_other_processes_without_their_recording() -> None:
    """Trainers that start processes pickle their callbacks."""
    callback = tp.callbacks.hf(**ALL)
    MadeTrainer(callback, batches=2).train()
    copied = pickle.loads(pickle.dumps(callback))  # noqa: S301 - it is our own
    with pytest.raises(CaptureError, match="not available"):
        assert copied.report
    MadeTrainer(copied, batches=3).train()
    assert numbers(copied.report) == [0, 1, 2]
    assert numbers(callback.report) == [0, 1]


class ProfileKwargs:
    """The handler of Accelerate, whose ``accelerator.profile(handler)`` enters what ``build`` returns."""

    output_trace_dir = None


def test_accelerate_enters_a_profile_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "accelerate.utils", ProfileKwargs=ProfileKwargs)
    handler = tp.callbacks.accelerate(**ALL)
    assert isinstance(handler, ProfileKwargs)
    with handler.build() as p:
        for _ in range(3):
            torch.ones(8).cumsum(0)
            p.step()
    assert isinstance(p, tp.profile)
    assert (numbers(handler.report), ops(handler.report, "cumsum")) == ([0, 1, 2], 3)


def test_in_a_block_accelerate_makes_the_steps_of_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "accelerate.utils", ProfileKwargs=ProfileKwargs)
    handler = tp.callbacks.accelerate()
    with tp.profile() as outer, handler.build() as p:
        torch.ones(8).cumsum(0)
        p.step()  # the steps begin here
        for _ in range(6):
            torch.ones(4, 4) @ torch.ones(4, 4)
            p.step()
    assert (numbers(outer.report), ops(outer.report, "mm"), ops(outer.report, "cumsum")) == ([2, 3, 4], 3, 0)
    assert handler.report is outer.report


MISSING = {
    "hf": ("transformers", "transformers is not installed. Install it with: pip install 'transformers[torch]'"),
    "lightning": ("lightning", "lightning is not installed. Install it with: pip install lightning"),
    "accelerate": ("accelerate", "accelerate is not installed. Install it with: pip install accelerate"),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_library_that_is_missing_is_named_with_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library, message = MISSING[name]
    for module in [known for known in sys.modules if known.partition(".")[0] in (library, "pytorch_lightning")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Without(library, "pytorch_lightning"), *sys.meta_path])
    with pytest.raises(ImportError) as caught:
        getattr(tp.callbacks, name)()
    assert str(caught.value) == message


class Without:
    """Finds no module of some packages, as if they were not installed."""

    def __init__(self, *packages: str) -> None:
        self._packages = packages

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] in self._packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_library_that_fails_to_import_says_so_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "transformers")
    monkeypatch.setattr(sys, "meta_path", [Needing(), *sys.meta_path])
    with pytest.raises(ModuleNotFoundError, match="No module named 'tokenizers'"):
        tp.callbacks.hf()


class Needing:
    """Finds a Transformers that lacks what it needs."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "transformers":
            raise ModuleNotFoundError("No module named 'tokenizers'", name="tokenizers")


def test_the_callback_is_of_pytorch_lightning_where_only_that_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lightning.pytorch")
    monkeypatch.delitem(sys.modules, "lightning")
    install(monkeypatch, "pytorch_lightning", Callback=OtherCallback)
    assert isinstance(tp.callbacks.lightning(), OtherCallback)


class OtherCallback(Callback):
    """The base class of ``pytorch_lightning``."""


def test_no_library_is_imported_before_its_callback_is_asked_for() -> None:
    libraries = {"transformers", "lightning", "accelerate"}
    code = f"import sys, torchprof_magic as tp; tp.callbacks.hf; print({libraries} & {{*sys.modules}})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


FAILING = """
import sys
sys.path.insert(0, {folder!r})
from made_trainers import TrainerCallback, Work, as_library
sys.modules["transformers"] = as_library("transformers")
import torchprof_magic as tp

def fails():
    raise RuntimeError("the data is gone")

callback = tp.callbacks.hf(wait=0, warmup=0, active=100, trace_dir={kept!r})
as_library("transformers.trainer").MadeTrainer(callback, work=Work(at=3, act=fails)).train()
"""


@thorough  # the same without the end of the script is in the sample
def test_a_script_whose_training_fails_keeps_its_traces_when_it_ends(tmp_path: Path) -> None:
    code = FAILING.format(folder=str(Path(__file__).parents[1]), kept=str(tmp_path))
    ran = subprocess.run(forked_python("-c", code), capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.rstrip().endswith("RuntimeError: the data is gone")
    (trace,) = tmp_path.rglob("*.json*")
    assert tp.load(trace).steps.height == 4
