"""How much longer steps take because they are recorded."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.model.units import counted

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


# A single step may be an unusual one, such as a step that does nothing.
LEAST_PLAIN_STEPS = 2


class Distortion(NamedTuple):
    """Median durations of the steps without the profiler and of those that were recorded completely, in ns."""

    plain_ns: float
    recorded_ns: float
    plain_steps: int
    recorded_steps: int

    @property
    def ratio(self) -> float:
        """Recorded over plain; it can be below 1 by chance, when recording costs little."""
        return self.recorded_ns / self.plain_ns

    @property
    def basis(self) -> str:
        """What was compared, for messages."""
        return (
            f"median of {counted(self.recorded_steps, 'recorded step')} against {self.plain_steps} without the profiler"
        )


def find_distortion(trace: Trace) -> Distortion | None:
    """Return the comparison, or ``None`` if fewer than two steps ran without the profiler. The first does not count."""
    plain = trace.meta.plain_step_ns
    whole = trace.steps.filter("complete")
    recorded = (whole["end_ns"] - whole["start_ns"]).to_list()
    if len(plain) < LEAST_PLAIN_STEPS or not recorded or median(plain) <= 0:
        return None
    return Distortion(median(plain), median(recorded), len(plain), len(recorded))
