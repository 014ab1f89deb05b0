"""How many cores this process may use: by its affinity, by what Python was told, and by the quota of its group."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from functools import cache
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
# Below a group of the second version stand its limits in one file, below one of the first in two.
_QUOTA = "cpu.max"
_QUOTAS = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
# Where the groups of the first version that limit the CPU are mounted.
_CPU_MOUNTS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


def usable_cores() -> int:
    """Return how many cores this process may use at the same time, at least 1.

    A quota of one and a half cores counts as one.
    """
    asked = getattr(os, "process_cpu_count", None)  # Python 3.13, with its option ``-X cpu_count``
    allowed = asked() if asked is not None else _by_affinity()
    return max(1, min([allowed or 1, *map(int, _quotas())]))


@cache
def cpu_model() -> str:
    """Return what the maker calls the CPU, or its architecture where the system does not tell."""
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _by_affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quotas() -> list[float]:
    """Return the quotas of the control groups around this process, in cores."""
    found: list[float] = []
    with suppress(OSError, ValueError):
        for line in OWN_GROUPS.read_text(encoding="utf-8", errors="replace").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                found += _along(GROUPS, path)
            elif "cpu" in controllers.split(","):
                for mount in _CPU_MOUNTS:
                    found += _along(GROUPS / mount, path)
    return found


def _along(mount: Path, path: str) -> list[float]:
    """Return the quotas of a group and of those around it; in a container its path may be one of the host."""
    parts = [part for part in path.split("/") if part and part != ".."]
    folders = [mount.joinpath(*parts[:count]) for count in range(len(parts) + 1)]
    return [quota for folder in folders if (quota := _quota(folder)) is not None]


def _quota(folder: Path) -> float | None:
    """Return the quota of one group, in cores; None if it has none."""
    with suppress(OSError, ValueError):
        if (folder / _QUOTA).is_file():
            quota, period = (folder / _QUOTA).read_text(encoding="ascii").split()
        else:
            quota, period = ((folder / name).read_text(encoding="ascii").strip() for name in _QUOTAS)
        if quota != "max" and int(quota) > 0 and int(period) > 0:
            return int(quota) / int(period)
    return None
