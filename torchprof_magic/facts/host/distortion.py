"""How much longer steps take because they are recorded."""

from __future__ import annotations

import math
from statistics import fmean
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
    plain, chosen = trace.meta.plain_step_ns, counted_steps(trace)
    recorded_ns = step_ns_of(trace)
    if len(plain) < LEAST_PLAIN_STEPS or math.isnan(recorded_ns) or typical_of(plain) <= 0:
        return None
    longest_ns = OUTLIER_RATIO * (chosen.end_ns - chosen.start_ns).max(initial=0)
    # Where longer ones count, those without the profiler are of both kinds as well.
    plain_ns = fmean(each for each in plain if each <= longest_ns) if len(chosen.usual) else typical_of(plain)
    return Distortion(plain_ns, recorded_ns, len(plain), chosen.steps)


class LongerSteps(NamedTuple):
    """How many of the steps without the profiler took far longer than all that count, and their share of the time.

    ``begin`` is about the number of the step from which most of them did, such as when a buffer is full; None if there
    is no such step.
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
    longer, begin = plain[is_longer], _lasting_from(is_longer)
    # The first step of all is not among those without the profiler, and neither are the recorded ones.
    number = None if begin is None else begin + 1 + len(trace.meta.recorded_steps)
    return LongerSteps(len(longer), len(plain), float(longer.sum() / max(plain.sum(), 1)), number)


def _lasting_from(is_longer: BoolArray) -> int | None:
    """Return the place from which on most are longer and before which few are, if a good part comes after it."""
    before = np.concatenate(([0], np.cumsum(is_longer)))
    places = np.arange(len(before))
    begin = int(np.argmax(places - 2 * before))  # as many as possible lie on their side of it
    if begin == 0 or len(is_longer) - begin < LASTING_PART * len(is_longer):
        return None
    is_change = is_longer[begin:].mean() >= MOST and is_longer[:begin].mean() <= 1 - MOST
    return begin if is_change else None
