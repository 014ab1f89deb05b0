"""The graph of the steps: pieces, what each takes itself, and the edges between them, ready to be replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.step_graph.device_edges import device_edges
from torchprof_magic.facts.step_graph.edges import KINDS, THREAD, Edges, chosen, edges, joined
from torchprof_magic.facts.step_graph.host_edges import host_edges
from torchprof_magic.facts.step_graph.pieces import Pieces, main_lane, pieces_of_trace
from torchprof_magic.model.intervals import BoolArray, IntArray  # noqa: TC001 - fields of a named tuple

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


class StepGraph(NamedTuple):
    """Pieces, and edges to those that wait for more than the piece before them on their thread.

    ``own_ns`` is what each piece takes itself. ``head`` is for each piece the last one at or before it on its lane that
    has edges. The edges are sorted so that what they come from is known before. ``dropped`` is how many the times of
    the file contradict.
    """

    pieces: Pieces
    own_ns: IntArray
    edges: Edges
    head: IntArray
    main: int
    dropped: int

    def count(self, kind: int) -> int:
        """Return how many edges are of a kind."""
        return int((self.edges.kind == kind).sum())

    @property
    def counts(self) -> dict[str, int]:
        """How many edges there are of each kind."""
        return {name: self.count(number) for number, name in enumerate(KINDS)}


@once_per_trace
def step_graph(trace: Trace) -> StepGraph:
    """Return the graph of a trace."""
    host = host_edges(trace)
    return graph_of(pieces_of_trace(trace), host.own_ns, joined((host.edges, device_edges(trace))), main_lane(trace))


def graph_of(pieces: Pieces, own_ns: IntArray, found: Edges, main: int) -> StepGraph:
    """Return the graph of some pieces and the edges between them; edges back in time are dropped and counted."""
    count = len(pieces.lane)
    has_edge = np.zeros(count, np.bool_)
    has_edge[found.target] = True
    inner = np.flatnonzero(has_edge & ~pieces.is_first & ~pieces.is_work)
    found = joined((found, edges(THREAD, inner, inner - 1, 1.0, 0)))
    heads = has_edge | pieces.is_first
    head = np.maximum.accumulate(np.where(heads, np.arange(count), 0))
    order = _order(pieces, heads, is_host_join=has_edge & ~pieces.is_work)
    fits = np.less(order[head[found.source]], order[found.target])
    kept = chosen(found, fits)
    in_turn = np.argsort(order[kept.target], kind="stable")
    return StepGraph(pieces, own_ns, chosen(kept, in_turn), head, main, int((~fits).sum()))


def _order(pieces: Pieces, heads: BoolArray, is_host_join: BoolArray) -> IntArray:
    """Return the place of each head in the order of time; at one moment threads, then work, then what waits for it."""
    at = np.flatnonzero(heads)
    turn = np.where(pieces.is_work[at], 1, np.where(is_host_join[at], 2, 0))
    order = np.zeros(len(heads), np.int64)
    order[at[np.lexsort((at, turn, pieces.start_ns[at]))]] = np.arange(len(at))
    return order
