"""How do several processes that write into one folder keep out of each other's way?

By locks of the system, which end with the process that holds them, however it ends. Where there are none, nothing here
fails: whoever asks is told so, and then deletes nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from enum import Enum
from typing import TYPE_CHECKING

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER_LOCK = ".torchprof-store.lock"
PATIENCE_SECONDS = 10.0  # how long a short piece of work of other processes is waited for
_PAUSE_SECONDS = 0.01
# A link in place of one of our own files is somebody's trap, and never followed.
OPEN_OWN = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class Lock(Enum):
    """What came of asking for a lock."""

    TAKEN = "taken"
    BUSY = "somebody else has it"
    NONE = "this file system has no locks"


def take(handle: int) -> Lock:
    """Ask once for the lock of an open file."""
    if sys.platform == "win32":
        return Lock.NONE
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Lock.BUSY
    except OSError:
        return Lock.NONE
    return Lock.TAKEN


def release(handle: int) -> None:
    """Give a lock back and close the file. A forked child has the file open too, so closing alone is not enough."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
    with contextlib.suppress(OSError):
        os.close(handle)


def is_linked(handle: int) -> bool:
    """Return whether an open file still has a name; somebody may have deleted it before it was locked."""
    try:
        return os.fstat(handle).st_nlink > 0
    except OSError:
        return False


@contextlib.contextmanager
def folder_lock(folder: Path, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[Lock]:
    """Hold the lock of a folder, and yield ``BUSY`` when others held it all the while."""
    try:
        handle = os.open(folder / FOLDER_LOCK, OPEN_OWN | os.O_CREAT, 0o666)
    except OSError:
        yield Lock.NONE
        return
    try:
        deadline = time.monotonic() + patience_seconds
        while (found := take(handle)) is Lock.BUSY and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
        yield found
    finally:
        release(handle)


def claim(path: Path) -> int | None:
    """Make this process the only one to work on something, and return what to give to ``drop``.

    ``None`` means that another process is at it. Without locks everybody gets it, so the work must bear being done
    twice.
    """
    while True:
        handle = os.open(path, OPEN_OWN | os.O_CREAT, 0o666)
        found = take(handle)
        if found is not Lock.BUSY and is_linked(handle):
            return handle
        release(handle)
        if found is Lock.BUSY:
            return None


def drop(path: Path, handle: int) -> None:
    """End a claim; the file goes first, so that nobody can lock one that is about to go."""
    with contextlib.suppress(OSError):
        os.unlink(path)  # noqa: PTH108 - every call of this package goes by os, where tests make each fail
    release(handle)
