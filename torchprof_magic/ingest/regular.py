"""Opens files as programs write them: no folder, pipe or device, and nothing that goes on without end.

Systems call some files regular that are none: those of the kernel in ``/proc`` and ``/sys`` wait for something to
happen, and a file system that a program makes up can go on for ever.
"""

from __future__ import annotations

import io
import os
import stat
import time
import zlib
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from torchprof_magic.model.errors import IngestError, NotATraceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GZIP_MAGIC = b"\x1f\x8b"
GZIP_WINDOW = 31  # zlib's code for "gzip header, largest window"
# A file may grow while it is read, and one of a kernel does not tell its size.
MOST_UNTOLD_BYTES = 64 << 20
MOST_UNTOLD_S = 60
_PIECE_BYTES = 64 << 10
# In the header of gzip may be a name and a comment of any length.
_MOST_HEADER_BYTES = 1 << 20


def open_regular(path: Path) -> IO[bytes]:
    """Open a file to read its bytes. Raises ``OSError``, and ``IngestError`` for what is no file."""
    try:
        mode = path.stat().st_mode
    except ValueError as exc:
        raise IngestError(f"this is not a valid file name ({exc})") from exc
    if stat.S_ISDIR(mode):
        raise NotATraceError("this is a folder; pass one trace file in it")
    if not stat.S_ISREG(mode):
        raise NotATraceError("this is a device or pipe, not a file")
    file = path.open("rb")
    with suppress(OSError, ValueError, AttributeError):  # a system that knows no such files
        os.set_blocking(file.fileno(), False)
    return file


def read_pieces(file: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield the bytes of a file from where it is. Raises ``IngestError`` if it waits, or goes on and on."""
    untold_bytes = _untold_bytes(file)
    late_s = None
    while (piece := file.read(size)) != b"":
        if piece is None:
            raise IngestError("the file waits for something to be written, so it is a stream and not a recording")
        yield piece
        untold_bytes += len(piece)
        if untold_bytes > 0:
            late_s = late_s or time.monotonic() + MOST_UNTOLD_S
            _check_end(untold_bytes, late_s)


def _check_end(untold_bytes: int, late_s: float) -> None:
    if untold_bytes > MOST_UNTOLD_BYTES or time.monotonic() > late_s:
        raise IngestError(
            "the file goes on beyond the size that its system tells, so it is a stream and not a recording; copy "
            "what you need of it to a file"
        )


def _untold_bytes(file: IO[bytes]) -> int:
    """Return how many bytes a file has that its system does not tell: less than 0 for the bytes that it tells."""
    try:
        return file.tell() - os.fstat(file.fileno()).st_size
    except (OSError, io.UnsupportedOperation):  # it lies in memory
        return -(1 << 62)


def beginning_of(path: Path, size: int) -> bytes:
    """Return the first bytes of a file, unpacked if it is packed; empty if it cannot be read."""
    try:
        with open_regular(path) as file:
            head = file.read(size) or b""
            return _unpacked(head, file, size) if head.startswith(GZIP_MAGIC) else head
    except (OSError, ValueError, IngestError, zlib.error):
        return b""


def _unpacked(head: bytes, file: IO[bytes], size: int) -> bytes:
    engine = zlib.decompressobj(GZIP_WINDOW)
    text = engine.decompress(head, size)
    for _ in range(_MOST_HEADER_BYTES // _PIECE_BYTES):
        if len(text) >= size or engine.eof or not (piece := file.read(_PIECE_BYTES)):
            break
        text += engine.decompress(engine.unconsumed_tail + piece, size - len(text))
    return text
