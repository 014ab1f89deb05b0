"""Crash markers: how a kernel finds the runs whose process was killed, and what is left of them.

During a run its folder holds a marker file that the recording process has locked. A marker without a lock belongs to a
process that was killed. The system releases the lock when the process ends, and a forked child does not inherit it.
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
_MARKS = re.compile(r"\.torchprof-running-([0-9]+)")
_MOST_BYTES = 1 << 16
# Links are never followed: another user may have put one in place of our file.
_OPEN = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class _Row(TypedDict):
    """The content of a marker. ``folders`` are the fallback folders of the run."""

    title: str
    began_unix_s: float
    folders: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A run whose process was killed. ``paths`` are its complete cycles, which can be opened."""

    title: str
    began_unix_s: float
    paths: tuple[Path, ...]


class Mark:
    """The marker of a run in ``folder``, held until ``remove`` is called or the process ends.

    Where such locks are missing, or the disk is full, there is no marker, and nothing fails.
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
        """Add a folder with files of the run. This works on a full disk, too: the marker has a block already."""
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
        """Delete the marker, because the run is over; does nothing in a forked child."""
        handle, self._handle = self._handle, None
        if handle is None or os.getpid() != self._pid:
            return
        with contextlib.suppress(OSError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            os.close(handle)


def take_unfinished() -> list[Unfinished]:
    """Return the runs of this user's killed processes, each of them once, the oldest first.

    Their traces stay; incomplete files are deleted.
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
    """Return the markers of other processes; opening one of this process would release its lock."""
    if folder.is_symlink() or not _is_own(folder.stat()):
        return []
    named = [(path, _MARKS.fullmatch(path.name)) for path in folder.iterdir()]
    return [path for path, match in named if match is not None and int(match[1]) != os.getpid()]


def _take(mark: Path) -> Unfinished | None:
    """Read a marker without a lock, and delete it; ``None`` if its process is alive, or it cannot be read."""
    handle = os.open(mark, _OPEN)
    try:
        if not _is_own(os.fstat(handle)):
            return None
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        known = _parse(os.read(handle, _MOST_BYTES))
        if known is None:  # its process may not have written it yet
            return None
        mark.unlink()
    finally:
        os.close(handle)
    paths = _left_in(mark.parent)
    for folder in map(Path, known["folders"]):
        with contextlib.suppress(OSError):  # its disk may be gone, or the machine was restarted
            if folder.name.startswith(FOLDER_PREFIX) and not folder.is_symlink() and _is_own(folder.stat()):
                paths += _left_in(folder)
    paths.sort(key=lambda path: path.name)
    return Unfinished(title=known["title"], began_unix_s=known["began_unix_s"], paths=tuple(paths))


def _left_in(folder: Path) -> list[Path]:
    """Return the complete cycles in a folder; delete incomplete files, and the folder if it is empty then."""
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
