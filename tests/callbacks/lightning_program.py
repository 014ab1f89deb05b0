"""Trains tiny models with the real ``Trainer`` of Lightning, and prints as JSON what was recorded.

The argument is ``lightning.pytorch`` or ``pytorch_lightning``.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from made_trainers import described, fails, keep_hooks

import torchprof_magic as tp

library: Any = importlib.import_module(sys.argv[1])
warnings.simplefilter("ignore")  # about workers of data loaders, and what is not logged
logging.getLogger(sys.argv[1]).setLevel(logging.ERROR)
ALL = {"wait": 0, "warmup": 0, "active": 100, "repeat": 1}


class Module(library.LightningModule):  # type: ignore[misc]
    """Calls ``act`` in the batch of the number ``at``; an evaluation is ``aten::cumsum``."""

    def __init__(self, at: int | None = None, act: Any = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.at, self.act = at, act

    def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
        if number == self.at:
            self.act()
        return self.layer(batch).sum()

    def validation_step(self, batch: torch.Tensor, _number: int) -> None:
        batch.cumsum(0)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Manual(Module):
    """Updates its weights itself, by two optimizers."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: torch.Tensor, number: int) -> None:
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            self.manual_backward(super().training_step(batch, number))
            optimizer.step()

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        return [torch.optim.SGD([parameter], lr=0.1) for parameter in self.parameters()]


class Hooks(library.Callback):  # type: ignore[misc]
    """Keeps what the trainer tells, in order."""

    def __init__(self) -> None:
        self.told: list[Any] = []


keep_hooks(Hooks)


def loader(batches: int) -> Any:
    return torch.utils.data.DataLoader(torch.ones(2 * batches, 4), batch_size=2)  # type: ignore[arg-type]


def fit(
    *callbacks: Any,
    module: Module | None = None,
    batches: int = 8,
    epochs: int = 1,
    validates: bool = False,
    **options: Any,
) -> None:
    """Train with batches of two rows, and validate with one batch."""
    trainer = library.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[*callbacks],
        **options,
    )
    trainer.fit(module or Module(), loader(batches), *([loader(1)] if validates else []))


def recorded(**options: Any) -> dict[str, Any]:
    """Return what a callback that records every step reports."""
    callback = tp.callbacks.lightning(**ALL)
    fit(callback, **options)
    return described(callback.report)


def failed(act: Any, kind: type[BaseException]) -> dict[str, Any]:
    """Return what is reported of a training in whose fourth batch ``act`` is called, and what was raised."""
    callback = tp.callbacks.lightning(**ALL)
    try:
        fit(callback, module=Module(3, act))
    except kind as exc:
        return described(callback.report) | {"raised": str(exc)}
    raise AssertionError("nothing was raised")


def hooks(**options: Any) -> list[Any]:
    """Return what the trainer tells a callback."""
    kept = Hooks()
    fit(kept, **options)
    return kept.told


def in_block() -> dict[str, Any]:
    """Return the report of a block in which the training is recorded."""
    with tp.profile() as p:
        torch.ones(4).cumsum(0)
        fit(tp.callbacks.lightning())
        torch.ones(4).cumsum(0)
    return described(p.report)


print(
    json.dumps(
        {
            "plain": recorded(),
            "base": type(tp.callbacks.lightning()).__mro__[2].__module__.partition(".")[0],
            "accumulated": recorded(accumulate_grad_batches=2),
            "manual": recorded(module=Manual()),
            "validated": recorded(epochs=2, validates=True, val_check_interval=4),
            "validated by epoch": recorded(epochs=2, validates=True),
            "failed": failed(fails, RuntimeError),
            # Lightning ends the process after an interrupt, with this exception.
            "interrupted": failed(lambda: os.kill(os.getpid(), signal.SIGINT), SystemExit),
            "in a block": in_block(),
            "hooks": hooks(batches=4, epochs=2, validates=True, val_check_interval=2),
            "hooks by epoch": hooks(batches=4, epochs=2, validates=True, accumulate_grad_batches=3),
        }
    )
)
