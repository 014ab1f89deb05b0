"""How long a thread ran, or was ready to run, which tells sleep from work."""

from __future__ import annotations

import os
import sys
from time import thread_time_ns

# Windows counts the CPU time of a thread in ticks of its scheduler. So many of them tell a tenth.
TICK_NS = 15_625_000 if sys.platform == "win32" else 0
LEAST_TICKS = 10
_SCHEDSTAT = "/proc/thread-self/schedstat"


class CpuTime:
    """Reads the CPU time of the thread that reads first, and how long it waited for a processor, in ns.

    On a busy machine a thread that works hard may run half of the time. Linux says how long it was ready meanwhile;
    elsewhere only the CPU time is known.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        self._is_known = True

    def read_ns(self) -> int:
        """Return the time so far."""
        if self._is_known and self._file is None:
            self._open()
        if self._file is None:
            return thread_time_ns()
        try:
            # The first number is how long it ran, but only up to the last tick of the scheduler.
            return thread_time_ns() + int(os.pread(self._file, 64, 0).split()[1])
        except (OSError, ValueError, IndexError):
            self.close()
            return thread_time_ns()

    def since_ns(self, reading_ns: int, dur_ns: int) -> int | None:
        """Return the time since a reading ``dur_ns`` ago; None if that is too short for the clock of this system."""
        return self.read_ns() - reading_ns if dur_ns >= LEAST_TICKS * TICK_NS else None

    def close(self) -> None:
        """Close the file; later readings are of CPU time alone."""
        file, self._file, self._is_known = self._file, None, False
        if file is not None:
            os.close(file)

    def _open(self) -> None:
        try:
            self._file = os.open(_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)
            is_counting = any(int(part) for part in os.pread(self._file, 64, 0).split())
        except (OSError, ValueError, AttributeError):
            is_counting = False
        if not is_counting:
            self.close()
