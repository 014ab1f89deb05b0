"""How much everything that two runs have in common changed, which tells a slower machine from slower code."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.findings.compare.input_sizes import growth
from torchprof_magic.findings.compare.work_change import regular_calls
from torchprof_magic.model.outliers import are_outliers

if TYPE_CHECKING:
    from torchprof_magic.findings.compare.per_step import Cells, FloatArray, RunSample
    from torchprof_magic.model.intervals import BoolArray

# A part counts by its share of a step, and no part for more than this: a program of one large op has others, too.
_MOST_WEIGHT = 0.15
_LEAST_SHARE = 0.002
# A change of the code leaves at least this much of what runs in both as it was.
_UNTOUCHED = 0.3


class _Parts(NamedTuple):
    """Parts of a step that both runs have equally often: the logarithm of after over before, and a weight."""

    change: FloatArray
    weight: FloatArray


def drift_of(before: RunSample, after: RunSample) -> float:
    """Return how many times longer the parts that both runs have equally often took, by the weighted median."""
    parts = _common_parts(before, after)
    return math.exp(_quantile(parts.change, parts.weight, 0.5))


def shown_drift_of(before: RunSample, after: RunSample) -> float:
    """Return how many times longer all ops that both runs call equally often took together in a typical step.

    These are the times that the tables show, whose sum can be checked. It is 1 if ``drift_of`` does not go the same
    way, as where one large op changed and the others did not.
    """
    if not (before.durations and after.durations):
        return 1.0
    sums = [
        float(times.sum()) for times in _times(before.ops, after.ops, "cpu_ns", (_counted(before), _counted(after)))
    ]
    ratio = sums[1] / sums[0] if min(sums, default=0) > 0 else 1.0
    return ratio if (ratio - 1) * (drift_of(before, after) - 1) > 0 else 1.0


def _counted(run: RunSample) -> BoolArray:
    """Return which of the steps of a run are no outliers, as those that count in the tables."""
    return ~are_outliers(np.asarray(run.durations, np.float64))


def shared_change(before: RunSample, after: RunSample, difference: float) -> float:
    """Return the part of a change that all parts of a step share, as a logarithm of at least 0.

    ``difference`` is the logarithm of the change of the steps. If code changed, some part took the same time before and
    after; if everything changed alike, the machine did, but for what the inputs grew by.
    """
    parts = _common_parts(before, after)
    beyond = (parts.change - inputs_growth(before, after)) * np.sign(difference)
    return max(0.0, _quantile(beyond, parts.weight, _UNTOUCHED))


def inputs_growth(before: RunSample, after: RunSample) -> float:
    """Return the logarithm of after over before of the size of the inputs; 0 if it is not known.

    It is that of the ops that both runs call equally often, if both recorded shapes, or else of the outermost modules.
    """
    of_ops = growth(before.op_sizes, after.op_sizes, _called_alike(before.ops, after.ops))
    if of_ops is not None:
        return of_ops
    common = dict(before.input_sizes).keys() & dict(after.input_sizes).keys()
    return growth(before.input_sizes, after.input_sizes, common) or 0.0


def fastest_change(before: RunSample, after: RunSample) -> float:
    """Return the logarithm of after over before of the fastest that every op, and the rest of a step, ran in any step.

    Where other programs interrupt the steps, they hit other ops in each, so the fastest are as they would be alone.
    """
    fastest = [_fastest_ns(run) for run in (before, after)]
    return math.log(fastest[1] / fastest[0]) if min(fastest) > 0 else 0.0


def _fastest_ns(run: RunSample) -> float:
    return float(run.ops.cpu_ns.min(axis=1).sum()) + max(0.0, float(_rests(run).min()))


def _common_parts(before: RunSample, after: RunSample) -> _Parts:
    """Return the ops with the same number of calls, the rest of the steps, and the kernels likewise."""
    first, second = _times(before.ops, after.ops, "cpu_ns")
    rests = [_rest(run) for run in (before, after)]
    parts = [_weighted(np.append(first, rests[0]), np.append(second, rests[1]))]
    if before.has_device and after.has_device:
        parts.append(_weighted(*_times(before.kernels, after.kernels, "device_ns")))
    return _Parts(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _times(
    before: Cells, after: Cells, value: str, counted: tuple[BoolArray, BoolArray] | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the median over all steps of what both runs call equally often, or the mean of the steps that count."""
    same = _called_alike(before, after)
    times = []
    for side, cells in enumerate((before, after)):
        row_of = {name: row for row, name in enumerate(cells.keys["name"].to_list())}
        rows = np.asarray([row_of[name] for name in same], np.int64)
        ns = getattr(cells, value)[rows]
        times.append(np.median(ns, axis=1) if counted is None else ns[:, counted[side]].mean(axis=1))
    return times[0], times[1]


def _called_alike(before: Cells, after: Cells) -> list[str]:
    """Return the names of what both runs call equally often in nearly all steps."""
    calls = regular_calls(before), regular_calls(after)
    return [name for name, count in calls[0].items() if calls[1].get(name) == count]


def _rest(run: RunSample) -> float:
    """Return the part of a step outside of all ops; 0 if several threads ran more than the step lasts."""
    return max(0.0, float(np.median(_rests(run))))


def _rests(run: RunSample) -> FloatArray:
    """Return the part of each step outside of all ops, negative if several threads ran more than it lasts."""
    durations = np.asarray(run.durations, np.float64)
    covered = run.ops.cpu_ns.sum(axis=0)
    return durations - covered if len(durations) == len(covered) else np.zeros(1)


def _weighted(before: FloatArray, after: FloatArray) -> _Parts:
    is_known = (before > 0) & (after > 0)
    before, after = before[is_known], after[is_known]
    share = (before / max(before.sum(), 1) + after / max(after.sum(), 1)) / 2
    counts = share >= _LEAST_SHARE
    return _Parts(np.log(after[counts] / before[counts]), np.minimum(share[counts], _MOST_WEIGHT))


def _quantile(values: FloatArray, weights: FloatArray, share: float) -> float:
    if len(values) == 0:
        return 0.0
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] * share)])
