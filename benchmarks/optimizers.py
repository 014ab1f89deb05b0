"""What a fused optimizer saves, beside what the advice says: several classes, settings and sizes of parameters.

    python benchmarks/optimizers.py [--threads 1]

Each optimizer is recorded once. Then both ways run in turns without the profiler. With one thread its CPU time is
measured, which other programs do not make longer, with more of them wall time. Printed are medians of a step.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch

import torchprof_magic as tp
from torchprof_magic.model.units import format_ns

SETTINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.01}),
    ("Adam", {}),
    ("AdamW", {"amsgrad": True}),
    ("Adagrad", {}),
)
# The number of layers, and the width of each.
SIZES = ((1, 32), (24, 64), (24, 256), (2, 1500))
ROUNDS = 40


def optimizer_of(name: str, layers: int, width: int, **settings: Any) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Return a model of linear layers and its optimizer."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
    return model, getattr(torch.optim, name)(model.parameters(), lr=1e-4, **settings)


def said(name: str, layers: int, width: int, settings: dict[str, Any]) -> float | None:
    """Return what the advice says that a step saves, in ns; None if it says nothing."""
    model, optimizer = optimizer_of(name, layers, width, foreach=False, **settings)
    x = torch.randn(4, width)
    with tp.profile(record_shapes=True, schedule=torch.profiler.schedule(wait=4, warmup=1, active=5)) as run:
        for _ in tp.steps(range(12)):
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert run.report is not None
    found = [each.saving_ns for each in run.report.advice if each.rule == "single_tensor_optimizer"]
    return found[0] if found else None


def measured(name: str, layers: int, width: int, settings: dict[str, Any]) -> tuple[float, float]:
    """Return how long a step takes with single ops and fused, in ns."""
    clock = time.thread_time_ns if torch.get_num_threads() == 1 else time.perf_counter_ns
    steps = []
    for way in ({"foreach": False}, {"fused": True}):
        model, optimizer = optimizer_of(name, layers, width, **way, **settings)
        model(torch.randn(4, width)).sum().backward()
        steps.append(optimizer.step)
    times: tuple[list[int], list[int]] = ([], [])
    for _ in range(ROUNDS):
        for step, taken in zip(steps, times, strict=True):
            began = clock()
            step()
            taken.append(clock() - began)
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    print(f"{'single':>10} {'fused':>10} {'saved':>10} {'said':>10}  optimizer")
    for name, settings in SETTINGS:
        for layers, width in SIZES:
            single, fused = measured(name, layers, width, settings)
            words = said(name, layers, width, settings)
            texts = [format_ns(single), format_ns(fused), format_ns(single - fused), format_ns(words) if words else "-"]
            kind = f"{name} {' '.join(settings)}".strip()
            print(*(f"{text:>10}" for text in texts), f" {kind}, {layers} x {width}", flush=True)


if __name__ == "__main__":
    main()
