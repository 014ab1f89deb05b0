"""Opens one trace file, saved run or memory snapshot as a report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.ingest import read_file
from torchprof_magic.ingest.fork_check import NO_REPORTS, can_report
from torchprof_magic.ingest.regular import GZIP_MAGIC, open_regular
from torchprof_magic.model.errors import IngestError
from torchprof_magic.model.meta import Meta
from torchprof_magic.report.trace_report import Report
from torchprof_magic.runs.other_runs import read_kept
from torchprof_magic.system.files.download import fetched
from torchprof_magic.system.files.urls import is_url, local_path, name_of, public_path, public_url
from torchprof_magic.system.process.memory import NO_MEMORY, lack_for_reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.model.trace import Trace

    Progress = Callable[[int, int], None]

_LEAST_FILE_BYTES = 1
# A packed file ends with its unpacked size, unless its end is missing. Traces are packed 10 to 20 times.
_MOST_PACKED = 30


def open_report(path: str | os.PathLike[str], progress: Progress | None = None) -> Report:
    """Return a report of one file, or of one URL, which is downloaded first; see ``load``.

    ``progress`` is called with the number of bytes read and the total. Raises ``IngestError``.
    """
    __tracebackhide__ = True
    _check_memory(_LEAST_FILE_BYTES)  # before any use of polars
    if not can_report():
        raise IngestError(NO_REPORTS)
    local = _local(path)
    if local is None:
        url = str(path)
        with fetched(url, progress) as file:
            return Report(_read(file, public_url(url), name_of(url), None))
    shown = str(local) if _exists(local) else public_path(str(path))
    return Report(_read(local, shown, local.name, progress), trace_paths=(local,))


def open_kept(name: str) -> Report:
    """Return the report of a kept run; raises ``StoreError`` if there is none, and ``IngestError`` for a bad file."""
    trace, path = read_kept(name)
    return Report(trace, trace_paths=(path,))


def _local(path: str | os.PathLike[str]) -> Path | None:
    """Return a path on this machine, ``None`` for a file that must be fetched."""
    if is_url(path):
        url = str(path)
        return local_path(url) if "::" not in url else None
    try:
        return Path(path).expanduser()
    except RuntimeError as exc:
        raise IngestError(f"{public_path(str(path))}: cannot resolve this home directory") from exc


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _read(file: Path, shown: str, title: str, progress: Progress | None) -> Trace:
    __tracebackhide__ = True  # the traceback ends at the user's line
    try:
        _check_memory(_text_bytes(file))
        return read_file(file, Meta(title=title), progress)
    except IngestError as exc:
        raise type(exc)(f"{shown}: {exc}") from None
    except MemoryError:
        pass  # its traceback holds what was read, so it must not become the cause of another error
    raise IngestError(f"{shown}: memory ran out while it was read. {NO_MEMORY}")


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
