"""How often other programs' load is called a change: ``python benchmarks/load.py [rounds] [--default]``.

Records the same program twice alone and beside one and four processes that only count, in random order, and compares
all of these runs with each other, in both orders. Then it doubles the batch, which is a change, and compares that with
the runs that were alone. Fails if a run of the same program is called slower or faster, or a doubled batch faster. One
round, the default, is 60 comparisons of five programs with themselves. With ``--default`` three steps of 60 are
recorded, as the magic does without flags.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import torch
from comparing import RECORDED, Program, Recorder, programs
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator

LOADS = (0, 0, 1, 4)
# What a comparison must not say.
WRONG = {("same", "slower"), ("same", "faster"), ("doubled", "faster")}
SETTLE_S = 0.4


def more_programs() -> dict[str, Program]:
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
    wide = [each for _ in range(4) for each in (nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256))]
    return {
        **programs(),
        "wide layers": Program(nn.Sequential(*wide, nn.Linear(256, 10)), torch.randn(64, 256)),
        "transformer": Program(nn.Sequential(layer, nn.Flatten(), nn.Linear(128 * 32, 10)), torch.randn(8, 32, 128)),
    }


@contextlib.contextmanager
def load(processes: int) -> Iterator[None]:
    """Let some processes count meanwhile."""
    running = [subprocess.Popen([sys.executable, "-c", "while 1: pass"]) for _ in range(processes)]
    try:
        time.sleep(SETTLE_S if running else 0)
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def main(rounds: int, flags: str) -> int:
    """Return how many comparisons were wrong."""
    wrong = 0
    for name, program in more_programs().items():
        recorder = Recorder(program, flags)
        recorder.record(1)  # what is done once
        doubled = Recorder(Program(program.model, torch.cat([program.x, program.x])), flags)
        kinds: collections.Counter[tuple[str, str]] = collections.Counter()
        for number in range(rounds):
            runs = []
            for processes in random.Random(number).sample(LOADS, len(LOADS)):  # noqa: S311 - an order, no secret
                with load(processes):
                    runs.append((processes, recorder.record(1)))
            for (_, first), (_, second) in itertools.permutations(runs, 2):
                kinds["same", second.compare(first).kind] += 1
            twice = doubled.record(1)
            for processes, run in runs:
                kinds["doubled", twice.compare(run).kind] += processes == 0
        print(f"{name}: {dict(kinds)}; load {os.getloadavg()[0]:.1f}", flush=True)
        wrong += sum(count for kind, count in kinds.items() if kind in WRONG)
    return wrong


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:] if text.isdecimal()]
    found = main(*(numbers or [1]), "" if "--default" in sys.argv else RECORDED)
    sys.exit(f"{found} comparisons are wrong" if found else 0)
