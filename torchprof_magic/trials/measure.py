"""Runs both ways of a trial in turns, within a time limit, and leaves the state of torch as it was."""

from __future__ import annotations

import statistics
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch

from torchprof_magic.trials.ways import WAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchprof_magic.findings.advice.trial_plan import TrialPlan

    Work = Callable[[], object]

MOST_ROUNDS = 50
LEAST_ROUNDS = 3


class Tried(NamedTuple):
    """What a step spends on the calls of a trial as it is and after the change, in ns, and how often it was measured.

    They are medians of several rounds.
    """

    before_ns: float
    after_ns: float
    rounds: int


def run_trial(plan: TrialPlan, seconds: float) -> Tried:
    """Measure both ways for about so many seconds. An interrupt ends it; threads and random numbers stay as they were.

    Raises ``ValueError`` if the recording is of a device that this machine lacks.
    """
    if plan.on_device and not torch.cuda.is_available():
        raise ValueError("the recording is of a device that this machine lacks")
    device = torch.device("cuda" if plan.on_device else "cpu")
    with _unchanged_state():
        torch.set_num_threads(plan.threads or torch.get_num_threads())
        works = [(call.each_step, *WAYS[plan.kind](plan, call, device)) for call in plan.calls]
        deadline = time.perf_counter() + seconds
        rounds: list[tuple[float, float]] = []
        while not _is_done(rounds, deadline):
            rounds.append(_round(works, device))
    before, after = (statistics.median(side) for side in zip(*rounds[1:], strict=True))
    return Tried(before, after, len(rounds) - 1)


def _is_done(rounds: list[tuple[float, float]], deadline: float) -> bool:
    """Return whether there are enough rounds after the first, which warms up."""
    if len(rounds) > MOST_ROUNDS:
        return True
    return len(rounds) > LEAST_ROUNDS and time.perf_counter() > deadline


def _round(works: list[tuple[float, Work, Work]], device: torch.device) -> tuple[float, float]:
    before = sum(count * _ns(first, device) for count, first, _ in works)
    return before, sum(count * _ns(second, device) for count, _, second in works)


def _ns(work: Work, device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    began = time.perf_counter_ns()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter_ns() - began


@contextmanager
def _unchanged_state() -> Iterator[None]:
    """Restore the number of threads and whether gradients are made; random numbers come from a generator of its own."""
    threads = torch.get_num_threads()
    try:
        with torch.enable_grad():
            yield
    finally:
        torch.set_num_threads(threads)
