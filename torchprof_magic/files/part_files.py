"""How does a file appear whole or not at all, even if the disk is full or the process is killed?

Into a new file of the same folder, which is locked as long as it is written to; then fsync, reading back, and a rename.
A new file without a lock was left by a process that is gone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from isal import isal_zlib
from isal.igzip_lib import IsalError

from torchprof_magic.errors import StoreError
from torchprof_magic.files import locks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK_BYTES = 4 << 20
GZIP_LEVEL = 2  # of 0-3: within a few percent of the smallest file, at several times the speed of zlib
_GZIP = 31  # zlib's way to say: with gzip's head and checksum; the head holds no time and no name
_PART = re.compile(r"\.torchprof-store-[0-9a-f]{16}\.part")
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# Not every file system can sync a folder; then there is nothing to do better.
_CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a file holds when unpacked."""

    size_bytes: int
    crc: int


class Part:
    """A new file that is being written, and has no name of its own yet."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self.handle = handle
        self._is_open = True

    def close(self) -> None:
        """Close the file, once."""
        if self._is_open:
            self._is_open = False
            locks.release(self.handle)


@contextlib.contextmanager
def part_file(folder: Path) -> Iterator[Part]:
    """Yield a new file in the folder; what has not been given a name when the block ends is deleted."""
    part = _new_part(folder)
    try:
        yield part
    finally:
        with contextlib.suppress(OSError):
            delete(part.path)
        part.close()


def _new_part(folder: Path) -> Part:
    while True:
        path = folder / f".torchprof-store-{secrets.token_hex(8)}.part"
        handle = os.open(path, locks.OPEN_OWN | os.O_CREAT | os.O_EXCL, 0o666)
        # Before the lock another process may take the file for one that was left behind.
        if locks.take(handle) is not locks.Lock.BUSY and locks.is_linked(handle):
            return Part(path, handle)
        with contextlib.suppress(OSError):
            delete(path)
        locks.release(handle)


def delete(path: Path) -> None:
    """Delete a file that may be gone already; asked twice, because some network disks are busy for a moment."""
    try:
        _delete_once(path)
    except OSError:
        _delete_once(path)


def _delete_once(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108 - every call of this package goes by os, where tests make each fail


def delete_left_parts(folder: Path) -> None:
    """Delete the new files of processes that are gone. Never raises: a file more is no reason to save nothing."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208
            if _PART.fullmatch(name):
                with contextlib.suppress(OSError):
                    _delete_if_left(folder / name)


def _delete_if_left(path: Path) -> None:
    handle = os.open(path, locks.OPEN_OWN | getattr(os, "O_NONBLOCK", 0))
    try:
        if locks.take(handle) is locks.Lock.TAKEN and stat.S_ISREG(os.fstat(handle).st_mode):
            delete(path)
    finally:
        locks.release(handle)


def write_all(handle: int, data: bytes) -> None:
    """Write every byte; the system may take them in several goes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def write_verified(part: Part, source: Path, *, is_packed: bool) -> Content:
    """Copy the source, packed or as it is, make it last, and read it back; return what the source held.

    Raises ``OSError``, or ``StoreError`` when the file does not read back as it was written.
    """
    written = _copy(source, part.handle, is_packed=is_packed)
    os.fsync(part.handle)
    found = read_content(part.path, is_packed=is_packed)
    if found != written:
        raise StoreError("what was written does not read back the same; the disk may be failing")
    return written


def _copy(source: Path, target: int, *, is_packed: bool) -> Content:
    packer = isal_zlib.compressobj(GZIP_LEVEL, isal_zlib.DEFLATED, _GZIP) if is_packed else None
    size_bytes, crc = 0, 0
    with _opened(source) as handle:
        expected_bytes = os.fstat(handle).st_size
        while block := os.read(handle, BLOCK_BYTES):
            size_bytes, crc = size_bytes + len(block), isal_zlib.crc32(block, crc)
            write_all(target, packer.compress(block) if packer else block)
        if packer:
            write_all(target, packer.flush())
    if size_bytes != expected_bytes:
        raise StoreError(f"the trace changed while it was copied ({size_bytes:,} of {expected_bytes:,} bytes came)")
    return Content(size_bytes=size_bytes, crc=crc)


def read_content(path: Path, *, is_packed: bool) -> Content:
    """Read a file to its end and return what it holds; raise ``StoreError`` when it is not packed well."""
    unpacker = isal_zlib.decompressobj(_GZIP) if is_packed else None
    size_bytes, crc = 0, 0
    with _opened(path) as handle:
        while block := os.read(handle, BLOCK_BYTES):
            try:
                plain = unpacker.decompress(block) if unpacker else block
            except IsalError as exc:  # type: ignore[misc]  # isal's stub has no base for it
                raise StoreError(f"the packed file does not unpack ({exc})") from exc
            size_bytes, crc = size_bytes + len(plain), isal_zlib.crc32(plain, crc)
    if unpacker and (not unpacker.eof or unpacker.unused_data):
        raise StoreError("the packed file is cut short or has something after its end")
    return Content(size_bytes=size_bytes, crc=crc)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    handle = os.open(path, _READ)
    try:
        yield handle
    finally:
        os.close(handle)


def place(part: Part, target: Path, *, may_replace: bool) -> None:
    """Give the new file its name, in one step. Raises ``FileExistsError`` when it is taken and must not be replaced."""
    if sys.platform == "win32":
        part.close()  # an open file cannot be renamed there
    if may_replace:
        os.replace(part.path, target)  # noqa: PTH105 - see delete
        return
    try:
        os.link(part.path, target)  # a second name can only be given where there is none, unlike a rename
    except FileExistsError:
        raise
    except OSError as exc:  # some file systems have no second names
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from exc
        os.replace(part.path, target)  # noqa: PTH105


def write_file(path: Path, data: bytes) -> None:
    """Replace one of our own small files as a whole, or raise ``OSError`` and leave it as it was."""
    with part_file(path.parent) as part:
        write_all(part.handle, data)
        os.fsync(part.handle)
        place(part, path, may_replace=True)


def sync_folder(folder: Path) -> None:
    """Make new names survive a crash of the machine, where the system can do that; raise ``OSError`` if it fails."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, _READ)
    try:
        os.fsync(handle)
    except OSError as exc:
        if exc.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(handle)
