"""What kind of file is this, and what bytes are in it?"""

from __future__ import annotations

import stat
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from isal import igzip

from torchprof_magic.errors import IngestError, NotATraceError

if TYPE_CHECKING:
    import os

_GZIP_MAGIC = b"\x1f\x8b"
_KNOWN_BEGINNINGS = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"PK\x03\x04", "a zip archive; unpack it and open the trace inside"),
    (b"\x80\x02", "a pickle, perhaps a memory snapshot; those cannot be opened yet"),
    (b"\x80\x04", "a pickle, perhaps a memory snapshot; those cannot be opened yet"),
    (b"\x80\x05", "a pickle, perhaps a memory snapshot; those cannot be opened yet"),
    (b"<!DOCTYPE", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"%PDF", "a PDF document"),
)


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Return the JSON text of a ``.json`` or ``.json.gz`` trace, told apart by content and not by name."""
    return unpack(_read_regular_file(Path(path)), str(path))


def unpack(data: bytes, label: str) -> bytes:
    """Return ``data`` without gzip, or raise when it is plainly something other than a trace."""
    if data.startswith(_GZIP_MAGIC):
        try:
            data = igzip.decompress(data)  # type: ignore[no-untyped-call]
        except (OSError, EOFError, zlib.error, ValueError) as exc:
            raise IngestError(f"{label}: the gzip data is damaged or cut off ({exc}); copy the file again") from exc
    if not data or data.isspace():
        raise IngestError(f"{label}: the file is empty; the program that wrote it may have been stopped")
    for beginning, what in _KNOWN_BEGINNINGS:
        if data.startswith(beginning):
            raise NotATraceError(f"{label}: this is {what}, not a PyTorch trace (.json or .json.gz)")
    return data


def _read_regular_file(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as exc:
        raise IngestError(f"{path}: no such file") from exc
    except (OSError, ValueError) as exc:
        raise IngestError(f"{path}: the file cannot be opened ({exc})") from exc
    if stat.S_ISDIR(mode):
        raise NotATraceError(f"{path}: this is a folder; name one trace file in it")
    if not stat.S_ISREG(mode):
        raise NotATraceError(f"{path}: this is a device or pipe, not a file")
    try:
        return path.read_bytes()
    except OSError as exc:
        raise IngestError(f"{path}: the file cannot be read ({exc.strerror})") from exc
