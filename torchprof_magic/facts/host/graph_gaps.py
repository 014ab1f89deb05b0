"""The time between two graphs of a compiled function, where a graph broke."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# What torch.compile writes besides the ops of graphs.
_NO_OP = r"^Torch-Compiled Region|^TorchDynamo Cache Lookup|^Pregraph bytecode|\(dynamo_timed\)$|^## "


class GraphGaps(NamedTuple):
    """One gap per region: from the end of the last op before it to the start of its first op, in ns.

    A region without an op, or with none before it on its thread, has a gap of no length.
    """

    start_ns: IntArray
    end_ns: IntArray


def graph_gaps(trace: Trace, regions: IntArray) -> GraphGaps:
    """Return the gaps before compiled regions that go on after a graph break, by their rows in ``events``."""
    events = trace.events
    start, dur, lane = (events[name].to_numpy() for name in ("start_ns", "dur_ns", "lane"))
    is_op = (events["category"] == "cpu_op") & ~events["name"].cast(pl.String).str.contains(_NO_OP)
    ops = np.flatnonzero(is_op.fill_null(value=False).to_numpy())
    begins, ends = start[regions].copy(), start[regions].copy()
    for each in np.unique(lane[regions]):  # a few threads
        mine = np.flatnonzero(lane[regions] == each)
        here = ops[lane[ops] == each]
        if len(here) == 0:
            continue
        first, last = start[regions][mine], (start + dur)[regions][mine]
        op_end, op_start = np.sort((start + dur)[here]), start[here]  # rows of a lane are sorted by start
        before, after = np.searchsorted(op_end, first, side="right") - 1, np.searchsorted(op_start, first, side="left")
        next_ns = op_start[np.minimum(after, len(op_start) - 1)]
        is_there = (before >= 0) & (after < len(op_start)) & (next_ns <= last)
        begins[mine] = np.where(is_there, op_end[np.maximum(before, 0)], first)
        ends[mine] = np.where(is_there, next_ns, first)
    return GraphGaps(begins, ends)
