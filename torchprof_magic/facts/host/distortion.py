"""How much longer steps take because they are recorded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.facts.counted_steps import counted_steps, step_ns_of, typical_of
from torchprof_magic.model.units import counted

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


# A single step may be an unusual one, such as a step that does nothing.
LEAST_PLAIN_STEPS = 2


class Distortion(NamedTuple):
    """Typical durations of the steps without the profiler and of those that were recorded completely, in ns."""

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
            f"mean of {counted(self.recorded_steps, 'recorded step')} against {self.plain_steps} without the profiler"
        )


def find_distortion(trace: Trace) -> Distortion | None:
    """Return the comparison, or ``None`` if fewer than two steps ran without the profiler. The first does not count."""
    plain = trace.meta.plain_step_ns
    recorded_ns = step_ns_of(trace)
    if len(plain) < LEAST_PLAIN_STEPS or math.isnan(recorded_ns) or typical_of(plain) <= 0:
        return None
    return Distortion(typical_of(plain), recorded_ns, len(plain), counted_steps(trace).steps)
