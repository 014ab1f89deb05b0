"""How much longer are steps in the first of two passes, and in the second, than steps without a profiler?

    python benchmarks/two_pass.py [--rounds 12] [--steps 10]

All three run in every round of one process, in another order each time, so that a busy machine hurts them alike.
Printed: the median step of each over all rounds, and its ratio to the median without profiler.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from statistics import median
from typing import TYPE_CHECKING

import torch
import torch._inductor.config  # torch imports it at the first prepare; not to be charged to whoever comes first

from torchprof_magic.capture import CaptureSession
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions, ScheduleOptions

if TYPE_CHECKING:
    from collections.abc import Callable

UNSEEN = 2  # steps before those that count: one with the profiler warming up, one recorded


def make_step(width: int, depth: int) -> Callable[[], None]:
    """Return a training step of a perceptron."""
    layers = ((torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(depth))
    model = torch.nn.Sequential(*itertools.chain(*layers))
    optimizer = torch.optim.Adam(model.parameters())
    batch = torch.randn(64, width)

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def step_seconds(step: Callable[[], None], steps: int, options: ProfileOptions | None) -> list[float]:
    """Return how long each step takes, recorded if there are options."""
    session = None if options is None else CaptureSession(options, stepping=Stepping(how="manual"))
    found = []
    if session is not None:
        session.start()
    try:
        for _ in range(steps + UNSEEN):
            began = time.perf_counter()
            step()
            found.append(time.perf_counter() - began)
            if session is not None:
                session.step()
    finally:
        if session is not None:
            session.discard()
    return found[UNSEEN:]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    schedule = ScheduleOptions(warmup=1, active=args.steps + 1)
    two = ProfileOptions(schedule=schedule, two_pass=True, record_shapes=True, profile_memory=True, with_stack=True)
    times, details = two.passes
    kinds = {"without profiler": None, "first pass: times": times, "second pass: details": details}
    order = random.Random(0)  # noqa: S311 - no secret
    for name, step in {"width 64": make_step(64, 8), "width 1024": make_step(1024, 4)}.items():
        step()
        found: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(args.rounds):
            for kind in order.sample(list(kinds), len(kinds)):
                found[kind] += step_seconds(step, args.steps, kinds[kind])
        plain = median(found["without profiler"])
        print(f"step of a perceptron, {name}, {args.rounds * args.steps} steps each")
        for kind, seconds in found.items():
            print(f"  {kind:<22} {median(seconds) * 1e6:10,.0f} us   {median(seconds) / plain:5.2f}x")


if __name__ == "__main__":
    main()
