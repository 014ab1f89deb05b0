"""The merged call tree: from lines, modules and Python frames down to ops and kernels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from torchprof_magic.facts.counted_steps import counted_part, strictly_counted
from torchprof_magic.facts.device.device_time import device_time
from torchprof_magic.facts.device.graph_work import origins, replayed_calls
from torchprof_magic.facts.device.idle_pieces import idle_pieces
from torchprof_magic.facts.host.awaits_backward import awaits_of_backward
from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.phases import EVENT_PHASES, PHASE, PHASES
from torchprof_magic.facts.host.shown_phases import phases_shown
from torchprof_magic.facts.ops.flops import flops_in, has_flops
from torchprof_magic.facts.shared import (
    ask_names,
    device_rows,
    once_for_the_whole,
    once_per_trace,
    readable_names,
)
from torchprof_magic.facts.source.flame_boxes import HostBoxes, backward_under_forward, host_boxes, site_names
from torchprof_magic.facts.source.place_phases import waiting_places
from torchprof_magic.facts.source.places import MODULE_FRAME
from torchprof_magic.facts.source.users_files import is_users_file
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.facts.time_range import WHOLE, TimeRange
from torchprof_magic.model.distinct import codes_of
from torchprof_magic.model.intervals import (
    NO_PARENT,
    IntArray,
    depth_of,
    innermost_at,
    levels,
    merge_paths,
    rolled_up,
)
from torchprof_magic.model.rows import are_known
from torchprof_magic.model.shapes import HostThread, Tree, Weight
from torchprof_magic.model.trace import STEP_PATTERN, Trace
from torchprof_magic.tables.steps import of_memory_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from torchprof_magic.model.meta import Meta

# Python frames are "python" in files of the user, and "library" in all others.
KINDS = ("root", "annotation", "op", "python", "runtime", "kernel", "line", "module", "library")
# Kinds of boxes that say where in the program something ran: they take the phase of what ran in them.
_PLACES = ("python", "line", "module", "library")
KIND = pl.Enum(KINDS)
_KIND_OF = {
    "user_annotation": "annotation",
    "cpu_op": "op",
    "python_function": "python",
    "runtime": "runtime",
    "kernel": "kernel",
    "memcpy": "kernel",
    "memset": "kernel",
}
_KIND_NUMBER = {category: KINDS.index(kind) for category, kind in _KIND_OF.items()}

_WEIGHTS = (
    Weight(name="cpu_ns", title="CPU", unit="ns"),
    Weight(name="device_ns", title="Device", unit="ns"),
    Weight(name="idle_ns", title="Device waits", unit="ns"),
    Weight(name="bytes", title="Bytes", unit="bytes"),
    Weight(name="flops", title="FLOPs", unit="flop"),
    Weight(name="calls", title="Calls", unit="count"),
)
# The part of host time in which a thread only waits for autograd's threads, which have boxes of their own.
AWAITS = "awaits_ns"
ROOT_NAME = "all"
BACKWARD_NAME = "backward"


class _Paths(NamedTuple):
    """Every event that gets a box, and the boxes that equal paths are merged into.

    The events are the boxes on the host, then device work, the rows ``device``, and then boxes called backward.
    ``path`` is the merged box of each, and ``phase`` its phase. ``name``, ``kind`` and ``parent`` are of merged boxes.
    """

    path: npt.NDArray[np.int32]
    phase: npt.NDArray[np.int8]
    device: IntArray
    name: pl.Series
    kind: IntArray
    parent: IntArray


@once_for_the_whole
def flame_tree(trace: Trace, part: TimeRange) -> Tree:
    """Return the call tree of all threads, equal paths merged, widest first; of a part without empty boxes.

    Lines and modules that were watched are boxes around what they ran. Kernels, copies and fills hang under the op that
    launched them. Where lines, modules or Python frames are known, each node of autograd hangs under that of its
    forward op, in a box called backward, wherever backward was called. Weights are ns: ``cpu`` is host time, ``device``
    the summed time of device work, and ``idle`` what the device waited while the host was in a box. ``bytes`` are those
    that were allocated, and ``flops`` are those of ops with a formula. Boxes of lines, modules and frames have the
    phase of most of what ran in them. For all steps that count, host time is that of the steps alone, without what lies
    between two of them, such as the work of recording itself. An event counts as a call if any of it lies in the part;
    the FLOPs of an op count where it begins. Where threads wait for those of autograd, ``awaits_ns`` is that part of
    ``cpu``.
    """
    paths = _paths(trace)
    is_known = {"cpu_ns": True, "device_ns": trace.has_device, "idle_ns": trace.has_device, "calls": True}
    is_known |= {"bytes": trace.memory.height > 0, "flops": has_flops(trace)}
    weights = of_memory_steps(trace, tuple(weight for weight in _WEIGHTS if is_known[weight.name]))
    names = [weight.name for weight in weights]
    if len(awaits_of_backward(trace).lane):
        names.append(AWAITS)
    frame = _in_preorder(_summed(trace, paths, part, names), names)
    return Tree(frame=frame, weights=weights, threads=_threads(trace, part), device=device_time(trace, part))


def _of_steps(trace: Trace, part: TimeRange) -> TimeRange:
    """Return the time of the steps that count, for the part that holds them with what lies between two of them."""
    return strictly_counted(trace) if part == counted_part(trace) else part


def _threads(trace: Trace, part: TimeRange) -> tuple[HostThread, ...]:
    """Return the threads that have boxes in the part, the one with the most host time first."""
    boxes = host_boxes(trace)
    own_ns = sum_by(boxes.lane, _own_ns(trace, part), trace.lanes.height)
    own_ns[np.isin(np.arange(trace.lanes.height), trace.meta.captured_lanes)] = 0
    lanes = [int(lane) for lane in np.argsort(-own_ns, kind="stable") if own_ns[lane] > 0]
    names = trace.lanes["name"].gather(lanes).fill_null("").to_list()
    return tuple(HostThread(name=name, host_ns=ns) for name, ns in zip(names, own_ns[lanes].tolist(), strict=True))


@once_per_trace
def _paths(trace: Trace) -> _Paths:
    boxes, device = host_boxes(trace), device_rows(trace)
    launched_in = boxes.around(trace, origins(trace)[device])
    backward = backward_under_forward(trace, boxes)
    names, kinds = _names_of(trace, boxes, device)
    ahead = len(boxes.row)
    # The boxes called backward come last.
    parent = np.concatenate((boxes.parent, launched_in, backward.around))
    parent[backward.node] = ahead + len(device) + backward.box
    in_python = np.full(ahead, PHASES.index("python"), np.int8)
    phase = phases_shown(trace)
    is_event = boxes.row >= 0
    in_python[is_event] = phase[boxes.row[is_event]]
    in_python[waiting_places(trace, boxes)] = PHASES.index("waiting")
    made = len(backward.around)
    name = pl.concat([names, pl.Series([BACKWARD_NAME] * made, dtype=pl.Categorical())])
    kind = np.concatenate((kinds, np.full(made, KINDS.index("annotation"))))
    path, first = merge_paths(parent, codes_of(name).astype(np.int64) * len(KINDS) + kind)
    above = parent[first]
    return _Paths(
        path=path.astype(np.int32),
        phase=np.concatenate((in_python, phase[device], np.full(made, PHASES.index("backward"), np.int8))),
        device=device,
        name=name[first].cast(pl.String),
        kind=kind[first],
        parent=np.where(above >= 0, path[above], NO_PARENT),
    )


@once_for_the_whole
def _own_ns(trace: Trace, part: TimeRange) -> IntArray:
    """Return the time in a part that is each box's own."""
    return host_boxes(trace).own_ns_in(_of_steps(trace, part))


def _host_ns(trace: Trace, boxes: HostBoxes, part: TimeRange, count: int) -> IntArray:
    """Return for each of ``count`` events the time that is its own on the host: none of a capture from another file."""
    found = np.zeros(count, np.int64)
    found[: len(boxes.row)] = np.where(np.isin(boxes.lane, trace.meta.captured_lanes), 0, _own_ns(trace, part))
    return found


def _device_ns(trace: Trace, device: IntArray, part: TimeRange, ahead: int, count: int) -> IntArray:
    """Return for each of ``count`` events its time on a device; the device work comes after the first ``ahead``."""
    start, dur = (trace.events[name].to_numpy()[device] for name in ("start_ns", "dur_ns"))
    found = np.zeros(count, np.int64)
    found[ahead : ahead + len(device)] = part.cut(start, dur)[1]
    return found


def _calls(trace: Trace, boxes: HostBoxes, device: IntArray, part: TimeRange, count: int) -> IntArray:
    """Return for each of ``count`` events 1 if any of it lies in the range, and 0 for boxes called backward."""
    start, dur = (trace.events[name].to_numpy()[device] for name in ("start_ns", "dur_ns"))
    touched = np.concatenate((part.touches(boxes.start_ns, boxes.dur_ns), part.touches(start, dur)))
    found = np.zeros(count, np.int64)
    found[: len(touched)] = touched
    on_host = found[: len(boxes.row)]
    on_host[np.isin(boxes.lane, trace.meta.captured_lanes)] = 0
    on_host += np.append(replayed_calls(trace, part), 0)[boxes.row]
    return found


def _idle_in(trace: Trace, boxes: HostBoxes, part: TimeRange, count: int) -> IntArray:
    """Return for each of ``count`` boxes how long devices waited while the host was directly in it."""
    if not trace.has_device:
        return np.zeros(count, np.int64)
    pieces = idle_pieces(trace)
    row = np.append(host_nest(trace).row, NO_PARENT)[pieces.cause]
    _, idle_ns = part.cut(pieces.start_ns, pieces.end_ns - pieces.start_ns)
    return sum_by(boxes.around(trace, row), idle_ns, count)


def _awaits_in(trace: Trace, boxes: HostBoxes, part: TimeRange, count: int) -> IntArray:
    """Return for each of ``count`` boxes how much of its own time its thread waited for autograd's threads."""
    lane, start, end = awaits_of_backward(trace)
    box = innermost_at(boxes.lane, boxes.start_ns, boxes.dur_ns, lane, start, until_ns=end, parent=boxes.parent)
    return sum_by(box, part.cut(start, end - start)[1], count)


def _allocated_in(trace: Trace, boxes: HostBoxes, part: TimeRange, count: int) -> IntArray:
    """Return for each of ``count`` boxes how many bytes were allocated directly in it."""
    new = trace.memory.filter((pl.col("delta_bytes") > 0) & pl.Series(part.holds(trace.memory["time_ns"].to_numpy())))
    return sum_by(boxes.around(trace, new["event"].to_numpy()), new["delta_bytes"].to_numpy(), count)


def _flops_in(trace: Trace, boxes: HostBoxes, part: TimeRange, count: int) -> IntArray:
    """Return for each of ``count`` boxes the FLOPs of the op that it is."""
    flops = flops_in(trace, part)
    rows = np.flatnonzero(are_known(flops))
    return sum_by(boxes.around(trace, rows), flops.fill_null(0).to_numpy()[rows], count)


def _names_of(trace: Trace, boxes: HostBoxes, device: IntArray) -> tuple[pl.Series, IntArray]:
    """Return the names and kinds of the boxes on the host and of device work."""
    events = trace.events
    sites = site_names(trace)
    is_event = boxes.row >= 0
    rows = np.concatenate((boxes.row[is_event], device))
    name = readable_names(trace, rows, partial(_of_tree, meta=trace.meta))
    number = pl.col("name").replace_strict(_KIND_NUMBER, return_dtype=pl.Int64)
    kind = ask_names(events["category"][rows], number).astype(np.int64)
    kind = _with_owners(events["name"][rows], kind)
    if is_event.all():
        return name, kind
    known = np.flatnonzero(np.concatenate((is_event, np.ones(len(device), np.bool_))))
    at = np.zeros(len(boxes.row) + len(device), np.int64)
    at[known] = np.arange(len(known))
    at[: len(boxes.row)][~is_event] = len(known) + boxes.site[~is_event]
    site_kind = trace.sites["kind"].cast(pl.String).replace_strict(dict(zip(KINDS, range(len(KINDS)), strict=True)))
    return pl.concat([name, sites.cast(pl.Categorical())])[at], np.concatenate(
        (kind, site_kind.to_numpy().astype(np.int64))
    )[at]


def _with_owners(names: pl.Series, kind: IntArray) -> IntArray:
    """Return the kinds with Python frames told apart: modules, files of the user, and those of libraries."""
    frames = names.filter(pl.Series(kind == KINDS.index("python"))).unique().cast(pl.String)
    is_users = is_users_file(frames.str.extract(r"^(.*)\([0-9]+\): "))
    is_module = frames.str.starts_with(MODULE_FRAME).to_numpy()
    owner = np.where(
        is_module, KINDS.index("module"), np.where(is_users, KINDS.index("python"), KINDS.index("library"))
    )
    of_name = dict(zip(frames.to_list(), owner.tolist(), strict=True))
    if not of_name:
        return kind
    found = ask_names(names, pl.col("name").replace_strict(of_name, default=NO_PARENT, return_dtype=pl.Int64))
    return np.where(kind == KINDS.index("python"), found, kind)


def event_names(trace: Trace, rows: IntArray) -> pl.Series:
    """Return the names of events, readable in the notebook; categorical."""
    return readable_names(trace, rows, partial(_readable, meta=trace.meta))


def _of_tree(name: pl.Series, meta: Meta) -> pl.Series:
    """Return readable names by which the calls of equal modules in a list are one box."""
    return _readable(name, meta).str.replace(r"^(nn\.Module: .+)_[0-9]+$", "$1")


def _readable(name: pl.Series, meta: Meta) -> pl.Series:
    """Return readable names: all steps are one box, and cells have the names that the notebook shows."""
    name = name.str.replace(STEP_PATTERN, "ProfilerStep")
    labels = dict(meta.cell_labels)
    if not labels or not name.str.contains("): ", literal=True).any():  # as without stacks
        return name
    parts = name.str.extract_groups(r"^(?<file>.*)(?<line>\(([0-9]+)\))(?<rest>: .*)$").struct
    label = parts.field("file").replace_strict(labels, default=None, return_dtype=pl.String)
    frame = pl.DataFrame({"name": name, "label": label, "line": parts.field("line"), "rest": parts.field("rest")})
    labelled = pl.format("{} line {}{}", "label", pl.col("line").str.strip_chars("()"), "rest")
    return frame.select(pl.coalesce(labelled, "name").alias("name"))["name"]


def _summed(trace: Trace, paths: _Paths, part: TimeRange, known: Container[str]) -> pl.DataFrame:
    """Return one row per path: its kind, the path above it, and its own weights; row 0 is the root.

    Those that are not ``known`` are 0.
    """
    boxes, events, count = host_boxes(trace), len(paths.path), len(paths.kind)
    cpu_ns = _host_ns(trace, boxes, part, events)
    device_ns = _device_ns(trace, paths.device, part, len(boxes.row), events)
    weights: dict[str, Callable[[], IntArray]] = {
        "cpu_ns": lambda: cpu_ns,
        "device_ns": lambda: device_ns,
        "idle_ns": lambda: _idle_in(trace, boxes, part, events),
        "bytes": lambda: _allocated_in(trace, boxes, part, events),
        "flops": lambda: _flops_in(trace, boxes, part, events),
        "calls": lambda: _calls(trace, boxes, paths.device, part, events),
        AWAITS: lambda: _awaits_in(trace, boxes, _of_steps(trace, part), events),
    }

    def total(name: str, values: Callable[[], IntArray]) -> IntArray:
        if name not in known:
            return np.zeros(count, np.int64)
        return np.bincount(paths.path, weights=values(), minlength=count).astype(np.int64)

    frame = pl.DataFrame(
        {
            "name": pl.concat([pl.Series([ROOT_NAME]), paths.name]),
            "parent": np.concatenate(([NO_PARENT], paths.parent + 1)),
            "kind": np.concatenate(([KINDS.index("root")], paths.kind)),
            "phase": np.concatenate(([PHASES.index("python")], _main_phase(paths, cpu_ns + device_ns, count))),
            **{f"self_{name}": np.concatenate(([0], total(name, values))) for name, values in weights.items()},
        }
    )
    return frame if _of_steps(trace, part) == WHOLE else _without_absent(frame)


def _without_absent(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the paths that have any weight at or below them, and the root."""
    parent = frame["parent"].to_numpy()
    own = frame.select(pl.any_horizontal(pl.col("^self_.*$") != 0)).to_series().to_numpy()
    is_there = rolled_up(own.astype(np.int64), parent) > 0
    is_there[0] = True
    number = np.append(np.cumsum(is_there) - 1, NO_PARENT)
    return frame.with_columns(pl.Series("parent", number[parent])).filter(pl.Series(is_there))


def _main_phase(paths: _Paths, time_ns: IntArray, count: int) -> IntArray:
    """Return the phase in which each path spent most of its own time."""
    cell = paths.path.astype(np.int64) * len(EVENT_PHASES) + paths.phase
    table = np.bincount(cell, weights=time_ns + 1, minlength=count * len(EVENT_PHASES))
    return table.reshape(count, len(EVENT_PHASES)).argmax(axis=1)


def _in_preorder(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Add totals and order the rows so that every box is followed by what is inside, widest first."""
    parent = frame["parent"].to_numpy()
    totals = {name: rolled_up(frame[f"self_{name}"].to_numpy(), parent) for name in names}
    boxes = rolled_up(np.ones(len(parent), np.int64), parent)
    keys = [-totals[name] for name in reversed(names) if name in ("cpu_ns", "device_ns")]
    siblings = np.lexsort((*keys, parent))
    position = preorder_positions(parent, boxes, siblings)
    order = np.argsort(position)
    columns = [pl.Series(f"total_{name}", values).cast(pl.Float64) for name, values in totals.items()]
    frame = frame.with_columns(*columns, pl.Series("phase", _phases_of_places(frame)))[order]
    moved = np.where(frame["parent"].to_numpy() >= 0, position[np.maximum(frame["parent"].to_numpy(), 0)], NO_PARENT)
    return frame.select(
        pl.Series("parent", moved, dtype=pl.Int32),
        pl.col("name").cast(pl.Categorical),
        _named(pl.col("kind"), KINDS, KIND),
        _named(pl.col("phase"), EVENT_PHASES, PHASE),
        *(pl.col(f"{part}_{name}").cast(pl.Float64) for name in names for part in ("self", "total")),
    )


def _phases_of_places(frame: pl.DataFrame) -> IntArray:
    """Return the phase of each box; that of a place is the one with the most time in it, Python aside."""
    phase, parent = frame["phase"].to_numpy().astype(np.int64), frame["parent"].to_numpy()
    is_place = frame["kind"].is_in([KINDS.index(kind) for kind in _PLACES]).to_numpy()
    if not is_place.any():
        return phase
    time = (frame["self_cpu_ns"] + frame["self_device_ns"]).to_numpy()
    most = np.zeros(len(phase), np.int64)
    found = phase.copy()
    for number, name in enumerate(EVENT_PHASES):
        if name == "python" or not (phase == number).any():
            continue
        inside = rolled_up(np.where(phase == number, time, 0), parent)
        is_more = is_place & (inside > most)
        found[is_more], most[is_more] = number, inside[is_more]
    return found


def _named(code: pl.Expr, names: tuple[str, ...], dtype: pl.Enum) -> pl.Expr:
    return code.replace_strict(dict(enumerate(names)), return_dtype=pl.String).cast(dtype)


def preorder_positions(parent: IntArray, boxes: IntArray, siblings: IntArray) -> IntArray:
    """Return each row's position: that of its parent, plus one, plus the boxes of the siblings before it."""
    before = np.cumsum(boxes[siblings]) - boxes[siblings]
    is_first = np.concatenate(([True], parent[siblings][1:] != parent[siblings][:-1]))
    group_start = np.maximum.accumulate(np.where(is_first, np.arange(len(siblings)), 0))
    offset = np.empty(len(parent), np.int64)
    offset[siblings] = before - before[group_start]
    position = np.zeros(len(parent), np.int64)
    for rows in levels(depth_of(parent))[1:]:
        position[rows] = position[parent[rows]] + 1 + offset[rows]
    return position
