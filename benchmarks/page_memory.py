"""The memory of this process and of all that it started, as Linux counts it."""

from __future__ import annotations

import os
import resource
from pathlib import Path


class PeakMemory:
    """The largest sum of the peaks of all processes that ran at the same time: an upper bound, as they share pages."""

    def __init__(self) -> None:
        self._most_kb = 0

    def note(self) -> None:
        """Count the processes that run now."""
        self._most_kb = max(self._most_kb, sum(_high_water_kb(pid) for pid in _family(os.getpid())))

    @property
    def mb(self) -> float:
        """The bound in MB; also over processes that have ended, each for itself."""
        ended_kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        return max(self._most_kb, ended_kb) / 1e3


def _family(pid: int) -> list[int]:
    lists = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    children = [int(child) for each in lists for child in each]
    return [pid, *(each for child in children for each in _family(child))]


def _high_water_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
