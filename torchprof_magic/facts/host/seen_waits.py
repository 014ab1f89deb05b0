"""The waits and collections of garbage that a live run saw in its steps, and how much of all waiting they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.host.host_states import WEAK
from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.host.step_pieces import idle_of_steps, step_pieces
from torchprof_magic.facts.shared import once_per_trace

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# Waits are looked for each millisecond, or less often: of many short ones, some are seen. They stand for all from this
# share of all waiting on. Longer ones are missed only where the machine is so busy that nobody looks for so long.
LEAST_SEEN = 0.2
SHORT_NS = 10_000_000


class SeenWaits(NamedTuple):
    """Pieces of steps in which the thread waited or collected garbage between ops, in the order of time.

    ``row`` is one of ``trace.waits``. ``scale`` is how much time each nanosecond stands for, at least 1.
    """

    row: IntArray
    start_ns: IntArray
    end_ns: IntArray
    scale: np.ndarray


@once_per_trace
def seen_waits(trace: Trace) -> SeenWaits:
    """Return the waits of all steps, but for those inside ops, in which a pool of threads waits for its work."""
    pieces = step_pieces(trace)
    chosen = np.flatnonzero((pieces.wait >= 0) & (pieces.state >= WEAK))
    is_idle = pieces.phase[chosen] == PHASES.index("idle")
    is_short = is_idle & (trace.waits["dur_ns"].to_numpy()[pieces.wait[chosen]] < SHORT_NS)
    dur_ns, unseen_ns = pieces.dur_ns[chosen], int(idle_of_steps(trace).sum())
    scale = np.ones(len(chosen))
    for are_like in (is_short, is_idle) if unseen_ns >= SHORT_NS else (is_short,):
        seen_ns = int(dur_ns[are_like].sum())
        if seen_ns and stands_for_all(seen_ns, unseen_ns):
            scale[are_like] += unseen_ns / seen_ns
            break
    return SeenWaits(pieces.wait[chosen], pieces.start_ns[chosen], pieces.end_ns[chosen], scale)


def stands_for_all(seen_ns: int, unseen_ns: int) -> bool:
    """Return whether so much of the waiting was seen that the rest is of the same kind."""
    return seen_ns >= LEAST_SEEN * (seen_ns + unseen_ns)
