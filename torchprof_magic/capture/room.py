"""How much memory and disk may a recording take, and when has it taken that much?

torch keeps every event in memory until the recording ends, and then needs several times as much; a process that the
system kills at that point loses everything. What torch holds cannot be asked, so the growth of the whole process is
taken: a program that fills its own memory meanwhile is stopped early rather than late.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# What a recording may take when nothing was said: this part of the memory that was free when it began.
FREE_PART = 2
# What reading and showing a trace takes, as multiples of its file's size: measured on files of 20 to 180 MB it was 1.2
# times in memory, and 3 times in addresses, which some machines limit (ulimit -v). Beyond that the process dies.
_READ_MEMORY = 2
_READ_ADDRESSES = 4
# How much the process may grow, or how many recordings begin, before the holes in its heap are looked for again. Each
# page that is given back is a fault later, in the next step of a training or in the recording: 1,500 a millisecond.
_HOLES_BYTES = 256_000_000
_HOLES_RECORDINGS = 50
_given_back_at = 0
_recordings_since = 0
_STATM = "/proc/self/statm"  # Linux; elsewhere nothing tells the memory of a process at the cost of a step
_MEMINFO = "/proc/meminfo"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0


class Room:
    """Watches the growth of this process while steps are recorded, and the size of the files that were saved.

    ``limit_bytes`` bounds either; ``None`` is half of the memory that is free now, and no bound on files.
    """

    def __init__(self, limit_bytes: int | None) -> None:
        self.file_limit_bytes = limit_bytes
        self.memory_limit_bytes = limit_bytes if limit_bytes is not None else _free_bytes()
        self.file_bytes = 0
        self._began_bytes = 0
        self._handle: int | None = None

    def begin(self) -> None:
        """Count growth from here, until ``end``."""
        self.end()
        with suppress(OSError):
            self._handle = os.open(_STATM, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self._began_bytes = self._resident_bytes()

    def end(self) -> None:
        """Let go of what tells the memory of the process; can be called twice."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(OSError):
                os.close(handle)

    def grown_bytes(self) -> int:
        """Return how much larger the process is than at the beginning; 0 where nothing tells."""
        return self._resident_bytes() - self._began_bytes

    def _resident_bytes(self) -> int:
        """Return how much memory this process has; asked at every step, so the file stays open between."""
        if self._handle is None:
            return self._began_bytes
        try:
            return int(os.pread(self._handle, 64, 0).split()[1]) * _PAGE_BYTES
        except (OSError, ValueError, IndexError):  # the user's code has closed it
            return self._began_bytes

    def is_memory_full(self) -> bool:
        """Return whether the process has grown by more than the limit."""
        return self.memory_limit_bytes is not None and self.grown_bytes() > self.memory_limit_bytes

    def is_disk_full(self) -> bool:
        """Return whether the files together are larger than the limit."""
        return self.file_limit_bytes is not None and self.file_bytes > self.file_limit_bytes


def give_back() -> None:
    """Return to the system what earlier recordings have released: torch's many small blocks leave holes in the heap.

    Without it a kernel grows by some 20 kB a cell. Takes 1 to 10 ms, and as long again where the memory is needed: so
    it is done when the process has grown much since the last time, or that was many recordings ago, and never before
    the first one. Nothing is done without glibc, or where nothing tells the growth.
    """
    global _given_back_at, _recordings_since  # noqa: PLW0603 - the heap is the process's
    resident_bytes = _resident_bytes()
    if not resident_bytes:
        return
    if _given_back_at:
        _recordings_since += 1
        has_grown = resident_bytes >= _given_back_at + _HOLES_BYTES
        if not has_grown and _recordings_since < _HOLES_RECORDINGS:
            return
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
    _given_back_at = resident_bytes  # as it was before: each recording needs again what was given back
    _recordings_since = 0


def lacks_room_for(file_bytes: int) -> tuple[int, int] | None:
    """Return how much memory reading a trace of this size needs, and how much there is, if that is too little."""
    wanted = ((_available_bytes(), _READ_MEMORY * file_bytes), (_free_addresses(), _READ_ADDRESSES * file_bytes))
    return next(((need, free) for free, need in wanted if free is not None and need > free), None)


def _addresses() -> int:
    """Return how many addresses this process has taken; 0 where nothing tells."""
    return _statm(0)


def _resident_bytes() -> int:
    """Return how much memory this process has; 0 where nothing tells."""
    return _statm(1)


def _statm(column: int) -> int:
    try:
        return int(Path(_STATM).read_text(encoding="ascii").split()[column]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0


def _free_addresses() -> int | None:
    """Return by how much the addresses of this process may grow, ``None`` where there is no limit."""
    if resource is None:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else max(0, limit - _addresses())


def _free_bytes() -> int | None:
    """Return the part of the free memory that a recording may take, ``None`` where nothing tells."""
    free_bytes = _available_bytes()
    return None if free_bytes is None else free_bytes // FREE_PART


def _available_bytes() -> int | None:
    """Return how much memory is free, ``None`` where nothing tells."""
    try:
        lines = Path(_MEMINFO).read_text(encoding="ascii").splitlines()
        free_kb = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None
    return free_kb * 1024
