"""Whether steps became faster or slower, by how much, and how sure that is.

Steps of one run are no independent samples: other programs take the machine for a while, clocks change, and caches
warm up. So the spread is taken from blocks of consecutive steps, and the drift between the halves of each run is added
to it. A step that had to share the machine is longer and never shorter, so the lower quartiles are compared: of the
same program on a busy machine they vary half as much as the median. This only decides whether there is a change: what
is shown of it is the ratio of the typical steps of ``facts/counted_steps.py`` (``run_change.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ChangeKind = Literal["faster", "slower", "unclear"]
Certainty = Literal["sure", "likely", "not sure", "too few steps"]
FloatArray = npt.NDArray[np.float64]

LEAST_STEPS = 4
SURE_P = 0.01
LIKELY_P = 0.02
# So that the interval excludes 1 exactly where the steps tell a change.
CONFIDENCE = 1 - LIKELY_P
COMPARED_QUANTILE = 0.25
_BLOCKS = 4
# Two runs of the same code differ even where all steps of each are equal: other addresses, clocks and neighbours, which
# change over seconds. So short runs can differ by this much, and longer ones by less.
_FLOOR = 0.05
_LEAST_FLOOR = 0.0125
_SHORT_NS = 0.5e9


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChange:
    """A change of the lower quartile of the steps: ``ratio`` is after over before, ``interval`` its 98 % interval.

    ``p`` is the probability of such a difference, or a larger one, between two runs of the same code, and ``error`` the
    standard error of the logarithm of the ratio.
    """

    kind: ChangeKind
    certainty: Certainty
    ratio: float
    interval: tuple[float, float]
    p: float
    error: float = math.inf


def find_step_change(before_ns: Sequence[float], after_ns: Sequence[float], shared: float = 0.0) -> StepChange:
    """Return how steps changed; both are durations of complete steps in the order in which they ran.

    ``shared`` is how much of the difference, as a logarithm, may be due to the machine and not to the code.
    With fewer than four steps on a side, or steps without a duration, the kind is unclear and the interval is open.
    """
    before, after = (np.asarray([ns for ns in steps if ns > 0], np.float64) for steps in (before_ns, after_ns))
    if min(len(before), len(after)) == 0:
        return StepChange(
            kind="unclear", certainty="too few steps", ratio=math.nan, interval=(0.0, math.inf), p=math.nan
        )
    logs = np.log(before), np.log(after)
    difference = _quartile(logs[1]) - _quartile(logs[0])
    ratio = math.exp(difference)
    if min(len(before), len(after)) < LEAST_STEPS:
        return StepChange(kind="unclear", certainty="too few steps", ratio=ratio, interval=(0.0, math.inf), p=math.nan)
    error = math.sqrt(
        sum(jackknife_variance(run, _quartile) for run in logs)
        + sum(_drift(run) for run in logs) / 2
        + _floor(before, after) ** 2
        + shared**2
    )
    freedom = 2 * (_BLOCKS - 1)
    p = tail_of_t(difference / error, freedom)
    return StepChange(
        kind=kind_of(difference, p),
        certainty=certainty_of(p),
        ratio=ratio,
        interval=interval_of(difference, error),
        p=p,
        error=error,
    )


def interval_of(difference: float, error: float) -> tuple[float, float]:
    """Return the confidence interval of a ratio, from the logarithm of the ratio and its standard error."""
    reach = _quantile_of_t(1 - CONFIDENCE, 2 * (_BLOCKS - 1)) * error
    return math.exp(difference - reach), math.exp(difference + reach)


def certainty_of(p: float) -> Certainty:
    """Return the word for a probability of chance."""
    return "sure" if p < SURE_P else "likely" if p < LIKELY_P else "not sure"


def kind_of(difference: float, p: float) -> ChangeKind:
    """Return the kind of a difference of logarithms."""
    if not p < LIKELY_P:
        return "unclear"
    return "slower" if difference > 0 else "faster"


def _quartile(logs: FloatArray) -> float:
    return float(np.quantile(logs, COMPARED_QUANTILE))


def jackknife_variance(values: FloatArray, statistic: Callable[[FloatArray], np.floating | float]) -> float:
    """Return the squared error of a statistic, by leaving out one block of consecutive values after the other."""
    blocks = min(_BLOCKS, len(values))
    parts = np.array_split(values, blocks)
    left_out = [float(statistic(np.concatenate(parts[:at] + parts[at + 1 :]))) for at in range(blocks)]
    pseudo = blocks * float(statistic(values)) - (blocks - 1) * np.asarray(left_out)
    return float(pseudo.var(ddof=1)) / blocks


def _drift(logs: FloatArray) -> float:
    """Return the squared difference between the halves of a run."""
    half = len(logs) // 2
    return (_quartile(logs[half:]) - _quartile(logs[:half])) ** 2


def _floor(before: FloatArray, after: FloatArray) -> float:
    """Return the error that does not show in the steps, by the time of the shorter run."""
    shorter_ns = min(float(before.sum()), float(after.sum()))
    return max(_LEAST_FLOOR, _FLOOR * math.sqrt(min(1.0, _SHORT_NS / shorter_ns)))


def tail_of_t(value: float, freedom: int) -> float:
    """Return the probability that Student's t of an even number of degrees of freedom exceeds ``value`` on either side.

    By the closed form of Abramowitz and Stegun, 26.7.4.
    """
    angle = math.atan(abs(value) / math.sqrt(freedom))
    term, total = 1.0, 1.0
    for number in range(1, freedom // 2):
        term *= (2 * number - 1) / (2 * number) * math.cos(angle) ** 2
        total += term
    return max(0.0, 1 - math.sin(angle) * total)


def _quantile_of_t(p: float, freedom: int) -> float:
    """Return the value that t exceeds on either side with probability ``p``, by bisection."""
    low, high = 0.0, 1e3
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail_of_t(middle, freedom) > p else (low, middle)
    return high
