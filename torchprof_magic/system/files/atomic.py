"""Atomic writes: files appear complete or not at all, even when the disk is full or the process is killed.

The data is written to a part file: a new file with a random name next to the target, renamed when it is complete. A
part file is locked while it is written, so an unlocked part file was left behind by a process that has ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from torchprof_magic.model.errors import ExportError
from torchprof_magic.system.files import gzip_streams, locks
from torchprof_magic.system.files.links import follow, is_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PART = re.compile(r"\.torchprof-[0-9a-f]{16}\.part")
READ_OWN = (locks.OPEN_OWN & ~os.O_RDWR) | os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
_CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}  # raised by file systems that cannot sync a folder


class Part:
    """A file that is being written and does not have its final name yet."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self.handle = handle
        self._is_open = True
        self._mode: int | None = None

    def hide(self) -> None:
        """Make the file readable only by its owner until it is finished, if the file system supports permissions."""
        with contextlib.suppress(OSError, AttributeError):  # Windows has no fchmod up to Python 3.12
            mode = stat.S_IMODE(os.fstat(self.handle).st_mode)  # according to the umask
            os.fchmod(self.handle, 0o600)
            self._mode = mode

    def finish(self) -> None:
        """Give the file its usual permissions and write it to the disk; raises ``OSError``."""
        if self._mode is not None:
            with contextlib.suppress(OSError):
                os.fchmod(self.handle, self._mode)
        os.fsync(self.handle)

    def place(self, target: Path, *, may_replace: bool) -> None:
        """Rename the file atomically; raises ``FileExistsError`` when the target exists and may not be replaced."""
        if sys.platform == "win32":
            self.close()  # Windows cannot rename an open file
        if not may_replace:
            try:
                os.link(self.path, target)  # unlike a rename, a hard link never replaces a file
            except FileExistsError:
                raise
            except OSError:  # this file system has no hard links
                if os.path.lexists(target):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
            else:
                return
        os.replace(self.path, target)  # noqa: PTH105 - the tests make each call of ``os`` fail

    def close(self) -> None:
        """Close the file; can be called twice."""
        if self._is_open:
            self._is_open = False
            locks.release(self.handle)


@contextlib.contextmanager
def part_file(folder: Path) -> Iterator[Part]:
    """Yield a new file in the folder, which is deleted if the block does not place it. Raises ``OSError``."""
    follow(folder)
    part = _new_part(folder)
    try:
        part.hide()
        yield part
    finally:
        if sys.platform == "win32":
            part.close()  # Windows cannot delete an open file
        with contextlib.suppress(OSError):
            delete(part.path)
        part.close()  # after that, so that no process takes it for a left-over file


def _new_part(folder: Path) -> Part:
    while True:
        path = folder / f".torchprof-{secrets.token_hex(8)}.part"
        handle = locks.claim(path, os.O_EXCL)
        if handle is not None:  # otherwise another process took it for a left-over file and deletes it
            return Part(path, handle)


def delete_left_parts(folder: Path) -> None:
    """Delete part files of processes that have ended. Never raises, because a left-over file does no harm."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208
            if _PART.fullmatch(name):
                with contextlib.suppress(OSError):
                    _delete_if_left(folder / name)


def _delete_if_left(path: Path) -> None:
    handle = os.open(path, locks.OPEN_OWN | getattr(os, "O_NONBLOCK", 0))
    try:
        found = os.fstat(handle)
        is_left = stat.S_ISREG(found.st_mode) and is_own(found) and locks.take(handle) is locks.Lock.TAKEN
        if is_left and sys.platform != "win32":
            delete(path)
    finally:
        locks.release(handle)
    if is_left:
        delete(path)


def delete(path: Path) -> None:
    """Delete a file if it exists. A second attempt helps with network disks that are busy."""
    try:
        _delete_once(path)
    except OSError:
        _delete_once(path)


def _delete_once(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that replaces ``path`` when the block ends without an exception. Raises ``OSError``."""
    check_encoding(path)
    with part_file(path.parent) as part:
        with os.fdopen(part.handle, "wb", closefd=False) as file:
            yield file
        part.finish()
        part.place(path, may_replace=True)
    with contextlib.suppress(OSError):
        sync_folder(path.parent)


def check_encoding(path: Path) -> None:
    """Raise ``OSError`` for a name that the locale cannot encode, as files have none."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError as exc:
        reason = f"the locale cannot encode the name ({sys.getfilesystemencoding()}); set PYTHONUTF8=1"
        raise OSError(errno.EILSEQ, reason, str(path)) from exc


def publish(written: Path, target: Path, *, must_last: bool) -> None:
    """Replace the target with a finished file that another library wrote; raises ``OSError``.

    One that ``must_last`` outlives a crash of the system.
    """
    if must_last:
        with written.open("rb+") as file:
            os.fsync(file.fileno())
    written.replace(target)


def read_own(path: Path, limit_bytes: int) -> bytes:
    """Return the content of a small file that ``replacing`` wrote; a link is not followed.

    Raises ``OSError``, also when another user owns the file, and ``ValueError`` when it is larger than the limit.
    """
    handle = os.open(path, READ_OWN)
    try:
        found = os.fstat(handle)
        if not (stat.S_ISREG(found.st_mode) and is_own(found)):
            raise PermissionError(errno.EPERM, "it is not a file of this user", str(path))
        if found.st_size > limit_bytes:
            raise ValueError(f"{path.name} is larger than expected")
        return b"".join(iter(lambda: os.read(handle, limit_bytes), b""))
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that new names survive a system crash, where supported; raises ``OSError``."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as exc:
        if exc.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(handle)


def target_of(path: str | os.PathLike[str]) -> Path:
    """Return the file that the user named, with ``~`` expanded. Raises ``ExportError`` for an invalid path."""
    try:
        target = Path(path).expanduser()
    except (TypeError, RuntimeError) as exc:
        raise ExportError(f"{path!r} is not a valid file name ({exc})") from exc
    if "\0" in str(target) or not target.name:
        raise ExportError(f"{path!r} is not a valid file name")
    return target


@contextlib.contextmanager
def exporting(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that replaces the one that the user named; a link then points to the new file.

    Raises ``ExportError`` when that is not possible; an existing file is then untouched. A link of another user is not
    followed in a folder that anyone can write to.
    """
    try:
        target = follow(path)
        if os.path.exists(target) and not os.path.isfile(target):  # noqa: PTH110, PTH113 - Path raises for long names
            raise ExportError(f"{path} is {'a folder' if target.is_dir() else 'not a file'}; choose another path")
        with replacing(target) as file:
            yield file
    except OSError as exc:
        raise ExportError(f"{path} could not be written ({exc.strerror or exc}); choose another path") from exc


@contextlib.contextmanager
def with_memory_for(path: Path) -> Iterator[None]:
    """Raise ``ExportError`` when memory runs out while a file is made; nothing has taken its name then."""
    try:
        yield
    except MemoryError:
        raise ExportError(f"{path} was not written, because memory ran out; free memory, and write it again") from None


def write_text(path: Path, pieces: Iterable[str]) -> Path:
    """Write the pieces as UTF-8, gzipped when the name ends in ``.gz``, and return the path; see ``exporting``."""
    with exporting(path) as file, _packing(file, path) as packed:
        packed.writelines(piece.encode() for piece in pieces)
    return path


def _packing(file: IO[bytes], path: Path) -> contextlib.AbstractContextManager[IO[bytes]]:
    if path.suffix.lower() != ".gz":
        return contextlib.nullcontext(file)
    return gzip_streams.packing(file)
