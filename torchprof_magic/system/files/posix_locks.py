"""Locks of whole files by ``flock``; a forked child shares them until one of the two releases them."""

from __future__ import annotations

import contextlib
from importlib import import_module
from typing import Any

_fcntl: Any = import_module("fcntl")


def lock(handle: int) -> bool:
    """Try once to lock an open file; False if another handle holds the lock. Raises ``OSError`` where there is none."""
    try:
        _fcntl.flock(handle, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(handle: int) -> None:
    """Release the lock of an open file; does nothing without one."""
    with contextlib.suppress(OSError):
        _fcntl.flock(handle, _fcntl.LOCK_UN)
