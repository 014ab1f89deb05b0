"""The phases of the steps over time, as coarse as they are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.host.step_pieces import step_pieces
from torchprof_magic.model.intervals import NO_PARENT, IntArray

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.trace import Trace


class PhaseStrip(NamedTuple):
    """Spans of time in order, in ns, each with an index into ``PHASES``."""

    start_ns: IntArray
    end_ns: IntArray
    phase: IntArray


def phase_strip(trace: Trace, parts: int) -> PhaseStrip:
    """Return the phase with the most time in each of so many equal parts of a step; equal neighbors are one span."""
    pieces = step_pieces(trace)
    dur_ns = pieces.dur_ns
    starts, ends, phases = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for _, first, last in _runs(pieces.step):
        rows = slice(first, last)
        from_ns, to_ns = int(pieces.start_ns[first]), int(pieces.end_ns[last - 1])
        edges = np.linspace(from_ns, to_ns, parts + 1)
        until = np.concatenate(([from_ns], pieces.end_ns[rows]))
        time = np.zeros((len(PHASES), parts))
        for number in np.unique(pieces.phase[rows]).tolist():
            so_far = np.cumsum(np.where(pieces.phase[rows] == number, dur_ns[rows], 0))
            time[number] = np.diff(np.interp(edges, until, np.concatenate(([0], so_far))))
        most = time.argmax(axis=0)
        begins = np.flatnonzero(np.diff(most, prepend=NO_PARENT))
        at = np.append(np.rint(edges[begins]).astype(np.int64), to_ns)
        starts.append(at[:-1])
        ends.append(at[1:])
        phases.append(most[begins])
    return PhaseStrip(np.concatenate(starts), np.concatenate(ends), np.concatenate(phases))


def _runs(values: IntArray) -> Iterator[tuple[int, int, int]]:
    """Yield each run of equal values: the value, its first row, and the row after its last."""
    first = np.flatnonzero(np.diff(values, prepend=NO_PARENT))
    if len(first) == 0:
        return
    for row, end in zip(first.tolist(), np.append(first[1:], len(values)).tolist(), strict=True):
        yield int(values[row]), row, end
