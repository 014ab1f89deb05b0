"""Can this process make reports? Not a fork in which polars waits for threads that only its parent has."""

from __future__ import annotations

import os
import threading
from functools import lru_cache

import polars as pl

_PATIENCE_S = 5.0
NO_REPORTS = (
    "this process was forked from one in which polars was at work, and polars would wait here for ever. "
    'Start such processes with multiprocessing.get_context("spawn")'
)


def can_report() -> bool:
    """Return whether polars works in this process; in a fork in which it does not, to find out takes seconds, once."""
    return _works_in(os.getpid())


@lru_cache(maxsize=1)
def _works_in(_process: int) -> bool:
    # A thread that waits for ever ends with the process.
    trial = threading.Thread(target=pl.DataFrame({"a": [2, 1]}).sort, args=("a",), daemon=True)
    trial.start()
    trial.join(_PATIENCE_S)
    return not trial.is_alive()
