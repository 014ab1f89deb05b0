"""Locks of one byte of a file, by the C library of Windows.

Other handles can neither read nor write a locked byte, so it is one that no file of ours reaches.
"""

from __future__ import annotations

import contextlib
import errno
import os
from importlib import import_module
from typing import Any

# The C library hands on 32 bits of the position.
LOCKED_BYTE = 2**31 - 2
_BUSY = {errno.EACCES, errno.EDEADLK}
_msvcrt: Any = import_module("msvcrt")


def lock(handle: int) -> bool:
    """Try once to lock an open file; False if another handle holds the lock. Raises ``OSError`` where there is none."""
    try:
        _at_locked_byte(handle, _msvcrt.LK_NBLCK)
    except OSError as exc:
        if exc.errno in _BUSY:
            return False
        raise
    return True


def unlock(handle: int) -> None:
    """Release the lock of an open file; does nothing without one."""
    with contextlib.suppress(OSError):
        _at_locked_byte(handle, _msvcrt.LK_UNLCK)


def _at_locked_byte(handle: int, mode: int) -> None:
    position = os.lseek(handle, 0, os.SEEK_CUR)
    os.lseek(handle, LOCKED_BYTE, os.SEEK_SET)
    try:
        _msvcrt.locking(handle, mode, 1)
    finally:
        os.lseek(handle, position, os.SEEK_SET)
