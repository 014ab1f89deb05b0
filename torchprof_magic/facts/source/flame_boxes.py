"""The boxes of a flame graph on the host: ops, annotations and Python frames, with watched lines and modules around."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.proper_nest import PLACE, RANGE, nest_properly, roles_of
from torchprof_magic.facts.ops.calls import OP_CATEGORIES, nest_among, ops_around
from torchprof_magic.facts.shared import in_category, is_mark, once_per_trace
from torchprof_magic.facts.source.forward_of import backward_nodes, forward_of_events
from torchprof_magic.facts.source.places import MODULE_FRAME
from torchprof_magic.facts.source.shown_files import labels_of_cells
from torchprof_magic.model.distinct import codes_of
from torchprof_magic.model.intervals import (
    NO_PARENT,
    BoolArray,
    IntArray,
    depth_of,
    innermost_at,
    nearest_marked,
    nest,
    nesting_order,
    own_time,
    self_time,
)
from torchprof_magic.model.rows import with_series
from torchprof_magic.model.trace import CATEGORY, SITE_KIND
from torchprof_magic.model.units import short_file

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.facts.ops.calls import Nest
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace

# Frames of the notebook and of the profiler itself, which are around every cell and not part of the program.
_PLUMBING = (
    r"(^|/)(IPython|ipykernel|traitlets|tornado|asyncio|torchprof_magic)/|^runpy\.py|^<frozen runpy>"
    r"|(^|/)ipykernel_launcher\.py|(^|/)torch/profiler/|^torch/autograd/profiler\.py"
    r"|^(asyncio|concurrent)/|^threading\.py\([0-9]+\): (_bootstrap|run)"
)
# Of intervals that are equal: steps are around lines, these around modules, and these around frames and ops.
_RANKS = ("user_annotation", "line", "module", "python_function", "cpu_op")
# Derivatives of derivatives; more than any program takes.
MAX_DERIVATIVES = 8


class HostBoxes(NamedTuple):
    """Boxes in nesting order: their rows in ``trace.events`` or -1, their rows in ``trace.sites`` or -1, and parents.

    ``own_ns`` is the time that no box inside covers. ``overlaps`` marks boxes that began inside another one and ended
    after it. ``ops`` is the nest of the events if there are no other boxes.
    """

    row: IntArray
    site: IntArray
    lane: IntArray
    start_ns: IntArray
    dur_ns: IntArray
    parent: IntArray
    own_ns: IntArray
    overlaps: BoolArray
    ops: Nest | None

    def own_ns_in(self, part: TimeRange) -> IntArray:
        """Return the part of ``own_ns`` that lies in a range."""
        return own_time(self.parent, *part.cut(self.start_ns, self.dur_ns), self.overlaps)

    def around(self, trace: Trace, rows: npt.NDArray[np.integer]) -> IntArray:
        """Return the innermost box at or around each event row, -1 for none and for row -1."""
        if self.ops is not None:
            return ops_around(trace, self.ops, rows)
        found = _boxes_that_are(self, trace)[rows]
        others = np.flatnonzero((found < 0) & (rows >= 0))
        lane, start, end = _proper_times(trace, rows[others].astype(np.int64))
        found[others] = innermost_at(
            self.lane, self.start_ns, self.dur_ns, lane, start, until_ns=end, parent=self.parent
        )
        return found


@once_per_trace
def host_boxes(trace: Trace) -> HostBoxes:
    """Return the boxes of all threads, properly nested: ``own_ns`` adds up to the time in which a thread has any.

    Where boxes were recorded that overlap one another, times are those of ``nest_properly``, not those of the events.
    """
    found = recorded_boxes(trace)
    if not found.overlaps.any():
        return found
    roles, is_event = np.full(len(found.row), PLACE), found.row >= 0
    # torch.compile records its ranges as ops; they are entered by a call of Python as others are.
    roles[is_event] = roles_of(trace.events["category"].gather(found.row[is_event]), ops=RANGE)
    torn, end = np.unique(found.lane[found.overlaps]), found.start_ns + found.dur_ns
    order, start, end, parent = nest_properly(found.lane, found.start_ns, end, found.parent, roles, torn)
    return found._replace(
        row=found.row[order],
        site=found.site[order],
        start_ns=start,
        dur_ns=end - start,
        parent=parent,
        own_ns=self_time(parent, end - start),
        overlaps=np.zeros(len(order), np.bool_),
        ops=None,
    )


@once_per_trace
def recorded_boxes(trace: Trace) -> HostBoxes:
    """Return the boxes of all threads with the times that were recorded; those of a thread can overlap one another."""
    is_visible = _visible_on_host(trace)
    if trace.scopes.height == 0:
        ops = nest_among(trace, is_visible)
        lane, start, dur = _intervals(trace, ops.row)
        own = own_time(ops.parent, start, dur, ops.overlaps)
        no_site = np.full(len(ops.row), NO_PARENT)
        return HostBoxes(ops.row, no_site, lane, start, dur, ops.parent, own, ops.overlaps, ops)
    row = np.flatnonzero(is_visible)
    site, *of_scopes = (
        trace.scopes[name].to_numpy().astype(np.int64) for name in ("site", "lane", "start_ns", "dur_ns")
    )
    lane, start, dur = (np.concatenate(pair) for pair in zip(_intervals(trace, row), of_scopes, strict=True))
    rank = np.concatenate(
        (_ranks(trace.events["category"], CATEGORY)[row], _ranks(trace.sites["kind"], SITE_KIND)[site])
    )
    order = nesting_order(lane, start, dur, rank)
    lane, start, dur = lane[order], start[order], dur[order]
    parent, _, overlaps = nest(lane, start, dur)
    row = np.concatenate((row, np.full(len(site), NO_PARENT)))[order]
    site = np.concatenate((np.full(len(row) - len(site), NO_PARENT), site))[order]
    return HostBoxes(row, site, lane, start, dur, parent, own_time(parent, start, dur, overlaps), overlaps, None)


def _ranks(kinds: pl.Series, names: pl.Enum) -> npt.NDArray[np.int8]:
    """Return the rank of each kind of interval; -1 for those that are no boxes."""
    ranks = np.array([_RANKS.index(name) if name in _RANKS else -1 for name in names.categories], np.int8)
    return ranks[codes_of(kinds)]


def _boxes_that_are(boxes: HostBoxes, trace: Trace) -> IntArray:
    """Return for each event the box that it is, or -1; with an entry for event -1."""
    found = np.full(trace.events.height + 1, NO_PARENT, np.int64)
    shown = np.flatnonzero(boxes.row >= 0)
    found[boxes.row[shown]] = shown
    return found


def _proper_times(trace: Trace, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the lane, start and end of events, nested as those on the host are."""
    lane, start, dur = _intervals(trace, rows)
    nest, number = host_nest(trace), np.full(trace.events.height, NO_PARENT, np.int64)
    number[nest.row] = np.arange(len(nest.row))
    at = number[rows]
    is_nested = at >= 0
    end = start + dur
    start[is_nested], end[is_nested] = nest.start_ns[at[is_nested]], nest.end_ns[at[is_nested]]
    return lane, start, end


def _intervals(trace: Trace, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    lane, start, dur = (trace.events[name].to_numpy()[rows] for name in ("lane", "start_ns", "dur_ns"))
    return lane.astype(np.int64), start, dur


class Joined(NamedTuple):
    """Nodes of autograd that move: ``node`` is the box of each, which goes into the box number ``box``.

    That one is a new box inside the box ``around[box]``.
    """

    node: IntArray
    box: IntArray
    around: IntArray


def backward_under_forward(trace: Trace, boxes: HostBoxes) -> Joined:
    """Return which nodes move to the line, module or Python frame of their forward op; none if none of these is known.

    A node moves only if its forward op ended before it began, so that no box ends up inside itself.
    """
    nowhere = np.empty(0, np.int64)
    is_frame = in_category(trace, "python_function")
    is_event = boxes.row >= 0
    is_holder = ~is_event
    is_holder[is_event] = is_frame[boxes.row[is_event]]
    nodes = backward_nodes(trace).row
    if not is_holder.any() or len(nodes) == 0:
        return Joined(nowhere, nowhere, nowhere)
    box_of = _boxes_that_are(boxes, trace)
    forward = forward_of_events(trace)[nodes]
    start, dur = (trace.events[name].to_numpy() for name in ("start_ns", "dur_ns"))
    is_earlier = (start[forward] < start[nodes]) & (start[forward] + dur[forward] <= start[nodes])
    chosen = is_earlier & (box_of[nodes] >= 0) & (box_of[forward] >= 0)
    node = box_of[nodes[chosen]]
    holder = _holders(boxes, is_holder, node, box_of[forward[chosen]])
    node, holder = node[holder >= 0], holder[holder >= 0]
    around, box = np.unique(holder, return_inverse=True)
    return Joined(node, box, around)


def _holders(boxes: HostBoxes, is_holder: BoolArray, node: IntArray, forward: IntArray) -> IntArray:
    """Return the innermost line, module or frame around each forward box, -1 for none.

    An op of a node that moves, as in a second derivative, is where its node moves to.
    """
    stops = is_holder.copy()
    stops[node] = True
    nearest = nearest_marked(boxes.parent, depth_of(boxes.parent), stops)[:-1]
    found = np.full(len(boxes.row), NO_PARENT, np.int64)  # of nodes
    holder = nearest[forward].astype(np.int64)
    for _ in range(MAX_DERIVATIVES):
        is_node = (holder >= 0) & ~np.append(is_holder, True)[holder]
        if not is_node.any():
            break
        found[node] = holder
        holder[is_node] = found[holder[is_node]]
    return np.where(np.append(is_holder, False)[holder], holder, NO_PARENT)


@once_per_trace
def site_names(trace: Trace) -> pl.Series:
    """Return what the boxes of lines and modules are called, so that modules of one list have the same name.

    Lines are called by their number and text, those of other files than the cell by their file too. Modules are called
    by their attributes from the module around, with numbers left out, and their class; by their class alone where
    the attribute is only a number.
    """
    sites = trace.sites
    cell = trace.meta.cell.filename if trace.meta.cell is not None else None
    labels, names = labels_of_cells(trace), []
    paths = sites["name"].cast(pl.String).to_list()
    for kind, parent, name, file, line, class_name in sites.select(
        "kind", "parent", "name", "file", "line", "class_name"
    ).iter_rows():
        if kind == "line":
            place = f"line {line}" if file == cell else _line_of(labels.get(file, ""), file or "", line)
            names.append(f"{place}: {name.strip()}" if name and name.strip() else place)
            continue
        above = f"{paths[parent]}." if parent is not None and parent >= 0 and paths[parent] else ""
        attributes = ".".join("*" if part.isdigit() else part for part in (name or "").removeprefix(above).split("."))
        # The number of a child in a list or a Sequential says nothing of its own.
        names.append(f"{attributes}: {class_name}" if attributes.strip("*.") else str(class_name))
    return pl.Series("name", names, dtype=pl.String)


def _line_of(label: str, file: str, line: int | None) -> str:
    """Return a line of another cell by the label of that, and of a file by the last parts of its path."""
    return f"{label} line {line}" if label else f"{short_file(file)}:{line}"


def _visible_on_host(trace: Trace) -> BoolArray:
    """Return which events are host events of the user's program; runtime calls stay with their op.

    With stacks, torch records every thread of the process. Threads without ops belong to the notebook (its sockets, its
    progress bar) and would only show waiting.
    """
    if not in_category(trace, "python_function").any():
        return in_category(trace, *OP_CATEGORIES) & ~is_mark(trace)
    category = pl.col("category")
    is_op = category.is_in(OP_CATEGORIES) & ~pl.col("is_mark")
    is_plumbing = pl.col("name").cast(pl.String).is_in(_plumbing(trace).implode())
    is_useful_frame = (category == "python_function") & ~is_plumbing & (is_op.any().over("lane") | ~is_op.any())
    if (trace.sites["kind"] == "module").any():
        is_useful_frame &= ~pl.col("name").cast(pl.String).str.starts_with(MODULE_FRAME)
    events = with_series(trace.events, pl.Series("is_mark", is_mark(trace)))
    return events.select((is_op | is_useful_frame).alias("shown"))["shown"].to_numpy()


def _plumbing(trace: Trace) -> pl.Series:
    """Return the names of Python frames that say nothing: the machinery's, and the cell's own around all of it."""
    frames = trace.events.filter(pl.col("category") == "python_function")["name"].unique().cast(pl.String)
    file = frames.str.extract(r"^(.*)\([0-9]+\): <module>$")
    is_cell = file.is_in([filename for filename, _ in trace.meta.cell_labels]).fill_null(value=False)
    return frames.filter(frames.str.contains(_PLUMBING) | is_cell)
