"""Made traces of the ranks of one job, with numbers that can be worked out by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support import PID, Event, annotation, frame, kernel, launch, span

if TYPE_CHECKING:
    from pathlib import Path

BASE_NS = 1_700_000_000_000_000_000
STEP_US = 1000
# A collective ends at this time of its step on every rank, and begins here on a rank that is not late.
COMES_US, ENDS_US = 400, 800
LATE_LINE = "train.py(12): load"


def device_step(number: int, late_us: float = 0.0, *, details: dict[str, Any] | None = None) -> list[Event]:
    """One step of 1000 us: a kernel of 100 us, then 300 us (and what it is late) of Python, then a collective."""
    at, one = number * STEP_US, 10 * number
    return [
        annotation(f"ProfilerStep#{number}", at, STEP_US),
        span("aten::mm", at + 5, 20),
        launch(at + 10, 5, one + 1),
        kernel("gemm", at + 20, 100, one + 1),
        frame(LATE_LINE, at + 130, 250 + late_us),
        annotation("nccl:all_reduce", at + COMES_US + late_us - 12, 10),
        launch(at + COMES_US + late_us - 10, 5, one + 2),
        kernel(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)",
            at + COMES_US + late_us,
            ENDS_US - COMES_US - late_us,
            one + 2,
            stream=20,
            **(details or {}),
        ),
    ]


def host_step(number: int, late_us: float = 0.0) -> list[Event]:
    """The same on a CPU with gloo, whose threads do the collective while the one of the step waits."""
    at = number * STEP_US
    gloo = annotation("gloo:all_reduce", at + COMES_US + late_us, ENDS_US - COMES_US - late_us, tid=2)
    return [
        annotation(f"ProfilerStep#{number}", at, STEP_US),
        span("aten::mm", at + 20, 100),
        frame(LATE_LINE, at + 130, 250 + late_us),
        gloo | {"args": {"Input Dims": [[250]], "Input type": ["float"]}},
    ]


def write_rank(
    folder: Path,
    rank: int,
    *events: Event,
    world_size: int = 4,
    clock_us: float = 0.0,
    name: str = "",
    **head: Any,
) -> Path:
    """Write the trace of a rank whose clock is ahead by ``clock_us``."""
    info = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world_size}}
    content = {
        "schemaVersion": 1,
        "baseTimeNanoseconds": BASE_NS + round(clock_us * 1000),
        "deviceProperties": [{"id": 0, "name": "Made GPU"}],
        **info,
        **head,
        "traceEvents": list(events),
    }
    path = folder / (name or f"rank{rank}.json")
    path.write_text(json.dumps(content))
    return path


def write_job(folder: Path, late_us: dict[int, float] | None = None, *, ranks: int = 4, steps: int = 3) -> list[Path]:
    """Write the ranks of a job; those in ``late_us`` come so much later to the collective of every step."""
    late = late_us or {}
    return [
        write_rank(
            folder,
            rank,
            *(event for number in range(1, steps + 1) for event in device_step(number, late.get(rank, 0.0))),
            world_size=ranks,
        )
        for rank in range(ranks)
    ]


__all__ = ["PID", "device_step", "host_step", "write_job", "write_rank"]
