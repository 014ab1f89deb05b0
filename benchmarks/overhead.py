"""What does this project's session cost over bare torch.profiler with the same schedule and flags?

    python benchmarks/overhead.py [--repetitions 15] [--steps 40] [--preset quick memory full] [--schedule 2 2 6 2]

Both profile the same training loop of a small transformer and export one trace per cycle; they alternate in one
process, so that a busy machine hurts both, and both free what they made. Without ``--schedule`` (idle, warm-up and
recorded steps, and cycles) it is the one that such a loop gets by itself. Each file is checked once before torch's
events are freed, so the ratio grows with what is recorded.

Printed: the median ratio of wall time, which is as noisy as the training; the same ratio made of the time inside the
calls of either, as if the training of each pair of runs had taken the same time; that ratio of the least times (budget
1.02), for a busy machine makes calls up to twice as long, for seconds or minutes; and the time of our ``step()`` beyond
torch's on steps without a transition (budget 20 us).
"""

from __future__ import annotations

import argparse
import gc
import random
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch._inductor.config  # torch imports it at the first prepare; not to be charged to whoever comes first

from torchprof_magic.capture import CaptureSession, resolve_schedule
from torchprof_magic.meta import Stepping
from torchprof_magic.options import PRESETS, ProfileOptions, ScheduleOptions, preset_switches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WIDTH, HEADS, LAYERS, BATCH, LENGTH = 128, 4, 3, 8, 64
# The least batch of all rounds counts: the others show what else the machine did.
STEP_ROUNDS, STEP_BATCHES, STEPS_A_BATCH = 5, 8, 500
BUDGET_RATIO, BUDGET_STEP_US = 1.02, 20.0


class Training:
    """A small transformer encoder, its optimizer and one fixed batch."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.model = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(BATCH, LENGTH, WIDTH)

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
    """What is recorded of how many steps."""

    wait: int
    warmup: int
    active: int
    repeat: int
    steps: int
    flags: dict[str, bool]

    @property
    def schedule(self) -> dict[str, int]:
        """The schedule, as either names it."""
        return {"wait": self.wait, "warmup": self.warmup, "active": self.active, "repeat": self.repeat}


def run_ours(training: Training, plan: Plan, folder: Path) -> float:
    """Train under our session; return the seconds inside its calls."""
    calls = Stopwatch()
    options = ProfileOptions(schedule=ScheduleOptions(**plan.schedule), activities=("cpu",), **plan.flags)
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
            session.stop()
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


def run_nothing(training: Training, plan: Plan, _folder: Path) -> float:
    for _ in range(plan.steps):
        training.step()
    return 0.0


def time_once(run: Callable[..., float], training: Training, plan: Plan) -> tuple[float, float]:
    """Return the wall time of one run, and that inside its calls, in seconds; its folder is made and removed apart."""
    folder = Path(tempfile.mkdtemp(prefix="torchprof-overhead-"))
    try:
        gc.collect()  # torch's profiler is in a cycle of references; its many events must not go in another's time
        begin = time.perf_counter()
        inside = run(training, plan, folder)
        return time.perf_counter() - begin, inside
    finally:
        shutil.rmtree(folder)


def measure_runs(repetitions: int, training: Training, plan: Plan) -> dict[str, list[tuple[float, float]]]:
    """Time every way of running, in a new random order each time."""
    chance = random.Random(0)  # noqa: S311 - an order, not a secret
    ways = {"ours": run_ours, "bare": run_bare, "none": run_nothing}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for run in ways.values():
        time_once(run, training, plan)
    for _ in range(repetitions):
        for name, run in chance.sample(list(ways.items()), k=len(ways)):
            times[name].append(time_once(run, training, plan))
    return times


def ratios_by_calls(ours: list[tuple[float, float]], bare: list[tuple[float, float]]) -> Iterator[float]:
    """Yield the ratio of each pair of runs as if both had trained in the same time: what differs there is the machine.

    The runs of a pair follow each other, for a busy machine slows the calls too, for minutes.
    """
    for (our_wall, our_calls), (bare_wall, bare_calls) in zip(ours, bare, strict=True):
        between = (our_wall - our_calls + bare_wall - bare_calls) / 2
        yield (between + our_calls) / (between + bare_calls)


def least_ratio_by_calls(ours: list[tuple[float, float]], bare: list[tuple[float, float]]) -> float:
    """Return the ratio when the training and the calls of either take the least time that any run took for them."""
    between = min(wall - calls for wall, calls in ours + bare)
    return (between + min(calls for _, calls in ours)) / (between + min(calls for _, calls in bare))


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
    options = ProfileOptions(schedule=ScheduleOptions(wait=0, warmup=0, active=1), activities=("cpu",))
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
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--preset", nargs="+", default=list(PRESETS), choices=list(PRESETS))
    parser.add_argument("--schedule", nargs=4, type=int, metavar=("WAIT", "WARMUP", "ACTIVE", "REPEAT"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    training = Training()
    own = resolve_schedule(ScheduleOptions(), how="loop", length=arguments.steps)
    numbers = arguments.schedule or (own.wait, own.warmup, own.active, own.repeat)
    ratios = []
    for preset in arguments.preset:
        plan = Plan(*numbers, steps=arguments.steps, flags=preset_switches(preset))
        print(f"-- {preset}")
        ratios.append(report_ratios(measure_runs(arguments.repetitions, training, plan)))
    beyond_us = report_steps()
    return 0 if max(ratios) <= BUDGET_RATIO and beyond_us <= BUDGET_STEP_US else 1


def report_ratios(times: dict[str, list[tuple[float, float]]]) -> float:
    """Print what the runs took; return the ratio of the least times."""
    walls = {name: [wall for wall, _ in values] for name, values in times.items()}
    inside = {name: statistics.median(calls for _, calls in values) for name, values in times.items()}
    for name, values in walls.items():
        spread = f"median {statistics.median(values) * 1e3:.1f} ms, least {min(values) * 1e3:.1f} ms"
        between = [wall - calls for wall, calls in times[name]]  # what a profiler slows down in the training shows here
        training = f"training between {statistics.median(between) * 1e3:.1f} ms, least {min(between) * 1e3:.1f} ms"
        print(f"{name}: {spread}, inside the calls {inside[name] * 1e3:.1f} ms, {training}")
    quartiles = statistics.quantiles(
        (ours / bare for ours, bare in zip(walls["ours"], walls["bare"], strict=True)), n=4
    )
    whole = statistics.median(walls["ours"]) / statistics.median(walls["bare"])
    print(f"ratio of medians {whole:.4f}; paired ratios {quartiles[0]:.4f} {quartiles[1]:.4f} {quartiles[2]:.4f}")
    low, middle, high = statistics.quantiles(ratios_by_calls(times["ours"], times["bare"]), n=4)
    print(f"ratio by the calls, paired: {middle:.4f}, quartiles {low:.4f} {high:.4f}")
    least = least_ratio_by_calls(times["ours"], times["bare"])
    print(f"ratio by the calls, least: {least:.4f} (budget {BUDGET_RATIO})")
    return least


def report_steps() -> float:
    """Print what a step takes; return by how much ours takes longer, in us."""
    steps_us = measure_step_us()
    print("us per step:", {name: round(value, 2) for name, value in steps_us.items()})
    beyond_us = max(steps_us[f"ours {phase}"] - steps_us[f"bare {phase}"] for phase in ("wait", "active"))
    print(f"step() beyond torch's: {beyond_us:.2f} us (budget {BUDGET_STEP_US})")
    return beyond_us


if __name__ == "__main__":
    sys.exit(main())
