"""Edges to the work of devices: its launch, the work before it on its stream, and events of other streams.

How long work takes to begin after its launch, and after the work before it, is typical of each kind of call and each
stream; what is longer needs a reason of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.shared import device_numbers, is_named, launch_sources, name_numbers
from torchprof_magic.facts.step_graph.edges import (
    ASSUMED,
    EVENT,
    LAUNCH,
    STREAM,
    Edges,
    edges,
    joined,
    mean_by,
    typical_by,
)
from torchprof_magic.facts.step_graph.pieces import main_lane, pieces_of_trace
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray
from torchprof_magic.model.vendors import STREAM_WAIT

if TYPE_CHECKING:
    from torchprof_magic.facts.step_graph.pieces import Pieces
    from torchprof_magic.model.trace import Trace

# Work that begins later than this after all that it is known to wait for has another reason.
LATE_NS = 10_000
# Work of another stream that ended at most so long before is taken for that reason.
JUST_BEFORE_NS = 30_000


class Work(NamedTuple):
    """The work of devices: its piece, the piece before it on its stream or -1, and the last piece of its call or -1.

    ``called_ns`` is when the call that launched it returned; only the first work of a call that launched several has
    one.
    """

    piece: IntArray
    before: IntArray
    call: IntArray
    called_ns: IntArray
    call_name: IntArray
    device: IntArray


def work_of_trace(trace: Trace) -> Work:
    """Return the work of devices."""
    pieces = pieces_of_trace(trace)
    piece = np.flatnonzero(pieces.is_work)
    row = pieces.row[piece]
    before = np.where(pieces.is_first[piece], NO_PARENT, piece - 1)
    source = launch_sources(trace)[row].astype(np.int64)
    source = np.where(_is_first_of_call(source, pieces.start_ns[piece]), source, NO_PARENT)
    begun_ns, lane = (trace.events[name].to_numpy()[source] for name in ("start_ns", "lane"))
    called_ns = begun_ns + trace.events["dur_ns"].to_numpy()[source]
    call = np.full(len(piece), NO_PARENT, np.int64)
    for number in np.unique(lane[source >= 0]).tolist():
        here = (source >= 0) & (lane == number)
        call[here] = pieces.at(int(number), np.maximum(called_ns[here] - 1, begun_ns[here]))
    name = name_numbers(trace).astype(np.int64)[source]
    return Work(piece, before, call, called_ns, name, device_numbers(trace)[row])


def _is_first_of_call(source: IntArray, start_ns: IntArray) -> BoolArray:
    """Return which work is the first that its call started; that of a graph follows by itself."""
    order = np.lexsort((start_ns, source))
    found = np.zeros(len(source), np.bool_)
    found[order] = np.diff(source[order], prepend=NO_PARENT) != 0
    return found & (source >= 0)


def device_edges(trace: Trace) -> Edges:
    """Return all edges to work of devices."""
    pieces, work = pieces_of_trace(trace), work_of_trace(trace)
    if len(work.piece) == 0:
        return edges(LAUNCH, work.piece, work.piece, 0.0, 0)
    start = pieces.start_ns[work.piece]
    has_call, has_before = work.call >= 0, work.before >= 0
    until = np.minimum(pieces.end_ns[work.before], start)  # work of one stream can overlap
    delay, gap = start - work.called_ns, start - until
    # Work can begin before its call has returned, but none can have waited longer than it did.
    is_free = has_call & (~has_before | (until < work.called_ns)) & (delay >= 0)
    launch = np.minimum(typical_by(work.call_name, delay, is_free), delay)
    is_queued = has_before & (~has_call | (until > work.called_ns + launch)) & (gap < LATE_NS)
    between = mean_by(pieces.lane[work.piece], gap, is_queued)
    by_launch = np.where(has_call, work.called_ns + launch, np.iinfo(np.int64).min)
    by_stream = np.where(has_before, until + between, np.iinfo(np.int64).min)
    events = _event_edges(trace, work, between)
    expected = np.maximum(np.maximum(by_launch, by_stream), _ready_by(events, pieces, work))
    others = _late_edges(pieces, work, expected, between)
    is_explained = np.isin(work.piece, others.target)
    is_late = (start - expected > LATE_NS) & ~is_explained & (has_call | has_before)
    extra = np.where(is_late, start - expected, 0)
    is_anchored = ~has_call & ~has_before | (is_late & ~has_call)
    share = pieces.share_until(work.before, until)
    calls, after = pieces.share_until(work.call, work.called_ns), launch + extra
    # A call that waits for its own work lets it begin long before it returns.
    is_inside = has_call & (start < work.called_ns)
    calls = np.where(is_inside, 0.0, calls)
    after = np.where(is_inside, start - pieces.start_ns[work.call], after)
    by_call = np.where(extra > 0, ASSUMED, LAUNCH)[has_call]
    by_stream_before = np.where((extra > 0) & ~is_anchored, ASSUMED, STREAM)[has_before]
    found = [
        edges(LAUNCH, work.piece[has_call], work.call[has_call], calls[has_call], after[has_call])._replace(
            kind=by_call
        ),
        edges(
            STREAM,
            work.piece[has_before],
            work.before[has_before],
            share[has_before],
            (between + np.where(is_anchored, 0, extra))[has_before],
        )._replace(kind=by_stream_before),
        events,
        others,
        _anchors(trace, pieces, work.piece[is_anchored]),
    ]
    return joined(found)


def _ready_by(found: Edges, pieces: Pieces, work: Work) -> IntArray:
    """Return when each work could have begun by some edges, the lowest number if none is to it."""
    ready = np.full(len(pieces.lane), np.iinfo(np.int64).min)
    np.maximum.at(ready, found.target, pieces.end_ns[found.source] + found.delay_ns)
    return ready[work.piece]


def _event_edges(trace: Trace, work: Work, between: IntArray) -> Edges:
    """Return edges for calls that make a stream wait for an event: of which streams, the file does not say.

    The first work launched after such a call is taken to wait for what was launched last before it on other streams,
    unless the times say that it did not.
    """
    pieces = pieces_of_trace(trace)
    calls = np.sort(trace.events["start_ns"].to_numpy()[is_named(trace, STREAM_WAIT, "runtime")])
    launched = np.flatnonzero(work.call >= 0)
    launched = launched[np.argsort(work.called_ns[launched], kind="stable")]
    if len(calls) == 0 or len(launched) == 0:
        return edges(EVENT, calls[:0], calls[:0], 0.0, 0)
    at = np.unique(np.searchsorted(work.called_ns[launched], calls, side="right"))
    at = at[at < len(launched)]
    lanes = pieces.lane[work.piece[launched]]
    found = []
    for lane in np.unique(lanes).tolist():
        own = np.flatnonzero(lanes == lane)
        last = np.searchsorted(own, at, side="left") - 1
        is_other = (last >= 0) & (lanes[at] != lane)
        source, target = launched[own[last[is_other]]], launched[at[is_other]]
        ended = pieces.end_ns[work.piece[source]] <= pieces.start_ns[work.piece[target]]
        same = work.device[source] == work.device[target]
        source, target = source[ended & same], target[ended & same]
        found.append(edges(EVENT, work.piece[target], work.piece[source], 1.0, between[target]))
    return joined(found)


def _late_edges(pieces: Pieces, work: Work, expected: IntArray, between: IntArray) -> Edges:
    """Return edges from the work of another stream that ended just before work that begins late."""
    start, end = pieces.start_ns[work.piece], pieces.end_ns[work.piece]
    late = np.flatnonzero(start - expected > LATE_NS)
    order = np.argsort(end, kind="stable")
    at = np.searchsorted(end[order], start[late], side="right") - 1
    source = order[np.maximum(at, 0)]
    fits = (at >= 0) & (start[late] - end[source] < JUST_BEFORE_NS) & (end[source] > expected[late])
    fits &= (work.device[source] == work.device[late]) & (work.piece[source] != work.piece[late])
    fits &= pieces.lane[work.piece[source]] != pieces.lane[work.piece[late]]
    late, source = late[fits], source[fits]
    return edges(ASSUMED, work.piece[late], work.piece[source], 1.0, between[late])


def _anchors(trace: Trace, pieces: Pieces, target: IntArray) -> Edges:
    """Return edges from what the thread of the steps did when work began whose launch is not in the file."""
    source = pieces.at(main_lane(trace), pieces.start_ns[target])
    known = source >= 0
    share = pieces.share_until(source[known], pieces.start_ns[target[known]])
    return edges(ASSUMED, target[known], source[known], share, 0)
