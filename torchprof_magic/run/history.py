"""The reports that were made in this process, and the last one."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torchprof_magic.report import Report

# Memory must not grow with the number of runs.
MAX_ENTRIES = 200


class Entry(NamedTuple):
    """A summary of a run whose report may be gone. ``step_ns`` is the mean time of its complete steps."""

    unix_s: float
    title: str
    run_id: str
    events: int
    steps: int
    step_ns: float | None


_reports: list[Report] = []
_entries: deque[Entry] = deque(maxlen=MAX_ENTRIES)


def remember(report: Report, name: str = "") -> None:
    """Make ``report`` the value of ``torchprof_magic.last``, and add it to the history under ``name`` or its title."""
    _reports[:] = [report]
    trace = report.trace
    whole = trace.steps.filter("complete")
    mean_ns = (whole["end_ns"] - whole["start_ns"]).mean()
    _entries.append(
        Entry(
            unix_s=time.time(),
            title=name or trace.meta.title,
            run_id=report.run_id,
            events=trace.events.height,
            steps=whole.height,
            step_ns=mean_ns if isinstance(mean_ns, float) else None,
        )
    )


def last() -> Report | None:
    """Return the newest report of this process, or ``None`` before the first."""
    return _reports[0] if _reports else None


def entries() -> list[Entry]:
    """Return the summaries of the runs of this process, the oldest first."""
    return list(_entries)
