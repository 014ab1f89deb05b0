"""Windows as far as files go, for tests on Linux: its locks, and open files that cannot be deleted or replaced."""

from __future__ import annotations

import errno
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

LK_UNLCK, LK_LOCK, LK_NBLCK = 0, 1, 2


class FakeMsvcrt(ModuleType):
    """The locks of the C library: of bytes from the current position, held by one handle."""

    LK_UNLCK, LK_LOCK, LK_NBLCK = LK_UNLCK, LK_LOCK, LK_NBLCK

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.held: dict[tuple[int, int], tuple[int, int]] = {}

    def locking(self, handle: int, mode: int, count: int) -> None:
        at = os.lseek(handle, 0, os.SEEK_CUR)
        assert count == 1
        assert at < 2**31  # the C library passes 32 bits on
        self.forget_closed()
        file = self._file(handle)
        if mode == LK_UNLCK:
            if self.held.get(file) != (handle, at):
                raise PermissionError(errno.EACCES, "not locked")
            del self.held[file]
        elif file in self.held:
            raise PermissionError(errno.EACCES, "Permission denied")
        else:
            self.held[file] = handle, at

    def forget_closed(self) -> None:
        """Drop the locks of handles that are closed, or are those of other files now."""
        self.held = {file: held for file, held in self.held.items() if self._file(held[0]) == file}

    @staticmethod
    def _file(handle: int) -> tuple[int, int]:
        try:
            found = os.fstat(handle)
        except OSError:
            return -1, -1
        return found.st_dev, found.st_ino


def open_paths() -> set[str]:
    """Return the files that this process has open, on Linux."""
    found = set()
    for handle in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            found.add(os.readlink(f"/proc/self/fd/{handle}"))  # noqa: PTH115
        except OSError:
            continue
    return found


def be_windows(monkeypatch: pytest.MonkeyPatch) -> FakeMsvcrt:
    """Let the code under test take this system for Windows; needs Linux."""
    fake = FakeMsvcrt()
    monkeypatch.setitem(sys.modules, "msvcrt", fake)
    monkeypatch.setattr(sys, "platform", "win32")
    unlink, replace = os.unlink, os.replace

    def refuse_open(path: Any) -> None:
        if os.path.realpath(path) in open_paths():
            raise PermissionError(errno.EACCES, "the file is used by another process", str(path))

    def refusing_unlink(path: Any, *rest: Any, **more: Any) -> None:
        refuse_open(path)
        unlink(path, *rest, **more)

    def refusing_replace(source: Any, target: Any, *rest: Any, **more: Any) -> None:
        refuse_open(source)
        refuse_open(target)
        replace(source, target, *rest, **more)

    monkeypatch.setattr(os, "unlink", refusing_unlink)
    monkeypatch.setattr(os, "replace", refusing_replace)
    return fake
