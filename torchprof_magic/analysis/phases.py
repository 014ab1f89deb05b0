"""The part of a training step that each event belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from torchprof_magic.analysis.shared import ask_names, once_per_trace
from torchprof_magic.model.intervals import nearest_marked
from torchprof_magic.model.trace import STEP_PATTERN
from torchprof_magic.model.vendors import COLLECTIVE_RANGE

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

PHASES = ("forward", "backward", "optimizer", "communication", "data", "other")
PHASE = pl.Enum(PHASES)

# The nearest marked event at or around an event decides. The names are those that torch uses; annotations of the user
# count if they contain the word backward or optimizer.
_COMMUNICATION = rf"{COLLECTIVE_RANGE}|^(c10d|_c10d_functional)::|^record_param_comms$"
_OPTIMIZER = r"^Optimizer\.(step|zero_grad)#"
_DATA = r"^enumerate\(DataLoader\)#"
# Before 2022, traces lack the ranges of the autograd engine; there the nodes (MulBackward0) and *_backward ops tell.
_BACKWARD = r"^autograd::engine::|^torch::autograd::|Backward\d*$|^aten::\w+_backward(_\w+)?$"
_USER_BACKWARD = r"(?i)\bbackward\b"
_USER_OPTIMIZER = r"(?i)\bopt(imizer)?\b"

UNMARKED = -1
# Phase, pattern of names, and pattern of the names of user annotations.
_RULES = (
    ("communication", _COMMUNICATION, None),
    ("optimizer", _OPTIMIZER, _USER_OPTIMIZER),
    ("data", _DATA, None),
    ("backward", _BACKWARD, _USER_BACKWARD),
)


@once_per_trace
def phase_of_events(trace: Trace) -> npt.NDArray[np.int8]:
    """Return the index into ``PHASES`` of every event. Computed once per trace, and read-only.

    Ops outside of all marked events count as forward, Python frames and runtime calls as other. Device events belong
    to the phase of the op that launched them.
    """
    events = trace.events
    marks = _marks(events)
    nearest = nearest_marked(events["parent"].to_numpy(), events["depth"].to_numpy(), marks != UNMARKED)
    phase = np.append(marks, np.int8(UNMARKED))[nearest[:-1]]
    phase = np.where(phase == UNMARKED, _defaults(events), phase)
    phase = _with_device_events(phase, trace)
    phase.flags.writeable = False
    return phase


def _marks(events: pl.DataFrame) -> npt.NDArray[np.int8]:
    """Return the phase that the name of each event indicates, or ``UNMARKED``."""
    category = events["category"]
    marks = np.where(
        (category == "user_annotation").to_numpy(),
        ask_names(events["name"], _rule(by_user=True)),
        ask_names(events["name"], _rule(by_user=False)),
    )
    return np.where((category == "python_function").to_numpy(), np.int8(UNMARKED), marks)


def _rule(*, by_user: bool) -> pl.Expr:
    name = pl.col("name")
    expression = pl.lit(UNMARKED, pl.Int8)
    for phase, pattern, user_pattern in reversed(_RULES):
        matches = name.str.contains(pattern)
        if by_user and user_pattern:
            matches |= name.str.contains(user_pattern)
        expression = pl.when(matches).then(pl.lit(PHASES.index(phase), pl.Int8)).otherwise(expression)
    return expression


def _defaults(events: pl.DataFrame) -> npt.NDArray[np.int8]:
    """Return forward for ops and annotations, and for runtime calls directly inside one, which are part of it."""
    is_step = ask_names(events["name"], pl.col("name").str.contains(STEP_PATTERN))
    is_op = events["category"].is_in(("cpu_op", "user_annotation")).to_numpy() & ~is_step.astype(np.bool_)
    parent = events["parent"].to_numpy()
    is_call = (events["category"] == "runtime").to_numpy() & (parent >= 0)
    is_forward = is_op | (is_call & is_op[parent])
    return np.where(is_forward, np.int8(PHASES.index("forward")), np.int8(PHASES.index("other")))


def _with_device_events(phase: npt.NDArray[np.int8], trace: Trace) -> npt.NDArray[np.int8]:
    launches = trace.flows.filter(pl.col("kind") == "launch")
    source, target = launches["source"].to_numpy(), launches["target"].to_numpy()
    is_comm = phase[target] == PHASES.index("communication")
    phase[target] = np.where(is_comm, phase[target], phase[source])
    return phase
