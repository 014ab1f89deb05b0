"""The part of a training step that each event belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from torchprof_magic.facts.device.graph_work import origin_links
from torchprof_magic.facts.host.closures import OPTIMIZER_STEP, in_closures
from torchprof_magic.facts.host.host_states import COMPILE_NAME, DATA_NAME
from torchprof_magic.facts.shared import ask_event_names, device_rows, in_category, is_named, once_per_trace
from torchprof_magic.model.intervals import nearest_marked
from torchprof_magic.model.trace import STEP_PATTERN
from torchprof_magic.model.vendors import COLLECTIVE_RANGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# Seconds, or an array of them.
_Time = TypeVar("_Time", bound=Any)

PHASES = (
    "forward", "backward", "optimizer", "communication", "data", "waiting", "compile", "initialisation", "python",
    "idle",
)  # fmt: skip
# Those of events: of work that no recorded op launched it is not known. No moment of the host is in that one.
EVENT_PHASES = (*PHASES, "unknown")
PHASE = pl.Enum(EVENT_PHASES)

# The nearest event at or around an event that its structure marks decides. The names are those that torch itself uses.
_COMMUNICATION = rf"{COLLECTIVE_RANGE}|^(c10d|_c10d_functional)::|^record_param_comms$"
_OPTIMIZER = r"^Optimizer\.(step|zero_grad)#"
# Before 2022, traces lack the ranges of the autograd engine; there the nodes (MulBackward0) and *_backward ops tell.
_BACKWARD = r"^autograd::engine::|^torch::autograd::|Backward[0-9]*$|^aten::\w+_backward(_\w+)?$"
# The names of the user's own annotations count for ops that no structure marks.
_USER_BACKWARD = r"(?i)\bbackward\b"
_USER_OPTIMIZER = r"(?i)\bopt(imizer)?\b"

_ENGINE_RANGE = r"^autograd::engine::|^torch::autograd::"

UNMARKED = -1
_STRUCTURE = (
    ("communication", _COMMUNICATION),
    ("optimizer", _OPTIMIZER),
    ("data", DATA_NAME),
    ("compile", COMPILE_NAME),
    ("backward", _BACKWARD),
)
_USERS = (("backward", _USER_BACKWARD), ("optimizer", _USER_OPTIMIZER))


@once_per_trace
def phase_of_events(trace: Trace) -> npt.NDArray[np.int8]:
    """Return the index into ``EVENT_PHASES`` of every event. Computed once per trace, and read-only.

    Ops outside of all marked events count as forward, Python frames and runtime calls as python. Device events belong
    to the phase of the op that launched them, which is not known of those that none launched.
    """
    events = trace.events
    parent, depth = events["parent"].to_numpy(), events["depth"].to_numpy()
    phase = structural_phases(trace).copy()
    creates_node = np.zeros(len(phase), np.bool_)
    creates_node[trace.flows.filter(pl.col("kind") == "backward")["source"].to_numpy()] = True
    is_forward = creates_node & (phase == UNMARKED)
    phase[is_forward] = PHASES.index("forward")
    named = _nearest(parent, depth, np.where(is_forward, phase, _names_by_user(trace)))
    phase = np.where(phase == UNMARKED, named, phase)
    phase = np.where(phase == UNMARKED, _defaults(trace, creates_node), phase)
    phase = _with_device_events(phase, trace)
    phase.flags.writeable = False
    return phase


def with_one_wait(times: Mapping[str, _Time]) -> dict[str, _Time]:
    """Return times by phase as they are shown: that in which a thread sleeps or waits is part of ``waiting``."""
    shown = {phase: time for phase, time in times.items() if phase != "idle"}
    if "idle" in times:
        shown["waiting"] = shown["waiting"] + times["idle"] if "waiting" in shown else times["idle"]
    return shown


@once_per_trace
def structural_phases(trace: Trace) -> npt.NDArray[np.int8]:
    """Return the phase that torch's own names indicate for every event, -1 where they indicate none; read-only.

    What an optimizer calls as its closure is no part of its own work.
    """
    events, marks = trace.events, _structure(trace)
    nearest = nearest_marked(events["parent"].to_numpy(), events["depth"].to_numpy(), marks != UNMARKED)[:-1]
    found = np.append(marks, np.int8(UNMARKED))[nearest]
    found[in_closures(trace) & np.append(is_named(trace, OPTIMIZER_STEP), False)[nearest]] = UNMARKED
    found.flags.writeable = False
    return found


def _nearest(parent: npt.NDArray[np.int32], depth: IntArray, marks: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Return the mark of the nearest marked event at or around each event, or ``UNMARKED``."""
    nearest = nearest_marked(parent, depth, marks != UNMARKED)
    return np.append(marks, np.int8(UNMARKED))[nearest[:-1]]


def _structure(trace: Trace) -> npt.NDArray[np.int8]:
    """Return the phase that torch's own name for each event indicates, or ``UNMARKED``."""
    events = trace.events
    marks = ask_event_names(trace, _first_of(_STRUCTURE)).astype(np.int8)
    marks[(events["fwd_thread"].fill_null(0) > 0).to_numpy() & (marks == UNMARKED)] = PHASES.index("backward")
    is_frame = in_category(trace, "python_function")
    is_users = in_category(trace, "user_annotation")
    backward = PHASES.index("backward")
    own_ranges = is_named(trace, _ENGINE_RANGE)
    is_wrong = (is_frame & (marks != PHASES.index("compile"))) | (is_users & (marks == backward) & ~own_ranges)
    return np.where(is_wrong, np.int8(UNMARKED), marks)


def _names_by_user(trace: Trace) -> npt.NDArray[np.int8]:
    """Return the phase that the user's own name for an annotation indicates, or ``UNMARKED``."""
    marks = ask_event_names(trace, _first_of(_USERS)).astype(np.int8)
    is_users = in_category(trace, "user_annotation") & ~is_named(trace, _OPTIMIZER)
    return np.where(is_users, marks, np.int8(UNMARKED))


def _first_of(rules: tuple[tuple[str, str], ...]) -> pl.Expr:
    expression = pl.lit(UNMARKED, pl.Int8)
    for phase, pattern in reversed(rules):
        matches = pl.col("name").str.contains(pattern)
        expression = pl.when(matches).then(pl.lit(PHASES.index(phase), pl.Int8)).otherwise(expression)
    return expression


def _defaults(trace: Trace, creates_node: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
    """Return forward for ops and annotations, and for runtime calls directly inside one, which are part of it.

    On a thread of the autograd engine they are backward: what runs there between nodes and after the last one, such as
    copies of gradients between buckets, is done for the backward pass.
    """
    events = trace.events
    is_op = in_category(trace, "cpu_op", "user_annotation") & ~is_named(trace, STEP_PATTERN)
    parent = events["parent"].to_numpy()
    is_call = in_category(trace, "runtime") & (parent >= 0)
    is_op |= is_call & is_op[parent]
    of_ops = np.where(_is_on_engine(trace, creates_node), PHASES.index("backward"), PHASES.index("forward"))
    return np.where(is_op, of_ops, PHASES.index("python")).astype(np.int8)


def _is_on_engine(trace: Trace, creates_node: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which events are on threads that run nodes of autograd only: another thread runs ops outside of nodes.

    That one has the steps, the Python frames, or the ops that make nodes.
    """
    lane, lanes = trace.events["lane"].to_numpy(), trace.lanes.height
    of_program = creates_node | is_named(trace, STEP_PATTERN) | in_category(trace, "python_function")
    runs_nodes, runs_program = (
        np.bincount(lane[which], minlength=lanes) > 0 for which in (is_named(trace, _ENGINE_RANGE), of_program)
    )
    if not runs_program.any():
        return np.zeros(len(lane), np.bool_)
    on_engine: npt.NDArray[np.bool_] = (runs_nodes & ~runs_program)[lane]
    return on_engine


def _with_device_events(phase: npt.NDArray[np.int8], trace: Trace) -> npt.NDArray[np.int8]:
    source, target = origin_links(trace)
    is_comm = phase[target] == PHASES.index("communication")
    phase[target] = np.where(is_comm, phase[target], phase[source])
    work = device_rows(trace)
    phase[work[phase[work] == PHASES.index("python")]] = EVENT_PHASES.index("unknown")
    return phase
