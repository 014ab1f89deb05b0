"""A copy of a file, gzipped and marked if need be, that is read back before it counts."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchprof_magic.model.errors import StoreError
from torchprof_magic.model.units import format_count
from torchprof_magic.store.marks import marked
from torchprof_magic.system.files.gzip_streams import crc32, packer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchprof_magic.system.files.atomic import Part

BLOCK_BYTES = 4 << 20
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def copy_verified(source: Path, part: Part, *, is_packed: bool, store_id: str = "") -> None:
    """Copy the source into a part file, with an id if it is a trace; write that to the disk and read it back.

    Raises ``OSError``, or ``StoreError`` when what is read differs from what was written.
    """
    packed = packer() if is_packed else None
    read_bytes, written_bytes, crc = 0, 0, 0
    with _opened(source) as handle:
        expected_bytes = os.fstat(handle).st_size
        while block := os.read(handle, BLOCK_BYTES):
            block, read_bytes = block if read_bytes else marked(block, store_id), read_bytes + len(block)
            written_bytes, crc = _write(part.handle, packed.compress(block) if packed else block, written_bytes, crc)
    if packed:
        written_bytes, crc = _write(part.handle, packed.flush(), written_bytes, crc)
    if read_bytes != expected_bytes:
        raise StoreError(
            f"the file changed while it was copied (read {format_count(read_bytes)} of "
            f"{format_count(expected_bytes)} bytes)"
        )
    part.finish()
    if _read_back(part.path) != (written_bytes, crc):
        raise StoreError("reading the copy back gave other data; the disk may be failing")


def _write(handle: int, data: bytes, size_bytes: int, crc: int) -> tuple[int, int]:
    """Write every byte, in several calls if need be, and return size and CRC of the file so far."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]
    return size_bytes + len(data), crc32(data, crc)


def _read_back(path: Path) -> tuple[int, int]:
    size_bytes, crc = 0, 0
    with _opened(path) as handle:
        while block := os.read(handle, BLOCK_BYTES):
            size_bytes, crc = size_bytes + len(block), crc32(block, crc)
    return size_bytes, crc


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    handle = os.open(path, _READ)
    try:
        yield handle
    finally:
        os.close(handle)
