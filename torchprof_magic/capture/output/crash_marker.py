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
from typing import TypedDict

if sys.platform != "win32":
    import fcntl

FOLDER_PREFIX = "torchprof-"
TRACE_SUFFIX = ".pt.trace.json"
_MARK = ".torchprof-running-{pid}"
_MARKS = re.compile(r"\.torchprof-running-(\d+)")
_MOST_BYTES = 1 << 16
# A link in place of one of our own files is somebody's trap, and never followed.
_OPEN = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class _Row(TypedDict):
    """What a mark holds. ``folders`` are those beside its own, with what its disk did not take."""

    title: str
    began_unix_s: float
    folders: list[str]


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
        self._row: _Row = {"title": title, "began_unix_s": time.time(), "folders": []}
        if sys.platform == "win32":
            return
        with contextlib.suppress(OSError):
            self._handle = os.open(self._path, _OPEN | os.O_CREAT, 0o600)
            fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write()

    def add(self, folder: Path) -> None:
        """Say that the run has files in another folder too; a full disk has still room in the block of the mark."""
        self._row["folders"].append(str(folder))
        if self._handle is not None and os.getpid() == self._pid:
            with contextlib.suppress(OSError):
                self._write()

    def _write(self) -> None:
        assert self._handle is not None
        text = json.dumps(self._row).encode()
        os.lseek(self._handle, 0, os.SEEK_SET)
        os.write(self._handle, text)
        os.truncate(self._handle, len(text))

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
    paths = _left_in(mark.parent)
    for folder in map(Path, known["folders"]):
        with contextlib.suppress(OSError):  # it is gone with its disk, or with the machine's last start
            if folder.name.startswith(FOLDER_PREFIX) and not folder.is_symlink() and _is_own(folder.stat()):
                paths += _left_in(folder)
    paths.sort(key=lambda path: path.name)
    return Unfinished(title=known["title"], began_unix_s=known["began_unix_s"], paths=tuple(paths))


def _left_in(folder: Path) -> list[Path]:
    """Return the whole cycles in a folder; what is torn is deleted, and the folder when nothing is left in it."""
    paths = sorted(folder.glob(f"cycle-*{TRACE_SUFFIX}"))
    for torn in folder.glob(f".cycle-*{TRACE_SUFFIX}.part*"):
        torn.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()
    return paths


def _parse(data: bytes) -> _Row | None:
    try:
        row = json.loads(data)
        folders = [str(folder) for folder in row.get("folders", [])]
        return {"title": str(row["title"]), "began_unix_s": float(row["began_unix_s"]), "folders": folders}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid()
