"""Which runs are there? Those of this process, those kept in the library, and traces kept in a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from torchprof_magic.ingest import read_file, read_place
from torchprof_magic.model.errors import StoreError
from torchprof_magic.model.meta import Meta
from torchprof_magic.runs import this_process
from torchprof_magic.runs.run_library import KeptRun, RunLibrary
from torchprof_magic.store.trace_store import SavedTrace, saved_traces
from torchprof_magic.system.files.place import place_of

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace
    from torchprof_magic.runs.this_process import Entry

Home = Literal["process", "library", "folder"]
_RECORDED, _KEPT = "recorded:", "kept:"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRun:
    """A run that can be listed: ``home`` says where it lives, and ``about`` is what is known of it there.

    ``key`` is for ``open_run``, or of a trace in a folder its path. ``step_ns`` is its typical complete step. A run of
    this process that nothing holds any more cannot be opened.
    """

    key: str
    home: Home
    title: str
    unix_s: float
    step_ns: float | None
    about: Entry | KeptRun | SavedTrace
    can_open: bool = True


def known_runs(folder: Path | None = None) -> list[KnownRun]:
    """Return the runs of this process and then those of the library, or those kept in a folder, the oldest first."""
    if folder is not None:
        return [_in_folder(trace) for trace in saved_traces(folder)]
    return [*map(_in_process, this_process.entries()), *map(_in_library, RunLibrary().runs())]


def open_run(key: str) -> Trace:
    """Return the recording of a run of this process or of the library; raises ``StoreError`` or ``IngestError``.

    It never opens a path, because a page may send any key.
    """
    if key.startswith(_KEPT):
        return read_kept(key.removeprefix(_KEPT))[0]
    trace = this_process.held(key.removeprefix(_RECORDED))
    if trace is None:
        raise StoreError("This run is no longer in memory. To compare with a run later, keep it with --save NAME.")
    return trace


def named_trace(source: str | os.PathLike[str]) -> Trace:
    """Return the recording in a file, or that of a kept run with this name if there is no such file.

    Raises ``IngestError`` for a file that cannot be read, and ``StoreError`` for a run that cannot.
    """
    name = os.fspath(source)
    is_file = "://" in name or Path(name).exists()
    if not is_file and name in {run.name for run in RunLibrary().runs()}:
        return read_kept(name)[0]
    return read_place(place_of(source))


def read_kept(name: str) -> tuple[Trace, Path]:
    """Return the recording of a kept run and its file; raises ``StoreError`` or ``IngestError``."""
    path = RunLibrary().path_of(name)
    return read_file(path, Meta(title=name), None), path


def _in_process(entry: Entry) -> KnownRun:
    return KnownRun(
        key=_RECORDED + entry.run_id,
        home="process",
        title=entry.title,
        unix_s=entry.unix_s,
        step_ns=entry.step_ns,
        about=entry,
        can_open=this_process.held(entry.run_id) is not None,
    )


def _in_library(run: KeptRun) -> KnownRun:
    return KnownRun(
        key=_KEPT + run.name, home="library", title=run.name, unix_s=run.unix_s, step_ns=run.step_ns, about=run
    )


def _in_folder(trace: SavedTrace) -> KnownRun:
    return KnownRun(
        key=str(trace.path),
        home="folder",
        title=trace.path.name,
        unix_s=trace.timestamp.timestamp(),
        step_ns=None,
        about=trace,
        can_open=trace.state in ("kept", "uploading"),
    )
