"""The small GPU trace with counters as torch 2.15 writes them: samples of each device, and one value per kernel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpu_trace import STEP_US, STEPS, gpu_events
from support import chrome, counter

if TYPE_CHECKING:
    from pathlib import Path

    from support import Event

PERIOD_US = 20
# The device of the trace works from 3 to 9 ms of each step.
WORK_US = (3_000, 9_000)


def write_counter_trace(path: Path, devices: int = 1) -> Path:
    """Write the trace, with eight counters for each device and one of the host."""
    events = gpu_events()
    for device in range(devices):
        events += [sample for at in range(-1_000, STEPS * STEP_US, PERIOD_US) for sample in _samples(at, device)]
        events += [
            _counter("Cycles (Current Kernel)", step * STEP_US + 3_000, 7_050_000, device) for step in range(STEPS)
        ]
    events += [
        counter("batches", at, pid=7, ready=at // 5_000 % 3, waiting=1) for at in range(0, STEPS * STEP_US, 1_000)
    ]
    path.write_bytes(chrome(*events, deviceProperties=[{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}]))
    return path


def _samples(at: int, device: int) -> list[Event]:
    is_busy = WORK_US[0] <= at % STEP_US < WORK_US[1] and at >= 0
    wave = math.sin(at / 150) + math.sin(at / 37)
    values = {
        "Power (W)": (340 + 18 * wave if is_busy else 88 + 3 * wave) + 5 * device,
        "Temperature (C)": 54 + at // 10_000,
        "SM Clock (MHz)": 1410 if is_busy else 1095,
        "Memory Clock (MHz)": 1215,
        "Fan Speed (%)": 0,
        "SM Active (%)": 91 + 4 * wave if is_busy else 0,
        "DRAM BW (%)": 47 + 20 * wave if is_busy else 1.5,
        "NVLink RX": 0 if not is_busy else 1.9e10 + 1e9 * wave,
    }
    return [_counter(name, at, value, device) for name, value in values.items()]


def _counter(name: str, at: int, value: float, device: int) -> Event:
    return counter(name, at, pid=f"GPU {device} Counters", **{"": value})
