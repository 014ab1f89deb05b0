"""The forward op to which each part of the backward pass belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.device.graph_work import origin_links
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, IntArray, nearest_marked
from torchprof_magic.model.rows import are_in, rows_where

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# Checkpoints inside checkpoints; more than any program has.
MAX_AGAIN = 8
_RANGE_OF_NODE = r"^autograd::engine::evaluate_function: "


@once_per_trace
def forward_of_events(trace: Trace) -> IntArray:
    """Return for each event of the backward pass the row of its forward op, -1 for all others.

    A node of autograd and its forward op share a sequence number. What runs in the range that the engine puts around
    the node belongs to it too, and so does device work that is launched there.
    """
    events = trace.events
    links = rows_where(trace.flows, are_in(trace.flows["kind"], ("backward",)))
    source, target = (links[name].to_numpy().astype(np.int64) for name in ("source", "target"))
    parent = events["parent"].to_numpy().astype(np.int64)
    forward = np.full(events.height + 1, NO_PARENT, np.int64)
    forward[target] = source
    is_range = is_named(trace, _RANGE_OF_NODE)
    above = parent[target]
    in_range = (above >= 0) & np.append(is_range, False)[above]
    forward[above[in_range]] = source[in_range]
    # A range without a link, such as that of an AccumulateGrad, is no part of the node around it.
    marked = (forward[:-1] >= 0) | is_range
    nearest = nearest_marked(parent, events["depth"].to_numpy(), marked)[:-1]
    found = forward[nearest]
    calls, work = origin_links(trace)
    found[work] = found[calls]
    return found


@once_per_trace
def first_forward_of_events(trace: Trace) -> IntArray:
    """Return for each event of the backward pass the row of the op that ran first for it, -1 for all others.

    Where a checkpoint computes again in backward, the forward op of a node is itself one of the backward pass.
    """
    forward = np.append(forward_of_events(trace), NO_PARENT)
    first = forward
    for _ in range(MAX_AGAIN):
        again = forward[first]
        if not (again >= 0).any():
            break
        first = np.where(again >= 0, again, first)
    return first[:-1]


class BackwardNodes(NamedTuple):
    """The nodes of the backward pass: the outermost event of each, and the index of the node around it, or -1.

    Nodes lie inside others where a checkpoint computes again.
    """

    row: IntArray
    around: IntArray

    def own_ns(self, dur_ns: IntArray) -> IntArray:
        """Return the time of each node without that of nodes inside, from the durations of all events."""
        own = dur_ns[self.row]
        nested = np.flatnonzero(self.around >= 0)
        np.subtract.at(own, self.around[nested], dur_ns[self.row[nested]])
        return own


@once_per_trace
def backward_nodes(trace: Trace) -> BackwardNodes:
    """Return the nodes of the backward pass."""
    events = trace.events
    forward = forward_of_events(trace)
    parent = events["parent"].to_numpy().astype(np.int64)
    is_host = ~in_category(trace, "kernel", "memcpy", "memset")
    begins = (forward >= 0) & is_host & (np.append(forward, NO_PARENT)[parent] != forward)
    rows = np.flatnonzero(begins)
    number = np.full(len(forward) + 1, NO_PARENT, np.int64)
    number[rows] = np.arange(len(rows))
    around = nearest_marked(parent, events["depth"].to_numpy(), begins)
    return BackwardNodes(rows, number[around[parent[rows]]])
