"""Waiting whose change is sure, while that of the whole step may be lost in the noise of the computation beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.findings.compare.step_change import LEAST_STEPS, SURE_P, find_step_change
from torchprof_magic.model.units import format_ns
from torchprof_magic.tables.steps import counted_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.model.trace import Trace

# In which the thread of the steps does not compute, so that a busy machine makes them hardly longer.
WAITING = ("data", "waiting", "communication", "idle")
_TITLES = {
    "data": "loading data",
    "waiting": "blocking calls",
    "communication": "communication",
    "idle": "sleeping or waiting",
}
# Of the typical step.
LEAST_SHARE = 0.02


class PhaseChange(NamedTuple):
    """A phase, and how long it takes in a typical step of both runs, in ns."""

    phase: str
    before_ns: float
    after_ns: float


def sure_phases(before: Trace, after: Trace) -> list[PhaseChange]:
    """Return the phases of waiting that changed for sure and by at least a fiftieth of a step, the most first.

    Each is tested as the steps are, and as strictly as so many questions at once ask for.
    """
    sides = counted_rows(before), counted_rows(after)
    if min(side.height for side in sides) < LEAST_STEPS:
        return []
    step_ns = min(float(side["dur_ns"].mean() or 0) for side in sides)  # type: ignore[arg-type]
    found = []
    for phase in WAITING:
        values = [side[f"{phase}_ns"].to_list() for side in sides]
        means = [sum(each) / len(each) for each in values]
        if min(map(min, values)) <= 0 or abs(means[1] - means[0]) < LEAST_SHARE * step_ns:
            continue
        if find_step_change(values[0], values[1]).p < SURE_P / len(PHASES):
            found.append(PhaseChange(phase, *means))
    return sorted(found, key=lambda change: -abs(change.after_ns - change.before_ns))


def phase_words(changes: Sequence[PhaseChange]) -> str:
    """Return these changes as a sentence; nothing without any."""
    said = ", ".join(f"{_TITLES[phase]} {format_ns(before)} → {format_ns(after)}" for phase, before, after in changes)
    return f"The waiting per step changed for sure: {said}." if said else ""
