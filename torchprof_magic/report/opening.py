"""Opens one trace file, saved run or memory snapshot as a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.facts.device.graph_captures import with_captures
from torchprof_magic.ingest import read_place
from torchprof_magic.report.trace_report import Report
from torchprof_magic.runs.known import read_kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.system.files.place import Place

    Progress = Callable[[int, int], None]


def open_report(place: Place, progress: Progress | None = None, captures: tuple[Place, ...] = ()) -> Report:
    """Return a report of one file, or of one URL, which is downloaded first; see ``load``.

    ``progress`` is called with the number of bytes read and the total. ``captures`` are recordings of the captures of
    its graphs. Raises ``IngestError``.
    """
    __tracebackhide__ = True
    trace = read_place(place, progress)
    for capture in captures:
        trace = with_captures(trace, read_place(capture))
    return Report(trace, trace_paths=(place.path,) if place.path is not None else ())


def open_kept(name: str) -> Report:
    """Return the report of a kept run; raises ``StoreError`` if there is none, and ``IngestError`` for a bad file."""
    trace, path = read_kept(name)
    return Report(trace, trace_paths=(path,))
