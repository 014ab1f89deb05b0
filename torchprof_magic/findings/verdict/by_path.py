"""Which part of the critical paths of the steps is the host's, a device's, of loading data, or of communication."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.step_graph.on_path import is_path_shown
from torchprof_magic.facts.step_graph.path import critical_path
from torchprof_magic.facts.step_graph.spans import spans_of_steps
from torchprof_magic.findings.what_if.asked import baseline, can_replay
from torchprof_magic.findings.what_if.limits import (
    ASLEEP,
    CALLS,
    COMMUNICATION,
    DATA,
    DEVICE,
    GROUPS,
    OPS,
    PYTHON,
    groups_of,
)

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


class PathShares(NamedTuple):
    """Shares of the critical paths of the steps that count. What is left is waiting until work begins or is known."""

    host: float
    device: float
    data: float
    communication: float


@once_per_trace
def path_shares(trace: Trace) -> PathShares | None:
    """Return the shares; None where the path is not known, or rests on what the file does not say."""
    if not is_path_shown(trace) or not can_replay(trace):
        return None
    path = critical_path(trace)
    counts = np.isin(spans_of_steps(trace).step, baseline(trace).spans.step)[path.span]
    sums = np.bincount(groups_of(trace, path)[counts], path.dur_ns[counts], minlength=len(GROUPS))
    if not sums.any():
        return None
    shares = sums / sums.sum()
    return PathShares(
        float(shares[[OPS, CALLS, PYTHON, ASLEEP]].sum()), *map(float, shares[[DEVICE, DATA, COMMUNICATION]])
    )
