"""The phase in whose color an event is drawn, the same in all views."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.phases import PHASES, phase_of_events
from torchprof_magic.facts.host.step_pieces import recorded_pieces
from torchprof_magic.facts.shared import in_category, once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, covered_ns

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# What is done once and lies inside of ops and frames of other phases.
_ONCE = ("compile", "initialisation")
_ON_HOST = ("cpu_op", "user_annotation", "python_function", "runtime")


@once_per_trace
def phases_shown(trace: Trace) -> npt.NDArray[np.int8]:
    """Return the phase of each event as it is shown, an index into ``EVENT_PHASES``; read-only.

    It is that of ``phase_of_events``. But what spends most of its time on work that is done once, as the steps are
    split by phase, is of that phase: an op with the first launch of a kernel, say, or a frame that captures a graph.
    """
    phase, pieces = phase_of_events(trace).copy(), recorded_pieces(trace)
    row = np.append(host_nest(trace).row, NO_PARENT)[pieces.cause]
    lane, start, dur = (trace.events[name].to_numpy() for name in ("lane", "start_ns", "dur_ns"))
    is_host = in_category(trace, *_ON_HOST) & (dur > 0)
    for number in map(PHASES.index, _ONCE):
        once = np.flatnonzero((pieces.phase == number) & (row >= 0))
        for each in np.unique(lane[row[once]]).tolist():  # lanes are few
            inside = once[lane[row[once]] == each]
            rows = np.flatnonzero(is_host & (lane == each))
            end = start[rows] + dur[rows]
            once_ns = covered_ns(pieces.start_ns[inside], pieces.end_ns[inside], start[rows], end)
            phase[rows[2 * once_ns > dur[rows]]] = number
    phase.flags.writeable = False
    return phase
