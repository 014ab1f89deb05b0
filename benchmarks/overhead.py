"""Cost of this project's session over bare torch.profiler with the same schedule and flags.

    python benchmarks/overhead.py [--pairs 10] [--runs 5] [--steps 40] [--width 128] [--preset quick memory full]
                                  [--schedule 2 2 6 2]

Both profile the same training loop of a small transformer and export one trace per cycle. Each has processes of its
own, ours and torch's in turn: in one process, what either leaves in the heap makes the other's training up to 4 %
slower or faster. Without ``--schedule`` (idle, warm-up and recorded steps, and cycles) it is the one that such a loop
gets by itself. Both keep the events until the run is over: where they are freed early, later steps can be slower.

What counts is what the user's code waits for; the report is made after that. Our session checks every byte of each file
that it saves, which takes 0.5 us an event; torch does not.

The default is the worst case, ops that take no longer than it takes to record them: 17 ms per step on two cores. One of
``--width 256`` takes some 50 ms for as many events.

Printed for each preset: the ratio of wall time (budget 1.03), and the same ratio made of the time inside the calls of
either, as if the training had taken the same time, both with the interval that holds 95 % of what other draws of the
same processes would have given; one process differs from the next by 3 %, so that a half per cent takes 60 pairs. Last
is the time of our ``step()`` beyond torch's on steps without a transition (budget 20 us).
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch._inductor.config  # torch imports it at the first prepare; not to be charged to whoever comes first

from torchprof_magic.capture import CaptureSession, resolve_schedule
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import PRESETS, ProfileOptions, ScheduleOptions, preset_switches

if TYPE_CHECKING:
    from collections.abc import Callable

HEADS, LAYERS, BATCH, LENGTH = 4, 3, 8, 64
# The least batch of all rounds counts: the others show what else the machine did.
STEP_ROUNDS, STEP_BATCHES, STEPS_A_BATCH = 5, 8, 500
BUDGET_RATIO, BUDGET_STEP_US = 1.03, 20.0
DRAWS = 2_000
PIECES, LARGEST_PIECE_BYTES = 200, 1 << 20


class Training:
    """A small transformer encoder, its optimizer and one fixed batch."""

    def __init__(self, width: int) -> None:
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(width, HEADS, 4 * width, dropout=0.0, batch_first=True)
        self.model = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(BATCH, LENGTH, width)

    def step(self) -> None:
        """Train on the batch once."""
        self.optimizer.zero_grad()
        self.model(self.batch).square().mean().backward()
        self.optimizer.step()


class Stopwatch:
    """Adds up the seconds of its with-blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._begin = 0.0

    def __enter__(self) -> None:
        self._begin = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._begin


@dataclass(frozen=True)
class Plan:
    """What is trained, and what is recorded of it."""

    wait: int
    warmup: int
    active: int
    repeat: int
    steps: int
    width: int
    preset: str

    @property
    def flags(self) -> dict[str, bool]:
        """What the preset switches on, as either names it."""
        return preset_switches(self.preset)

    @property
    def schedule(self) -> dict[str, int]:
        """The schedule, as either names it."""
        return {"wait": self.wait, "warmup": self.warmup, "active": self.active, "repeat": self.repeat}

    @property
    def options(self) -> ProfileOptions:
        """What our session is given."""
        return ProfileOptions(schedule=ScheduleOptions(**self.schedule), activities=("cpu",), **self.flags)


class Times(NamedTuple):
    """Seconds of a run, and how many of them were inside the profiler's calls."""

    wall: float
    calls: float

    @property
    def between(self) -> float:
        """Seconds of training."""
        return self.wall - self.calls


def run_ours(training: Training, plan: Plan, folder: Path) -> float:
    """Train under our session; return the seconds inside its calls."""
    calls = Stopwatch()
    options = plan.options
    with calls:
        session = CaptureSession(options, stepping=Stepping(how="loop"), folder=folder)
    try:
        with calls:
            session.start()
        for _ in range(plan.steps):
            training.step()
            with calls:
                session.step()
    finally:
        with calls:
            session.stop(is_held=True)
    with calls:
        session.release()
    return calls.seconds


def run_bare(training: Training, plan: Plan, folder: Path) -> float:
    """Train under torch's profiler; return the seconds inside its calls."""
    calls = Stopwatch()

    def save(profiler: torch.profiler.profile) -> None:
        profiler.export_chrome_trace(str(folder / f"{profiler.step_num}.json"))

    schedule = torch.profiler.schedule(**plan.schedule)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with calls:
        profiler = torch.profiler.profile(activities=activities, schedule=schedule, on_trace_ready=save, **plan.flags)
        profiler.__enter__()  # not start(), after which torch counts steps for ever, and looking for others takes long
    for _ in range(plan.steps):
        training.step()
        with calls:
            profiler.step()
    with calls:
        profiler.__exit__(None, None, None)
        # torch frees the events of a cycle when the next begins; after the last it leaves them to the garbage
        # collector, whose time would be nobody's here. Of ours none are left either.
        profiler.profiler = None
    return calls.seconds


def time_once(run: Callable[..., float], training: Training, plan: Plan) -> Times:
    """Time one run; its folder is made and removed apart."""
    folder = Path(tempfile.mkdtemp(prefix="torchprof-overhead-"))
    try:
        gc.collect()  # torch's profiler is in a cycle of references; its many events must not go in another's time
        begin = time.perf_counter()
        inside = run(training, plan, folder)
        return Times(time.perf_counter() - begin, inside)
    finally:
        shutil.rmtree(folder)


WAYS = {"ours": run_ours, "bare": run_bare}


def time_in_process(way: str, plan: Plan, runs: int) -> Times:
    """Return the median of some runs in a new process, after one that is not counted."""
    command = [sys.executable, __file__, "--worker", way, "--preset", plan.preset, "--runs", str(runs)]
    command += ["--steps", str(plan.steps), "--width", str(plan.width), "--schedule", *map(str, plan.schedule.values())]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    walls, calls = zip(*json.loads(answer.stdout), strict=True)
    return Times(statistics.median(walls), statistics.median(calls))


def take_memory_by_chance() -> list[bytearray]:
    """Take memory in pieces, and give some of it back, so that no two processes have their tensors in the same places.

    Where these lie can make training slower or faster, in the same way in every process that does the same, and would
    be taken for what the profiler costs.
    """
    chance = random.Random()  # noqa: S311 - places, not secrets
    pieces = [bytearray(chance.randrange(1, LARGEST_PIECE_BYTES)) for _ in range(PIECES)]
    return chance.sample(pieces, k=chance.randrange(PIECES))


def work(way: str, plan: Plan, runs: int) -> None:
    """Time runs in this process, and print them for the process that began it."""
    taken = take_memory_by_chance()
    training = Training(plan.width)
    times = [time_once(WAYS[way], training, plan) for _ in range(1 + runs)]
    print(json.dumps(times[1:]))
    del taken


def measure_pairs(count: int, plan: Plan, runs: int) -> list[tuple[Times, Times]]:
    """Return the times of processes with us and with torch, which follow each other in an order by chance."""
    chance = random.Random(0)  # noqa: S311 - an order, not a secret
    pairs = []
    for _ in range(count):
        times = {way: time_in_process(way, plan, runs) for way in chance.sample(list(WAYS), k=len(WAYS))}
        pairs.append((times["ours"], times["bare"]))
    return pairs


def ratio_of_walls(pairs: list[tuple[Times, Times]]) -> float:
    """Return the ratio of the wall times' means."""
    return sum(ours.wall for ours, _ in pairs) / sum(bare.wall for _, bare in pairs)


def ratio_by_calls(pairs: list[tuple[Times, Times]]) -> float:
    """Return the ratio when either trains for the mean of both: only the time inside the calls differs."""
    between = sum(ours.between + bare.between for ours, bare in pairs) / 2
    return (between + sum(ours.calls for ours, _ in pairs)) / (between + sum(bare.calls for _, bare in pairs))


def interval(
    pairs: list[tuple[Times, Times]], ratio: Callable[[list[tuple[Times, Times]]], float]
) -> tuple[float, float]:
    """Return between what 95 % of the ratios of pairs drawn from these lie (the bootstrap's percentile interval)."""
    chance = random.Random(0)  # noqa: S311 - a sample, not a secret
    drawn = statistics.quantiles((ratio(chance.choices(pairs, k=len(pairs))) for _ in range(DRAWS)), n=40)
    return drawn[0], drawn[-1]


def measure_step_us() -> dict[str, float]:
    """Return the time of one empty step in us, in each phase, for us and for torch: the least of alternating runs."""
    result: dict[str, float] = {}
    for _ in range(STEP_ROUNDS):
        for phase, wait, active in (("wait", 10**9, 1), ("active", 0, 10**9)):
            for name, measure in (("ours", _our_step_us), ("bare", _bare_step_us)):
                key = f"{name} {phase}"
                result[key] = min(result.get(key, float("inf")), measure(wait, active))
    result["ours done"] = _done_step_us()
    return result


def _our_step_us(wait: int, active: int) -> float:
    folder = Path(tempfile.mkdtemp(prefix="torchprof-overhead-"))
    options = ProfileOptions(schedule=ScheduleOptions(wait=wait, warmup=0, active=active), activities=("cpu",))
    session = CaptureSession(options, stepping=Stepping(how="manual"), folder=folder)
    session.start()
    step_us = _per_step_us(session.step)
    session.stop()
    session.recording = None
    shutil.rmtree(folder)
    return step_us


def _bare_step_us(wait: int, active: int) -> float:
    schedule = torch.profiler.schedule(wait=wait, warmup=0, active=active)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule) as profiler:
        return _per_step_us(profiler.step)


def _done_step_us() -> float:
    folder = Path(tempfile.mkdtemp(prefix="torchprof-overhead-"))
    options = ProfileOptions(schedule=ScheduleOptions(wait=0, warmup=0, active=1, repeat=1), activities=("cpu",))
    session = CaptureSession(options, stepping=Stepping(how="manual"), folder=folder)
    session.start()
    session.step()
    after_last = _per_step_us(session.step)
    session.stop()
    shutil.rmtree(folder)
    return after_last


def _per_step_us(step: Callable[[], None]) -> float:
    least_s = float("inf")
    for _ in range(STEP_BATCHES):
        begin = time.perf_counter()
        for _ in range(STEPS_A_BATCH):
            step()
        least_s = min(least_s, time.perf_counter() - begin)
    return least_s / STEPS_A_BATCH * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10, help="of processes, for each preset")
    parser.add_argument("--runs", type=int, default=5, help="in each process")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument(
        "--width", type=int, default=128, help="of the transformer: the ops take longer, and are as many"
    )
    parser.add_argument("--preset", nargs="+", default=list(PRESETS), choices=list(PRESETS))
    parser.add_argument("--schedule", nargs=4, type=int, metavar=("WAIT", "WARMUP", "ACTIVE", "REPEAT"))
    parser.add_argument("--worker", choices=list(WAYS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    own = resolve_schedule(ScheduleOptions(), how="loop", length=arguments.steps)
    numbers = arguments.schedule or (own.wait, own.warmup, own.active, own.repeat)
    plans = [Plan(*numbers, steps=arguments.steps, width=arguments.width, preset=preset) for preset in arguments.preset]
    if arguments.worker:
        work(arguments.worker, *plans, arguments.runs)
        return 0
    ratios = [report_pairs(plan.preset, measure_pairs(arguments.pairs, plan, arguments.runs)) for plan in plans]
    beyond_us = report_steps()
    return 0 if max(ratios) <= BUDGET_RATIO and beyond_us <= BUDGET_STEP_US else 1


def report_pairs(preset: str, pairs: list[tuple[Times, Times]]) -> float:
    """Print what the processes took; return the ratio of wall times."""
    print(f"-- {preset}, {len(pairs)} pairs of processes")
    for name, times in zip(WAYS, zip(*pairs, strict=True), strict=True):
        inside, between = (
            statistics.mean(values) for values in zip(*((t.calls, t.between) for t in times), strict=True)
        )
        print(f"{name}: {(inside + between) * 1e3:.1f} ms, {inside * 1e3:.1f} ms of it inside the calls")
    for name, ratio in (("wall", ratio_of_walls), ("by the calls", ratio_by_calls)):
        low, high = interval(pairs, ratio)
        print(f"ratio, {name}: {ratio(pairs):.4f} ({low:.4f} to {high:.4f}; budget {BUDGET_RATIO})", flush=True)
    return ratio_of_walls(pairs)


def report_steps() -> float:
    """Print what a step takes; return by how much ours takes longer, in us."""
    steps_us = measure_step_us()
    print("us per step:", {name: round(value, 2) for name, value in steps_us.items()})
    beyond_us = max(steps_us[f"ours {phase}"] - steps_us[f"bare {phase}"] for phase in ("wait", "active"))
    print(f"step() beyond torch's: {beyond_us:.2f} us (budget {BUDGET_STEP_US})")
    return beyond_us


if __name__ == "__main__":
    sys.exit(main())
