"""Keeps reports across kernels."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Protocol

from torchprof_magic.runs.run_library import KeptRun, RunLibrary, automatic_name, check_name

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.trace import Trace

__all__ = ["check_name", "keep_run"]


class Kept(Protocol):
    """What is used of a ``Report`` to keep it."""

    trace: Trace

    @property
    def run_id(self) -> str:
        """The id of the run."""

    @property
    def step_ns(self) -> float:
        """The typical complete step in ns, else nan."""

    def save(self, path: Path) -> Path:
        """Write all data of the recording to one file."""


def keep_run(report: Kept, *, name: str = "", keep_runs: int = 0) -> Path | None:
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
