"""Reads one file or URL of the user's, within the memory that is free."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchprof_magic.ingest.fork_check import NO_REPORTS, can_report
from torchprof_magic.ingest.readers import read_file
from torchprof_magic.ingest.regular import GZIP_MAGIC, open_regular
from torchprof_magic.model.errors import IngestError
from torchprof_magic.model.meta import Meta
from torchprof_magic.system.files.download import fetched
from torchprof_magic.system.process.memory import NO_MEMORY, lack_for_reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchprof_magic.model.trace import Trace
    from torchprof_magic.system.files.place import Place

    Progress = Callable[[int, int], None]

_LEAST_FILE_BYTES = 1
# A packed file ends with its unpacked size, unless its end is missing. Traces are packed 10 to 20 times.
_MOST_PACKED = 30


def read_place(place: Place, progress: Progress | None = None) -> Trace:
    """Return the recording in a file, or behind a URL, which is downloaded first.

    ``progress`` is called with the number of bytes read and the total. Raises ``IngestError``.
    """
    __tracebackhide__ = True
    _check_memory(_LEAST_FILE_BYTES)  # before any use of polars
    if not can_report():
        raise IngestError(NO_REPORTS)
    if place.flaw:
        raise IngestError(f"{place.shown}: {place.flaw}")
    if place.path is not None:
        return _read(place.path, place, progress)
    with fetched(place, progress) as file:
        return _read(file, place, None)


def _read(file: Path, place: Place, progress: Progress | None) -> Trace:
    __tracebackhide__ = True  # the traceback ends at the user's line
    try:
        _check_memory(_text_bytes(file))
        return read_file(file, Meta(title=place.name), progress)
    except IngestError as exc:
        raise type(exc)(f"{place.shown}: {exc}") from None
    except MemoryError:
        pass  # its traceback holds what was read, so it must not become the cause of another error
    raise IngestError(f"{place.shown}: memory ran out while it was read. {NO_MEMORY}")


def _check_memory(file_bytes: int) -> None:
    __tracebackhide__ = True
    if lack := lack_for_reading(file_bytes):
        raise IngestError(f"reading it {lack}. {lack.advice}")


def _text_bytes(file: Path) -> int:
    """Return the size of a file, unpacked if it is packed; 0 if that cannot be known."""
    try:
        size_bytes = file.stat().st_size
        with open_regular(file) as content:  # opening a pipe would wait, and take from it
            if content.read(len(GZIP_MAGIC)) != GZIP_MAGIC:
                return size_bytes
            content.seek(-4, os.SEEK_END)
            told_bytes = int.from_bytes(content.read(4), "little")
    except (OSError, ValueError, IngestError):
        return 0  # the error shows when it is read
    return max(size_bytes, min(told_bytes, _MOST_PACKED * size_bytes))
