"""The threads that run the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from torchprof_magic.facts.server_steps import are_of_server, server_steps
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, IntArray
from torchprof_magic.model.trace import STEP_PATTERN

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


@once_per_trace
def lanes_of_steps(trace: Trace) -> IntArray:
    """Return the thread of each step, that of its range; -1 if it has none."""
    events, steps = trace.events, trace.steps
    is_step = is_named(trace, STEP_PATTERN)
    is_step &= in_category(trace, "user_annotation")
    rows = np.flatnonzero(is_step)
    rows = rows[np.argsort(events["start_ns"].to_numpy()[rows], kind="stable")]
    if are_of_server(trace):
        return events["lane"].to_numpy()[server_steps(trace).row].astype(np.int64)
    if len(rows) == 0:
        return np.full(steps.height, NO_PARENT, np.int64)
    at = np.searchsorted(events["start_ns"].to_numpy()[rows], steps["start_ns"].to_numpy(), side="right") - 1
    return events["lane"].to_numpy()[rows[np.maximum(at, 0)]].astype(np.int64)
