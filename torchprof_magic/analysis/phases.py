"""To which part of a training step does each event belong?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from torchprof_magic.intervals import levels

if TYPE_CHECKING:
    from torchprof_magic.trace import Trace

PHASES = ("forward", "backward", "optimizer", "communication", "data", "other")
PHASE = pl.Enum(PHASES)

# The nearest marked event around (or at) an event decides. Names are those that torch itself writes; an annotation
# of the user counts when it says backward or optimizer as a word.
_COMMUNICATION = (
    r"^(nccl|gloo|mpi|ucc|rccl|xccl):|^(c10d|_c10d_functional)::|^record_param_comms$|^nccl(Dev)?Kernel|^nccl"
)
_OPTIMIZER = r"^Optimizer\.(step|zero_grad)#"
_DATA = r"^enumerate\(DataLoader\)#"
# Before 2022 the engine's own ranges are absent: the nodes (MulBackward0) and the *_backward ops tell.
_BACKWARD = r"^autograd::engine::|^torch::autograd::|Backward\d*$|^aten::\w+_backward(_\w+)?$"
_USER_BACKWARD = r"(?i)\bbackward\b"
_USER_OPTIMIZER = r"(?i)\bopt(imizer)?\b"

UNMARKED = -1


def phase_of_events(trace: Trace) -> npt.NDArray[np.int64]:
    """Return the index into ``PHASES`` of every event.

    Ops outside every mark count as forward, Python frames and calls outside as other. Device events belong to the
    phase of the op that launched them.
    """
    events = trace.events
    phase = _inherit(_marks(events), events)
    is_op = events["category"].is_in(("cpu_op", "user_annotation")).to_numpy()
    is_step = events["name"].cast(pl.String).str.starts_with("ProfilerStep#").to_numpy()
    default = np.where(is_op & ~is_step, PHASES.index("forward"), PHASES.index("other"))
    default = _runtime_inside_ops(default, events, is_op & ~is_step)
    phase = np.where(phase == UNMARKED, default, phase)
    return _with_device_events(phase, trace)


def _marks(events: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return the phase that each event's own name says, or ``UNMARKED``; each distinct name is matched once."""
    keys = events.select("name", "category")
    name = pl.col("name").cast(pl.String)
    by_user = pl.col("category") == "user_annotation"
    rules = (
        ("communication", name.str.contains(_COMMUNICATION)),
        ("optimizer", name.str.contains(_OPTIMIZER) | (by_user & name.str.contains(_USER_OPTIMIZER))),
        ("data", name.str.contains(_DATA)),
        ("backward", name.str.contains(_BACKWARD) | (by_user & name.str.contains(_USER_BACKWARD))),
    )
    expression = pl.lit(UNMARKED, pl.Int64)
    for phase, matches in reversed(rules):
        expression = pl.when(matches).then(pl.lit(PHASES.index(phase), pl.Int64)).otherwise(expression)
    is_python = pl.col("category") == "python_function"
    marked = keys.unique().with_columns(
        pl.when(is_python).then(pl.lit(UNMARKED, pl.Int64)).otherwise(expression).alias("mark")
    )
    return keys.join(marked, on=["name", "category"], how="left", maintain_order="left")["mark"].to_numpy()


def _inherit(marks: npt.NDArray[np.int64], events: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Hand marks down to unmarked children, one level of nesting a turn."""
    phase = marks.copy()
    parent = events["parent"].to_numpy()
    for rows in levels(events["depth"].to_numpy())[1:]:
        open_rows = rows[phase[rows] == UNMARKED]
        phase[open_rows] = phase[parent[open_rows]]
    return phase


def _runtime_inside_ops(
    default: npt.NDArray[np.int64], events: pl.DataFrame, is_op: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """A runtime call directly inside an op is part of that op, so it shares the op's default."""
    parent = events["parent"].to_numpy()
    is_call = (events["category"] == "runtime").to_numpy() & (parent >= 0)
    return np.where(is_call & is_op[parent], PHASES.index("forward"), default)


def _with_device_events(phase: npt.NDArray[np.int64], trace: Trace) -> npt.NDArray[np.int64]:
    launches = trace.flows.filter(pl.col("kind") == "launch")
    source, target = launches["source"].to_numpy(), launches["target"].to_numpy()
    is_comm = phase[target] == PHASES.index("communication")
    phase[target] = np.where(is_comm, phase[target], phase[source])
    return phase
