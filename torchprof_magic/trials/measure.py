"""Runs both ways of a trial in turns, within a time limit, and leaves the state of torch as it was."""

from __future__ import annotations

import statistics
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch

from torchprof_magic.trials.replay import CannotReplayError
from torchprof_magic.trials.ways import ways_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.findings.advice.trial_plan import TrialPlan
    from torchprof_magic.trials.replay import Work

    # How often a step does it, and both ways of it.
    Works = list[tuple[float, Work, Work]]

MOST_ROUNDS = 50
LEAST_ROUNDS = 3


class Tried(NamedTuple):
    """What a step spends on the calls of a trial as it is and after the change, in ns, and how often it was measured.

    They are medians of several rounds. ``recorded_ns`` is what these calls took per step in the recording, 0 if that is
    not known, and ``left_out`` says of each op that could not be run again why.
    """

    before_ns: float
    after_ns: float
    rounds: int
    recorded_ns: float = 0.0
    left_out: tuple[str, ...] = ()


def run_trial(plan: TrialPlan, seconds: float) -> Tried:
    """Measure both ways for about so many seconds. An interrupt ends it; threads and random numbers stay as they were.

    Raises ``ValueError`` if the recording is of a device that this machine lacks, or if no op can be run again.
    """
    if plan.on_device and not torch.cuda.is_available():
        raise ValueError("the recording is of a device that this machine lacks")
    device = torch.device("cuda" if plan.on_device else "cpu")
    with _unchanged_state(device):
        torch.set_num_threads(plan.threads or torch.get_num_threads())
        works, left_out, recorded_ns = _works(plan, device)
        deadline = time.perf_counter() + seconds
        rounds: list[tuple[float, float]] = []
        while not _is_done(rounds, deadline):
            rounds.append(_round(works, device))
    before, after = (statistics.median(side) for side in zip(*rounds[1:], strict=True))
    return Tried(before, after, len(rounds) - 1, recorded_ns, left_out)


def _works(plan: TrialPlan, device: torch.device) -> tuple[Works, tuple[str, ...], float]:
    """Return both ways of each call, why others are left out, and how long the first took in the recording, in ns."""
    works: Works = []
    left_out: dict[str, None] = {}
    recorded_ns = 0.0
    for call in plan.calls:
        try:
            works.append((call.each_step, *ways_of(plan, call, device)))
            recorded_ns += call.ns
        except CannotReplayError as exc:
            left_out[f"`{call.op}`: {exc}"] = None
    if not works:
        raise ValueError(f"none of the ops can be run again ({'; '.join(left_out)})")
    return works, tuple(left_out), recorded_ns


def _is_done(rounds: list[tuple[float, float]], deadline: float) -> bool:
    """Return whether there are enough rounds after the first, which warms up."""
    if len(rounds) > MOST_ROUNDS:
        return True
    return len(rounds) > LEAST_ROUNDS and time.perf_counter() > deadline


def _round(works: list[tuple[float, Work, Work]], device: torch.device) -> tuple[float, float]:
    before = sum(count * _ns(first, device) for count, first, _ in works)
    return before, sum(count * _ns(second, device) for count, _, second in works)


def _ns(work: Work, device: torch.device) -> float:
    work.prepare()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    began = time.perf_counter_ns()
    work.run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter_ns() - began


@contextmanager
def _unchanged_state(device: torch.device) -> Iterator[None]:
    """Restore the number of threads, whether gradients are made, and random numbers, which dropout takes."""
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng([torch.cuda.current_device()] if device.type == "cuda" else []), torch.enable_grad():
            yield
    finally:
        torch.set_num_threads(threads)
