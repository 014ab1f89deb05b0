"""What it costs to note the live storages before and after a recording, beside torch's start and stop of it.

``begin`` and ``end`` are the median times in ms for a process with so many objects; ``ratio`` is their sum by the time
that torch takes to start, to record 5 steps of the model, and to stop. Nothing of it lies within a recorded step.
"""

from __future__ import annotations

import gc
from statistics import median
from time import perf_counter

import torch
from torch import nn

from torchprof_magic.capture.watch.live_storages import LiveStorages

ROUNDS = 7
STEPS = 5
LAYERS = (3, 50, 500)


def main() -> None:
    """Print one line per size of the model."""
    for layers in LAYERS:
        model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(layers)))
        optimizer = torch.optim.Adam(model.parameters())
        times = [round_of(model, optimizer) for _ in range(ROUNDS)]
        begin, end, recorded = (median(each) for each in zip(*times, strict=True))
        print(
            f"{2 * layers:5} parameters, {len(gc.get_objects()):,} objects: begin {begin * 1e3:.0f} ms, "
            f"end {end * 1e3:.0f} ms, ratio {(begin + end) / recorded:.2f}"
        )


def round_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[float, float, float]:
    """Return the seconds of the look before, of that after, and of the recording between them."""
    storages = LiveStorages()
    marks = [perf_counter()]
    storages.begin_cycle()
    marks.append(perf_counter())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True):
        for _ in range(STEPS):
            model(torch.randn(32, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    marks.append(perf_counter())
    storages.take()
    marks.append(perf_counter())
    return marks[1] - marks[0], marks[3] - marks[2], marks[2] - marks[1]


if __name__ == "__main__":
    main()
