"""Keeps reports across kernels and opens them again by name."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from torchprof_magic.history.other_runs import read_kept
from torchprof_magic.report import Report
from torchprof_magic.store.run_library import KeptRun, RunLibrary, automatic_name, check_name

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["check_name", "delete_run", "keep_run", "kept_runs", "open_run", "rename_run"]


def keep_run(report: Report, *, name: str = "", keep_runs: int = 0) -> Path | None:
    """Keep a report under a name, or without one among the newest ``keep_runs``; raises ``StoreError``.

    Returns None, and keeps nothing, without a name if ``keep_runs`` is 0.
    """
    if not name and keep_runs < 1:
        return None
    step_ns = report.step_ns
    run = KeptRun(
        name=name or automatic_name(report.run_id),
        title=report.trace.meta.title,
        unix_s=time.time(),
        steps=report.trace.steps.filter("complete").height,
        step_ns=None if math.isnan(step_ns) else step_ns,
        is_named=bool(name),
    )
    return RunLibrary().keep(run, report.save, most=None if name else keep_runs)


def open_run(name: str) -> Report:
    """Return the report of a kept run; raises ``StoreError`` if there is none, and ``IngestError`` for a bad file."""
    trace, path = read_kept(name)
    return Report(trace, trace_paths=(path,))


def kept_runs() -> list[KeptRun]:
    """Return what is known of the kept runs, the oldest first."""
    return RunLibrary().runs()


def delete_run(name: str) -> None:
    """Delete a kept run; raises ``StoreError``."""
    RunLibrary().delete(name)


def rename_run(name: str, new: str) -> None:
    """Rename a kept run; raises ``StoreError``."""
    RunLibrary().rename(name, new)
