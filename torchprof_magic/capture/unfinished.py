"""Which runs ended with their process, and what is left of them?

While a run is under way its folder holds a mark, locked by the process that records. A mark that nobody holds is that
of a process that was killed. The lock is one that ends with its process and that a forked child does not have.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

if sys.platform != "win32":
    import fcntl

FOLDER_PREFIX = "torchprof-"
TRACE_SUFFIX = ".pt.trace.json"
_MARK = ".torchprof-running-{pid}"
_MARKS = re.compile(r"\.torchprof-running-(\d+)")
_MOST_BYTES = 1 << 16
# A link in place of one of our own files is somebody's trap, and never followed.
_OPEN = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A run whose process ended before it did. ``paths`` are its whole cycles, which can be opened."""

    title: str
    began_unix_s: float
    paths: tuple[Path, ...]


class Mark:
    """Says, for as long as this process lives and ``remove`` has not come, that a run in ``folder`` is under way.

    Where there are no such locks, or no room, there is no mark, and nothing fails.
    """

    def __init__(self, folder: Path, title: str) -> None:
        self._pid = os.getpid()
        self._path = folder / _MARK.format(pid=self._pid)
        self._handle: int | None = None
        if sys.platform == "win32":
            return
        text = json.dumps({"title": title, "began_unix_s": time.time()})
        with contextlib.suppress(OSError):
            self._handle = os.open(self._path, _OPEN | os.O_CREAT, 0o600)
            fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.truncate(self._handle, 0)
            os.write(self._handle, text.encode())

    def remove(self) -> None:
        """Say that the run is over; a forked child says nothing."""
        handle, self._handle = self._handle, None
        if handle is None or os.getpid() != self._pid:
            return
        with contextlib.suppress(OSError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            os.close(handle)


def take_unfinished() -> list[Unfinished]:
    """Return the runs of this user's dead processes, each of them once, the oldest first.

    Their traces stay; what a run left that cannot be opened is deleted.
    """
    if sys.platform == "win32":
        return []
    found: list[Unfinished] = []
    with contextlib.suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
            with contextlib.suppress(OSError):
                found += [run for mark in _marks(folder) if (run := _take(mark)) is not None]
    return sorted(found, key=lambda run: run.began_unix_s)


def _marks(folder: Path) -> list[Path]:
    """Return the marks of other processes; this one's are in use, and opening one would end its lock."""
    if folder.is_symlink() or not _is_own(folder.stat()):
        return []
    named = [(path, _MARKS.fullmatch(path.name)) for path in folder.iterdir()]
    return [path for path, match in named if match is not None and int(match[1]) != os.getpid()]


def _take(mark: Path) -> Unfinished | None:
    """Read a mark that nobody holds, and remove it; ``None`` when its process lives, or it makes no sense."""
    handle = os.open(mark, _OPEN)
    try:
        if not _is_own(os.fstat(handle)):
            return None
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        known = _parse(os.read(handle, _MOST_BYTES))
        if known is None:  # its process may be about to write it
            return None
        mark.unlink()
    finally:
        os.close(handle)
    paths = tuple(sorted(mark.parent.glob(f"cycle-*{TRACE_SUFFIX}")))
    for torn in mark.parent.glob(f".cycle-*{TRACE_SUFFIX}.part*"):
        torn.unlink(missing_ok=True)
    if not any(mark.parent.iterdir()):
        mark.parent.rmdir()
    return Unfinished(title=known[0], began_unix_s=known[1], paths=paths)


def _parse(data: bytes) -> tuple[str, float] | None:
    try:
        row = json.loads(data)
        return str(row["title"]), float(row["began_unix_s"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid()
