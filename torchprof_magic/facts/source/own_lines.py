"""Code of the user that autograd calls in the backward pass: backward of an autograd.Function, hooks, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.device.graph_work import origin_links
from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.shared import in_category, once_per_trace
from torchprof_magic.facts.source.forward_of import backward_nodes, first_forward_of_events, forward_of_events
from torchprof_magic.facts.source.users_files import is_users_file
from torchprof_magic.model.distinct import numbers_in
from torchprof_magic.model.intervals import NO_PARENT, IntArray, innermost_at
from torchprof_magic.model.rows import filled

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray
    from torchprof_magic.model.trace import Trace


class _Spans(NamedTuple):
    """Intervals of threads in nesting order; ``frame`` is the index of a function in the host nest, or -1."""

    lane: IntArray
    start_ns: IntArray
    dur_ns: IntArray
    frame: IntArray

    def around(self, lane: IntArray, at_ns: IntArray) -> IntArray:
        """Return the innermost interval around each moment, or -1; what begins as one ends is not in it."""
        return innermost_at(self.lane, self.start_ns, self.dur_ns, lane, at_ns, until_ns=at_ns + 1)

    def begun_at(self, lane: IntArray, at_ns: IntArray) -> IntArray:
        """Return when the innermost interval around each moment began, -1 where there is none."""
        return np.append(self.start_ns, NO_PARENT)[self.around(lane, at_ns)]


@once_per_trace
def forward_by_lines(trace: Trace) -> IntArray:
    """Return for each event the row of the op in whose line it counts: the first forward op, -1 for most events.

    What the user's own lines run in the backward pass counts there, and not in the line of the forward op.
    """
    return np.where(is_in_own_code(trace), NO_PARENT, first_forward_of_events(trace))


@once_per_trace
def is_in_own_code(trace: Trace) -> BoolArray:
    """Return which events of the backward pass the user's own lines run, or launched."""
    backward = np.flatnonzero(forward_of_events(trace) >= 0)
    found = np.zeros(trace.events.height, np.bool_)
    found[backward] = is_in_own_lines(trace, backward, trace.events["start_ns"].to_numpy()[backward])
    calls, work = origin_links(trace)
    found[work] = found[calls]
    return found


def forward_at(trace: Trace, rows: IntArray, at_ns: IntArray | None = None) -> IntArray:
    """Return ``forward_by_lines`` of event rows, or -1, at some moments in them in place of their starts."""
    if at_ns is None:
        return np.append(forward_by_lines(trace), NO_PARENT)[rows]
    first = np.append(first_forward_of_events(trace), NO_PARENT)[rows]
    return np.where(is_in_own_lines(trace, rows, at_ns), NO_PARENT, first)


def is_in_own_lines(trace: Trace, rows: IntArray, at_ns: IntArray) -> BoolArray:
    """Return whether lines of the user that autograd called ran at some moments in host events; not in -1.

    Such a line, or a function where no lines were watched, began in the innermost node of autograd around it.
    """
    return _own_code_at(trace, rows, at_ns) >= 0


def with_own_functions(trace: Trace, rows: IntArray, at_ns: IntArray) -> IntArray:
    """Return the host events of some moments, or -1, with the user's functions in them that autograd called then."""
    nest = host_nest(trace)
    frame = np.append(_code(trace).frame, NO_PARENT)[_own_code_at(trace, rows, at_ns)]
    start_ns = np.append(trace.events["start_ns"].to_numpy(), 0)
    is_inside = np.append(nest.start_ns, NO_PARENT)[frame] > start_ns[rows]
    return np.where(is_inside, np.append(nest.row, NO_PARENT)[frame], rows)


def innermost_in_own_lines(trace: Trace, cause: IntArray, at_ns: IntArray) -> IntArray:
    """Return the host event of each moment, or the user's function in it that autograd called; -1 outside of these.

    ``cause`` are the events that say what their thread does, and the result as well: indexes into the host nest.
    """
    nest = host_nest(trace)
    own = _own_code_at(trace, np.append(nest.row, NO_PARENT)[cause], at_ns)
    code = _code(trace)
    frame = np.append(code.frame, NO_PARENT)[own]
    start_ns = np.append(nest.start_ns, NO_PARENT)
    return np.where(own < 0, NO_PARENT, np.where(start_ns[frame] > start_ns[cause], frame, cause))


def _own_code_at(trace: Trace, rows: IntArray, at_ns: IntArray) -> IntArray:
    """Return what autograd called at some moments in host events, an index into ``_code``, or -1."""
    found = np.full(len(rows), NO_PARENT, np.int64)
    if not _has_own_code(trace):
        return found
    code, nodes = _code(trace), _nodes(trace)
    known = np.flatnonzero(rows >= 0)
    moments = trace.events["lane"].to_numpy()[rows[known]].astype(np.int64), at_ns[known]
    inner = code.around(*moments)
    node_ns = nodes.begun_at(*moments)
    is_own = (node_ns >= 0) & (np.append(code.start_ns, NO_PARENT)[inner] > node_ns)
    found[known[is_own]] = inner[is_own]
    return found


@once_per_trace
def _has_own_code(trace: Trace) -> bool:
    """Return whether any code of the user began in a node of autograd."""
    code = _code(trace)
    if len(code.lane) == 0:
        return False
    nodes = _nodes(trace)
    for lane in numbers_in(code.lane):
        here = nodes.lane == lane
        last_end_ns = np.maximum.accumulate(nodes.start_ns[here] + nodes.dur_ns[here])
        begun_ns = code.start_ns[code.lane == lane]
        before = np.searchsorted(nodes.start_ns[here], begun_ns) - 1
        if (np.append(last_end_ns, NO_PARENT)[before] > begun_ns).any():
            return True
    return False


@once_per_trace
def _nodes(trace: Trace) -> _Spans:
    rows = backward_nodes(trace).row
    lane, start_ns, dur_ns = (
        trace.events[name].to_numpy()[rows].astype(np.int64) for name in ("lane", "start_ns", "dur_ns")
    )
    return _Spans(lane, start_ns, dur_ns, np.full(len(rows), NO_PARENT))


@once_per_trace
def _code(trace: Trace) -> _Spans:
    """Return when the watched lines ran, or else the user's functions."""
    is_line = (trace.sites["kind"] == "line").to_numpy()[trace.scopes["site"].to_numpy()]
    if is_line.any():
        lane, start_ns, dur_ns = (
            trace.scopes[name].to_numpy()[is_line].astype(np.int64) for name in ("lane", "start_ns", "dur_ns")
        )
        return _Spans(lane, start_ns, dur_ns, np.full(len(lane), NO_PARENT))
    if trace.stacks.height == 0:
        return _Spans(*(np.empty(0, np.int64) for _ in _Spans._fields))
    nest = host_nest(trace)
    stack = filled(trace.events["stack"], NO_PARENT)[nest.row]
    is_users = np.append(is_users_file(trace.stacks["file"]), False)[stack]
    frames = np.flatnonzero(is_users & in_category(trace, "python_function")[nest.row])
    return _Spans(nest.lane[frames], nest.start_ns[frames], (nest.end_ns - nest.start_ns)[frames], frames)
