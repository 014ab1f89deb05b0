"""How does somebody's trace file, saved run or memory snapshot become a report?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.errors import IngestError
from torchprof_magic.files.urls import fetched, is_url, name_of, public_url
from torchprof_magic.ingest import is_saved, is_snapshot, read_chrome, read_saved, read_snapshot
from torchprof_magic.ingest.fork_check import NO_REPORTS, can_report
from torchprof_magic.model.meta import Meta
from torchprof_magic.report import Report

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from torchprof_magic.model.trace import Trace

    Progress = Callable[[int, int], None]


def load(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Report:
    """Return a report of a Kineto trace (``.json`` or ``.json.gz``), a saved run or a memory snapshot (``.pickle``).

    It may come from any machine; a snapshot is read without unpickling it, so nothing in it can run.

    What a file is is told by its content. A URL that fsspec knows (``s3://``, ``https://``) is copied here, read, and
    the copy deleted. ``progress`` is called now and then with the bytes read and the bytes there are. Damage is
    repaired or left out and counted in ``Report.problems``. Raises ``IngestError`` when the file cannot be read, or
    in a forked process in which polars would wait for ever, and ``NotATraceError`` when it is something else.
    """
    __tracebackhide__ = True
    if not can_report():
        raise IngestError(NO_REPORTS)
    if is_url(path):
        url = str(path)
        with fetched(url, progress) as file:
            return Report(_read(file, public_url(url), name_of(url), None))
    file = Path(path).expanduser()
    return Report(_read(file, str(file), file.name, progress), trace_paths=(file,))


def _read(file: Path, shown: str, title: str, progress: Progress | None) -> Trace:
    __tracebackhide__ = True  # a notebook then shows the line of the cell and what is wrong with the file
    try:
        if is_saved(file):
            return read_saved(file)
        if is_snapshot(file):
            return read_snapshot(file, Meta(title=title))
        return read_chrome([file], Meta(title=title), progress=progress)
    except IngestError as exc:
        raise type(exc)(f"{shown}: {exc}") from None
