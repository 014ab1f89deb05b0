"""The waits and collections of garbage that a live run saw in its steps, and how much of all waiting they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.host.host_states import WEAK
from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.host.step_pieces import step_pieces
from torchprof_magic.facts.host.unseen_waits import asleep_ns, idle_of_steps, quiet_lines
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.sums import sum_by

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

# Waits are looked for each millisecond, or less often: of many short ones, some are seen. They stand for all from this
# share of all waiting on. Longer ones are missed only where the machine is so busy that nobody looks for so long.
LEAST_SEEN = 0.2
SHORT_NS = 10_000_000


class SeenWaits(NamedTuple):
    """Pieces of steps in which the thread waited or collected garbage between ops.

    ``row`` is one of ``trace.waits``. ``scale`` is how much time each nanosecond stands for, at least 1, and ``times``
    how many waits a piece stands for. Together they are as long as the waiting of their step. What is not ``is_seen``
    stands for waits that were seen in other steps only: where the line ran that waits in these, or else, in a step of
    which no wait was seen, at its begin.
    """

    row: IntArray
    start_ns: IntArray
    end_ns: IntArray
    scale: np.ndarray
    times: np.ndarray
    is_seen: BoolArray

    @property
    def whole_end_ns(self) -> IntArray:
        """The ends of the pieces, if each were as long as the time that it stands for."""
        return self.start_ns + ((self.end_ns - self.start_ns) * self.scale).astype(np.int64)


_NONE = np.empty(0, np.int64)
_NOTHING = SeenWaits(_NONE, _NONE, _NONE, _NONE, _NONE, np.empty(0, np.bool_))


@once_per_trace
def seen_waits(trace: Trace) -> SeenWaits:
    """Return the waits of all steps, but for those inside ops, in which a pool of threads waits for its work."""
    if trace.waits.height == 0:
        return _NOTHING
    pieces = step_pieces(trace)
    chosen = np.flatnonzero((pieces.wait >= 0) & (pieces.state >= WEAK))
    is_idle = pieces.phase[chosen] == PHASES.index("idle")
    row, dur_ns, step = pieces.wait[chosen], pieces.dur_ns[chosen], pieces.step[chosen]
    is_short = is_idle & (trace.waits["dur_ns"].to_numpy()[row] < SHORT_NS)
    at_lines = _of_lines(trace)
    whole_ns = int(idle_of_steps(trace).sum())
    unseen_ns = idle_of_steps(trace) - at_lines.ns
    scale, added = np.ones(len(chosen)), _NOTHING
    for are_like in (is_short, is_idle) if whole_ns >= SHORT_NS else (is_short,):
        if are_like.any() and stands_for_all(int(dur_ns[are_like].sum()), whole_ns):
            of_steps = sum_by(step[are_like], dur_ns[are_like], len(unseen_ns))
            scale[are_like] += (unseen_ns / np.maximum(of_steps, 1))[step[are_like]]
            added = _of_other_steps(trace, row[are_like], dur_ns[are_like], np.where(of_steps == 0, unseen_ns, 0))
            break
    of_rows = sum_by(row, dur_ns, trace.waits.height)
    times, is_seen = scale * dur_ns / of_rows[row], np.ones(len(row), np.bool_)
    seen = SeenWaits(row, pieces.start_ns[chosen], pieces.end_ns[chosen], scale, times, is_seen)
    return SeenWaits(*(np.concatenate(parts) for parts in zip(seen, at_lines.waits, added, strict=True)))


class _OfLines(NamedTuple):
    """Waits at lines that wait in other steps, and how much of each step they are, in ns."""

    waits: SeenWaits
    ns: IntArray


def _of_lines(trace: Trace) -> _OfLines:
    """Return pieces for waits that were not seen, in steps in which a line ran that waits in others."""
    pieces, quiet, slept_ns = step_pieces(trace), quiet_lines(trace), asleep_ns(trace)
    at = np.flatnonzero(slept_ns)
    piece, slept_ns = quiet.piece[at], slept_ns[at]
    start_ns, ones = pieces.start_ns[piece], np.ones(len(at))
    waits = SeenWaits(quiet.row[at], start_ns, start_ns + slept_ns, ones, slept_ns / quiet.usual_ns[at], ones < 1)
    return _OfLines(waits, sum_by(pieces.step[piece], slept_ns, trace.steps.height))


def _of_other_steps(trace: Trace, row: IntArray, dur_ns: IntArray, unseen_ns: IntArray) -> SeenWaits:
    """Return pieces for the waiting of steps of which none was seen, in the proportions of what was seen in others."""
    calls = trace.waits.select("call", "file", "line")[row.tolist()]
    shares = calls.with_columns(pl.Series("row", row), pl.Series("ns", dur_ns))
    shares = shares.group_by("call", "file", "line", maintain_order=True).agg(
        pl.col("row").first(), pl.col("row").n_unique().alias("waits"), pl.col("ns").sum()
    )
    each_ns, waits = shares["ns"].to_numpy(), shares["waits"].to_numpy()
    steps = np.flatnonzero(unseen_ns)
    ends = np.rint(np.cumsum(each_ns) / each_ns.sum() * unseen_ns[steps][:, None]).astype(np.int64)
    begins = np.hstack((np.zeros((len(steps), 1), np.int64), ends[:, :-1]))
    start_ns = trace.steps["start_ns"].to_numpy()[steps][:, None]
    times = (ends - begins) / (each_ns / waits)
    rows = np.broadcast_to(shares["row"].to_numpy(), ends.shape)
    columns = (rows, start_ns + begins, start_ns + ends, np.ones(ends.shape), times, np.zeros(ends.shape, np.bool_))
    return SeenWaits(*(column.ravel() for column in columns))


def stands_for_all(seen_ns: int, unseen_ns: int) -> bool:
    """Return whether so much of the waiting was seen that the rest is of the same kind."""
    return seen_ns >= LEAST_SEEN * (seen_ns + unseen_ns)
