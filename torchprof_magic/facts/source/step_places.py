"""The line that every moment of the steps belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.device.idle_pieces import LAUNCH_CALL
from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.host_states import COMPILE, DISPATCH, RUNTIME_CALL, called_ops, compile_ranges
from torchprof_magic.facts.host.step_pieces import StepPieces, recorded_pieces
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.source.fx_nodes import own_nodes
from torchprof_magic.facts.source.own_lines import innermost_in_own_lines
from torchprof_magic.facts.source.places import Places, functions_around, places_that_ran, with_forward_places
from torchprof_magic.model.intervals import NO_PARENT, IntArray
from torchprof_magic.model.rows import filled

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


class PlacedPieces(NamedTuple):
    """The pieces of the steps, the event of the host nest that names each, or -1, and the line that it belongs to.

    ``ran`` is the line that ran. It is another one in the backward pass, which belongs to the lines of the forward ops.
    """

    pieces: StepPieces
    named: IntArray
    places: Places
    ran: Places


@once_per_trace
def placed_pieces(trace: Trace) -> PlacedPieces:
    """Return the pieces of the steps, or else of the windows, with their lines."""
    pieces = recorded_pieces(trace)
    # Where autograd calls lines of the user, the outermost op is the node of autograd.
    own = innermost_in_own_lines(trace, pieces.cause, pieces.start_ns)
    named = np.where(own >= 0, own, called(trace, pieces.cause, pieces.state))
    row = np.append(host_nest(trace).row, NO_PARENT)[named]
    is_compiled = np.append(own_nodes(trace), NO_PARENT)[row] >= 0
    site = np.where(is_compiled, NO_PARENT, pieces.site)
    ran = at_sites(trace, site, places_that_ran(trace, np.where(site >= 0, NO_PARENT, row), pieces.start_ns))
    return PlacedPieces(pieces, named, with_forward_places(trace, row, ran, pieces.start_ns), ran)


def at_sites(trace: Trace, site: IntArray, places: Places) -> Places:
    """Return the places of watched lines, indexes of ``trace.sites``, and for -1 the places that are given."""
    lines = np.append(filled(trace.sites["line"], 0), 0)[site]
    return places._replace(file=np.where(site >= 0, site, places.file), line=np.where(site >= 0, lines, places.line))


@once_per_trace
def functions_of_pieces(trace: Trace) -> Places:
    """Return the user's function that each of the ``placed_pieces`` belongs to, where frames were recorded."""
    pieces, named, _, _ = placed_pieces(trace)
    row = np.append(host_nest(trace).row, NO_PARENT)[named]
    return with_forward_places(trace, row, functions_around(trace, row), pieces.start_ns, functions_around)


def called(trace: Trace, cause: IntArray, state: IntArray) -> IntArray:
    """Return the events that name pieces: where ops run, the outermost op; in compilation, the outermost range.

    Both are indexes into the host nest, or -1.
    """
    outer = np.append(called_ops(trace), NO_PARENT)[cause]
    ranges = np.append(compile_ranges(trace), NO_PARENT)[cause]
    is_ops = np.isin(state, (DISPATCH, RUNTIME_CALL, LAUNCH_CALL)) & (outer >= 0)
    return np.where(is_ops, outer, np.where((state == COMPILE) & (ranges >= 0), ranges, cause))
