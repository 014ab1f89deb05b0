"""Runs a loop with the real ``Accelerator``, and prints as JSON what was recorded."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from accelerate import Accelerator
from made_trainers import described, fails

import torchprof_magic as tp


def run(handler: Any, *, fails_at: int | None = None, steps: bool = True) -> Any:
    """Train as the documentation of Accelerate does, and return what the block got."""
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Linear(4, 2)
    rows: Any = torch.ones(16, 4)
    parts = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.1), torch.utils.data.DataLoader(rows, batch_size=2)
    )
    model, optimizer, loader = parts
    with accelerator.profile(handler) as p:
        for number, batch in enumerate(loader):
            if number == fails_at:
                fails()
            accelerator.backward(model(batch).sum())
            optimizer.step()
            optimizer.zero_grad()
            if steps:
                p.step()
    return p


def scheduled() -> dict[str, Any]:
    handler = tp.callbacks.accelerate(wait=1, warmup=1, active=3, repeat=1)
    run(handler)
    return described(handler.report)


def whole() -> dict[str, Any]:
    handler = tp.callbacks.accelerate()
    p = run(handler, steps=False)
    assert p.report is handler.report
    return described(handler.report)


def failed() -> dict[str, Any]:
    handler = tp.callbacks.accelerate(wait=0, warmup=0, active=100)
    try:
        run(handler, fails_at=3)
    except RuntimeError as exc:
        return described(handler.report) | {"raised": str(exc)}
    raise AssertionError("nothing was raised")


print(json.dumps({"scheduled": scheduled(), "whole": whole(), "failed": failed()}))
