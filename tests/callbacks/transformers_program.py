"""Trains tiny models with the real ``Trainer`` of Transformers, and prints as JSON what was recorded."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from made_trainers import described, fails, keep_events
from transformers import Trainer, TrainerCallback, TrainingArguments

import torchprof_magic as tp

ALL = {"wait": 0, "warmup": 0, "active": 100, "repeat": 1}


class Model(torch.nn.Module):
    """Calls ``act`` in the batch of the number ``at``; an evaluation is ``aten::cumsum``."""

    def __init__(self, at: int | None = None, act: Any = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.at, self.act, self.batches = at, act, 0

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        if not self.training:
            x = x + x.cumsum(0) * 0
        elif self.batches == self.at:
            self.act()
        self.batches += self.training
        logits = self.layer(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class Data(torch.utils.data.Dataset[Any]):
    """So many rows."""

    def __init__(self, rows: int) -> None:
        self.rows = torch.ones(rows, 4)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        return {"x": self.rows[number], "labels": torch.tensor(0)}


class Events(TrainerCallback):  # type: ignore[misc]
    """Keeps what the trainer tells, in order."""

    def __init__(self) -> None:
        self.told: list[Any] = []


keep_events(Events)


def train(*callbacks: Any, model: Model | None = None, batches: int = 8, epochs: int = 1, **options: Any) -> None:
    """Train with batches of two rows, and evaluate with two batches."""
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=2,
        per_device_eval_batch_size=2,
        num_train_epochs=epochs,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        save_strategy="no",
        logging_strategy="no",
        **options,
    )
    trainer = Trainer(
        model=model or Model(),
        args=arguments,
        train_dataset=Data(2 * batches),
        eval_dataset=Data(4),
        callbacks=[*callbacks],
    )
    trainer.train()


def recorded(**options: Any) -> dict[str, Any]:
    """Return what a callback that records every step reports."""
    callback = tp.callbacks.hf(**ALL)
    train(callback, **options)
    return described(callback.report)


def failed(act: Any, kind: type[BaseException]) -> dict[str, Any]:
    """Return what is reported of a training in whose fourth batch ``act`` is called, and what was raised."""
    callback = tp.callbacks.hf(**ALL)
    try:
        train(callback, model=Model(3, act))
    except kind as exc:
        return described(callback.report) | {"raised": str(exc)}
    raise AssertionError("nothing was raised")


def events(**options: Any) -> list[Any]:
    """Return what the trainer tells a callback."""
    kept = Events()
    train(kept, **options)
    return kept.told


def in_block() -> dict[str, Any]:
    """Return the report of a block in which the training is recorded."""
    with tp.profile() as p:
        torch.ones(4).cumsum(0)
        train(tp.callbacks.hf())
        torch.ones(4).cumsum(0)
    return described(p.report)


def tried_again() -> dict[str, Any]:
    """Return the report of a training that runs out of memory at first."""
    left = [1]

    def runs_out() -> None:
        if left and left.pop():
            raise RuntimeError("CUDA out of memory.")  # by these words it is known

    callback = tp.callbacks.hf(**ALL)
    train(callback, model=Model(3, runs_out), auto_find_batch_size=True)
    return described(callback.report)


def adaptive() -> dict[str, Any]:
    """Return the report of a training without options."""
    callback = tp.callbacks.hf()
    train(callback)
    return described(callback.report)


print(
    json.dumps(
        {
            "plain": recorded(),
            "adaptive": adaptive(),
            "accumulated": recorded(gradient_accumulation_steps=2),
            "evaluated": recorded(epochs=2, eval_strategy="steps", eval_steps=2),
            "evaluated by epoch": recorded(epochs=2, eval_strategy="epoch"),
            "evaluated on start": recorded(eval_strategy="steps", eval_steps=4, eval_on_start=True),
            "failed": failed(fails, RuntimeError),
            "interrupted": failed(lambda: os.kill(os.getpid(), signal.SIGINT), KeyboardInterrupt),
            "in a block": in_block(),
            "tried again": tried_again(),
            "events": events(batches=4, epochs=2, gradient_accumulation_steps=2, eval_strategy="steps", eval_steps=2),
            "events by epoch": events(batches=4, epochs=2, eval_strategy="epoch", eval_on_start=True),
        }
    )
)
