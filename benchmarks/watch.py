"""What ``--watch`` costs a loop: the time of its steps with and without, in turn.

    python benchmarks/watch.py [--seconds 60] [--rounds 3] [--step-ms 20] [--quick]

Each round runs the same training loop for about so long, bare and watched, in new processes, in turn the one or the
other first. ``told`` is the cost that the report tells, as a share of the loop.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from statistics import median

PROGRAM = """\
import json, sys, time, torch
import torchprof_magic as tp
torch.set_num_threads(1)
torch.manual_seed(0)
steps, step_ms, is_watched = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "watched"
model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(64, 256)
def step():
    until = time.perf_counter() + step_ms / 1000
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()
    while time.perf_counter() < until:  # as much work as makes the step so long
        data.add(1)
for _ in range(5):
    step()
if is_watched:
    began = time.perf_counter()
    with tp.profile(watch=True, **({"preset": "quick"} if sys.argv[4:] else {})) as run:
        for _ in run.steps(range(steps)):
            step()
        took = time.perf_counter() - began
    watched = run.report.trace.meta.watched
    told = watched.cost_ns * 1e-9 / took
else:
    began = time.perf_counter()
    for _ in range(steps):
        step()
    took, told = time.perf_counter() - began, 0.0
print("took:", json.dumps([took, told]))
"""


def measure(steps: int, step_ms: float, kind: str, *, is_quick: bool) -> tuple[float, float]:
    """Return the seconds of the loop, and the cost that the report tells as a share of it."""
    command = [sys.executable, "-c", PROGRAM, str(steps), str(step_ms), kind, *(["quick"] if is_quick else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    took, told = json.loads(done.stdout.split("took:")[-1])
    return took, told


def main() -> None:
    """Print the ratio of each round and their median."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step-ms", type=float, default=20)
    parser.add_argument("--quick", action="store_true", help="record times only")
    arguments = parser.parse_args()
    steps = round(arguments.seconds * 1000 / arguments.step_ms)
    ratios: list[float] = []
    for number in range(arguments.rounds):
        kinds = ("bare", "watched") if number % 2 else ("watched", "bare")
        found = {kind: measure(steps, arguments.step_ms, kind, is_quick=arguments.quick) for kind in kinds}
        ratio = found["watched"][0] / found["bare"][0]
        ratios.append(ratio)
        (bare_s, _), (watched_s, told) = found["bare"], found["watched"]
        times = f"bare {bare_s:.2f} s, watched {watched_s:.2f} s"
        print(f"{steps:,} steps: {times}, {ratio:.4f}; told {told:.2%}", flush=True)
    print(f"median {median(ratios):.4f}")


if __name__ == "__main__":
    main()
