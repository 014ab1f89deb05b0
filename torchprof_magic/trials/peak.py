"""Measures what the CPU of this machine can do at most: products of matrices, and a copy through its memory."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

# Sides of the matrices: large enough for all threads, small enough for a few products in a part of the time.
_SIDES = (512, 1024)
# Large enough not to fit into any cache, and at most this share of the time for one round.
_COPIED_BYTES = 2**28
_FAST = 0.9
TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}
_LEAST_ROUNDS = 3


class MeasuredPeak(NamedTuple):
    """What was measured: operations per second by type, bytes per second of a copy, and with how many threads.

    ``cores_ratio`` is which part of the time these threads ran: less than 1 where they waited for their cores.
    """

    flops_per_s: dict[str, float]
    bytes_per_s: float
    threads: int
    cores_ratio: float


def measure_cpu(seconds: float) -> MeasuredPeak:
    """Measure for about so many seconds with as many threads as torch uses now; random numbers stay as they were."""
    share = seconds / (len(TYPES) * len(_SIDES) + 1)
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        begin, begin_cpu = time.perf_counter(), time.process_time()
        rates = {kind: max(_products(side, dtype, share) for side in _SIDES) for kind, dtype in TYPES.items()}
        ran = (time.process_time() - begin_cpu) / ((time.perf_counter() - begin) * threads)
        return MeasuredPeak(rates, _copies(share), threads, min(ran, 1.0))


def _products(side: int, dtype: torch.dtype, seconds: float) -> float:
    left, right = torch.rand(2, side, side).to(dtype)
    out = torch.empty(side, side, dtype=dtype)
    return 2 * side**3 / _quick_round(lambda: torch.mm(left, right, out=out), seconds)


def _copies(seconds: float) -> float:
    source = torch.zeros(_COPIED_BYTES, dtype=torch.uint8)
    to = torch.ones_like(source)
    return 2 * _COPIED_BYTES / _quick_round(lambda: to.copy_(source), seconds)


def _quick_round(do: Callable[[], object], seconds: float) -> float:
    """Return how long a quick round takes: a tenth of the rounds are as quick or quicker. The first only warms up."""
    do()
    deadline = time.perf_counter() + seconds
    rounds: list[float] = []
    while len(rounds) < _LEAST_ROUNDS or time.perf_counter() < deadline:
        begin = time.perf_counter()
        do()
        rounds.append(time.perf_counter() - begin)
    return sorted(rounds)[int(len(rounds) * (1 - _FAST))]
