"""The graph of the steps with other times: when everything would begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torchprof_magic.facts.step_graph.graph import StepGraph
    from torchprof_magic.model.intervals import IntArray

FloatArray = npt.NDArray[np.float64]


class Replay(NamedTuple):
    """When each piece begins, and what it takes, in ns; and when each edge lets its target begin."""

    start_ns: FloatArray
    own_ns: FloatArray
    ready_ns: FloatArray

    def at(self, piece: IntArray, share: npt.NDArray[np.floating] | float) -> FloatArray:
        """Return when a share of each piece has passed."""
        found: FloatArray = self.start_ns[piece] + share * self.own_ns[piece]
        return found


def replay(
    graph: StepGraph, own_ns: npt.NDArray[np.generic] | None = None, *, delay_ns: npt.NDArray[np.generic] | None = None
) -> Replay:
    """Return when everything begins, as early as its edges let it.

    Each piece takes ``own_ns``, and each edge ``delay_ns``; by default as long as in the graph. One of -inf is gone.
    """
    own = (graph.own_ns if own_ns is None else own_ns).astype(np.float64)
    delay = (graph.edges.delay_ns if delay_ns is None else delay_ns).astype(np.float64)
    before = np.cumsum(own) - own
    offset = before - before[graph.head]
    source = graph.edges.source
    weight = offset[source] + graph.edges.share * own[source] + delay
    # Only heads wait for anything, and they are few.
    is_head = graph.head == np.arange(len(graph.head))
    of = (np.cumsum(is_head) - 1)[graph.head]
    time = _first_times(graph)[is_head].tolist()
    _pass_on(time, of[graph.edges.target].tolist(), of[source].tolist(), weight.tolist())
    begin = np.array(time)
    return Replay(begin[of] + offset, own, begin[of[source]] + weight)


def _first_times(graph: StepGraph) -> FloatArray:
    """Return when each head begins if nothing holds it: what is first on its lane when it was recorded."""
    pieces = graph.pieces
    waits = np.zeros(len(pieces.lane), np.bool_)
    waits[graph.edges.target] = True
    return np.where(pieces.is_first & ~waits | (graph.head == np.arange(len(waits))) & ~waits, pieces.start_ns, -np.inf)


def _pass_on(time: list[float], target: list[int], source: list[int], weight: list[float]) -> None:
    """Let every edge pass its time on, in the order of the graph. Each may depend on all before it."""
    for to, at, by in zip(target, source, weight, strict=True):
        ready = time[at] + by
        if ready > time[to]:  # noqa: PLR1730 - max() takes twice as long
            time[to] = ready
