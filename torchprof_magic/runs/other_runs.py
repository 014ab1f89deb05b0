"""The runs that a page offers to compare its own with: those of this process that are in memory, and kept ones."""

from __future__ import annotations

import time
from typing import NamedTuple

from torchprof_magic.model.units import format_ns
from torchprof_magic.runs.known import KnownRun, known_runs
from torchprof_magic.runs.run_library import KeptRun, has_id
from torchprof_magic.runs.this_process import Entry

MOST_RECORDED = 12
MOST_KEPT = 24


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
    known = [(run, run.about) for run in reversed(known_runs()) if run.can_open]
    recorded = [(run, entry) for run, entry in known if isinstance(entry, Entry)]
    cell = next((entry.cell for _, entry in recorded if entry.run_id == run_id and entry.cell is not None), 0)
    others = [(run, entry) for run, entry in recorded if entry.run_id != run_id][:MOST_RECORDED]
    own = [_other(run, "This cell", "%H:%M:%S") for run, entry in others if entry.cell == cell]
    rest = [_other(run, "This kernel", "%H:%M:%S") for run, entry in others if entry.cell != cell]
    listed = [run_id, *(entry.run_id for _, entry in others)]
    kept = [run for run, about in known if isinstance(about, KeptRun) and not _is_listed(about, listed)]
    return own + rest + [_other(run, "Kept", "%Y-%m-%d %H:%M") for run in kept[:MOST_KEPT]]


def _is_listed(run: KeptRun, listed: list[str]) -> bool:
    """Return whether a run was kept by itself and is listed already."""
    return not run.is_named and any(has_id(run.name, run_id) for run_id in listed)


def _other(run: KnownRun, group: str, format_of_time: str) -> OtherRun:
    at = time.strftime(format_of_time, time.localtime(run.unix_s))
    aside = at if run.step_ns is None else f"{at} · {format_ns(run.step_ns)} per step"
    return OtherRun(run.key, run.title, aside, group)
