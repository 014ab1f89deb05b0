"""The line of the user's code that an event belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_work import origins
from torchprof_magic.facts.host.host_nest import above_marked, host_nest, indexes_of
from torchprof_magic.facts.shared import in_category, is_named, name_numbers, once_per_trace
from torchprof_magic.facts.source.fx_modules import fx_modules
from torchprof_magic.facts.source.fx_nodes import own_nodes
from torchprof_magic.facts.source.own_lines import forward_at, with_own_functions
from torchprof_magic.facts.source.script_modules import module_of_ops
from torchprof_magic.facts.source.users_files import is_users_file
from torchprof_magic.model.intervals import (
    NO_PARENT,
    IntArray,
    depth_of,
    innermost_at,
    merge_paths,
    nearest_marked,
)
from torchprof_magic.model.rows import filled, values_at
from torchprof_magic.model.trace import STEP_PATTERN

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.model.trace import Trace


class Places(NamedTuple):
    """A file and a line for each of some events; ``line`` is 0 and ``file`` -1 where they are unknown.

    ``file`` is an index into ``files``.
    """

    files: pl.Series
    file: IntArray
    line: IntArray

    def at(self, chosen: IntArray) -> Places:
        """Return the places of some of the events."""
        return self._replace(file=self.file[chosen], line=self.line[chosen])

    def columns(self) -> tuple[pl.Series, pl.Series]:
        """Return the columns ``file`` and ``line``, null where unknown."""
        file = values_at(self.files, self.file).alias("file")
        line = pl.Series("line", self.line, dtype=pl.Int32)
        return file, line.set(line <= 0, None)


def places_of(trace: Trace, rows: IntArray, at_ns: IntArray | None = None) -> Places:
    """Return the line that each event row, or -1, belongs to.

    It is the one that ran; of what runs in the backward pass it is that of the forward op, where this is known.
    ``at_ns`` are moments to look at in place of the starts of events that are no part of the backward pass.
    """
    if at_ns is not None:
        rows = with_own_functions(trace, rows, at_ns)
    return with_forward_places(trace, rows, places_that_ran(trace, rows, at_ns), at_ns)


def with_forward_places(
    trace: Trace,
    rows: IntArray,
    ran: Places,
    at_ns: IntArray | None = None,
    find: Callable[[Trace, IntArray], Places] | None = None,
) -> Places:
    """Return the places of event rows, or -1, with those of the backward pass moved to the places of their forward.

    What runs in the user's own lines there stays where it ran. ``at_ns`` are moments to look at in place of the starts
    of the events. ``find`` returns the places; it is ``places_that_ran`` without one.
    """
    if len(ran.files) == 0:
        return ran
    forward = forward_at(trace, rows, at_ns)
    # What is compiled for the backward pass has lines of its own.
    known = np.flatnonzero((forward >= 0) & (np.append(own_nodes(trace), NO_PARENT)[rows] < 0))
    if len(known) == 0:
        return ran
    made = (find or places_that_ran)(trace, forward[known])
    known, made_file, made_line = (column[made.file >= 0] for column in (known, made.file, made.line))
    file, line = ran.file.copy(), ran.line.copy()
    file[known], line[known] = made_file, made_line
    return ran._replace(file=file, line=line)


def places_that_ran(trace: Trace, rows: IntArray, at_ns: IntArray | None = None) -> Places:
    """Return the line that ran at each event row, or -1: the watched one at its start, or the user's innermost frame.

    In compiled code it is that of the model. ``at_ns`` are moments to look at in place of the starts. A frame is
    recorded with the line of its definition.
    """
    if trace.sites.height == 0 and trace.stacks.height == 0 and not trace.fx_nodes.height:  # nothing was recorded
        return Places(pl.Series([], dtype=pl.String), np.full(len(rows), NO_PARENT), np.zeros(len(rows), np.int64))
    functions, site = functions_around(trace, rows), _line_sites(trace, rows, at_ns)
    lines = np.append(filled(trace.sites["line"], 0), 0)[site]
    file, line = (np.where(site >= 0, *both) for both in ((site, functions.file), (lines, functions.line)))
    return with_fx_lines(trace, rows, Places(functions.files, file, line))


def with_fx_lines(trace: Trace, rows: IntArray, places: Places) -> Places:
    """Return the places of event rows, or -1, with the lines of the model of what runs in compiled code."""
    if not trace.fx_nodes.height:
        return places
    node = np.append(own_nodes(trace), NO_PARENT)[rows]
    line = np.append(filled(trace.fx_nodes["line"], 0), 0)[node]
    # What torch itself calls, as in a compiled step of an optimizer, belongs to the line that ran.
    is_known = (node >= 0) & (line > 0) & np.append(is_users_file(trace.fx_nodes["file"]), False)[node]
    first = len(places.files) - trace.fx_nodes.height
    return places._replace(
        file=np.where(is_known, first + node, places.file), line=np.where(is_known, line, places.line)
    )


def functions_around(trace: Trace, rows: IntArray) -> Places:
    """Return the user's innermost function around each event row, or -1, whichever lines were watched."""
    files, lines = known_places(trace)
    frame = np.append(_users_frames(trace), NO_PARENT)[_frame_around(trace, rows)]
    file = np.where(frame >= 0, frame + trace.sites.height, NO_PARENT)
    return Places(files, file, np.append(filled(lines, 0), 0)[file])


def known_places(trace: Trace) -> tuple[pl.Series, pl.Series]:
    """Return the files and the lines of all that a place can be: sites, frames of the call tree, nodes of graphs.

    ``file`` of ``Places`` is an index into them.
    """
    frames = call_tree(trace)
    files = [trace.sites["file"].cast(pl.String), frames.file, trace.fx_nodes["file"].cast(pl.String)]
    return pl.concat(files), pl.concat([trace.sites["line"], frames.line, trace.fx_nodes["line"]])


class CallTree(NamedTuple):
    """The tree of calls of Python frames, callers first, and the innermost frame at or around each event of the nest.

    ``parent`` and ``of_event`` are indexes into the other columns, or -1.
    """

    name: pl.Series
    file: pl.Series
    line: pl.Series
    parent: IntArray
    of_event: IntArray


@once_per_trace
def call_tree(trace: Trace) -> CallTree:
    """Return the frames as ``host_nest`` nests them: ``trace.stacks`` lacks callers that an annotation cuts through."""
    nest = host_nest(trace)
    is_frame = in_category(trace, "python_function")[nest.row]
    stack = filled(trace.events["stack"], NO_PARENT)[nest.row]
    if not is_frame.any():  # older torch writes stacks at the ops alone
        # The range of a step says where it began, and not what runs in it.
        stack[is_named(trace, STEP_PATTERN)[nest.row]] = NO_PARENT
        around = above_marked(nest, stack >= 0)
        parent = trace.stacks["parent"].to_numpy().astype(np.int64)
        return _tree_of(trace, np.arange(len(parent)), parent, np.append(stack, NO_PARENT)[around])
    frames, around = np.flatnonzero(is_frame), above_marked(nest, is_frame)
    number = np.full(len(is_frame) + 1, NO_PARENT, np.int64)
    number[frames] = np.arange(len(frames))
    parent = number[around[nest.parent[frames]]]
    name = name_numbers(trace)[nest.row[frames]]
    path, first = merge_paths(parent, np.unique(name, return_inverse=True)[1])
    path = np.append(path, NO_PARENT)
    return _tree_of(trace, stack[frames[first]], path[parent[first]], path[number[around]])


def _tree_of(trace: Trace, stack: IntArray, parent: IntArray, of_event: IntArray) -> CallTree:
    """Return a tree of frames, each of which is described by a row of ``stacks``."""
    name, file = (values_at(trace.stacks[column].cast(pl.String), stack) for column in ("name", "file"))
    return CallTree(name, file, values_at(trace.stacks["line"], stack), parent, of_event)


def _frame_around(trace: Trace, rows: IntArray) -> IntArray:
    """Return the innermost frame around each event row, around its launch if it ran on a device, or -1."""
    nest = host_nest(trace)
    launch = np.append(origins(trace), NO_PARENT)[rows].astype(np.int64)
    rows = np.where(launch >= 0, launch, rows)
    is_nested = np.zeros(trace.events.height + 1, np.bool_)
    is_nested[nest.row] = True
    index = np.full(len(rows), NO_PARENT, np.int64)
    nested = np.flatnonzero(is_nested[rows])
    index[nested] = indexes_of(nest, rows[nested])
    return call_tree(trace).of_event[index]


def _line_sites(trace: Trace, rows: IntArray, at_ns: IntArray | None) -> IntArray:
    """Return the line that ran on the event's thread at the moment, a row of ``sites``, or -1."""
    is_line = (trace.sites["kind"] == "line").to_numpy()
    found = np.full(len(rows), NO_PARENT, np.int64)
    known = np.flatnonzero(rows >= 0)
    if not is_line.any() or len(known) == 0:
        return found
    scopes = trace.scopes.filter(pl.Series(is_line[trace.scopes["site"].to_numpy()]))
    lane, start = (trace.events[name].to_numpy()[rows[known]].astype(np.int64) for name in ("lane", "start_ns"))
    inside = _innermost_scope(scopes, lane, start if at_ns is None else at_ns[known])
    found[known] = np.append(scopes["site"].to_numpy(), NO_PARENT)[inside]
    return found


def _innermost_scope(scopes: pl.DataFrame, lane: IntArray, at_ns: IntArray) -> IntArray:
    """Return the row of the innermost of some scopes that ran on a lane at a moment, or -1."""
    lanes, start, dur = (scopes[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns", "dur_ns"))
    # What begins as a line ends is not in it.
    return innermost_at(lanes, start, dur, lane, at_ns, until_ns=at_ns + 1)


@once_per_trace
def _users_frames(trace: Trace) -> IntArray:
    """Return for each frame the innermost frame of the user at or above it, or -1."""
    frames = call_tree(trace)
    found = nearest_marked(frames.parent, depth_of(frames.parent), is_users_file(frames.file))
    return found[:-1].astype(np.int64)


MODULE_FRAME = "nn.Module: "


def module_of_events(trace: Trace, rows: IntArray) -> pl.Series:
    """Return the path of the innermost nn.Module around each event row, null where it is not known.

    The path is one of attributes where modules were watched, and in models of TorchScript. From recorded frames it is
    one of classes and numbers.
    """
    of_script = _module_of_nodes(trace, rows, module_of_ops(trace, rows))
    return (
        of_script
        if of_script.null_count() == 0
        else of_script.zip_with(of_script.is_not_null(), _module_around(trace, rows))
    )


def _module_of_nodes(trace: Trace, rows: IntArray, modules: pl.Series) -> pl.Series:
    """Return the modules of event rows with those of what runs in compiled code."""
    found = fx_modules(trace)
    if found is None:
        return modules
    site = np.append(found.of_event, NO_PARENT)[rows]
    return values_at(found.sites["name"].cast(pl.String), site).zip_with(pl.Series(site >= 0), modules)


def _module_around(trace: Trace, rows: IntArray) -> pl.Series:
    """Return the path of the innermost module around each event row that was watched, or has a frame."""
    is_module = (trace.sites["kind"] == "module").to_numpy()
    scopes = trace.scopes.filter(pl.Series(is_module[trace.scopes["site"].to_numpy()]))
    if scopes.height:
        launch = np.append(origins(trace), NO_PARENT)[rows].astype(np.int64)
        rows = np.where(launch >= 0, launch, rows)
        lane, start = (trace.events[name].to_numpy()[rows].astype(np.int64) for name in ("lane", "start_ns"))
        site = np.append(scopes["site"].to_numpy(), NO_PARENT)[_innermost_scope(scopes, lane, start)]
        return values_at(trace.sites["name"].cast(pl.String), site)
    path, innermost = module_frames(trace)
    return values_at(path, np.append(innermost, NO_PARENT)[_frame_around(trace, rows)])


@once_per_trace
def module_frames(trace: Trace) -> tuple[pl.Series, IntArray]:
    """Return the path of each frame of a module, and for each frame the innermost such frame at or above it, or -1."""
    names, _, _, parent, _ = call_tree(trace)
    is_module = names.str.starts_with(MODULE_FRAME).fill_null(value=False).to_numpy()
    innermost = nearest_marked(parent, depth_of(parent), is_module).astype(np.int64)
    paths: list[str | None] = [None] * len(names)
    for row in np.flatnonzero(is_module).tolist():  # callers come first
        name = names[row].removeprefix(MODULE_FRAME)
        above = innermost[parent[row]]
        paths[row] = name if above < 0 else f"{paths[above]}.{name}"
    return pl.Series(paths, dtype=pl.String), innermost[:-1]
