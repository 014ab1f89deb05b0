"""Edges to pieces of threads, and how much of a piece remains where nothing has to be waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.host.blocking import calls_that_block
from torchprof_magic.facts.shared import device_numbers, is_named, launch_sources, name_numbers
from torchprof_magic.facts.step_graph.edges import (
    ASSUMED,
    HAND_OVER,
    NO_EDGES,
    WAIT,
    WORKERS,
    Edges,
    edges,
    joined,
    typical_by,
)
from torchprof_magic.facts.step_graph.pieces import main_lane, pieces_of_trace
from torchprof_magic.model.intervals import NO_PARENT, IntArray
from torchprof_magic.model.vendors import DEVICE_WAIT

if TYPE_CHECKING:
    from torchprof_magic.facts.step_graph.pieces import Pieces
    from torchprof_magic.model.trace import Trace

# A thread other than that of the steps that does nothing for longer waits for something.
PAUSE_NS = 20_000
# A call that waits returns at most so long after its work ended; what is longer it takes itself.
RETURN_NS = 50_000
# A batch that lies ready in the queue of the workers is fetched in less.
READY_NS = 1_000_000
_WORKER_FETCH = r"^enumerate\(DataLoader\)#.*MultiProcessing"


class HostEdges(NamedTuple):
    """Edges to pieces of threads, and for each piece what it takes itself, in ns."""

    edges: Edges
    own_ns: IntArray


def host_edges(trace: Trace) -> HostEdges:
    """Return all edges to pieces of threads, but for that from the piece before."""
    own = pieces_of_trace(trace).dur_ns.copy()
    parts = [_waits(trace, own), _hand_overs(trace, own), _pauses(trace, own), _fetches(trace, own)]
    return HostEdges(joined(parts), own)


def _waits(trace: Trace, own: IntArray) -> Edges:
    """Return edges from the work that calls wait for to what follows them.

    A call waits for the work that ended last before it returned, of what was launched before that; one for a whole
    device also for the last work of its other streams.
    """
    pieces, calls = pieces_of_trace(trace), calls_that_block(trace)
    rows = calls.row[calls.meet("sync", "copy", "queue full", "profiler")]
    work = np.flatnonzero(pieces.is_work)
    at = _last_pieces(trace, pieces, rows)
    rows, at = rows[at >= 0], at[at >= 0]
    goes_on = ~np.append(pieces.is_first, True)[at + 1]
    rows, at = rows[goes_on], at[goes_on]
    if len(rows) == 0 or len(work) == 0:
        return NO_EDGES
    source = _ended_last(trace, work, pieces.end_ns[at])
    rows, at, source = rows[source >= 0], at[source >= 0], source[source >= 0]
    late, is_held = pieces.end_ns[at] - pieces.end_ns[source], pieces.end_ns[source] > pieces.start_ns[at]
    typical = typical_by(name_numbers(trace).astype(np.int64)[rows], late, is_held & (late < RETURN_NS))
    extra = np.where(is_held & (late > RETURN_NS), np.maximum(late - typical, 0), 0)
    back = np.where(is_held, typical, np.minimum(typical, late)) + extra
    own[at[is_held]] = np.minimum(pieces.dur_ns[at], back)[is_held]
    whole = np.flatnonzero(is_named(trace, DEVICE_WAIT)[rows])
    others = _of_other_streams(trace, at[whole], source[whole], back[whole])
    return joined((edges(WAIT, at + 1, source, 1.0, back), others))


def _ended_last(trace: Trace, work: IntArray, until_ns: IntArray) -> IntArray:
    """Return for each moment which of some work had ended last, if it was launched before that, else -1."""
    pieces = pieces_of_trace(trace)
    order = work[np.argsort(pieces.end_ns[work], kind="stable")]
    last = np.searchsorted(pieces.end_ns[order], until_ns, side="right") - 1
    source = order[np.maximum(last, 0)]
    launch = launch_sources(trace)[pieces.row[source]].astype(np.int64)
    called = np.where(launch >= 0, trace.events["start_ns"].to_numpy()[launch], np.iinfo(np.int64).min)
    return np.where((last >= 0) & (called < until_ns), source, NO_PARENT)


def _of_other_streams(trace: Trace, at: IntArray, source: IntArray, back: IntArray) -> Edges:
    """Return edges from the last work of other streams of a device to what follows waits for all of it."""
    pieces, device = pieces_of_trace(trace), device_numbers(trace)
    found = [NO_EDGES]
    for lane in pieces.lane[pieces.is_first & pieces.is_work].tolist():
        here = pieces.of_lane(lane)
        other = _ended_last(trace, np.arange(here.start, here.stop), pieces.end_ns[at])
        fits = (other >= 0) & (pieces.lane[source] != lane)
        fits &= device[pieces.row[other]] == device[pieces.row[source]]
        delay = np.minimum(back, pieces.end_ns[at] - pieces.end_ns[other])
        found.append(edges(WAIT, at[fits] + 1, other[fits], 1.0, delay[fits]))
    return joined(found)


def _last_pieces(trace: Trace, pieces: Pieces, rows: IntArray) -> IntArray:
    """Return the last piece of each of some events of threads, -1 for those without time."""
    found = np.full(trace.events.height, NO_PARENT, np.int64)
    host = np.flatnonzero((pieces.row >= 0) & ~pieces.is_work)
    found[pieces.row[host]] = host
    return found[rows]


def _hand_overs(trace: Trace, own: IntArray) -> Edges:
    """Return edges from other threads to what a thread does after it has waited for them."""
    pieces = pieces_of_trace(trace)
    waits = np.flatnonzero(pieces.is_await)
    waits = waits[~np.append(pieces.is_first, True)[waits + 1]]
    if len(waits) == 0:
        return NO_EDGES
    own[waits] = 0
    found = []
    for lane in pieces.threads:
        end = pieces.end_ns[waits]
        source = pieces.at(lane, end - 1)
        fits = (source >= 0) & (pieces.lane[waits] != lane) & (pieces.row[source] >= 0)
        fits &= pieces.end_ns[source] > pieces.start_ns[waits]
        share = pieces.share_until(source, end)
        found.append(edges(HAND_OVER, waits[fits] + 1, source[fits], share[fits], 0))
    return joined(found)


def _pauses(trace: Trace, own: IntArray) -> Edges:
    """Return edges from the thread of the steps to what other threads do after a pause.

    A pause in which it waits for them is their own time.
    """
    pieces, main = pieces_of_trace(trace), main_lane(trace)
    idle = ~pieces.is_work & (pieces.lane != main) & (pieces.row < 0) & (pieces.dur_ns > PAUSE_NS)
    pause = np.flatnonzero(idle & ~np.append(pieces.is_first, True)[1:])
    first = np.flatnonzero(pieces.is_first & ~pieces.is_work & (pieces.lane != main))
    target = np.concatenate((pause + 1, first))
    since = np.concatenate((pieces.start_ns[pause], np.full(len(first), np.iinfo(np.int64).min)))
    source = pieces.at(main, pieces.start_ns[target])
    known = source >= 0
    is_await = pieces.is_await[source] & known
    known &= ~(is_await & (since >= pieces.start_ns[source]))
    own[target[known & (np.arange(len(target)) < len(pause))] - 1] = 0
    target, source, is_await = target[known], source[known], is_await[known]
    moment = pieces.start_ns[target]
    share = np.where(is_await, 0.0, pieces.share_until(source, moment))
    delay = np.where(is_await, moment - pieces.start_ns[source], 0)
    found = edges(ASSUMED, target, source, share, delay)
    return found._replace(kind=np.where(is_await, HAND_OVER, ASSUMED))


def _fetches(trace: Trace, own: IntArray) -> Edges:
    """Return edges from one batch of worker processes to the next, where the program waits for it."""
    pieces, main = pieces_of_trace(trace), main_lane(trace)
    rows = np.flatnonzero(is_named(trace, _WORKER_FETCH))
    start, dur, lane = (trace.events[name].to_numpy().astype(np.int64)[rows] for name in ("start_ns", "dur_ns", "lane"))
    order = np.argsort(start, kind="stable")
    order = order[lane[order] == main]
    start, dur = start[order], dur[order]
    late = np.flatnonzero(dur > READY_NS)
    late = late[late > 0]
    if len(late) == 0:
        return NO_EDGES
    end = start + dur
    target, source = pieces.at(main, end[late]), pieces.at(main, end[late - 1])
    _shorten(own, pieces.at(main, start[late]), target, READY_NS / dur[late])
    share = pieces.share_until(source, end[late - 1])
    return edges(WORKERS, target, source, share, end[late] - end[late - 1])


def _shorten(own: IntArray, first: IntArray, last: IntArray, share: np.ndarray) -> None:
    """Leave a share of all pieces from each first one to before each last one."""
    change = np.zeros(len(own) + 1)
    np.add.at(change, first, share - 1)
    np.add.at(change, last, 1 - share)
    own[:] = (own * (1 + np.cumsum(change)[:-1])).astype(np.int64)
