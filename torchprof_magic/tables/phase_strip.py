"""The phases of the steps over time, as coarse as they are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.host.step_pieces import StepPieces, step_pieces
from torchprof_magic.model.intervals import NO_PARENT, IntArray

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.model.trace import Trace


class PhaseStrip(NamedTuple):
    """Spans of time in order, in ns, each with an index into ``PHASES``."""

    start_ns: IntArray
    end_ns: IntArray
    phase: IntArray


def phase_strip(trace: Trace, parts: int) -> PhaseStrip:
    """Return the phase with the most time in each of so many equal parts of a step; equal neighbors are one span."""
    pieces = step_pieces(trace)
    if len(pieces.step) == 0:
        return PhaseStrip(*(np.zeros(0, np.int64) for _ in range(3)))
    first = np.flatnonzero(np.diff(pieces.step, prepend=NO_PARENT))
    last = np.append(first[1:], len(pieces.step))
    from_ns, to_ns = pieces.start_ns[first], pieces.end_ns[last - 1]
    # Steps laid end to end, so that times grow from one to the next whatever lies between them, or where they overlap.
    laid_ns = np.cumsum(to_ns - from_ns) - to_ns
    edges = np.linspace(from_ns, to_ns, parts + 1, axis=1)
    most = _times(pieces, np.repeat(laid_ns, last - first), edges + laid_ns[:, None]).argmax(axis=0)
    begins = np.diff(most, axis=1, prepend=NO_PARENT) != 0
    step, part = np.nonzero(begins)
    starts = np.rint(edges[step, part]).astype(np.int64)
    is_last = np.append(np.diff(step) != 0, True)
    return PhaseStrip(starts, np.where(is_last, to_ns[step], np.append(starts[1:], 0)), most[step, part])


def _times(pieces: StepPieces, laid_ns: IntArray, edges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the time of each phase between two neighboring edges, by phase, step and part."""
    until = np.concatenate(([edges[0, 0]], pieces.end_ns + laid_ns))
    time = np.zeros((len(PHASES), edges.shape[0], edges.shape[1] - 1))
    for number in np.unique(pieces.phase).tolist():
        so_far = np.cumsum(np.where(pieces.phase == number, pieces.dur_ns, 0))
        time[number] = np.diff(np.interp(edges, until, np.concatenate(([0], so_far))), axis=1)
    return time
