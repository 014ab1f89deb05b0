"""How much everything that two runs have in common changed, which tells a slower machine from slower code."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.findings.compare.work_change import regular_calls

if TYPE_CHECKING:
    from torchprof_magic.findings.compare.per_step import Cells, FloatArray, RunSample

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


def shared_change(before: RunSample, after: RunSample, difference: float) -> float:
    """Return the part of a change that all parts of a step share, as a logarithm of at least 0.

    ``difference`` is the logarithm of the change of the steps. If code changed, some part took the same time before and
    after; if everything changed alike, the machine did.
    """
    parts = _common_parts(before, after)
    return max(0.0, _quantile(parts.change * np.sign(difference), parts.weight, _UNTOUCHED))


def _common_parts(before: RunSample, after: RunSample) -> _Parts:
    """Return the ops with the same number of calls, the rest of the steps, and the kernels likewise."""
    first, second = _times(before.ops, after.ops, "cpu_ns")
    rests = [_rest(run) for run in (before, after)]
    parts = [_weighted(np.append(first, rests[0]), np.append(second, rests[1]))]
    if before.has_device and after.has_device:
        parts.append(_weighted(*_times(before.kernels, after.kernels, "device_ns")))
    return _Parts(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _times(before: Cells, after: Cells, value: str) -> tuple[FloatArray, FloatArray]:
    calls = regular_calls(before), regular_calls(after)
    same = [name for name, count in calls[0].items() if calls[1].get(name) == count]
    times = []
    for cells in (before, after):
        row_of = {name: row for row, name in enumerate(cells.keys["name"].to_list())}
        rows = np.asarray([row_of[name] for name in same], np.int64)
        times.append(np.median(getattr(cells, value)[rows], axis=1))
    return times[0], times[1]


def _rest(run: RunSample) -> float:
    """Return the part of a step outside of all ops; 0 if several threads ran more than the step lasts."""
    durations = np.asarray(run.durations, np.float64)
    covered = run.ops.cpu_ns.sum(axis=0)
    return max(0.0, float(np.median(durations - covered))) if len(durations) == len(covered) else 0.0


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
