"""How does somebody's trace file become a report?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.errors import IngestError
from torchprof_magic.ingest import read_chrome, read_file
from torchprof_magic.meta import Meta
from torchprof_magic.report import Report

if TYPE_CHECKING:
    import os


def load(path: str | os.PathLike[str]) -> Report:
    """Return a report of a Kineto trace (``.json`` or ``.json.gz``), from whatever machine and torch it came.

    Raises ``IngestError`` when the file cannot be read and ``NotATraceError`` when it is something else.
    """
    file = Path(path).expanduser()
    data = read_file(file)
    try:
        trace = read_chrome([data], Meta(title=file.name))
    except IngestError as exc:
        raise type(exc)(f"{file}: {exc}") from exc.__cause__
    return Report(trace, trace_paths=(file,))
