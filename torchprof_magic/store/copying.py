"""A copy of a file, gzipped if need be, that is read back before it counts."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from isal import isal_zlib
from isal.igzip_lib import IsalError

from torchprof_magic.errors import StoreError
from torchprof_magic.files.atomic import GZIP_LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchprof_magic.files.atomic import Part

BLOCK_BYTES = 4 << 20
_GZIP = 31  # zlib's code for "gzip header and checksum"; the header holds no time and no name
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def copy_verified(source: Path, part: Part, *, is_packed: bool) -> None:
    """Copy the source into a part file, write that to the disk and read it back.

    Raises ``OSError``, or ``StoreError`` when what is read differs from what was written.
    """
    written = _copy(source, part.handle, is_packed=is_packed)
    part.finish()
    if read_content(part.path, is_packed=is_packed) != written:
        raise StoreError("reading the copy back gave other data; the disk may be failing")


def _copy(source: Path, target: int, *, is_packed: bool) -> tuple[int, int]:
    """Return size and CRC of the source."""
    packer = isal_zlib.compressobj(GZIP_LEVEL, isal_zlib.DEFLATED, _GZIP) if is_packed else None
    size_bytes, crc = 0, 0
    with _opened(source) as handle:
        expected_bytes = os.fstat(handle).st_size
        while block := os.read(handle, BLOCK_BYTES):
            size_bytes, crc = size_bytes + len(block), isal_zlib.crc32(block, crc)
            _write_all(target, packer.compress(block) if packer else block)
        if packer:
            _write_all(target, packer.flush())
    if size_bytes != expected_bytes:
        raise StoreError(f"the file changed while it was copied (read {size_bytes:,} of {expected_bytes:,} bytes)")
    return size_bytes, crc


def read_content(path: Path, *, is_packed: bool) -> tuple[int, int]:
    """Read a file to its end and return size and CRC, unpacked; raises ``StoreError`` for damaged gzip data."""
    unpacker = isal_zlib.decompressobj(_GZIP) if is_packed else None
    size_bytes, crc = 0, 0
    with _opened(path) as handle:
        while block := os.read(handle, BLOCK_BYTES):
            try:
                plain = unpacker.decompress(block) if unpacker else block
            except IsalError as exc:  # type: ignore[misc]  # isal's stub has no base for it
                raise StoreError(f"the gzipped copy cannot be unpacked ({exc})") from exc
            size_bytes, crc = size_bytes + len(plain), isal_zlib.crc32(plain, crc)
    if unpacker and (not unpacker.eof or unpacker.unused_data):
        raise StoreError("the gzipped copy is cut short, or has extra data at its end")
    return size_bytes, crc


def _write_all(handle: int, data: bytes) -> None:
    """Write every byte; a single call may write fewer."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    handle = os.open(path, _READ)
    try:
        yield handle
    finally:
        os.close(handle)
