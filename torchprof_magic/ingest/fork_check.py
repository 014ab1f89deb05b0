"""Can this process make reports? Not a fork in which polars waits for threads that only its parent has."""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from pathlib import Path

import polars as pl

_PATIENCE_S = 5.0
_STATUS = Path("/proc/self/stat")  # Linux only
_FORKNOEXEC = 0x40  # PF_FORKNOEXEC of the kernel: forked, and still running what its parent ran
NO_REPORTS = (
    "this process was forked from one in which polars was at work, and polars would wait here for ever. "
    'Start such processes with multiprocessing.get_context("spawn")'
)


def can_report() -> bool:
    """Return whether polars works in this process; in a fork in which it does not, to find out takes seconds, once."""
    return _works_in(os.getpid())


@lru_cache(maxsize=1)
def _works_in(_process: int) -> bool:
    if not _may_be_fork():  # the trial would begin polars' threads, and what the user then forks could not use polars
        return True
    # A thread that waits for ever ends with the process.
    trial = threading.Thread(target=pl.DataFrame({"a": [2, 1]}).sort, args=("a",), daemon=True)
    trial.start()
    trial.join(_PATIENCE_S)
    return not trial.is_alive()


def _may_be_fork() -> bool:
    """Return whether this process goes on with the program of the one that forked it, as far as that can be known."""
    try:
        fields = _STATUS.read_bytes().rpartition(b")")[2].split()  # the name before it may hold spaces
        return bool(int(fields[6]) & _FORKNOEXEC)
    except (OSError, ValueError, IndexError):
        return True
