"""Opens one trace file, saved run or memory snapshot as a report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchprof_magic.facts.device.captures_beside import with_captures
from torchprof_magic.facts.device.graph_captures import captured_graphs
from torchprof_magic.ingest import read_graph_notes, read_place, with_graph_notes
from torchprof_magic.model.errors import NotATraceError
from torchprof_magic.model.graph_notes import NO_NOTE, GraphNote
from torchprof_magic.report.trace_report import Report
from torchprof_magic.runs.known import named_trace, read_kept
from torchprof_magic.system.files.listing import files_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.model.trace import Trace
    from torchprof_magic.system.files.place import Place

    Progress = Callable[[int, int], None]


def open_report(place: Place, progress: Progress | None = None, captures: tuple[Place, ...] = ()) -> Report:
    """Return a report of one file, or of one URL, which is downloaded first; see ``load``.

    ``progress`` is called with the number of bytes read and the total. ``captures`` are recordings of the captures of
    its graphs, or folders in which these are looked for. Raises ``IngestError``.
    """
    __tracebackhide__ = True
    trace, captures = _with_notes_at(captures, read_place(place, progress))
    for capture in captures:
        trace = _with_captures_at(capture, trace, place)
    return Report(trace, trace_paths=(place.path,) if place.path is not None else ())


def _with_notes_at(given: tuple[Place, ...], trace: Trace) -> tuple[Trace, tuple[Place, ...]]:
    """Return a trace with what files say of the nodes of its graphs, and the rest of the files."""
    notes: dict[int, GraphNote] = {}
    rest = []
    for place in given:
        found = None if place.path is None else read_graph_notes(place.path)
        notes |= {node: note.or_else(notes.get(node, NO_NOTE)) for node, note in (found or {}).items()}
        rest += [place] if found is None else []
    return with_graph_notes(trace, notes) if notes else trace, tuple(rest)


def _with_captures_at(given: Place, trace: Trace, replay: Place) -> Trace:
    """Return a trace with the captures of a file, or of all files in a folder that hold some, but for its own file."""
    if not given.is_many:
        return with_captures(trace, read_place(given))
    joined = trace
    for file in files_at(given):
        other = _read_if_trace(file) if file.path != replay.path else None
        if other is not None and captured_graphs(other):
            joined = with_captures(joined, other)
    if joined is trace:
        meta = replace(trace.meta, captures_from=(*trace.meta.captures_from, given.name))
        return replace(trace, meta=meta)
    return joined


def _read_if_trace(file: Place) -> Trace | None:
    """Return the trace in a file that was found in a folder; None if it is something else."""
    try:
        return read_place(file)
    except NotATraceError:
        return None


def named_report(source: str) -> Report:
    """Return the report of a file, or of a kept run with this name; raises ``IngestError`` or ``StoreError``."""
    return Report(named_trace(source))


def open_kept(name: str) -> Report:
    """Return the report of a kept run; raises ``StoreError`` if there is none, and ``IngestError`` for a bad file."""
    trace, path = read_kept(name)
    return Report(trace, trace_paths=(path,))
