"""The runs that a page offers to compare its own with: those of this process that are in memory, and kept ones."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.ingest import read_file
from torchprof_magic.model.errors import StoreError
from torchprof_magic.model.meta import Meta
from torchprof_magic.model.units import format_ns
from torchprof_magic.runs import this_process
from torchprof_magic.runs.run_library import RunLibrary, has_id

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.trace import Trace
    from torchprof_magic.runs.this_process import Entry

MOST_RECORDED = 12
MOST_KEPT = 24
_RECORDED, _KEPT = "recorded:", "kept:"


class OtherRun(NamedTuple):
    """A run to choose: ``key`` opens it, ``group`` says where it comes from.

    ``aside`` is when it was, as local time, and its typical step with its unit.
    """

    key: str
    title: str
    aside: str
    group: str


def other_runs(run_id: str) -> list[OtherRun]:
    """Return the runs besides this one, the newest first: of its cell, of this process, and kept ones."""
    entries = [entry for entry in reversed(this_process.entries()) if this_process.held(entry.run_id) is not None]
    cell = next((entry.cell for entry in entries if entry.run_id == run_id and entry.cell is not None), 0)
    others = [entry for entry in entries if entry.run_id != run_id][:MOST_RECORDED]
    own = [_recorded(entry, "This cell") for entry in others if entry.cell == cell]
    rest = [_recorded(entry, "This kernel") for entry in others if entry.cell != cell]
    return own + rest + _kept([run_id, *(entry.run_id for entry in others)])


def open_other_run(key: str) -> Trace:
    """Return the recording of a run of ``other_runs``; raises ``StoreError`` or ``IngestError`` if it is gone."""
    if key.startswith(_KEPT):
        return read_kept(key.removeprefix(_KEPT))[0]
    trace = this_process.held(key.removeprefix(_RECORDED))
    if trace is None:
        raise StoreError("This run is no longer in memory. To compare with a run later, keep it with --save NAME.")
    return trace


def read_kept(name: str) -> tuple[Trace, Path]:
    """Return the recording of a kept run and its file; raises ``StoreError`` or ``IngestError``."""
    path = RunLibrary().path_of(name)
    return read_file(path, Meta(title=name), None), path


def _recorded(entry: Entry, group: str) -> OtherRun:
    at = time.strftime("%H:%M:%S", time.localtime(entry.unix_s))
    return OtherRun(_RECORDED + entry.run_id, entry.title, _aside(at, entry.step_ns), group)


def _kept(listed: list[str]) -> list[OtherRun]:
    """Return the kept runs, without those that were kept by themselves and are listed already."""
    kept = [
        run
        for run in reversed(RunLibrary().runs())
        if run.is_named or not any(has_id(run.name, run_id) for run_id in listed)
    ]
    return [
        OtherRun(
            _KEPT + run.name,
            run.name,
            _aside(time.strftime("%Y-%m-%d %H:%M", time.localtime(run.unix_s)), run.step_ns),
            "Kept",
        )
        for run in kept[:MOST_KEPT]
    ]


def _aside(at: str, step_ns: float | None) -> str:
    return at if step_ns is None else f"{at} · {format_ns(step_ns)} a step"
