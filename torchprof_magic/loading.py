"""How does somebody's trace file become a report?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.errors import IngestError
from torchprof_magic.ingest import read_chrome
from torchprof_magic.meta import Meta
from torchprof_magic.report import Report

if TYPE_CHECKING:
    import os
    from collections.abc import Callable


def load(path: str | os.PathLike[str], *, progress: Callable[[int, int], None] | None = None) -> Report:
    """Return a report of a Kineto trace (``.json`` or ``.json.gz``), from whatever machine and torch it came.

    ``progress`` is called now and then with the bytes read and the bytes there are. Damage is repaired or left out and
    counted in ``Report.problems``. Raises ``IngestError`` when the file cannot be read and ``NotATraceError`` when it
    is something else.
    """
    file = Path(path).expanduser()
    try:
        trace = read_chrome([file], Meta(title=file.name), progress=progress)
    except IngestError as exc:
        raise type(exc)(f"{file}: {exc}") from exc.__cause__
    return Report(trace, trace_paths=(file,))
