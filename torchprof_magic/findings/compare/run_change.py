"""The change from one run to another: by the times of the steps, or by work that only one of them does."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from torchprof_magic.facts.counted_steps import typical_of
from torchprof_magic.findings.compare.common_drift import drift_of, fastest_change, shared_change, shown_drift_of
from torchprof_magic.findings.compare.step_change import (
    LEAST_STEPS,
    LIKELY_P,
    SURE_P,
    certainty_of,
    find_step_change,
    interval_of,
)
from torchprof_magic.findings.compare.work_change import WAITING, find_wait_change, find_work_change

if TYPE_CHECKING:
    from torchprof_magic.findings.compare.per_step import RunSample
    from torchprof_magic.findings.compare.step_change import Certainty, ChangeKind, StepChange
    from torchprof_magic.findings.compare.work_change import WorkChange

# Steps that contradict the work that differs must be this sure.
_CERTAIN_P = 0.001
# Steps that took part in no recording must say between so many times what the recorded ones say.
_CONFIRMED = (0.5, 8)
# So many more of the threads of one run had no core for themselves.
_CROWDED = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """How the step time changed. ``ratio`` is that of the typical steps, after over before, so that of the times shown.

    Where ``basis`` is ``work``, it is the ratio that work makes alone. ``interval`` is the confidence interval
    of 98 %, widened to hold ``ratio`` where that is of the typical steps, while the lower quartiles are tested.
    ``basis`` says what decided: the times of the ``steps``, or, if these alone cannot tell, ``work`` that only one run
    does, or ``waits`` that are longer in every recorded step of one. ``drift`` is how many times longer took what both
    runs do equally often, and ``shown_drift`` how many times longer these ops took together in the typical steps, 1 if
    that is not the same way. ``work`` is None if all that is called is called equally often, or if that cannot be
    known. ``is_plain`` tells that the steps compared are those that ran without the profiler, ``same_details`` that
    both runs recorded the same beyond times, and ``same_inputs`` that the shapes of their inputs are the same, or not
    known. ``others_shares`` are the parts of the machine that other programs took during each run, if that may have
    caused the change of the steps. ``fastest_ratio`` is after over before of the fastest that each op ran, or of the
    fastest step if those without the profiler are compared.
    """

    kind: ChangeKind
    certainty: Certainty
    ratio: float
    interval: tuple[float, float]
    p: float
    basis: Literal["steps", "work", "waits", ""]
    before_ns: float
    after_ns: float
    before_steps: int
    after_steps: int
    drift: float
    shown_drift: float
    work: WorkChange | None = None
    is_plain: bool = False
    same_details: bool = True
    same_inputs: bool = True
    others_shares: tuple[float, float] | None = None
    fastest_ratio: float = math.nan


class ComparedSteps(NamedTuple):
    """The durations of the steps that are compared, in ns, and whether they ran without the profiler."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    is_plain: bool


def compared_steps(before: RunSample, after: RunSample) -> ComparedSteps:
    """Return the recorded steps; or those that ran without the profiler, if that is fairer and both have enough.

    It is if a run recorded too few to compare, or if only one recorded shapes, memory or stacks, which takes time.
    """
    recorded = before.durations, after.durations
    plain = before.plain_durations, after.plain_durations
    is_fairer = min(map(len, recorded)) < LEAST_STEPS or before.details != after.details
    if is_fairer and min(map(len, plain)) >= LEAST_STEPS:
        return ComparedSteps(*plain, is_plain=True)
    return ComparedSteps(*recorded, is_plain=False)


def find_change(before: RunSample, after: RunSample) -> RunChange:
    """Return the change from the complete steps of one run to those of another."""
    compared = compared_steps(before, after)
    typical = _typical(before, compared.before, compared), _typical(after, compared.after, compared)
    steps, drift = _by_steps(before, after, compared), drift_of(before, after)
    work = _find_work(before, after, compared)
    decided = steps
    if work is not None and not compared.is_plain:
        decided = _with_work(steps, work, drift, SURE_P)
    elif work is not None and _confirms(steps, work):
        decided = _with_work(steps, work._replace(p=_both_p(work.p, steps.p / 2)), drift, LIKELY_P)
    is_by_work = decided is not steps and (decided.kind != steps.kind or decided.p != steps.p)
    is_of_waits = is_by_work and work is not None and work.name == WAITING and _goes_with(decided, typical)
    if is_of_waits or not is_by_work:
        decided = _of_typical(decided, typical[1] / typical[0] if typical[0] else math.nan)
    return RunChange(
        kind=decided.kind,
        certainty=decided.certainty,
        ratio=decided.ratio,
        interval=decided.interval,
        p=decided.p,
        basis="" if decided.kind == "unclear" else "waits" if is_of_waits else "work" if is_by_work else "steps",
        before_ns=typical[0],
        after_ns=typical[1],
        before_steps=len(compared.before),
        after_steps=len(compared.after),
        drift=drift,
        shown_drift=shown_drift_of(before, after),
        work=work,
        is_plain=compared.is_plain,
        same_details=before.details == after.details,
        same_inputs=_has_same_inputs(before, after),
        others_shares=_crowded_by(before, after, math.log(steps.ratio)),
        fastest_ratio=math.exp(_fastest(before, after, compared)) if min(map(len, compared[:2])) else math.nan,
    )


def _find_work(before: RunSample, after: RunSample, compared: ComparedSteps) -> WorkChange | None:
    """Return the work that differs, or how much longer one run waits, if that is surer and goes the same way."""
    work = find_work_change(before, after)
    steps_ns = np.asarray(compared.before, np.float64), np.asarray(compared.after, np.float64)
    waits = find_wait_change(before, after, steps_ns)
    if waits is None or work is None:
        return work or waits
    return waits if waits.p < work.p and waits.difference * work.difference > 0 else work


def _goes_with(decided: StepChange, typical: tuple[float, float]) -> bool:
    """Return whether the typical steps changed by what the interval of a change allows."""
    low, high = decided.interval
    return typical[0] > 0 and low <= typical[1] / typical[0] <= high


def _typical(run: RunSample, steps_ns: tuple[int, ...], compared: ComparedSteps) -> float:
    """Return the typical step of a run, of those that are compared."""
    return typical_of(steps_ns) if compared.is_plain else run.step_ns


def _of_typical(steps: StepChange, ratio: float) -> StepChange:
    """Return the change with the ratio of the typical steps, which the page and the text show.

    Whether there is a change stays decided by the lower quartiles, unless the typical steps do not go the same way.
    """
    low, high = steps.interval
    contradicts = (steps.kind == "slower" and ratio <= 1) or (steps.kind == "faster" and ratio >= 1)
    decided = replace(steps, kind="unclear", certainty="not sure") if contradicts else steps
    return replace(decided, ratio=ratio, interval=(min(low, ratio), max(high, ratio)))


def _by_steps(before: RunSample, after: RunSample, compared: ComparedSteps) -> StepChange:
    steps = find_step_change(compared.before, compared.after)
    if steps.kind == "unclear":
        return steps
    difference = math.log(steps.ratio)
    unseen = abs(difference) - max(0.0, _fastest(before, after, compared) * math.copysign(1, difference))
    shared = max(unseen, shared_change(before, after, difference))
    if _crowded_by(before, after, difference):
        shared = max(shared, abs(difference))
    return find_step_change(compared.before, compared.after, shared)


def _fastest(before: RunSample, after: RunSample, compared: ComparedSteps) -> float:
    """Return the logarithm of after over before of the fastest of each op, or of the fastest step without the profiler.

    A change of the code changes it, and other programs that interrupt the steps do not.
    """
    if compared.is_plain:
        return math.log(max(min(compared.after), 1) / max(min(compared.before), 1))
    return fastest_change(before, after)


def _crowded_by(before: RunSample, after: RunSample, difference: float) -> tuple[float, float] | None:
    """Return what other programs took of the machine during each run, if they can be why the slower run is slower."""
    if before.crowding is None or after.crowding is None or before.others_share is None or after.others_share is None:
        return None
    more = (after.crowding - before.crowding) * math.copysign(1, difference)
    return (before.others_share, after.others_share) if more >= _CROWDED else None


def _has_same_inputs(before: RunSample, after: RunSample) -> bool:
    return not (before.inputs and after.inputs) or before.inputs == after.inputs


def _confirms(steps: StepChange, work: WorkChange) -> bool:
    """Tell whether steps that ran without the profiler changed by about as much as the recorded ones say.

    A few recorded steps may all have done by chance what others do not.
    """
    least, most = _CONFIRMED
    return least <= math.log(steps.ratio) / work.difference <= most


def _both_p(first: float, second: float) -> float:
    """Return the probability of chance by two independent tests, by Fisher's method."""
    product = max(first * second, sys.float_info.min)
    return product * (1 - math.log(product))


def _with_work(steps: StepChange, work: WorkChange, drift: float, most_p: float) -> StepChange:
    """Return the change with what is known of work that differs, if that has a probability of chance below ``most_p``.

    It decides where the times of the steps cannot tell, or go the other way with everything else in them; then both
    estimates of the ratio count by their precision.
    """
    if work.p >= most_p or steps.certainty == "too few steps":
        return steps
    by_steps = math.log(steps.ratio)
    is_against = (by_steps > 0) != (work.difference > 0)
    goes_with = math.log(drift) * math.copysign(1, by_steps) >= abs(by_steps) / 2
    is_of_machine = is_against and (goes_with or steps.p >= _CERTAIN_P)
    if steps.kind != "unclear" and not is_of_machine:
        return steps
    weights = 1 / steps.error**2, 1 / work.error**2
    mean = (by_steps * weights[0] + work.difference * weights[1]) / sum(weights)
    error = sum(weights) ** -0.5
    low, high = interval_of(mean, error)
    if low <= 1 <= high or (mean > 0) != (work.difference > 0):
        mean, (low, high) = work.difference, interval_of(work.difference, work.error)
    return replace(
        steps,
        kind="slower" if work.difference > 0 else "faster",
        certainty=certainty_of(work.p),
        ratio=math.exp(mean),
        interval=(low, high),
        p=work.p,
        error=error,
    )
