"""Locks between processes that write into the same folder.

The locks are those of the operating system, which releases them when a process ends, even after SIGKILL. On
a file system without locks nothing fails: the caller gets ``Lock.NONE`` and decides what is safe without a lock.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from enum import Enum
from typing import TYPE_CHECKING

if sys.platform == "win32":
    from torchprof_magic.system.files.windows_locks import lock, unlock
else:
    from torchprof_magic.system.files.posix_locks import lock, unlock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER_LOCK = "folder.lock"
PATIENCE_SECONDS = 10.0  # other processes hold the lock of a folder for milliseconds
_PAUSE_SECONDS = 0.01
# A symbolic link in place of one of our files may be an attack, so links are never followed.
OPEN_OWN = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class Lock(Enum):
    """The result of trying to take a lock."""

    TAKEN = "taken"
    BUSY = "another process holds it"
    NONE = "this file system has no locks"


def take(handle: int) -> Lock:
    """Try once to lock an open file."""
    try:
        return Lock.TAKEN if lock(handle) else Lock.BUSY
    except OSError:
        return Lock.NONE


def release(handle: int) -> None:
    """Unlock and close a file. After closing alone, a forked child with the same open file would keep the lock."""
    unlock(handle)
    with contextlib.suppress(OSError):
        os.close(handle)


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[Lock]:
    """Hold the lock of a folder; yield ``BUSY`` when it cannot be taken within ``PATIENCE_SECONDS``."""
    try:
        handle = os.open(folder / FOLDER_LOCK, OPEN_OWN | os.O_CREAT, 0o666)
    except OSError:
        yield Lock.NONE
        return
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (found := take(handle)) is Lock.BUSY and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
        yield found
    finally:
        release(handle)


def claim(path: Path, flags: int = 0) -> int | None:
    """Create and lock a file and return its handle, or ``None`` when another process holds it. Raises ``OSError``.

    On a file system without locks every process gets the claim.
    """
    while True:
        handle = os.open(path, OPEN_OWN | os.O_CREAT | flags, 0o666)
        found = take(handle)
        if found is not Lock.BUSY and not _is_deleted(handle):
            return handle
        release(handle)
        if found is Lock.BUSY:
            return None


def _is_deleted(handle: int) -> bool:
    """Return whether another process deleted the file after it was opened and before it was locked."""
    try:
        return os.fstat(handle).st_nlink == 0
    except OSError:
        return False


def drop(path: Path, handle: int) -> None:
    """Delete and release a claimed file, in this order, so that no process locks a file that is about to go.

    Windows cannot delete an open file, so it is released first there; a process that then locks it keeps it.
    """
    if sys.platform == "win32":
        release(handle)
    with contextlib.suppress(OSError):
        os.unlink(path)  # noqa: PTH108 - the tests make each call of ``os`` fail
    if sys.platform != "win32":
        release(handle)
