"""The timeline: what every thread, stream and device did over time, with the causes of idle times."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.device.busy import device_intervals
from torchprof_magic.facts.device.graph_captures import on_captured_lanes
from torchprof_magic.facts.device.graph_work import graph_work, origins
from torchprof_magic.facts.device.idle_pieces import CAUSE_TITLES
from torchprof_magic.facts.device.launch_configs import launch_configs
from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.host.blocking import blocking_calls
from torchprof_magic.facts.host.phases import PHASE, PHASES
from torchprof_magic.facts.host.shown_phases import phases_shown
from torchprof_magic.facts.ops.calls import OP_CATEGORIES, nest_among, ops_around
from torchprof_magic.facts.shared import ask_names, device_rows, in_category, launch_sources
from torchprof_magic.facts.source.flame_boxes import HostBoxes, recorded_boxes, site_names
from torchprof_magic.facts.source.fx_nodes import fused_lines, fx_names, fx_nodes
from torchprof_magic.facts.source.generated_code import places_in_code
from torchprof_magic.facts.source.place_phases import phases_of_places, waiting_places
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.model.distinct import numbered
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, depth_of, merge, nearest_marked, nest
from torchprof_magic.model.rows import filled, row_numbers, values_at
from torchprof_magic.model.shapes import Column, Layer, Scale, SliceLane, Slices
from torchprof_magic.model.units import format_bytes, format_file_size, format_ratio, short_file
from torchprof_magic.tables.flame.call_tree import event_names
from torchprof_magic.tables.phase_strip import phase_strip
from torchprof_magic.tables.timeline.counter_lanes import CurveGroup, curve_groups, is_folded
from torchprof_magic.tables.timeline.host_waits import host_waits
from torchprof_magic.tables.timeline.path_slices import names_of, path_slices
from torchprof_magic.tables.waiting.idle import idle_runs
from torchprof_magic.tables.waiting.queue import whole_queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.model.trace import DType, Trace

KINDS = (
    "step",
    "phase",
    "annotation",
    "op",
    "python",
    "line",
    "module",
    "runtime",
    "blocking",
    "kernel",
    "memcpy",
    "memset",
    "idle",
    "busy",
    "queue",
    "counter",
    "path",
)
KIND = pl.Enum(KINDS)
_KIND_OF = {
    "user_annotation": "annotation",
    "gpu_user_annotation": "annotation",
    "cpu_op": "op",
    "python_function": "python",
    "runtime": "runtime",
    "kernel": "kernel",
    "memcpy": "memcpy",
    "memset": "memset",
}
# Kinds of boxes that say where in the program something ran.
_PLACES = ("line", "module", "python")
OPS, MODULES, PYTHON = "depth", "depth_modules", "depth_python"
_LAYERS = (
    Layer(title="Ops", column=OPS),
    Layer(title="Lines, modules", column=MODULES),
    Layer(title="Python", column=PYTHON),
)
CAPTURED_OP = Column(
    name="captured_op",
    title="Captured op",
    unit="code",
    definition="Op that launched the work of a graph when it was captured, if that is in another file.",
)
SHAPES = Column(name="shapes", title="Shapes", unit="text", definition="Dimensions of the inputs of an op.")
DTYPES = Column(name="dtypes", title="Types", unit="text", definition="Types of the inputs of an op.")
GRID = Column(name="grid", title="Grid", unit="text", definition="Blocks of the run of a kernel.")
BLOCK = Column(name="block", title="Block", unit="text", definition="Threads of a block.")
RESOURCES = Column(
    name="resources",
    title="Resources",
    unit="text",
    definition="Registers of a thread, shared memory of a block, and estimated occupancy.",
)
BANDWIDTH = Column(
    name="bandwidth", title="Bandwidth", unit="text", definition="Bytes of a copy or fill by its duration."
)
FX_NODE = Column(
    name="fx_node",
    title="Graph node",
    unit="code",
    definition="Node of a graph of torch.compile that it belongs to, or what a kernel of Inductor fuses.",
)
MODEL_LINES = Column(
    name="model_lines",
    title="Lines of the model",
    unit="text",
    definition="Lines of the model that the node comes from; of a fused kernel, the line of each node that it fuses.",
)
GENERATED_CODE = Column(
    name="generated_code",
    title="Generated code",
    unit="text",
    definition="File of the code that Inductor generated for it, on the machine that recorded, and the line in it.",
)
STACK = Column(name="stack", title="Stack", unit="text", definition="Python frames around it, the innermost first.")
SCHEMA: dict[str, DType] = {
    "lane": pl.UInt16,
    OPS: pl.Int16,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "name": pl.Categorical(),
    "kind": KIND,
    "phase": PHASE,
    "note": pl.Categorical(),
    "source": pl.Int32,
    "op": pl.Int32,
    "count": pl.UInt32,
}
# Of a step; finer ones would show the Python between every two ops.
STEP_PARTS = 256
MAX_LANES = 2**16 - 1
# A device has lanes for what it waits for and its queue besides those of its streams.
LANES_OF_DEVICE = 2
STACK_FRAMES = 16


class _Part(NamedTuple):
    """Slices of some lanes, in order. ``event`` is the row of each in ``trace.events``, or -1.

    ``stands_for`` are the rows of what slices stand for that are no events themselves; None if no slice does.
    """

    frame: pl.DataFrame
    event: IntArray
    stands_for: IntArray | None = None


class _Lanes:
    """Collects the lanes in the order in which they are shown; ``of`` has those of threads and streams of the trace."""

    def __init__(self) -> None:
        self.lanes: list[SliceLane] = []
        self.of: dict[int, int] = {}

    def add(self, title: str, kind: str, group: str, *, scale: Scale | None = None, is_folded: bool = False) -> int:
        lane = SliceLane(title=title, kind=kind, group=group, scale=scale, is_folded=is_folded)  # type: ignore[arg-type]
        self.lanes.append(lane)
        return len(self.lanes) - 1

    def room(self) -> int:
        """Return how many more lanes of streams there can be."""
        return max(MAX_LANES - len(self.lanes) - LANES_OF_DEVICE, 0)


def timeline_slices(trace: Trace) -> Slices:
    """Return the steps, threads, devices, streams and counters of a recording as slices.

    Empty without host or device events and counters.
    """
    boxes, lanes = recorded_boxes(trace), _Lanes()
    layers = _layers(trace)
    parts = [
        *_steps(trace, lanes),
        *_path(trace, lanes),
        *_host_waits(trace, lanes),
        *_threads(trace, boxes, lanes, layers),
        *_devices(trace, lanes),
    ]
    parts = [_with_lanes_of_path(trace, part, lanes) for part in parts]
    if trace.counters.height == 0 and not any((part.event >= 0).any() for part in parts):
        return Slices(frame=pl.DataFrame(schema=SCHEMA), lanes=(), layers=layers[:1])
    empty = pl.DataFrame(schema=SCHEMA).drop("source", "op")
    frame = pl.concat([empty, *(part.frame for part in parts)], how="diagonal").with_columns(
        pl.col("note").fill_null(""),
        pl.col("count").fill_null(1),
        # What is not on a thread is the same in all layers.
        *(pl.col(layer.column).fill_null(pl.col(OPS)) for layer in layers if layer.column != OPS),
    )
    event = np.concatenate([part.event for part in parts])
    stands_for = np.concatenate(
        [_no_events(part.frame.height) if part.stands_for is None else part.stands_for for part in parts]
    )
    order = np.lexsort((frame["start_ns"].to_numpy(), frame["lane"].to_numpy()))
    if (order[1:] < order[:-1]).any():
        frame, event, stands_for = frame[order], event[order], stands_for[order]
    source, op = _links(trace, event, stands_for)
    frame = frame.with_columns(pl.Series("source", source, pl.Int32), pl.Series("op", op, pl.Int32))
    details = _details(trace, event)
    return Slices(
        frame=frame.with_columns(details.values()),
        lanes=tuple(lanes.lanes),
        layers=layers,
        columns=tuple(details),
        typical_step=_typical_step(trace),
        waits_from_ns=next(iter(windows_of(trace).start_ns.tolist()), 0),
    )


def _typical_step(trace: Trace) -> int | None:
    """Return the number of the step with the median time among those that count; None without steps."""
    counted = counted_steps(trace)
    if len(counted.row) == 0:
        return None
    in_order = np.argsort(counted.end_ns - counted.start_ns, kind="stable")
    return int(trace.steps["number"][int(counted.row[in_order[len(in_order) // 2]])])


def _layers(trace: Trace) -> tuple[Layer, ...]:
    has = {
        OPS: True,
        MODULES: trace.scopes.height > 0,
        PYTHON: bool(in_category(trace, "python_function").any()),
    }
    return tuple(layer for layer in _LAYERS if has[layer.column])


def _steps(trace: Trace, lanes: _Lanes) -> list[_Part]:
    """Return the steps, and below each the phases that it is made of."""
    steps = trace.steps.sort("start_ns")
    if steps.height == 0:
        return []
    lane = lanes.add("Steps", "steps", "")
    number = steps["number"].cast(pl.String)
    strip = phase_strip(trace, STEP_PARTS)
    names = _of_enum(strip.phase, PHASE)
    start, dur = pl.Series(strip.start_ns), pl.Series(strip.end_ns - strip.start_ns)
    phases = _frame(lane, start, dur, names.cast(pl.String), "phase", names, depth=1)
    step_slices = _frame(
        lane,
        steps["start_ns"],
        steps["end_ns"] - steps["start_ns"],
        "Step " + number,
        "step",
        _phase_column("python", steps.height),
        depth=0,
    )
    step_slices = step_slices.with_columns(steps["number"].cast(pl.UInt32).alias("count"))
    return [_Part(part, _no_events(part.height)) for part in (step_slices, phases)]


def _path(trace: Trace, lanes: _Lanes) -> list[_Part]:
    """Return the critical paths of the steps, where they go over several threads and streams."""
    path = path_slices(trace)
    if len(path.row) == 0:
        return []
    lane, count = lanes.add("Critical path", "annotations", ""), len(path.row)
    known = path.row >= 0
    phase = np.full(count, PHASES.index("python"), np.int64)
    phase[known] = phases_shown(trace)[path.row[known]]
    times = pl.Series(path.start_ns), pl.Series(path.end_ns - path.start_ns)
    frame = _frame(lane, *times, names_of(trace, path), "path", _of_enum(phase, PHASE), depth=0)
    note = values_at(trace.lanes["name"], path.lane).cast(pl.Categorical()).alias("note")
    return [_Part(frame.with_columns(note), _no_events(count), path.row)]


def _with_lanes_of_path(trace: Trace, part: _Part, lanes: _Lanes) -> _Part:
    """Return the slices of the critical path with the lane in which each ran as their ``count``; others as they are."""
    if part.stands_for is None:
        return part
    own = part.frame["lane"].to_numpy().astype(np.int64)
    shown = np.array([lanes.of.get(lane, -1) for lane in range(trace.lanes.height)], np.int64)[path_slices(trace).lane]
    count = pl.Series("count", np.where(shown >= 0, shown, own), pl.UInt32)
    return part._replace(frame=part.frame.with_columns(count))


def _host_waits(trace: Trace, lanes: _Lanes) -> list[_Part]:
    """Return when the thread of the steps sleeps or waits, where that is what its time goes to."""
    waits = host_waits(trace)
    count = len(waits.start_ns)
    if count == 0:
        return []
    lane = lanes.add("Waiting", "host_waits", "")
    times = pl.Series(waits.start_ns), pl.Series(waits.end_ns - waits.start_ns)
    frame = _frame(lane, *times, waits.name, "blocking", _phase_column("waiting", count), depth=0)
    return [_Part(frame, _no_events(count))]


def _threads(trace: Trace, boxes: HostBoxes, lanes: _Lanes, layers: tuple[Layer, ...]) -> list[_Part]:
    """Return the slices of every thread, and the calls of the device's interface that it made."""
    events = trace.events
    calls = np.flatnonzero(in_category(trace, "runtime"))
    lane_of_call = events["lane"].to_numpy()[calls]
    used = np.setdiff1d(np.union1d(boxes.lane, lane_of_call), trace.meta.captured_lanes)
    busy_ns = sum_by(boxes.lane, boxes.own_ns, trace.lanes.height)
    busiest = sorted(used.tolist(), key=lambda lane: -int(busy_ns[lane]))
    titles = _short_titles(trace, used)
    number_of: dict[int, int] = {}
    number_of_calls: dict[int, int] = {}
    for lane in busiest[: MAX_LANES // 4]:
        title = titles[lane]
        number_of[lane] = lanes.of[lane] = lanes.add(title, "thread", title)
        if (lane_of_call == lane).any():
            number_of_calls[lane] = lanes.add("calls", "calls", title)
    parts = [
        (_boxes(trace, boxes, number_of, layers), boxes.lane),
        (_calls(trace, calls, number_of_calls), lane_of_call),
    ]
    return [_on_lanes(part, np.isin(lane, list(number_of))) for part, lane in parts]


def _on_lanes(part: _Part, is_shown: BoolArray) -> _Part:
    """Return the slices of the threads that have a lane; in all but broken files these are all."""
    return part if is_shown.all() else _Part(part.frame.filter(pl.Series(is_shown)), part.event[is_shown])


def _short_titles(trace: Trace, used: IntArray) -> list[str]:
    """Return the name of each lane without its numbers, where it stays the only one of this name in use."""
    names = trace.lanes["name"]
    short = names.str.replace(r"^thread -?[0-9]+ \((.+)\)$", "$1").str.replace(r"^device [0-9]+ (stream )", "$1")
    pairs = pl.DataFrame({"name": names, "short": short, "device": trace.lanes["device"]}).with_row_index("lane")
    is_used = pl.col("lane").is_in(used.tolist())
    is_only = pairs.select((is_used.sum().over("short", "device") == 1).alias("only"))["only"]
    return [
        (brief if is_alone else name) or "thread"
        for name, brief, is_alone in zip(names.to_list(), short.to_list(), is_only.to_list(), strict=True)
    ]


def _boxes(trace: Trace, boxes: HostBoxes, number_of: dict[int, int], layers: tuple[Layer, ...]) -> _Part:
    events, is_event = trace.events, boxes.row >= 0
    row = boxes.row[is_event]
    kind = np.zeros(len(boxes.row), np.int64)
    kind[is_event] = _kinds(events["category"].gather(row))
    phase = np.full(len(boxes.row), PHASES.index("python"), np.int64)
    phase[is_event] = phases_shown(trace)[row]
    site = boxes.site[~is_event]
    at = np.zeros(len(kind), np.int64)
    at[is_event] = np.arange(len(row))
    at[~is_event] = len(row) + site
    name = pl.concat([event_names(trace, row), site_names(trace).cast(pl.Categorical())]).gather(at)
    if len(site):
        kinds = trace.sites["kind"].gather(site).cast(pl.String).cast(KIND)
        kind[~is_event] = kinds.to_physical().to_numpy()
    waits = waiting_places(trace, boxes)
    phase[waits] = PHASES.index("waiting")
    phase = phases_of_places(boxes, phase, np.isin(kind, [KINDS.index(each) for each in _PLACES]) & ~waits)
    frame = pl.DataFrame(
        {
            "lane": pl.Series(_numbers(boxes.lane, number_of), dtype=pl.UInt16),
            "start_ns": boxes.start_ns,
            "dur_ns": boxes.dur_ns,
            "name": name,
            "kind": _of_enum(kind, KIND),
            "phase": _of_enum(phase, PHASE),
        }
    )
    shown = {
        OPS: ("annotation", "op"),
        MODULES: ("annotation", "op", "line", "module"),
        PYTHON: ("annotation", "op", "line", "module", "python"),
    }
    depth, columns = depth_of(boxes.parent), []
    for layer in layers:
        is_shown = np.isin(kind, [KINDS.index(each) for each in shown[layer.column]])
        among = np.minimum(_depth_among(boxes, depth, is_shown), 2**15 - 1)
        columns.append(pl.Series(layer.column, among, pl.Int16))
    return _Part(frame.with_columns(columns), boxes.row)


def _depth_among(boxes: HostBoxes, depth: IntArray, is_shown: BoolArray) -> IntArray:
    """Return how deep each of the shown boxes is nested in the others of them, and -1 for those that are not shown.

    ``depth`` is that among all boxes.
    """
    if is_shown.all():
        return depth
    rows = np.flatnonzero(is_shown)
    found = np.full(len(depth), NO_PARENT, np.int64)
    if boxes.overlaps.any():
        found[rows] = nest(boxes.lane[rows], boxes.start_ns[rows], boxes.dur_ns[rows])[1]
        return found
    number = np.full(len(depth) + 1, NO_PARENT, np.int64)
    number[rows] = np.arange(len(rows))
    found[rows] = depth_of(number[nearest_marked(boxes.parent, depth, is_shown)[boxes.parent[rows]]])
    return found


def _calls(trace: Trace, rows: IntArray, number_of: dict[int, int]) -> _Part:
    events = trace.events
    frame = _of_events(trace, rows, _numbers(events["lane"].to_numpy()[rows], number_of))
    is_blocking = np.zeros(events.height, np.bool_)
    is_blocking[blocking_calls(trace)["row"].to_numpy()] = True
    kind = pl.when(pl.Series(is_blocking[rows])).then(pl.lit("blocking", KIND)).otherwise(pl.col("kind"))
    return _Part(frame.with_columns(kind.alias("kind")), rows)


def _devices(trace: Trace, lanes: _Lanes) -> list[_Part]:
    """Return for every device why it waits, its streams, how many launches were waiting for it, and its counters.

    The counters of devices that did no work follow, and those of no device.
    """
    events = trace.events
    work = device_rows(trace)
    ranges = np.flatnonzero(in_category(trace, "gpu_user_annotation"))
    device = filled(events["device"], 0)
    lane = events["lane"].to_numpy()
    titles = _short_titles(trace, np.arange(trace.lanes.height))
    idle, busy = idle_runs(trace), {number: times for number, *times in device_intervals(trace)}
    parts: list[_Part] = []
    number_of: dict[int, int] = {}
    counters = curve_groups(trace)
    fold = is_folded(counters)
    for number in np.unique(device[work]).tolist():
        if not lanes.room():
            break
        title = f"Device {number}"
        waits = idle.filter(pl.col("device") == number)
        parts.append(_waits(waits, merge(*busy[number]), lanes.add(title, "waits", title)))
        for each in np.unique(lane[ranges[device[ranges] == number]])[: lanes.room()].tolist():
            number_of[each] = lanes.add("annotations", "annotations", title)
        for each in np.unique(lane[work[device[work] == number]])[: lanes.room()].tolist():
            number_of[each] = lanes.of[each] = lanes.add(titles[each], "stream", title)
        if number == device[work].min():
            parts.append(_queue(trace, lanes, title))
        parts += _curves(lanes, counters.pop(number, None), title, is_folded=fold)
    for rest, group in counters.items():
        title = "Counters" if rest is None else f"Device {rest}"
        parts += _curves(lanes, group, title, is_folded=fold)
    rows = np.sort(np.concatenate((work, ranges)))
    rows = rows[np.isin(lane[rows], list(number_of))]
    if len(rows):
        frame = _of_events(trace, rows, _numbers(lane[rows], number_of))
        depth = nest(*(events[name].to_numpy()[rows].astype(np.int64) for name in ("lane", "start_ns", "dur_ns")))[1]
        sizes = events["bytes"].gather(rows)
        notes = sizes.unique().drop_nulls()
        text = sizes.replace_strict(
            notes, [format_bytes(size) for size in notes.to_list()], default="", return_dtype=pl.String
        )
        frame = frame.with_columns(
            pl.Series(OPS, np.minimum(depth, 2**15 - 1), pl.Int16), text.cast(pl.Categorical()).alias("note")
        )
        parts.append(_Part(frame, rows))
    return parts


def _waits(idle: pl.DataFrame, busy_ns: tuple[IntArray, IntArray], lane: int) -> _Part:
    """Return the idle times of a device with their causes, and when it was busy."""
    waits = idle.select(
        pl.lit(lane, pl.UInt16).alias("lane"),
        "start_ns",
        pl.col("idle_ns").alias("dur_ns"),
        pl.col("name").fill_null(""),
        pl.lit("idle", KIND).alias("kind"),
        pl.lit("idle", PHASE).alias("phase"),
        _causes(idle),
        pl.col("begins").alias("count"),
    )
    start, end = busy_ns
    constant = pl.Series(["busy"]).new_from_index(0, len(start))
    busy = _frame(
        lane, pl.Series(start), pl.Series(end - start), constant, "busy", _phase_column("forward", len(start)), depth=1
    )
    frame = pl.concat([waits.with_columns(pl.lit(0, pl.Int16).alias(OPS)), busy], how="diagonal")
    return _Part(frame, _no_events(frame.height))


def _causes(idle: pl.DataFrame) -> pl.Series:
    """Return the notes of idle times: the cause, and the line where the host was. Most of them share a few."""
    keys = row_numbers(*(filled(idle[name].to_physical(), NO_PARENT) for name in ("cause", "file", "line")))
    rows, of_rows = numbered(keys)
    texts = [
        f"{CAUSE_TITLES[cause]}\t" + ("" if line is None else f"{short_file(file or '')}:{line}")
        for cause, file, line in idle.select("cause", "file", "line")[rows].rows()
    ]
    return values_at(pl.Series("note", texts, dtype=pl.Categorical()), of_rows)


def _queue(trace: Trace, lanes: _Lanes, group: str) -> _Part:
    """Return how many pieces of launched work had not begun, over time."""
    queue = whole_queue(trace)
    until = queue["time_ns"].shift(-1)
    queue = queue.with_columns((until - queue["time_ns"]).alias("dur_ns")).filter(
        (pl.col("work") > 0) & pl.col("dur_ns").is_not_null()
    )
    frame = queue.select(
        pl.lit(lanes.add("queue", "queue", group), pl.UInt16).alias("lane"),
        pl.lit(0, pl.Int16).alias(OPS),
        pl.col("time_ns").alias("start_ns"),
        "dur_ns",
        pl.lit("waiting to run").cast(pl.Categorical()).alias("name"),
        pl.lit("queue", KIND).alias("kind"),
        pl.lit("python", PHASE).alias("phase"),
        pl.col("work").cast(pl.UInt32).alias("count"),
    )
    return _Part(frame, _no_events(frame.height))


def _curves(lanes: _Lanes, group: CurveGroup | None, title: str, *, is_folded: bool) -> list[_Part]:
    """Return the curves of counters, below a lane that heads them."""
    parts: list[_Part] = []
    if group is None or len(group.curves) >= lanes.room():
        return parts
    lanes.add(group.title, "counters", title, is_folded=is_folded)
    for curve in group.curves:
        lane = lanes.add(curve.title, "counter", title, scale=curve.scale)
        count = len(curve.level)
        name = pl.Series([curve.name]).new_from_index(0, count)
        times = pl.Series(curve.start_ns), pl.Series(curve.dur_ns)
        frame = _frame(lane, *times, name, "counter", _phase_column("python", count), depth=0)
        frame = frame.with_columns(pl.Series("count", curve.level, dtype=pl.UInt32))
        parts.append(_Part(frame, _no_events(count)))
    return parts


def _links(trace: Trace, event: IntArray, stands_for: IntArray) -> tuple[IntArray, IntArray]:
    """Return for each slice the slice that launched it, or that of its forward op, and the op around that.

    For a slice that stands for an event, the second is the slice of this event.
    """
    slice_of = np.full(trace.events.height + 1, NO_PARENT, np.int64)
    known = np.flatnonzero(event >= 0)
    slice_of[event[known]] = known
    origin = launch_sources(trace).astype(np.int64)
    backward = trace.flows.filter(pl.col("kind") == "backward")
    origin[backward["target"].to_numpy()] = backward["source"].to_numpy()
    source = np.where(event >= 0, slice_of[np.append(origin, NO_PARENT)[event]], NO_PARENT)
    is_call = in_category(trace, "runtime")
    calls = np.where(is_call, np.arange(len(is_call)), origins(trace).astype(np.int64))
    around = _innermost_op(trace, np.append(calls, NO_PARENT))
    op = np.where(event >= 0, slice_of[around[event]], slice_of[stands_for])
    return source, op


def _innermost_op(trace: Trace, calls: IntArray) -> IntArray:
    """Return for each call, a row of ``trace.events`` or -1, the innermost op or annotation around it, or -1.

    It is the same as in the table of ops: Python frames around the call do not matter.
    """
    ops = nest_among(trace, in_category(trace, *OP_CATEGORIES))
    return np.append(ops.row, NO_PARENT)[ops_around(trace, ops, calls)]


def _details(trace: Trace, event: IntArray) -> dict[Column, pl.Series]:
    """Return the recorded details of each slice; work of a graph has those of the op that was captured elsewhere."""
    events, found = trace.events, {}
    call, op = _captured_elsewhere(trace, event)
    at, at_call, at_op = (pl.Series(rows).set(pl.Series(rows < 0), None) for rows in (event, call, op))
    at_op, at_call = at_op.fill_null(at), at_call.fill_null(at)
    if (op >= 0).any():
        names = events["name"].gather(at_op)
        found[CAPTURED_OP] = names.set(pl.Series(op < 0), None).alias(CAPTURED_OP.name)
    for column in (SHAPES, DTYPES):
        if events[column.name].null_count() < events.height:
            found[column] = events[column.name].gather(at_op).alias(column.name)
    if events["launch_config"].null_count() < events.height:
        found |= _launch_details(events["launch_config"].gather(at))
    if events["bytes"].null_count() < events.height:
        found[BANDWIDTH] = _bandwidths(events).gather(at).cast(pl.Categorical()).alias(BANDWIDTH.name)
    if trace.fx_nodes.height:
        found |= _node_details(trace, event)
    if trace.stacks.height:
        texts = _stack_texts(trace)
        found[STACK] = texts.gather(events["stack"].gather(at_call)).cast(pl.Categorical()).alias(STACK.name)
    return found


def _node_details(trace: Trace, event: IntArray) -> dict[Column, pl.Series]:
    """Return the node of a compiled graph of each slice, all lines of the model in it, and the generated code."""
    names = fx_names(trace)
    number, node = (np.append(each, NO_PARENT)[event] for each in (names.of_event, fx_nodes(trace)))
    texts = {
        FX_NODE: values_at(names.names, number),
        MODEL_LINES: values_at(fused_lines(trace), node),
        GENERATED_CODE: values_at(places_in_code(trace), node),
    }
    known = {column: text for column, text in texts.items() if text.null_count() < len(text)}
    return {column: text.cast(pl.Categorical()).alias(column.name) for column, text in known.items()}


def _captured_elsewhere(trace: Trace, event: IntArray) -> tuple[IntArray, IntArray]:
    """Return for each slice the launch that was captured in another file, and the op around it; -1 for all others."""
    nowhere = np.full(len(event), NO_PARENT, np.int64)
    if not trace.meta.captured_lanes:
        return nowhere, nowhere
    origin = np.where(graph_work(trace).is_matched, graph_work(trace).origin, NO_PARENT).astype(np.int64)
    origin[~np.append(on_captured_lanes(trace), False)[origin]] = NO_PARENT
    call = np.append(origin, NO_PARENT)[event]
    return call, _innermost_op(trace, call)


def _occupancy(ratio: float) -> str:
    # The profiler writes whole percent: 0 is what was rounded down.
    return format_ratio(ratio) if ratio > 0 else "below 1 %"


def _launch_details(texts: pl.Series) -> dict[Column, pl.Series]:
    """Return how kernels were launched, as texts."""
    rows, of_rows = numbered(filled(texts.to_physical(), NO_PARENT) + 1)
    configs = launch_configs(texts[rows])
    parts = (
        pl.format("{} registers", "registers"),
        pl.format(
            "{} of shared memory",
            _texts_of(configs["shared_bytes"].replace(0, None), lambda size: format_bytes(int(size))),
        ),
        pl.format("occupancy {}", _texts_of(configs["occupancy_ratio"], _occupancy)),
    )
    resources = configs.select(pl.concat_list(parts).list.drop_nulls().list.join(" · ").alias("text"))["text"]
    texts_of = {GRID: configs["grid"], BLOCK: configs["block"], RESOURCES: resources.set(resources == "", None)}
    known = {column: text for column, text in texts_of.items() if text.null_count() < len(text)}
    return {
        column: values_at(text.cast(pl.Categorical()), of_rows).alias(column.name) for column, text in known.items()
    }


def _bandwidths(events: pl.DataFrame) -> pl.Series:
    """Return the bandwidth of each copy and fill as text; null for other events."""
    rate = events.select(
        pl.when((pl.col("dur_ns") > 0) & (pl.col("bytes") > 0)).then(pl.col("bytes") * 1e9 / pl.col("dur_ns"))
    ).to_series()
    return _texts_of(rate, lambda value: f"{format_file_size(int(value))}/s")


def _texts_of(values: pl.Series, text_of: Callable[[float], str]) -> pl.Series:
    distinct = values.unique().drop_nulls()
    return values.replace_strict(
        distinct, [text_of(value) for value in distinct.to_list()], default=None, return_dtype=pl.String
    )


def _stack_texts(trace: Trace) -> pl.Series:
    """Return each stack as text, the innermost frame first."""
    stacks = trace.stacks
    lines: list[str] = []
    names = [
        f"{function} {short_file(file)}:{line}" if file else function
        for file, line, function in stacks.select("file", "line", "function").iter_rows()
    ]
    for parent, name in zip(stacks["parent"].to_list(), names, strict=True):
        above = lines[parent] if parent >= 0 else ""
        text = f"{name}\n{above}" if above else name
        lines.append("\n".join(text.split("\n", STACK_FRAMES)[:STACK_FRAMES]))
    return pl.Series(lines, dtype=pl.String)


def _of_events(trace: Trace, rows: IntArray, lane: IntArray) -> pl.DataFrame:
    events = trace.events
    phase = phases_shown(trace).astype(np.int64)
    spans = trace.flows.filter(pl.col("kind") == "annotation")
    phase[spans["target"].to_numpy()] = phase[spans["source"].to_numpy()]
    return pl.DataFrame(
        {
            "lane": pl.Series(lane, dtype=pl.UInt16),
            OPS: pl.Series(np.zeros(len(rows), np.int16)),
            "start_ns": events["start_ns"].gather(rows),
            "dur_ns": events["dur_ns"].gather(rows),
            "name": event_names(trace, rows),
            "kind": _of_enum(_kinds(events["category"].gather(rows)), KIND),
            "phase": _of_enum(phase[rows], PHASE),
        }
    )


def _frame(
    lane: int, start_ns: pl.Series, dur_ns: pl.Series, name: pl.Series, kind: str, phase: pl.Series, *, depth: int
) -> pl.DataFrame:
    frame = pl.DataFrame({"start_ns": start_ns.cast(pl.Int64), "dur_ns": dur_ns.cast(pl.Int64)})
    return frame.with_columns(
        pl.lit(lane, pl.UInt16).alias("lane"),
        pl.lit(depth, pl.Int16).alias(OPS),
        name.cast(pl.Categorical()).alias("name"),
        pl.lit(kind, KIND).alias("kind"),
        phase.cast(PHASE).alias("phase"),
    )


def _phase_column(phase: str, count: int) -> pl.Series:
    return pl.Series([phase], dtype=PHASE).new_from_index(0, count)


def _kinds(category: pl.Series) -> IntArray:
    of_name = {name: KINDS.index(kind) for name, kind in _KIND_OF.items()}
    annotation = KINDS.index("annotation")
    number = pl.col("name").replace_strict(of_name, default=annotation, return_dtype=pl.Int64)
    return ask_names(category, number).astype(np.int64)


def _of_enum(numbers: IntArray, enum: pl.Enum) -> pl.Series:
    return pl.Series(enum.categories.to_list(), dtype=enum).gather(numbers)


def _numbers(lane: IntArray, number_of: dict[int, int]) -> IntArray:
    table = np.zeros(int(lane.max(initial=0)) + 1, np.int64)
    for key, number in number_of.items():
        if key < len(table):
            table[key] = number
    return table[lane]


def _no_events(count: int) -> IntArray:
    return np.full(count, NO_PARENT, np.int64)
