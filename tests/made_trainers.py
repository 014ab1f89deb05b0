"""Stand-ins for the trainers of Transformers and Lightning: they train a tiny model, and call callbacks as those do.

The tests of the real libraries hold the order of their calls to this one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest


class TrainerCallback:
    """The base class of Transformers; all events do nothing."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...


class Callback:
    """The base class of Lightning; all hooks do nothing."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None: ...
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None: ...
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None: ...
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None: ...
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None: ...
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None: ...
    def on_train_end(self, trainer: Any, pl_module: Any) -> None: ...
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None: ...


EVENTS = tuple(name for name in vars(TrainerCallback) if name.startswith("on_"))
HOOKS = tuple(name for name in vars(Callback) if name.startswith("on_"))


def fails() -> None:
    """Raise what a training may raise."""
    raise RuntimeError("the data is gone")


def described(report: Any) -> dict[str, Any]:
    """Return what tests ask of the report of a training, as JSON takes it. Evaluations are ``aten::cumsum``."""
    events, marks = report.trace.events, report.trace.meta.recorded_steps
    return {
        "numbers": report.steps["number"].to_list(),
        "complete": report.steps["complete"].to_list(),
        "epochs": [mark.epoch for mark in marks],
        "addmm": events.filter(events["name"] == "aten::addmm").height,
        "cumsum": events.filter(events["name"] == "aten::cumsum").height,
        # How steps compare with one another is not asked here.
        "codes": [problem.code for problem in report.problems if problem.code.startswith("capture.")],
        "sentence": report.summary().partition("\n")[0],
        "is_off": not torch.autograd.profiler._is_profiler_enabled,  # type: ignore[attr-defined]
    }


class Events(TrainerCallback):
    """Keeps what a trainer of Transformers tells, in order."""

    def __init__(self) -> None:
        self.told: list[Any] = []


class Hooks(Callback):
    """Keeps what a trainer of Lightning tells, in order."""

    def __init__(self) -> None:
        self.told: list[Any] = []


def keep_events(kind: Any) -> None:
    """Let a callback keep each event and what the trainer says of its state, in ``told``."""
    for name in EVENTS:
        setattr(kind, name, _keeping_event(name))


def _keeping_event(name: str) -> Any:
    def keep(self: Any, _args: Any, state: Any, control: Any, **_: Any) -> None:
        self.told.append(
            [name, state.global_step, state.max_steps, round(state.epoch or 0, 3), control.should_evaluate]
        )

    return keep


def keep_hooks(kind: Any) -> None:
    """Let a callback keep each hook and what the trainer says of its state, in ``told``."""
    for name in HOOKS:
        setattr(kind, name, _keeping_hook(name))


def _keeping_hook(name: str) -> Any:
    def keep(self: Any, trainer: Any, *_: Any) -> None:
        is_last = trainer.is_last_batch if name == "on_train_batch_end" else None
        self.told.append([name, trainer.global_step, trainer.current_epoch, trainer.sanity_checking, is_last])

    return keep


keep_events(Events)
keep_hooks(Hooks)


def install(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: object) -> None:
    """Let ``import name`` find a module with these attributes, and ours be imported anew for it."""
    for at in range(name.count(".") + 1):
        package = ".".join(name.split(".")[: at + 1])
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
    vars(sys.modules[name]).update(attributes)
    for ours in ("transformers_callback", "lightning_callback", "pytorch_lightning_callback", "accelerate_handler"):
        monkeypatch.delitem(sys.modules, f"torchprof_magic.trainers.{ours}", raising=False)


def as_library(name: str) -> ModuleType:
    """Return this module as if it were part of an installed package, which trainers are."""
    source = Path(__file__).read_text()
    module = ModuleType(name)
    exec(compile(source, f"/made/site-packages/{name.replace('.', '/')}.py", "exec"), vars(module))  # noqa: S102 - it is this file
    return module


class Work:
    """A model, its optimizer, and what is done with a batch; ops of evaluation are ``aten::cumsum``."""

    def __init__(self, *, at: int | None = None, act: Callable[[], object] | None = None) -> None:
        self.model = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.batches = 0
        self._at, self._act = at, act

    def train(self) -> None:
        """Add the gradients of a batch; in the batch of the number ``at``, first call ``act``."""
        if self.batches == self._at and self._act is not None:
            self._act()
        self.batches += 1
        self.model(torch.ones(2, 4)).sum().backward()

    def update(self) -> None:
        """Let the optimizer step."""
        self.optimizer.step()
        self.optimizer.zero_grad()

    def evaluate(self) -> None:
        """Look at a batch."""
        torch.ones(8).cumsum(0)


class MadeTrainer:
    """Trains as ``transformers.Trainer`` does. ``evaluates`` after so many steps, or after each ``"epoch"``."""

    def __init__(
        self,
        *callbacks: Any,
        work: Work | None = None,
        batches: int = 6,
        epochs: int = 1,
        accumulates: int = 1,
        evaluates: int | str | None = None,
        on_start: bool = False,
        announces: bool = True,
        tries: int = 1,
    ) -> None:
        self.callbacks: Sequence[Any] = callbacks
        self.work = work or Work()
        self.batches, self.epochs, self.accumulates = batches, epochs, accumulates
        self.evaluates, self.on_start, self.announces, self.tries = evaluates, on_start, announces, tries
        strategy = "epoch" if evaluates == "epoch" else "steps" if evaluates else "no"
        self.args = SimpleNamespace(eval_strategy=SimpleNamespace(value=strategy))
        steps = -(-batches // accumulates) * epochs
        self.state = SimpleNamespace(global_step=0, max_steps=steps, epoch=0.0)
        self.control = SimpleNamespace(should_evaluate=False)

    def tell(self, event: str) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self.args, self.state, self.control, model=self.work.model)

    def train(self) -> None:
        """Train, and try again after a failure, as with ``auto_find_batch_size``."""
        for left in reversed(range(self.tries)):
            try:
                self.train_once()
            except RuntimeError:
                if not left:
                    raise
            else:
                return

    def train_once(self) -> None:
        self.tell("on_train_begin")
        if self.on_start:
            self.evaluate()
        for epoch in range(self.epochs):
            self.tell("on_epoch_begin")
            self.train_epoch(epoch)
            self.control.should_evaluate = self.evaluates == "epoch"
            self.tell("on_epoch_end")
            if self.evaluates == "epoch":
                self.evaluate()
        self.tell("on_train_end")

    def train_epoch(self, epoch: int) -> None:
        for batch in range(self.batches):
            if batch % self.accumulates == 0:
                self.tell("on_step_begin")
            self.work.train()
            if (batch + 1) % self.accumulates and batch + 1 < self.batches:
                self.tell("on_substep_end")
                continue
            self.work.update()
            self.state.global_step += 1
            self.state.epoch = epoch + (batch + 1) / self.batches
            is_due = isinstance(self.evaluates, int) and self.state.global_step % self.evaluates == 0
            self.control.should_evaluate = is_due and self.announces
            self.tell("on_step_end")
            if is_due:
                self.evaluate()

    def evaluate(self) -> None:
        for _ in range(2):
            self.work.evaluate()
            self.tell("on_prediction_step")
        self.control.should_evaluate = False
        self.tell("on_evaluate")


class MadeLightning:
    """Trains as ``lightning.pytorch.Trainer`` does. ``validates`` after so many batches of an epoch, or at its end."""

    def __init__(
        self,
        *callbacks: Any,
        work: Work | None = None,
        batches: int = 6,
        epochs: int = 1,
        accumulates: int = 1,
        validates: int | None = None,
        is_automatic: bool = True,
        foresees: bool = True,
    ) -> None:
        self.callbacks: Sequence[Any] = callbacks
        self.work = work or Work()
        self.batches, self.epochs, self.accumulates = batches, epochs, accumulates
        self.module = SimpleNamespace(automatic_optimization=is_automatic)
        self.global_step = self.current_epoch = 0
        self.estimated_stepping_batches = float(-(-batches // accumulates) * epochs)
        self.sanity_checking = self.is_last_batch = False
        self.enable_validation = validates is not None and foresees
        self.check_val_every_n_epoch = 1
        self.val_check_batch = validates or float("inf")
        self._validates = validates

    def tell(self, hook: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self, self.module, *arguments)

    def fit(self) -> None:
        try:
            self._fit()
        except BaseException as exc:
            self.tell("on_exception", exc)
            raise

    def _fit(self) -> None:
        if self._validates is not None:
            self.sanity_checking = True
            self.validate()
            self.sanity_checking = False
        self.tell("on_train_start")
        for epoch in range(self.epochs):
            self.current_epoch = epoch
            self.tell("on_train_epoch_start")
            for batch in range(self.batches):
                self._train(batch)
        self.current_epoch = self.epochs
        self.tell("on_train_end")

    def _train(self, batch: int) -> None:
        self.is_last_batch = batch + 1 == self.batches
        self.tell("on_train_batch_start", None, batch)
        self.work.train()
        if (batch + 1) % self.accumulates == 0 or self.is_last_batch:
            self.work.update()
            self.global_step += self.module.automatic_optimization
        self.tell("on_train_batch_end", None, None, batch)
        if self._validates is not None and (batch + 1) % self._validates == 0:
            self.validate()

    def validate(self) -> None:
        self.tell("on_validation_start")
        self.work.evaluate()
        self.tell("on_validation_end")
