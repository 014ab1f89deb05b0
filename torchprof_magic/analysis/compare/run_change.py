"""The change from one run to another: by the times of the steps, or by work that only one of them does."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from torchprof_magic.analysis.compare.common_drift import drift_of, shared_change
from torchprof_magic.analysis.compare.step_change import (
    SURE_P,
    certainty_of,
    find_step_change,
    interval_of,
    typical_ns,
)
from torchprof_magic.analysis.compare.work_change import find_work_change

if TYPE_CHECKING:
    from torchprof_magic.analysis.compare.per_step import RunSample
    from torchprof_magic.analysis.compare.step_change import Certainty, ChangeKind, StepChange
    from torchprof_magic.analysis.compare.work_change import WorkChange

# Steps that contradict the work that differs must be this sure.
_CERTAIN_P = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """How the step time changed. ``ratio`` and ``interval`` are after over before.

    ``basis`` says what decided: the times of the ``steps``, or ``work`` that only one run does, if the steps alone
    cannot tell. ``drift`` is how many times longer took what both runs do equally often. ``work`` is None if all that
    is called is called equally often, or if that cannot be known.
    """

    kind: ChangeKind
    certainty: Certainty
    ratio: float
    interval: tuple[float, float]
    p: float
    basis: Literal["steps", "work", ""]
    before_ns: float
    after_ns: float
    before_steps: int
    after_steps: int
    drift: float
    work: WorkChange | None = None


def find_change(before: RunSample, after: RunSample) -> RunChange:
    """Return the change from the complete steps of one run to those of another."""
    durations = before.durations, after.durations
    typical = typical_ns(durations[0]), typical_ns(durations[1])
    steps, drift = _by_steps(before, after, durations), drift_of(before, after)
    work = find_work_change(before, after)
    decided = steps if work is None else _with_work(steps, work, drift)
    is_by_work = decided is not steps and (decided.kind != steps.kind or decided.p != steps.p)
    return RunChange(
        kind=decided.kind,
        certainty=decided.certainty,
        ratio=decided.ratio,
        interval=decided.interval,
        p=decided.p,
        basis="" if decided.kind == "unclear" else "work" if is_by_work else "steps",
        before_ns=typical[0],
        after_ns=typical[1],
        before_steps=len(durations[0]),
        after_steps=len(durations[1]),
        drift=drift,
        work=work,
    )


def _by_steps(before: RunSample, after: RunSample, durations: tuple[tuple[int, ...], tuple[int, ...]]) -> StepChange:
    steps = find_step_change(*durations)
    if steps.kind == "unclear":
        return steps
    return find_step_change(*durations, shared_change(before, after, math.log(steps.ratio)))


def _with_work(steps: StepChange, work: WorkChange, drift: float) -> StepChange:
    """Return the change with what is known of work that differs.

    Both estimates of the ratio count by their precision. The work decides where the times of the steps cannot tell, or
    go the other way with everything else in them.
    """
    if work.p >= SURE_P or steps.certainty == "too few steps":
        return steps
    by_steps = math.log(steps.ratio)
    is_against = (by_steps > 0) != (work.difference > 0)
    goes_with = math.log(drift) * math.copysign(1, by_steps) >= abs(by_steps) / 2
    is_of_machine = is_against and (goes_with or steps.p >= _CERTAIN_P)
    weights = 1 / steps.error**2, 1 / work.error**2
    mean = (by_steps * weights[0] + work.difference * weights[1]) / sum(weights)
    error = sum(weights) ** -0.5
    if steps.kind != "unclear" and not is_of_machine:
        return steps if is_against else replace(steps, ratio=math.exp(mean), interval=interval_of(mean, error))
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
