"""How much of the steps is work that only one of two runs does: ops that are called more often, or not at all.

How often an op is called does not depend on how busy the machine is, and what its calls take is measured in the same
steps as everything else. So on a noisy machine this says far more surely than the steps' times whether code that was
added or taken away matters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.findings.compare.step_change import (
    COMPARED_QUANTILE,
    LEAST_STEPS,
    jackknife_variance,
    tail_of_t,
)
from torchprof_magic.model.units import enumerated

if TYPE_CHECKING:
    from torchprof_magic.findings.compare.per_step import Cells, FloatArray, RunSample

# Numbers of calls count where nearly all steps have the same.
_REGULAR_SHARE = 0.9
# Less of a step is not told from rounding and from ops around it.
LEAST_RATIO = 0.005
# Python between the calls, and caches, belong to the work, but are not in its ops.
MODEL_ERROR = 0.3
# A wait has none of these, but part of it may run beside something else, and the steps that it is added to vary.
_WAIT_ERROR = 0.15
_MOST_SHARE = 0.99
_PERMUTATIONS = 2_000
# Three steps cannot be dealt to two runs in enough ways, so Student's t tells the chance. Only the run with the work
# adds to its degrees of freedom.
_LEAST_WORK_STEPS = 3
_FREEDOM_OF_FEW = 2
_LEAST_ERROR = 1e-9
# A wait that one run has and the other has not: below the first share of a step, and above the second.
_NO_WAIT, _A_WAIT = 0.002, 0.01
# Two runs wait for other times if the gap between these is so many times what they vary by within the runs.
_APART = 3
WAITING = "sleeping or waiting"


class WorkChange(NamedTuple):
    """``difference`` is the logarithm of after over before, if all else took the same time.

    ``name`` is the op with the largest part, with its calls in a step of each run.
    """

    difference: float
    error: float
    p: float
    name: str
    calls_before: int
    calls_after: int


def find_work_change(before: RunSample, after: RunSample) -> WorkChange | None:
    """Return the change by work that differs, or ``None`` if it is below 0.5 % of a step, or cannot be known.

    Only for programs whose time is that of the host: where a device works, calls on the host may cost nothing. Needs
    three recorded steps of each run.
    """
    durations = tuple(np.asarray(run.durations, np.float64) for run in (before, after))
    if before.has_device or after.has_device or min(map(len, durations)) < _LEAST_WORK_STEPS:
        return None
    cells = before.ops, after.ops
    regular = tuple(regular_calls(each) for each in cells)
    known = regular[0].keys() & regular[1].keys()
    names = _names(cells)
    only = tuple(set(mine) - set(other) for mine, other in zip(names, names[::-1], strict=True))
    extra = tuple(
        _extra_ns(mine, calls, other, known | alone)
        for mine, calls, other, alone in zip(cells, regular, regular[::-1], only, strict=True)
    )
    extra = _with_waits((before, after), extra)
    logs = tuple(
        np.log1p(-np.minimum(sum(parts.values(), np.zeros(len(dur))) / dur, _MOST_SHARE))
        for parts, dur in zip(extra, durations, strict=True)
    )
    difference = float(np.median(logs[0]) - np.median(logs[1]))
    error = math.sqrt(sum(jackknife_variance(run, np.median) for run in logs))
    if abs(math.expm1(difference)) < LEAST_RATIO:
        return None
    is_few = min(map(len, logs)) < LEAST_STEPS
    p = tail_of_t(difference / max(error, _LEAST_ERROR), _FREEDOM_OF_FEW) if is_few else _chance(*logs)
    name = _largest(extra[1] if difference > 0 else extra[0])
    calls = [round(each.get(name, 0)) for each in regular]
    return WorkChange(difference, max(error, MODEL_ERROR * abs(difference)), p, name, *calls)


def find_wait_change(before: RunSample, after: RunSample, steps_ns: tuple[FloatArray, FloatArray]) -> WorkChange | None:
    """Return the change by waits that are longer in every recorded step of one run; None if they are not.

    How long a thread sleeps hardly depends on how busy the machine is, so its time is compared, and not its share of
    steps that vary. ``steps_ns`` are the steps that are compared, to which the waits were added. Needs three recorded
    steps of each run without a device.
    """
    idle = [np.asarray(run.idle_ns, np.float64) for run in (before, after)]
    if before.has_device or after.has_device or min(map(len, idle)) < _LEAST_WORK_STEPS or not all(map(len, steps_ns)):
        return None
    shorter, longer = sorted(idle, key=np.median)
    more_ns = float(np.median(longer) - np.median(shorter))
    base_ns = float(np.quantile(steps_ns[0 if longer is idle[1] else 1], COMPARED_QUANTILE))
    if not _is_apart(shorter, longer) or more_ns < _A_WAIT * base_ns:
        return None
    difference = math.log1p(more_ns / base_ns) * (1 if longer is idle[1] else -1)
    error = math.sqrt(sum(float(ns.var(ddof=1)) / len(ns) for ns in idle)) / more_ns
    p = tail_of_t(1 / max(error, _LEAST_ERROR), _FREEDOM_OF_FEW)
    return WorkChange(difference, _WAIT_ERROR * abs(difference), p, WAITING, 0, 0)


def _is_apart(shorter: FloatArray, longer: FloatArray) -> bool:
    """Return whether all times of one run are longer than those of the other by far more than they vary."""
    return float(longer.min() - shorter.max()) > _APART * float(np.ptp(longer) + np.ptp(shorter))


def what_is_same(before: RunSample, after: RunSample, code: str = "") -> str:
    """Return what two runs have in common of which no setting differs, and what differs: calls and ``code``.

    Shapes are in common only if they are known to be.
    """
    has_calls = regular_calls(before.ops) == regular_calls(after.ops)
    differs = enumerated(
        [*([f"the code ({code})"] if code else []), *([] if has_calls else ["how often ops are called"])]
    )
    known = ((before.inputs, after.inputs), (frozenset(before.op_sizes), frozenset(after.op_sizes)))
    has_shapes = has_calls and any(mine and mine == other for mine, other in known)
    same = "machine, versions, flags and shapes" if has_shapes else "machine, versions and flags"
    return f"{same}. Different: {differs}" if differs else same


def _names(cells: tuple[Cells, Cells]) -> tuple[list[str], list[str]]:
    return cells[0].keys["name"].to_list(), cells[1].keys["name"].to_list()


def regular_calls(cells: Cells) -> dict[str, float]:
    """Return the calls in a step of each op that is called equally often in nearly all steps."""
    usual = np.median(cells.calls, axis=1)
    is_regular = (cells.calls == usual[:, None]).mean(axis=1) >= _REGULAR_SHARE
    names = cells.keys["name"].to_list()
    return {name: float(usual[row]) for row, name in enumerate(names) if is_regular[row] and usual[row] > 0}


def _extra_ns(
    cells: Cells, calls: dict[str, float], other: dict[str, float], usable: set[str]
) -> dict[str, FloatArray]:
    """Return the time in each step of the calls that the other run has not, by op."""
    rows = {name: row for row, name in enumerate(cells.keys["name"].to_list())}
    extra = {}
    for name, count in calls.items():
        if name in usable and count > (others := other.get(name, 0.0)):
            extra[name] = cells.cpu_ns[rows[name]] * (1 - others / count)
    return extra


def _with_waits(
    runs: tuple[RunSample, RunSample], extra: tuple[dict[str, FloatArray], ...]
) -> tuple[dict[str, FloatArray], ...]:
    """Return the extra times with the waits of a run whose thread slept in every step, if the other's never did."""
    idle = [np.asarray(run.idle_ns, np.float64) for run in runs]
    shares = [ns / np.maximum(run.durations, 1) for run, ns in zip(runs, idle, strict=True)]
    found = []
    for mine, other, ns, parts in zip(shares, shares[::-1], idle, extra, strict=True):
        is_new = _is_mostly(mine >= _A_WAIT) and _is_mostly(other <= _NO_WAIT)
        found.append(parts | {WAITING: ns} if is_new else parts)
    return tuple(found)


def _is_mostly(values: np.ndarray) -> bool:
    return bool(values.mean() >= _REGULAR_SHARE)


def _largest(extra: dict[str, FloatArray]) -> str:
    return max(extra, key=lambda name: float(np.median(extra[name])), default="")


def _chance(before: FloatArray, after: FloatArray) -> float:
    """Return how often steps that are dealt to the two runs at random differ as much: a permutation test on ranks."""
    ranks = np.unique(np.concatenate((before, after)), return_inverse=True)[1].astype(np.float64)
    seen = abs(ranks[: len(before)].mean() - ranks[len(before) :].mean())
    generator = np.random.default_rng(0)
    dealt = generator.permuted(np.tile(ranks, (_PERMUTATIONS, 1)), axis=1)
    differences = np.abs(dealt[:, : len(before)].mean(axis=1) - dealt[:, len(before) :].mean(axis=1))
    return (1 + int((differences >= seen - 1e-9).sum())) / (1 + _PERMUTATIONS)
