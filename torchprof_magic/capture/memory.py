"""Free memory of this machine, and the growth of this process.

torch keeps every event in memory until the recording ends, and then needs several times as much. If the system kills
the process at that point, everything is lost. torch does not report its memory use, so the growth of the whole process
is measured. The recording of a program that allocates a lot itself therefore stops early rather than late.
"""

from __future__ import annotations

import psutil

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# What a recording may take by default: this fraction of the memory that is free when it begins.
FREE_PART = 2
# Memory that reading and showing a trace takes, as multiples of its file's size. Measured on files of 20 to 180 MB: 1.2
# times in memory, 3 times in address space, which some machines limit (ulimit -v). Beyond it the process dies.
_READ_MEMORY = 2
_READ_ADDRESSES = 4


def free_bytes() -> int:
    """Return how much memory can be allocated without swapping."""
    return int(psutil.virtual_memory().available)


class Growth:
    """How much larger this process is than when ``begin`` was last called."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._began_bytes: int | None = None

    def begin(self) -> None:
        """Start counting."""
        self._began_bytes = self._resident_bytes()

    def end(self) -> None:
        """Stop counting."""
        self._began_bytes = None

    def grown_bytes(self) -> int:
        """Return the growth since ``begin``; 0 outside of a recording."""
        return 0 if self._began_bytes is None else self._resident_bytes() - self._began_bytes

    def _resident_bytes(self) -> int:
        return int(self._process.memory_info().rss)


def lacks_memory_for(file_bytes: int) -> tuple[int, int] | None:
    """Return how much memory reading a trace of this size needs and how much is free, ``None`` if that is enough."""
    wanted = ((free_bytes(), _READ_MEMORY * file_bytes), (_free_addresses(), _READ_ADDRESSES * file_bytes))
    return next(((need, free) for free, need in wanted if free is not None and need > free), None)


def _free_addresses() -> int | None:
    """Return by how much the address space of this process may grow, ``None`` where there is no limit."""
    if resource is None:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else max(0, limit - int(psutil.Process().memory_info().vms))
