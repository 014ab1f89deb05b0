"""Which pieces of the graph are waits that a live run saw, and in which call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.host.asleep import SLEEP_CALL, asleep
from torchprof_magic.facts.shared import in_category, once_per_trace
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, covered_ns, windows_met

if TYPE_CHECKING:
    from torchprof_magic.facts.step_graph.replay import FloatArray
    from torchprof_magic.model.trace import Trace

# A piece of which more is waiting is a wait.
MOSTLY = 0.5


def share_asleep(trace: Trace, is_chosen: BoolArray) -> FloatArray:
    """Return which share of each piece of the graph some rows of ``trace.waits`` are, from 0 to 1.

    In ops of a fetch a pool of threads waits for its work, so no share of these is.
    """
    found, graph = asleep(trace), step_graph(trace)
    pieces, main = graph.pieces, graph.pieces.of_lane(graph.main)
    share = np.zeros(len(pieces.lane))
    begin, dur = pieces.start_ns[main], pieces.dur_ns[main]
    is_op = np.append(in_category(trace, "cpu_op"), False)[pieces.row[main]]
    for in_fetch in (False, True):
        here = is_chosen[found.row] & (found.in_fetch == in_fetch)
        part = covered_ns(found.start_ns[here], found.end_ns[here], begin, begin + dur) / np.maximum(dur, 1)
        share[main] = np.maximum(share[main], np.where(is_op & in_fetch, 0.0, part))
    return share


@once_per_trace
def wait_of_pieces(trace: Trace) -> IntArray:
    """Return for each piece that is a wait the row of ``trace.waits`` that takes most of it, else -1."""
    found, graph = asleep(trace), step_graph(trace)
    wait = np.full(len(graph.pieces.lane), NO_PARENT, np.int64)
    if len(found.row) == 0:
        return wait
    main, pieces = graph.pieces.of_lane(graph.main), graph.pieces
    of, piece = windows_met(found.start_ns, found.end_ns, pieces.start_ns[main], pieces.end_ns[main])
    piece += main.start
    both_ns = np.minimum(found.end_ns[of], pieces.end_ns[piece]) - np.maximum(
        found.start_ns[of], pieces.start_ns[piece]
    )
    order = np.argsort(both_ns, kind="stable")
    wait[piece[order]] = found.row[of[order]]
    is_wait = share_asleep(trace, np.ones(trace.waits.height, np.bool_)) > MOSTLY
    return np.where(is_wait, wait, NO_PARENT)


@once_per_trace
def wait_for_others(trace: Trace) -> IntArray:
    """Return for each piece that waits for what other threads or programs do the row of ``trace.waits``, else -1.

    How long these take is not in the recording. Workers that load have edges of their own.
    """
    found, waits = asleep(trace), trace.waits
    is_other = (waits["kind"] == "wait") & waits["call"].is_not_null()
    is_other &= ~waits["call"].cast(pl.String).str.contains(SLEEP_CALL).fill_null(value=True)
    chosen = is_other.to_numpy() & np.isin(np.arange(waits.height), found.row[~found.in_fetch])
    wait = wait_of_pieces(trace)
    return np.where(np.append(chosen, False)[wait], wait, NO_PARENT)
