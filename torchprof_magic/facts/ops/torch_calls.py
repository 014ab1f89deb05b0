"""torch's own list of events, rebuilt from a trace by torch's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_captures import on_captured_lanes
from torchprof_magic.facts.ops.calls import nest_among, ops_around
from torchprof_magic.facts.ops.flops import flops_of_calls
from torchprof_magic.facts.ops.torch_stacks import own_stacks, with_forward_stacks
from torchprof_magic.facts.shared import ask_event_names, in_category, launch_sources, once_per_trace, readable_names
from torchprof_magic.facts.sums import running_sum, sum_by
from torchprof_magic.model.distinct import codes_of, once_per_text
from torchprof_magic.model.intervals import (
    NO_PARENT,
    BoolArray,
    IntArray,
    levels,
    nest,
    nesting_order,
    rolled_up,
    self_time,
)
from torchprof_magic.model.rows import frame_of, rows_where, values_at
from torchprof_magic.model.trace import CATEGORIES, TEXT
from torchprof_magic.model.vendors import DEVICE_MEMORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.facts.ops.calls import Nest
    from torchprof_magic.model.trace import DType, Trace

# torch leaves these utility records out of its events (torch/autograd/profiler_util.py, _filter_name).
_HIDDEN = (
    "[memory]",
    "[OutOfMemory]",
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
)
_ON_HOST = ("cpu_op", "user_annotation", "runtime", "python_function", "overhead")
_ON_DEVICE = ("kernel", "memcpy", "memset", "gpu_user_annotation")
# A list of tensors among the input dimensions, which torch's own table shows as an empty list.
_TENSOR_LIST = r"\[\[[^\[\]]*\](?:,\s*\[[^\[\]]*\])*\]"

VALUES = ("cpu_ns", "device_ns", "cpu_bytes", "device_bytes")
CALLS: dict[str, DType] = {
    "key": TEXT,
    "kind": TEXT,
    "is_annotation": pl.Boolean,
    "is_on_device": pl.Boolean,
    "is_top": pl.Boolean,
    "shapes": TEXT,
    "overload": TEXT,
    "stack": pl.Int64,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "flops": pl.Int64,
    **dict.fromkeys((f"{part}_{value}" for value in VALUES for part in ("self", "total")), pl.Int64),
}
# What is not known of device work and of allocations, or is the same for all of them.
_ASIDE: dict[str, object] = {
    **dict.fromkeys(CALLS, 0),
    "is_annotation": False,
    "is_on_device": False,
    "is_top": True,
    "shapes": "[]",
    "overload": "",
    "stack": NO_PARENT,
    "flops": None,
}


@once_per_trace
def torch_calls(trace: Trace) -> pl.DataFrame:
    """Return one row per event of torch's ``events()``, in torch's order: by start, and the longer one first.

    ``stack`` is a row of ``stacks`` or -1, also where torch would have recorded none. ``is_top`` is set if nothing is
    around the event on its thread. Times are ns, sizes bytes.
    """
    ops = nest_among(trace, in_category(trace, "cpu_op"))
    host = _host_events(trace, ops)
    work = _launched(trace, ops)
    parts = (_host_calls(trace, host, work), _device_work(trace, work), _loose_memory(trace, host))
    calls = pl.concat(parts, rechunk=True)
    start, dur = (calls[name].to_numpy() for name in ("start_ns", "dur_ns"))
    return calls[nesting_order(np.zeros(len(start), np.int64), start, dur)]


class _HostEvents(NamedTuple):
    """The rows of the host's events in nesting order by torch's threads, numbers of these, and the op around each."""

    row: IntArray
    thread: IntArray
    op: IntArray
    start_ns: IntArray
    dur_ns: IntArray


def _host_calls(trace: Trace, host: _HostEvents, work: tuple[IntArray, IntArray]) -> pl.DataFrame:
    """Return the events of the host, nested and with only children merged as torch does."""
    row, events = host.row, trace.events
    parent, depth, _ = nest(host.thread, host.start_ns, host.dur_ns)
    name, turns = readable_names(trace, row, torch_names), levels(depth)
    is_merged = _merged_into_parent(name, parent)
    totals = {"cpu_ns": host.dur_ns} | _bytes_between(trace, host.start_ns, host.start_ns + host.dur_ns)
    selves = {name: _with_merged(self_time(parent, total), parent, turns, is_merged) for name, total in totals.items()}
    selves["device_ns"], totals["device_ns"] = _device_ns(trace, row, parent, turns, is_merged, work)
    columns = {
        "key": name,
        "kind": _kinds(trace, row),
        "is_annotation": in_category(trace, "user_annotation")[row],
        "is_on_device": np.zeros(len(row), np.bool_),
        "is_top": parent < 0,
        "shapes": once_per_text(values_at(events["shapes"], row), _torch_shapes),
        "overload": once_per_text(values_at(events["overload"], row), lambda texts: texts.fill_null("")),
        "stack": with_forward_stacks(trace, row, parent, turns, own_stacks(trace, row, host.op)),
        "start_ns": host.start_ns,
        "dur_ns": host.dur_ns,
        "flops": values_at(flops_of_calls(trace), row),
        **{f"self_{name}": values for name, values in selves.items()},
        **{f"total_{name}": values for name, values in totals.items()},
    }
    return rows_where(frame_of(CALLS, columns), ~is_merged)


def _host_events(trace: Trace, ops: Nest) -> _HostEvents:
    events = trace.events
    is_hidden = ask_event_names(trace, pl.col("name").is_in(_HIDDEN)).astype(np.bool_)
    row = np.flatnonzero(in_category(trace, *_ON_HOST) & ~is_hidden & ~on_captured_lanes(trace))
    op = _op_around(trace, ops, row)
    start, dur = (events[name].to_numpy()[row].astype(np.int64) for name in ("start_ns", "dur_ns"))
    thread = _threads(trace, row, op)
    found = _HostEvents(row, thread, op, start, dur)
    order = nesting_order(thread, start, dur)
    return _HostEvents(*(column[order] for column in found))


def _threads(trace: Trace, row: IntArray, op: IntArray) -> IntArray:
    """Return a number of the thread of each row.

    Kineto numbers threads otherwise than torch, so its runtime calls nest in what torch recorded only if they belong to
    an op; its own overhead never does.
    """
    is_apart = in_category(trace, "overhead")[row] | (in_category(trace, "runtime")[row] & (op < 0))
    return trace.events["lane"].to_numpy()[row].astype(np.int64) + is_apart * trace.lanes.height


def _kinds(trace: Trace, row: IntArray) -> pl.Series:
    """Return the categories of some events, as text like that of allocations."""
    return values_at(pl.Series(CATEGORIES, dtype=TEXT), codes_of(trace.events["category"])[row])


def _op_around(trace: Trace, ops: Nest, row: IntArray) -> IntArray:
    """Return the row of the innermost op at or around each event row, or -1."""
    return np.append(ops.row, NO_PARENT)[ops_around(trace, ops, row)].astype(np.int64)


def _device_ns(
    trace: Trace,
    row: IntArray,
    parent: IntArray,
    turns: Sequence[IntArray],
    is_merged: BoolArray,
    launched: tuple[IntArray, IntArray],
) -> tuple[IntArray, IntArray]:
    """Return the time of the device work that each row launched itself, and with what is in it, in ns.

    As in torch, work belongs to the innermost op around its launch, and a row into which its only child is merged has
    the work of the child instead of its own.
    """
    work, op = launched
    self_ns = sum_by(op, trace.events["dur_ns"].to_numpy()[work], trace.events.height)[row]
    for rows in _merged_from_inside(turns, is_merged):
        self_ns[parent[rows]] = self_ns[rows]
        self_ns[rows] = 0
    return self_ns, rolled_up(self_ns, parent, turns)


def _launched(trace: Trace, ops: Nest) -> tuple[IntArray, IntArray]:
    """Return the rows of all device work, and the op that launched each or -1."""
    work = np.flatnonzero(in_category(trace, "kernel", "memcpy", "memset"))
    return work, _op_around(trace, ops, launch_sources(trace)[work].astype(np.int64))


def _device_work(trace: Trace, launched: tuple[IntArray, IntArray]) -> pl.DataFrame:
    """Return the device work and the spans of ranges on a device, which are events of their own in torch."""
    row = np.flatnonzero(in_category(trace, *_ON_DEVICE))
    op = np.full(trace.events.height, NO_PARENT, np.int64)
    work, launching = launched
    op[work] = launching
    start, dur = (trace.events[name].to_numpy()[row] for name in ("start_ns", "dur_ns"))
    known = {
        "key": readable_names(trace, row, torch_names),
        "kind": _kinds(trace, row),
        "is_annotation": in_category(trace, "gpu_user_annotation")[row],
        "is_on_device": True,
        "stack": own_stacks(trace, row, op[row]),
        "start_ns": start,
        "dur_ns": dur,
        "self_device_ns": dur,
        "total_device_ns": dur,
    }
    return _aside(len(row), known)


def _aside(count: int, known: dict[str, object]) -> pl.DataFrame:
    """Return calls of which only some columns are known."""
    columns = _ASIDE | known
    repeated = {
        name: pl.repeat(columns[name], count, dtype=dtype, eager=True)  # type: ignore[call-overload]
        for name, dtype in CALLS.items()
        if not isinstance(columns[name], pl.Series | np.ndarray)
    }
    return frame_of(CALLS, columns | repeated)


def torch_names(names: pl.Series) -> pl.Series:
    """Return names as in torch's table, where all steps are one row."""
    return names.cast(pl.String).str.replace(r"^ProfilerStep#.*$", "ProfilerStep*")


def _torch_shapes(texts: pl.Series) -> pl.Series:
    """Return input shapes as in torch's table; nothing is known of null."""
    inner = texts.str.strip_prefix("[").str.strip_suffix("]").str.replace_all(_TENSOR_LIST, "[]").fill_null("")
    return "[" + inner + "]"


def _bytes_between(trace: Trace, start_ns: IntArray, end_ns: IntArray) -> dict[str, IntArray]:
    """Return the bytes that any thread allocated minus freed from each start to each end, both included."""
    time = trace.memory["time_ns"].to_numpy()
    first, last = np.searchsorted(time, start_ns, "left"), np.searchsorted(time, end_ns, "right")
    levels_of = {name: np.concatenate(([0], running_sum(delta))) for name, delta in _deltas(trace).items()}
    return {name: level[last] - level[first] for name, level in levels_of.items()}


def _deltas(trace: Trace) -> dict[str, IntArray]:
    memory = trace.memory
    on_host = (memory["device"] == "cpu").to_numpy()
    on_device = memory["device"].str.contains(DEVICE_MEMORY).to_numpy()
    delta = memory["delta_bytes"].to_numpy()
    return {"cpu_bytes": np.where(on_host, delta, 0), "device_bytes": np.where(on_device, delta, 0)}


def _loose_memory(trace: Trace, host: _HostEvents) -> pl.DataFrame:
    """Return the allocations that lie in no event of any thread; torch has a row [memory] for them."""
    time = trace.memory["time_ns"].to_numpy()
    end = np.sort(host.start_ns + host.dur_ns)
    open_events = np.searchsorted(np.sort(host.start_ns), time, "right") - np.searchsorted(end, time, "left")
    loose = open_events == 0
    deltas = {name: delta[loose] for name, delta in _deltas(trace).items()}
    values = {f"{part}_{name}": delta for name, delta in deltas.items() for part in ("self", "total")}
    return _aside(int(loose.sum()), {"key": "[memory]", "kind": "memory", "start_ns": time[loose]} | values)


def _merged_into_parent(name: pl.Series, parent: IntArray) -> BoolArray:
    """Return True for only children with the name of their parent; torch drops those nodes."""
    code, has_parent = codes_of(name), parent >= 0
    children = np.bincount(parent[has_parent], minlength=len(parent))
    return has_parent & (code[parent] == code) & (children[parent] == 1)


def _merged_from_inside(turns: Sequence[IntArray], is_merged: BoolArray) -> list[IntArray]:
    """Return the merged rows of each level of nesting, the innermost first."""
    return [level[is_merged[level]] for level in reversed(turns)] if is_merged.any() else []


def _with_merged(self_ns: IntArray, parent: IntArray, turns: Sequence[IntArray], is_merged: BoolArray) -> IntArray:
    """Add the self time of merged nodes to the node they are merged into, from the inside out."""
    total = self_ns.copy()
    for rows in _merged_from_inside(turns, is_merged):
        total[parent[rows]] += total[rows]  # each is the only child of its parent
    return total
