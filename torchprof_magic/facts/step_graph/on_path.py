"""When each event was on the critical path of its step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.device.graph_work import origins
from torchprof_magic.facts.ops.calls import op_rows, ops_around
from torchprof_magic.facts.shared import in_category, once_for_the_whole, once_per_trace
from torchprof_magic.facts.step_graph.edges import INFERRED, MUCH_ASSUMED
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.facts.step_graph.path import critical_path
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.model.intervals import IntArray  # noqa: TC001 - a field of a named tuple
from torchprof_magic.model.trace import DEVICE_CATEGORIES

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace


# The graph of a larger trace takes as much memory again as the trace. It is made where it is asked for, and not for a
# column of a table.
MOST_EVENTS = 3_000_000


@once_per_trace
def is_path_shown(trace: Trace) -> bool:
    """Return whether tables and the timeline say what is on the path; ``report.critical_path`` does for any trace.

    Where much of it is assumed, as without launches, it would name what the file does not say.
    """
    if trace.events.height > MOST_EVENTS:
        return False
    path = critical_path(trace)
    assumed_ns = int(path.dur_ns[np.isin(path.kind, INFERRED)].sum())
    return assumed_ns <= MUCH_ASSUMED * int(path.dur_ns.sum())


class OnPath(NamedTuple):
    """The parts of the critical paths in which something ran: the innermost event, its lane, and when, in ns.

    ``row`` is -1 where a thread was in no event.
    """

    row: IntArray
    lane: IntArray
    start_ns: IntArray
    dur_ns: IntArray


@once_per_trace
def on_path(trace: Trace) -> OnPath:
    """Return what was on the critical paths of all steps; nothing where tables do not show it."""
    if not is_path_shown(trace):
        return OnPath(*(np.empty(0, np.int64) for _ in OnPath._fields))
    pieces, path = step_graph(trace).pieces, critical_path(trace)
    ran = path.piece >= 0
    piece = path.piece[ran]
    return OnPath(pieces.row[piece], pieces.lane[piece], path.start_ns[ran], path.dur_ns[ran])


@once_for_the_whole
def on_path_in(trace: Trace, part: TimeRange) -> OnPath:
    """Return what was on the critical paths, cut at the edges of a part of the time."""
    found = on_path(trace)
    start_ns, dur_ns = part.cut(found.start_ns, found.dur_ns)
    return found._replace(start_ns=start_ns, dur_ns=dur_ns)


@once_for_the_whole
def ns_of_ops(trace: Trace, part: TimeRange) -> IntArray:
    """Return how long each op itself, or device work that it launched, was on the path; and last what is of no op."""
    ops, found = op_rows(trace).nest, on_path_in(trace, part)
    is_work = in_category(trace, *DEVICE_CATEGORIES)
    row = np.where(np.append(is_work, False)[found.row], np.append(origins(trace), -1)[found.row], found.row)
    at = ops_around(trace, ops, row)
    is_of_none = (at < 0) & np.append(is_work, False)[found.row]
    own = sum_by(at, found.dur_ns, len(ops.row))
    return np.append(own, int(found.dur_ns[is_of_none].sum()))


def ns_of_events(trace: Trace, part: TimeRange) -> IntArray:
    """Return how long each event itself was on the path."""
    found = on_path_in(trace, part)
    return sum_by(found.row, found.dur_ns, trace.events.height)
