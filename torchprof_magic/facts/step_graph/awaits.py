"""When a thread waits for others: for autograd's, or for one that communicates on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from torchprof_magic.facts.host.awaits_backward import Awaits, awaits_of_backward
from torchprof_magic.facts.host.host_states import COMMUNICATION, OTHER, pieces_of, thread_timelines
from torchprof_magic.facts.host.lanes_of_steps import lanes_of_steps
from torchprof_magic.facts.shared import once_per_trace

if TYPE_CHECKING:
    from torchprof_magic.facts.host.host_states import Timeline
    from torchprof_magic.model.trace import Trace


@once_per_trace
def awaits_of_threads(trace: Trace) -> Awaits:
    """Return when threads run nothing of their own while others do what they have asked for, by thread and time.

    As in the phases of a step, a thread of steps in which nothing runs meanwhile is taken to wait for communication.
    """
    lines, backward = thread_timelines(trace), awaits_of_backward(trace)
    parts = [backward]
    speakers = {lane: line for lane, line in lines.items() if (line.state == COMMUNICATION).any()}
    for lane in sorted({*lanes_of_steps(trace).tolist()} & lines.keys()):
        parts += [_awaits(lane, lines[lane], other) for number, other in speakers.items() if number != lane]
    joined = Awaits(*map(np.concatenate, zip(*parts, strict=True)))
    order = np.lexsort((joined.start_ns, joined.lane))
    return Awaits(*(column[order] for column in joined))


def _awaits(lane: int, own: Timeline, other: Timeline) -> Awaits:
    """Return when one thread is in nothing but a range or a frame, and another communicates."""
    idle = np.flatnonzero(own.state[:-1] == OTHER)
    pieces = pieces_of(other, own.start_ns[idle], own.start_ns[idle + 1])
    speaks = pieces.state == COMMUNICATION
    return Awaits(np.full(int(speaks.sum()), lane, np.int64), pieces.start_ns[speaks], pieces.end_ns[speaks])
