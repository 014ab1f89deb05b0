"""How much longer steps take because they are recorded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.counted_steps import counted_steps, step_ns_of, typical_of
from torchprof_magic.model.outliers import OUTLIER_RATIO
from torchprof_magic.model.units import counted

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray
    from torchprof_magic.model.trace import Trace


# A single step may be an unusual one, such as a step that does nothing.
LEAST_PLAIN_STEPS = 2
# Steps have become longer for good if most of the last steps are, and these are such a part of all.
MOST = 0.8
LASTING_PART = 0.25
LEAST_LASTING = 3
# Steps that are recorded, that warm the profiler up, and the first one.
MOST_OTHER_STEPS = 100


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


class LongerSteps(NamedTuple):
    """How many of the steps without the profiler took far longer than all that count, and their share of the time.

    ``begin`` is about the number of the step from which on most of them did, such as that in which a buffer is full;
    None if there is no such step, or if its number is not known.
    """

    steps: int
    of: int
    ratio: float
    begin: int | None = None


def longer_steps(trace: Trace) -> LongerSteps:
    """Return how many steps without the profiler are outliers beside the longest of those that count."""
    plain, counted_ns = np.array(trace.meta.plain_step_ns), counted_steps(trace)
    longest_ns = (counted_ns.end_ns - counted_ns.start_ns).max(initial=0)
    is_longer = (plain > OUTLIER_RATIO * longest_ns) & (not math.isnan(step_ns_of(trace)))
    longer, begin = plain[is_longer], _number_in_loop(trace, _lasting_from(is_longer))
    return LongerSteps(len(longer), len(plain), float(longer.sum() / max(plain.sum(), 1)), begin)


def _lasting_from(is_longer: BoolArray) -> int | None:
    """Return the place from which on most are longer and before which few are, if a good part comes after it."""
    before = np.concatenate(([0], np.cumsum(is_longer)))
    on_their_side = np.arange(len(before)) - 2 * before
    begin = int(np.flatnonzero(on_their_side == on_their_side.max())[-1])
    if len(is_longer) - begin < max(LASTING_PART * len(is_longer), LEAST_LASTING):
        return None
    is_change = is_longer[begin:].mean() >= MOST and (begin == 0 or is_longer[:begin].mean() <= 1 - MOST)
    return begin if is_change else None


def _number_in_loop(trace: Trace, place: int | None) -> int | None:
    """Return which step of the loop one without the profiler is, if none after it was recorded."""
    passes, plain = trace.meta.two_pass, trace.meta.plain_step_ns
    # Of a very long loop, only the first steps without the profiler are kept.
    if place is None or passes is None or not 0 < passes.steps_seen - len(plain) <= MOST_OTHER_STEPS:
        return None
    number = passes.steps_seen - (len(plain) - place)
    return number if number > max((mark.number for mark in trace.meta.recorded_steps), default=-1) else None
