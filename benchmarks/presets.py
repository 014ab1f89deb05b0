"""What does each preset cost while steps are recorded? Time added to an op, and to a training step.

Each round runs every preset once, in turn, beside the same work without a profiler; the least of all rounds is taken,
because everything else that runs on a machine only ever adds.
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import TYPE_CHECKING

import torch

from torchprof_magic.capture import CaptureSession
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import PRESETS, ProfileOptions, preset_switches

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[], int]

OPS = 2_000


def small_ops() -> int:
    """Run ops that take a microsecond each, called from one Python function, and return how many."""
    x = torch.ones(4)
    for _ in range(OPS):
        x.add_(1)
    return OPS


def make_step(width: int, depth: int) -> Work:
    """Return a training step of a perceptron."""
    model = torch.nn.Sequential(
        *itertools.chain(*((torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(depth)))
    )
    optimizer = torch.optim.Adam(model.parameters())
    batch = torch.randn(64, width)

    def step() -> int:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        return 1

    return step


def seconds(work: Work) -> float:
    """Return how long the work takes, an op or a step."""
    began = time.perf_counter()
    count = work()
    return (time.perf_counter() - began) / count


def recorded_seconds(work: Work, preset: str) -> float:
    """Return the same while it is recorded."""
    session = CaptureSession(ProfileOptions(**preset_switches(preset)), stepping=Stepping(how="cell"))
    session.start()
    try:
        return seconds(work)
    finally:
        session.discard()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    works = {
        "op of 1 us": small_ops,
        "step, width 64": make_step(64, 8),
        "step, width 1024": make_step(1024, 4),
    }
    for name, work in works.items():
        work()
        plain, recorded = [], {preset: [] for preset in PRESETS}
        for _ in range(rounds):
            plain.append(seconds(work))
            for preset, found in recorded.items():
                found.append(recorded_seconds(work, preset))
        least = min(plain)
        print(f"{name}: {least * 1e6:,.2f} us without profiler")
        for preset, found in recorded.items():
            more_us = (min(found) - least) * 1e6
            print(f"  {preset:<8} {min(found) / least:5.2f}x   {more_us:+,.2f} us")


if __name__ == "__main__":
    main()
