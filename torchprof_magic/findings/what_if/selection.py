"""What a name means in the graph of the steps: which share of each piece is of an op, a line, a phase or a device."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_work import origins
from torchprof_magic.facts.host.host_nest import above_marked, host_nest
from torchprof_magic.facts.host.phases import PHASES, phase_of_events
from torchprof_magic.facts.host.step_pieces import recorded_pieces
from torchprof_magic.facts.shared import device_numbers, in_category, once_per_trace
from torchprof_magic.facts.source.attribution import sites_of_events
from torchprof_magic.facts.source.forward_of import first_forward_of_events
from torchprof_magic.facts.source.places import call_tree
from torchprof_magic.facts.source.shown_files import files_as_shown
from torchprof_magic.facts.step_graph.asleep import share_asleep
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.model.intervals import (
    NO_PARENT,
    BoolArray,
    IntArray,
    covered_ns,
    depth_of,
    innermost_at,
    nearest_marked,
)
from torchprof_magic.model.meta import shortened
from torchprof_magic.model.trace import DEVICE_CATEGORIES
from torchprof_magic.tables.source.lines import line_runs
from torchprof_magic.tables.source.modules import module_runs

if TYPE_CHECKING:
    from torchprof_magic.facts.source.attribution import Runs
    from torchprof_magic.facts.step_graph.pieces import Pieces
    from torchprof_magic.facts.step_graph.replay import FloatArray
    from torchprof_magic.model.trace import Trace

CLOSE = 3
MOST_CHARS = 100
LATEST_NS = 2**62
_HOST = ("cpu", "host")
_DEVICE = ("device", "gpu")


def share_of(trace: Trace, what: object, *, with_backward: bool = False) -> FloatArray:
    """Return which share of each piece of the graph is of what is named, from 0 to 1; if asked with its backward.

    It is the name of an op, a range, a Python function or a call, with all inside and the device work that it launched;
    of a kernel; of what the host waited for, such as ``time.sleep``; the path of a module or ``file:line``, with their
    backward; the number of a line of the cell; a phase; a device, ``device`` for all, or ``cpu``; or a pair of times in
    ns. The first that fits counts. Raises
    ``OptionsError`` for what is not in the recording.
    """
    if isinstance(what, tuple):
        return _in_range(trace, what)
    if isinstance(what, int) and not isinstance(what, bool):
        return _of_line(trace, what)
    if not isinstance(what, str):
        raise OptionsError(f"what is meant must be a name, a line or a pair of times (got {what!r})")
    if with_backward and (found := _of_ops_with_backward(trace, what)) is not None:
        return found
    for find in (_of_events, _of_wait, _of_module, _of_named_line, _of_phase, _of_device):
        if (found := find(trace, what)) is not None:
            return found
    raise OptionsError(f"nothing called {shortened(what, MOST_CHARS)!r} was recorded{_close_to(trace, what)}")


def _close_to(trace: Trace, what: str) -> str:
    names = [*trace.events["name"].cast(pl.String).unique().to_list(), *PHASES]
    sites, runs = module_runs(trace)
    names += sites["name"].cast(pl.String).gather(np.unique(runs.site)).to_list() if len(runs.site) else []
    names += trace.waits["call"].cast(pl.String).drop_nulls().unique().to_list()
    known = sorted({name for name in names if name})
    holding = sorted((name for name in known if what and what.lower() in name.lower()), key=len)
    close = holding[:CLOSE] or difflib.get_close_matches(what, known, CLOSE)
    if close:
        return f"; did you mean {', '.join(map(repr, close))}?"
    return f"; it must be an op, a kernel, a module, file:line, a device or a phase: {', '.join(PHASES)}"


def _of_rows(trace: Trace, is_chosen: BoolArray) -> FloatArray:
    """Return the pieces of some events, with all inside them and what they launched."""
    pieces = step_graph(trace).pieces
    row = pieces.row
    found = np.append(with_all_inside(trace, is_chosen), False)[row]
    return found.astype(np.float64)


def with_all_inside(trace: Trace, is_chosen: BoolArray) -> BoolArray:
    """Return some events, those of the host inside of them, and the device work that these launched."""
    nest = host_nest(trace)
    found = is_chosen.copy()
    if len(nest.row):
        found[nest.row] |= above_marked(nest, is_chosen[nest.row])[:-1] >= 0
    is_work = trace.events["category"].is_in(DEVICE_CATEGORIES).to_numpy()
    work = np.flatnonzero(is_work)
    found[work] |= np.append(found & ~is_work, False)[origins(trace)[work]]
    return found


def _of_events(trace: Trace, what: str) -> FloatArray | None:
    """Return the pieces of events of a name; ops and others of the host before kernels."""
    is_named = (trace.events["name"].cast(pl.String) == what).to_numpy()
    return _of_rows(trace, is_named) if is_named.any() else None


def _of_ops_with_backward(trace: Trace, what: str) -> FloatArray | None:
    """Return the pieces of ops of a name, and of the nodes of autograd that they made."""
    is_op = in_category(trace, "cpu_op") & (trace.events["name"].cast(pl.String) == what).to_numpy()
    if not is_op.any():
        return None
    inside = with_all_inside(trace, is_op)
    is_node = np.append(inside, False)[first_forward_of_events(trace)]
    return _of_rows(trace, is_op | is_node)


def _of_wait(trace: Trace, what: str) -> FloatArray | None:
    """Return the waits of the thread of the steps in a call, as long as all that they stand for."""
    called = (trace.waits["call"].cast(pl.String) == what).fill_null(value=False).to_numpy()
    return share_asleep(trace, called) if called.any() else None


def _of_module(trace: Trace, what: str) -> FloatArray | None:
    sites, runs = module_runs(trace)
    if len(runs.site) == 0:
        return None
    paths = sites["name"].cast(pl.String)
    is_here = (paths == what) | (paths.str.starts_with(f"{what}.") if what else pl.Series([True] * len(paths)))
    chosen = np.flatnonzero(is_here.fill_null(value=False).to_numpy())
    ran = chosen[np.isin(chosen, runs.site)]
    return _of_runs(trace, runs, ran) if len(ran) else None


def _of_line(trace: Trace, line: int, file: str = "") -> FloatArray:
    found = _of_runs_of_line(trace, line, file)
    if found is None:
        sites, runs = line_runs(trace)
        known = sites[np.unique(runs.site).tolist()]["line"].drop_nulls().unique().sort().to_list()
        there = f"those that did are {', '.join(map(str, known))}" if known else "lines were not recorded"
        raise OptionsError(f"line {line} did not run; {there}")
    return found


def _of_named_line(trace: Trace, what: str) -> FloatArray | None:
    file, _, line = what.rpartition(":")
    if not (line.isdecimal() and file):
        return None
    found = _of_runs_of_line(trace, int(line), file)
    return _of_frames(trace, int(line), file) if found is None else found


def _of_frames(trace: Trace, line: int, file: str) -> FloatArray | None:
    """Return what some frames of recorded call stacks called, with its device work and its backward."""
    nest, tree = host_nest(trace), call_tree(trace)
    is_frame = (_is_file(trace, tree.file, file) & (tree.line == line)).fill_null(value=False).to_numpy()
    if not is_frame.any():
        return None
    inside = nearest_marked(tree.parent, depth_of(tree.parent), is_frame)
    chosen = np.zeros(trace.events.height, np.bool_)
    chosen[nest.row] = inside[tree.of_event[:-1]] >= 0
    return _of_rows(trace, chosen | np.append(chosen, False)[first_forward_of_events(trace)])


def _of_runs_of_line(trace: Trace, line: int, file: str) -> FloatArray | None:
    sites, runs = line_runs(trace)
    if len(runs.site) == 0:
        return None
    is_here = sites["line"] == line
    files = sites["file"].cast(pl.String)
    cell = trace.meta.cell.filename if trace.meta.cell is not None else None
    is_here &= _is_file(trace, files, file) if file else (files == cell if cell else pl.lit(value=True))
    chosen = np.flatnonzero(is_here.fill_null(value=False).to_numpy())
    ran = chosen[np.isin(chosen, runs.site)]
    return _of_runs(trace, runs, ran) if len(ran) else None


def _is_file(trace: Trace, files: pl.Series, name: str) -> pl.Series:
    """Return which files end as a name does, or are shown by it, as cells are by their labels."""
    return files.str.ends_with(name) | (files_as_shown(trace, files) == name)


def _of_runs(trace: Trace, runs: Runs, sites: IntArray) -> FloatArray:
    """Return what some lines or modules ran, with all that they called, their device work and their backward."""
    pieces = step_graph(trace).pieces
    is_here = np.isin(runs.site, sites)
    found = np.zeros(len(pieces.lane))
    for lane in np.unique(runs.lane[is_here]).tolist():
        here = is_here & (runs.lane == lane)
        _cover(pieces, found, lane, runs.start_ns[here], runs.start_ns[here] + runs.dur_ns[here])
    of_event = np.isin(sites_of_events(trace, runs), sites) | _made_in(trace, runs, is_here)
    follows = pieces.is_work | (np.append(first_forward_of_events(trace), NO_PARENT)[pieces.row] >= 0)
    found[follows] = np.append(of_event, False)[pieces.row[follows]]
    return _with_launched(trace, found)


def _made_in(trace: Trace, runs: Runs, is_here: BoolArray) -> BoolArray:
    """Return which events are of the backward pass of ops in some runs, in whichever line these called them."""
    lane, start = (trace.events[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns"))
    around = innermost_at(runs.lane[is_here], runs.start_ns[is_here], runs.dur_ns[is_here], lane, start)
    forward = first_forward_of_events(trace)
    made = np.append(around >= 0, False)[forward]
    return made | np.append(made, False)[origins(trace)]


def _with_launched(trace: Trace, share: FloatArray) -> FloatArray:
    """Return the shares with the device work that was launched in pieces that are chosen for the most part."""
    pieces = step_graph(trace).pieces
    chosen = np.zeros(trace.events.height, np.bool_)
    host = np.flatnonzero(~pieces.is_work & (share > 0.5) & (pieces.row >= 0))  # noqa: PLR2004
    chosen[pieces.row[host]] = True
    nest = host_nest(trace)
    known = np.flatnonzero(np.isin(origins(trace), nest.row))
    work = known[chosen[origins(trace)[known]]]
    found = share.copy()
    found[np.isin(pieces.row, work) & pieces.is_work] = 1.0
    return found


def _cover(pieces: Pieces, found: FloatArray, lane: int, start_ns: IntArray, end_ns: IntArray) -> None:
    """Add to each piece of a lane which share of it some intervals cover."""
    here = pieces.of_lane(lane)
    begin, dur = pieces.start_ns[here], pieces.dur_ns[here]
    covered = covered_ns(start_ns, end_ns, begin, begin + dur)
    found[here] = np.maximum(found[here], covered / np.maximum(dur, 1))


def _of_phase(trace: Trace, what: str) -> FloatArray | None:
    """Return what is of a phase: of the thread of the steps as in their table, of others by their events."""
    if what not in PHASES:
        return None
    graph, number = step_graph(trace), PHASES.index(what)
    pieces = graph.pieces
    phase = np.append(phase_of_events(trace).astype(np.int64), NO_PARENT)[pieces.row]
    found = (phase == number).astype(np.float64)
    parts = recorded_pieces(trace)
    here = parts.phase == number
    main = graph.pieces.of_lane(graph.main)
    found[main] = 0.0
    _cover(pieces, found, graph.main, parts.start_ns[here], parts.end_ns[here])
    if not found.any():
        raise OptionsError(f"no time is of the phase {what!r} in this recording")
    return found


def _of_device(trace: Trace, what: str) -> FloatArray | None:
    pieces = step_graph(trace).pieces
    if what in _HOST:
        return (~pieces.is_work).astype(np.float64)
    kind, _, number = what.partition(":")
    numbers = devices(trace)
    if not pieces.is_work.any() or not (what in _DEVICE or (kind.isidentifier() and number.isdecimal())):
        return None
    if number and int(number) not in numbers:
        raise OptionsError(f"no work of {what} was recorded; devices are {', '.join(map(str, numbers))}")
    is_here = pieces.is_work if not number else pieces.is_work & (device_numbers(trace)[pieces.row] == int(number))
    return is_here.astype(np.float64)


@once_per_trace
def devices(trace: Trace) -> list[int]:
    """Return the numbers of the devices that worked."""
    pieces = step_graph(trace).pieces
    found: list[int] = np.unique(device_numbers(trace)[pieces.row[pieces.is_work]]).tolist()
    return found


def _in_range(trace: Trace, what: tuple[object, ...]) -> FloatArray:
    is_pair = len(what) == 2 and all(isinstance(each, int) and abs(each) < LATEST_NS for each in what)  # noqa: PLR2004
    if not is_pair or not what[0] < what[1]:  # type: ignore[operator]
        raise OptionsError(f"a range must be a pair of times in ns, the first before the second (got {what!r})")
    pieces = step_graph(trace).pieces
    start, end = np.array([what[0]], np.int64), np.array([what[1]], np.int64)
    found: FloatArray = covered_ns(start, end, pieces.start_ns, pieces.end_ns) / np.maximum(pieces.dur_ns, 1)
    return found
