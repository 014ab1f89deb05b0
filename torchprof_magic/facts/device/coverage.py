"""Which launches have the device work that they started in the file, and which do not."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.device.captures import captures_of
from torchprof_magic.facts.shared import (
    device_numbers,
    device_rows,
    in_category,
    is_named,
    launch_links,
    launch_sources,
    name_numbers,
    once_per_trace,
)
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, marked_above
from torchprof_magic.model.rows import are_known, filled
from torchprof_magic.model.vendors import (
    COLLECTIVE_RANGE,
    COPY_CALL,
    DEVICE_WAIT,
    FILL_CALL,
    GRAPH_LAUNCH,
    LAUNCH,
    NO_TRANSFER,
)

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# Work that a call left behind may end this much later than any other did after its call, and still be unfinished.
LATEST_START_NS = 1_000_000
_COLLECTIVE_OP = r"^(record_param_comms|c10d::)"


class Launches(NamedTuple):
    """Every call that starts work on a device, in order of time.

    ``row`` is its row in ``trace.events``; ``device`` the device of its work, or of the nearest launch of its thread,
    -1 if none is known. ``events`` is how many kernels, copies and fills it started. Without any, it is ``is_captured``
    into a graph, ``is_empty`` because it had nothing to copy or to fill, ``is_pending`` because its work may have run
    after the recording, ``is_unlinked`` because the file has as much work without a number as there are launches
    without work; all others are missing. ``short`` is how many kernels of a graph are missing.
    """

    row: IntArray
    device: IntArray
    step: IntArray
    events: IntArray
    short: IntArray
    is_graph: BoolArray
    is_captured: BoolArray
    is_empty: BoolArray
    is_pending: BoolArray
    is_unlinked: BoolArray

    @property
    def is_missing(self) -> BoolArray:
        """Which of them should have started work that is not in the file."""
        return (self.events == 0) & ~(self.is_captured | self.is_empty | self.is_pending | self.is_unlinked)

    @property
    def is_lossy(self) -> BoolArray:
        """Which of them lack work in the file: all of it, or kernels of their graph."""
        return self.is_missing | (self.short > 0)

    @property
    def counts(self) -> BoolArray:
        """Which of them started work, or should have."""
        return (self.events > 0) | self.is_missing


@once_per_trace
def launches_of(trace: Trace) -> Launches:
    """Return every call that starts work on a device. Calls without a correlation number cannot be judged."""
    events = trace.events
    sources = launch_sources(trace)
    answers = np.bincount(sources[sources >= 0], minlength=events.height)
    of = {
        name: is_named(trace, pattern)
        for name, pattern in (("launch", LAUNCH), ("graph", GRAPH_LAUNCH), ("copy", COPY_CALL), ("fill", FILL_CALL))
    }
    is_call = in_category(trace, "runtime") & is_numbered(trace)
    # Some calls look like a copy or a fill but move nothing over the device's queues.
    moves = (of["copy"] | of["fill"]) & ~of["launch"] & ~is_named(trace, NO_TRANSFER)
    row = np.flatnonzero((is_call & (of["launch"] | moves)) | (answers > 0))
    start = events["start_ns"].to_numpy()
    row = row[np.argsort(start[row], kind="stable")]
    step = filled(events["step"], NO_PARENT)[row]
    count = answers[row]
    is_graph = of["graph"][row]
    is_captured = (count == 0) & captures_of(trace).holds(events["cycle"].to_numpy()[row], start[row])
    found = Launches(
        row=row,
        device=_devices(trace, row, count),
        step=step,
        events=count,
        short=np.zeros(len(row), np.int64),
        is_graph=is_graph,
        is_captured=is_captured,
        is_empty=np.zeros(len(row), np.bool_),
        is_pending=np.zeros(len(row), np.bool_),
        is_unlinked=np.zeros(len(row), np.bool_),
    )
    found = found._replace(is_pending=_pending(trace, found))
    found = found._replace(is_empty=_had_nothing_to_do(trace, found, (of["fill"] & moves)[row]))
    found = found._replace(is_unlinked=_unlinked(trace, found))
    return found._replace(short=_short_graphs(trace, found))


@once_per_trace
def is_numbered(trace: Trace) -> BoolArray:
    """Return which events have a correlation number."""
    return are_known(trace.events["correlation"])


def launches_per_step(trace: Trace, which: BoolArray) -> IntArray:
    """Return how many of some ``launches_of(trace)`` are in each row of ``trace.steps``."""
    step, number = np.sort(launches_of(trace).step[which]), trace.steps["number"].to_numpy()
    return np.searchsorted(step, number, side="right") - np.searchsorted(step, number, side="left")


def _devices(trace: Trace, row: IntArray, count: IntArray) -> IntArray:
    """Return the device of each launch: that of its work, or else of the launch before it on its thread."""
    links = launch_links(trace)
    device = np.full(trace.events.height, NO_PARENT, np.int64)
    target = links["target"].to_numpy()
    device[links["source"].to_numpy()] = device_numbers(trace)[target]
    own = np.where(count > 0, device[row], NO_PARENT)
    lane = trace.events["lane"].to_numpy()[row]
    for one in np.unique(lane[own < 0]).tolist():
        here = np.flatnonzero(lane == one)
        own[here] = _nearest_known(own[here])
    known = np.unique(own[own >= 0])
    return np.where(own >= 0, own, known[0]) if len(known) == 1 else own


def _nearest_known(values: IntArray) -> IntArray:
    """Return the values with each -1 replaced by the value before it, or at the beginning by the first one."""
    known = np.flatnonzero(values >= 0)
    if len(known) == 0:
        return values
    at = np.searchsorted(known, np.arange(len(values)), side="right") - 1
    return values[known[np.maximum(at, 0)]]


def _pending(trace: Trace, found: Launches) -> BoolArray:
    """Return which launches at the end of a cycle may have started work that ran after it.

    They are after all launches with work, no wait for the whole device follows, and the recording ended within the time
    that other work took from its launch to its end. Collectives run on streams of their own, beside later work, and
    wait for other ranks as long as it takes: they are compared with collectives only.
    """
    events = trace.events
    start, cycle = events["start_ns"].to_numpy(), events["cycle"].to_numpy()
    end = start + events["dur_ns"].to_numpy()
    is_wait = is_named(trace, DEVICE_WAIT, "runtime")
    sources = launch_sources(trace)
    work = np.flatnonzero(sources >= 0)
    pending = np.zeros(len(found.row), np.bool_)
    is_open = (found.events == 0) & ~found.is_captured
    is_collective = _in_collectives(trace, found.row)
    for one, kind in product(np.unique(cycle[found.row[is_open]]).tolist(), (False, True)):
        here = (cycle[found.row] == one) & (is_collective == kind)
        of_work = work[cycle[work] == one]
        took = int((end[of_work] - start[sources[of_work]]).max(initial=0))
        edges = np.concatenate((start[found.row[here & (found.events > 0)]], start[is_wait & (cycle == one)]))
        after = int(edges.max(initial=np.iinfo(np.int64).min))
        over = int(end[cycle == one].max(initial=0))
        begun = start[found.row]
        may_run = (over - begun <= max(took, LATEST_START_NS)) | kind
        pending |= here & is_open & (begun > after) & may_run
    has_work = len(work) > 0
    return pending & has_work


def _unlinked(trace: Trace, found: Launches) -> BoolArray:
    """Return which launches have no work only because the work in the file does not say what launched it."""
    strays = work_without_launch(trace)
    is_enough = int((~is_numbered(trace)[strays]).sum()) >= int(found.is_missing.sum())
    return found.is_missing & is_enough


def _in_collectives(trace: Trace, rows: IntArray) -> BoolArray:
    """Return which calls are inside a collective."""
    parent = trace.events["parent"].to_numpy()
    is_range = is_named(trace, COLLECTIVE_RANGE) | is_named(trace, _COLLECTIVE_OP)
    return marked_above(parent, is_range, parent[rows]) >= 0


def _had_nothing_to_do(trace: Trace, found: Launches, fills: BoolArray) -> BoolArray:
    """Return which fills are of nothing, and so start no work.

    Libraries fill workspaces of no bytes. None of the fills in that place has work, in an op of that name between the
    same launches, and beside one of them at least the kernels have theirs.
    """
    is_open = fills & (found.events == 0) & ~found.is_captured & ~found.is_pending
    if not is_open.any() or not (found.events > 0).any():
        return np.zeros(len(is_open), np.bool_)
    lane = trace.events["lane"].to_numpy()[found.row]
    place = _places_of_fills(trace, found, lane)
    has_work = np.isin(place, place[fills & (found.events > 0)])
    stands_alone = is_open & ~_has_lost_neighbour(found, lane, ~fills)
    return is_open & ~has_work & np.isin(place, place[stands_alone])


def _places_of_fills(trace: Trace, found: Launches, lane: IntArray) -> IntArray:
    """Return a number for the op around each launch and the launches before and after it in the same op."""
    parent = trace.events["parent"].to_numpy().astype(np.int64)[found.row]
    name = np.append(name_numbers(trace).astype(np.int64), NO_PARENT)
    order = np.lexsort((np.arange(len(lane)), lane))
    around, own = parent[order], name[found.row[order]]
    same = (around[1:] == around[:-1]) & (lane[order][1:] == lane[order][:-1])
    before = np.append(NO_PARENT, np.where(same, own[:-1], NO_PARENT))
    after = np.append(np.where(same, own[1:], NO_PARENT), NO_PARENT)
    keys = np.stack([name[around], before, own, after], axis=1)
    place = np.empty(len(order), np.int64)
    place[order] = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    return place


def _ordinals(trace: Trace, found: Launches, lane: IntArray) -> IntArray:
    """Return a number that launches at the same place in steps with equally many launches share, or -1."""
    name = name_numbers(trace).astype(np.int64)[found.row]
    keys = np.stack([found.step, lane, name], axis=1)
    of_step = np.full(len(keys), NO_PARENT, np.int64)
    inside = np.flatnonzero(found.step >= 0)
    if len(inside) == 0:
        return of_step
    _, group, size = np.unique(keys[inside], axis=0, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    place = np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size)
    position = np.empty(len(order), np.int64)
    position[order] = place
    like = np.stack([lane[inside], name[inside], size[group], position], axis=1)
    of_step[inside] = np.unique(like, axis=0, return_inverse=True)[1].reshape(-1)
    return of_step


def _has_lost_neighbour(found: Launches, lane: IntArray, is_kernel: BoolArray) -> BoolArray:
    """Return whether the kernel launched before or after each call on its thread is missing."""
    lost = np.zeros(len(lane), np.bool_)
    is_lost = is_kernel & (found.events == 0) & ~found.is_captured & ~found.is_pending
    for one in np.unique(lane).tolist():
        here = np.flatnonzero(lane == one)
        kernels = np.flatnonzero(is_kernel[here])
        if len(kernels) == 0:
            continue
        at = np.searchsorted(kernels, np.arange(len(here)))
        for side in (at - 1, at):
            inside = (side >= 0) & (side < len(kernels))
            lost[here] |= inside & is_lost[here[kernels[np.clip(side, 0, len(kernels) - 1)]]]
    return lost


def _short_graphs(trace: Trace, found: Launches) -> IntArray:
    """Return how many kernels are missing from each launch of a graph, by its counterparts in other steps.

    A counterpart is at the same place in its step. If it started the same kernels and more, the difference is missing.
    """
    short = np.zeros(len(found.row), np.int64)
    graphs = np.flatnonzero(found.is_graph & (found.events > 0))
    if len(graphs) == 0:
        return short
    lane = trace.events["lane"].to_numpy()[found.row]
    ordinal = _ordinals(trace, found, lane)
    names = name_numbers(trace).astype(np.int64)
    sources = launch_sources(trace)
    work = np.flatnonzero(sources >= 0)
    work = work[np.argsort(sources[work], kind="stable")]
    first = np.searchsorted(sources[work], found.row, side="left")
    for one in np.unique(ordinal[graphs][ordinal[graphs] >= 0]).tolist():
        twins = graphs[ordinal[graphs] == one]
        if len(np.unique(found.events[twins])) == 1:
            continue
        kernels = {int(at): np.sort(names[work[first[at] : first[at] + found.events[at]]]) for at in twins}
        largest = kernels[int(twins[found.events[twins].argmax()])]
        for at, own in kernels.items():
            if _is_part_of(own, largest):
                short[at] = len(largest) - len(own)
    return short


def _is_part_of(part: IntArray, whole: IntArray) -> bool:
    """Return whether each value occurs in ``whole`` at least as often as in ``part``; both are sorted."""
    names, counts = np.unique(part, return_counts=True)
    return bool((np.searchsorted(whole, names, "right") - np.searchsorted(whole, names, "left") >= counts).all())


class Loss(NamedTuple):
    """How much device work is not in the file: launches without any of theirs, kernels of graphs, and of how many."""

    launches: int
    missing: int
    short: int
    steps: IntArray

    @property
    def ratio(self) -> float:
        """The share of the launches whose work is missing, at least in part."""
        return self.missing / max(self.launches, 1)


@once_per_trace
def loss_of(trace: Trace) -> Loss:
    """Return how much device work is missing, and the numbers of the steps that miss some."""
    found = launches_of(trace)
    return Loss(
        launches=int(found.counts.sum()),
        missing=int(found.is_missing.sum()),
        short=int(found.short.sum()),
        steps=np.unique(found.step[found.is_lossy & (found.step >= 0)]),
    )


def is_capture_alone(trace: Trace) -> bool:
    """Return whether most launches of a recording were captured into a graph, and no graph was replayed."""
    found = launches_of(trace)
    return bool(found.is_captured.sum() > (found.events > 0).sum()) and not found.is_graph.any()


@once_per_trace
def work_without_launch(trace: Trace) -> IntArray:
    """Return the rows of the device work whose launch is not in the file."""
    rows = device_rows(trace)
    return rows[launch_sources(trace)[rows] < 0]
