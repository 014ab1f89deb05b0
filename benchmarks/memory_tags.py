"""What ``--memory`` costs beside torch's ``profile_memory=True``: steps with and without tags of memory, in turns.

For models of about 10 ms per step. ``in hooks`` is the CPU time that the tags themselves take in a step, the median
over the steps; ``ratio`` compares whole steps, as the median over rounds of two runs that follow each other.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from statistics import median
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING

import torch
from torch import nn

from torchprof_magic.capture.parts import Parts
from torchprof_magic.capture.watch.memory_tags import MemoryTags
from torchprof_magic.capture.watch.modules import ModuleMarks

if TYPE_CHECKING:
    from collections.abc import Callable

# Width of the layers, number of layers, and rows of a batch.
MODELS = {"6 parameters": (256, 3, 256), "40 parameters": (128, 20, 128), "500 parameters": (32, 250, 8)}
STEPS = 20


class TimedTags(MemoryTags):
    """Tags that note how long they take."""

    def __init__(self) -> None:
        super().__init__(Parts())
        self.spent_ns = 0

    def _guarded(self, note: Callable[..., None], *arguments: object) -> None:
        began = thread_time_ns()
        super()._guarded(note, *arguments)
        self.spent_ns += thread_time_ns() - began


def run(
    model: nn.Module, optimizer: torch.optim.Optimizer, shape: tuple[int, int], tags: TimedTags | None
) -> list[int]:
    """Return the duration of each step in ns, recorded by torch with or without tags."""
    found, spent = [], []
    with ExitStack() as stack:
        if tags is not None:
            stack.callback(tags.watch())
            stack.callback(ModuleMarks(asked=False, tags=tags, parts=Parts()).watch())
            tags.begin_cycle()
            tags.switch(is_on=True)
        activities = [torch.profiler.ProfilerActivity.CPU]
        stack.enter_context(torch.profiler.profile(activities=activities, profile_memory=True))
        for _ in range(STEPS):
            began, before = perf_counter_ns(), tags.spent_ns if tags else 0
            model(torch.randn(shape)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(perf_counter_ns() - began)
            spent.append((tags.spent_ns if tags else 0) - before)
    if tags is not None:
        tags.spent_ns = int(median(spent))
    return found


def measure(name: str, rounds: int) -> None:
    """Print the costs for one model."""
    width, depth, rows = MODELS[name]
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))
    optimizer = torch.optim.Adam(model.parameters())
    run(model, optimizer, (rows, width), None)
    ratios, hooks, steps = [], [], []
    for number in range(rounds):
        tags = TimedTags()
        order = (None, tags) if number % 2 else (tags, None)
        times = {one: median(run(model, optimizer, (rows, width), one)) for one in order}
        ratios.append(times[tags] / times[None])
        hooks.append(tags.spent_ns)
        steps.append(times[None])
    step, hook = median(steps), median(hooks)
    print(f"{name:16s} step {step / 1e6:6.2f} ms   in hooks {hook / 1e3:6.1f} us = {hook / step:.2%}   "
          f"ratio {median(ratios):.3f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    for name in MODELS:
        measure(name, rounds)


if __name__ == "__main__":
    main()
