"""Checks whether polars works in this process. In some forks it would wait forever for threads of the parent."""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from pathlib import Path

import polars as pl

_PATIENCE_S = 5.0
_STATUS = Path("/proc/self/stat")  # Linux only
_FORKNOEXEC = 0x40  # PF_FORKNOEXEC of the Linux kernel: forked, and still running the parent's program
NO_REPORTS = (
    "this process was forked from one that had already used polars, and polars would hang here. "
    'Start such processes with multiprocessing.get_context("spawn")'
)


def can_report() -> bool:
    """Return whether polars works in this process. In a fork in which it does not, the first call takes seconds."""
    return _works_in(os.getpid())


@lru_cache(maxsize=1)
def _works_in(_process: int) -> bool:
    # The trial would start polars' threads, and later forks of this process could not use polars.
    if not _may_be_fork():
        return True
    # A daemon thread that waits forever ends with the process.
    trial = threading.Thread(target=pl.DataFrame({"a": [2, 1]}).sort, args=("a",), daemon=True)
    trial.start()
    trial.join(_PATIENCE_S)
    return not trial.is_alive()


def _may_be_fork() -> bool:
    """Return whether this process was forked and still runs its parent's program, or may have been."""
    try:
        fields = _STATUS.read_bytes().rpartition(b")")[2].split()  # the name before it may hold spaces
        return bool(int(fields[6]) & _FORKNOEXEC)
    except (OSError, ValueError, IndexError):
        return True
