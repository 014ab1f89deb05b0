"""torch's own list of events, rebuilt from a trace by torch's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_captures import on_captured_lanes
from torchprof_magic.facts.ops.calls import nest_among, ops_around
from torchprof_magic.facts.ops.flops import flops_of_calls
from torchprof_magic.facts.ops.torch_stacks import own_stacks, with_forward_stacks
from torchprof_magic.facts.shared import ask_event_names, in_category, launch_sources, once_per_trace
from torchprof_magic.facts.sums import running_sum
from torchprof_magic.model.intervals import NO_PARENT, IntArray, levels, nest, nesting_order, self_time
from torchprof_magic.model.vendors import DEVICE_MEMORY

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

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
CALLS: dict[str, type[pl.DataType]] = {
    "key": pl.String,
    "kind": pl.String,
    "is_annotation": pl.Boolean,
    "is_on_device": pl.Boolean,
    "is_top": pl.Boolean,
    "shapes": pl.String,
    "overload": pl.String,
    "stack": pl.Int64,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "flops": pl.Int64,
} | {f"{part}_{value}": pl.Int64 for value in VALUES for part in ("self", "total")}


@once_per_trace
def torch_calls(trace: Trace) -> pl.DataFrame:
    """Return one row per event of torch's ``events()``, in torch's order: by start, and the longer one first.

    ``stack`` is a row of ``stacks`` or -1, also where torch would have recorded none. ``is_top`` is set if nothing is
    around the event on its thread. Times are ns, sizes bytes.
    """
    calls = pl.concat([_host_calls(trace), _device_work(trace), _loose_memory(trace)])
    end = pl.col("start_ns") + pl.col("dur_ns")
    return calls.sort(pl.col("start_ns"), end, descending=[False, True], maintain_order=True)


def _host_calls(trace: Trace) -> pl.DataFrame:
    """Return the events of the host, nested and with only children merged as torch does."""
    row, op = _host_rows(trace)
    frame = trace.events.with_columns(flops_of_calls(trace))[row]
    start, dur = (frame[name].to_numpy() for name in ("start_ns", "dur_ns"))
    parent, depth, _ = nest(_threads(trace, row, op), start, dur)
    name = torch_names(frame["name"])
    is_merged = _merged_into_parent(name, parent)
    totals = {"cpu_ns": dur} | _bytes_between(trace, start, start + dur)
    selves = {name: _with_merged(self_time(parent, total), parent, depth, is_merged) for name, total in totals.items()}
    selves["device_ns"], totals["device_ns"] = _device_ns(trace, row, parent, depth, is_merged)
    stack = with_forward_stacks(trace, row, parent, depth, own_stacks(trace, row, op))
    made = frame.select(
        name.alias("key"),
        pl.col("category").cast(pl.String).alias("kind"),
        (pl.col("category") == "user_annotation").alias("is_annotation"),
        pl.lit(value=False).alias("is_on_device"),
        pl.Series("is_top", parent < 0, dtype=pl.Boolean),
        _torch_shapes().alias("shapes"),
        pl.col("overload").cast(pl.String).fill_null(""),
        pl.Series("stack", stack, dtype=pl.Int64),
        "start_ns",
        "dur_ns",
        "flops",
    ).with_columns(
        *(pl.Series(f"self_{name}", values) for name, values in selves.items()),
        *(pl.Series(f"total_{name}", values) for name, values in totals.items()),
    )
    return made.filter(~pl.Series(is_merged, dtype=pl.Boolean)).select(CALLS.keys()).cast(CALLS)  # type: ignore[arg-type]


def _host_rows(trace: Trace) -> tuple[IntArray, IntArray]:
    """Return the rows of the host's events in nesting order by torch's threads, and the op around each or -1."""
    events = trace.events
    is_hidden = ask_event_names(trace, pl.col("name").is_in(_HIDDEN)).astype(np.bool_)
    row = np.flatnonzero(in_category(trace, *_ON_HOST) & ~is_hidden & ~on_captured_lanes(trace))
    op = _op_around(trace, row)
    start, dur = (events[name].to_numpy()[row].astype(np.int64) for name in ("start_ns", "dur_ns"))
    order = nesting_order(_threads(trace, row, op), start, dur)
    return row[order], op[order]


def _threads(trace: Trace, row: IntArray, op: IntArray) -> IntArray:
    """Return a number of the thread of each row.

    Kineto numbers threads otherwise than torch, so its runtime calls nest in what torch recorded only if they belong to
    an op; its own overhead never does.
    """
    events = trace.events
    category = events["category"].gather(row)
    is_apart = ((category == "overhead") | ((category == "runtime") & pl.Series(op < 0))).to_numpy()
    return events["lane"].to_numpy()[row].astype(np.int64) + is_apart * trace.lanes.height


def _op_around(trace: Trace, row: IntArray) -> IntArray:
    """Return the row of the innermost op at or around each event row, or -1."""
    ops = nest_among(trace, in_category(trace, "cpu_op"))
    found = ops_around(trace, ops, row)
    return np.where(found >= 0, np.append(ops.row, NO_PARENT)[found], NO_PARENT).astype(np.int64)


def _device_ns(
    trace: Trace, row: IntArray, parent: IntArray, depth: IntArray, is_merged: np.ndarray
) -> tuple[IntArray, IntArray]:
    """Return the time of the device work that each row launched itself, and with what is in it, in ns.

    As in torch, work belongs to the innermost op around its launch, and a row into which its only child is merged has
    the work of the child instead of its own.
    """
    work, op = _launched(trace)
    own = np.zeros(trace.events.height + 1, np.int64)
    np.add.at(own, op, trace.events["dur_ns"].to_numpy()[work])
    own[-1] = 0
    self_ns = own[row]
    turns = levels(depth)
    for level in reversed(turns):
        rows = level[is_merged[level]]
        self_ns[parent[rows]] = self_ns[rows]
        self_ns[rows] = 0
    total = self_ns.copy()
    for level in reversed(turns[1:]):
        np.add.at(total, parent[level], total[level])
    return self_ns, total


def _launched(trace: Trace) -> tuple[IntArray, IntArray]:
    """Return the rows of all device work, and the op that launched each or -1."""
    is_work = in_category(trace, "kernel", "memcpy", "memset")
    work = np.flatnonzero(is_work)
    return work, _op_around(trace, launch_sources(trace)[work].astype(np.int64))


def _device_work(trace: Trace) -> pl.DataFrame:
    """Return the device work and the spans of ranges on a device, which are events of their own in torch."""
    row = np.flatnonzero(in_category(trace, *_ON_DEVICE))
    frame = trace.events[row]
    op = np.full(trace.events.height, NO_PARENT, np.int64)
    work, launching = _launched(trace)
    op[work] = launching
    stack = own_stacks(trace, row, op[row])
    values = {
        f"{part}_{value}": "dur_ns" if value == "device_ns" else 0 for value in VALUES for part in ("self", "total")
    }
    made = frame.select(
        torch_names(frame["name"]).alias("key"),
        pl.col("category").cast(pl.String).alias("kind"),
        (pl.col("category") == "gpu_user_annotation").alias("is_annotation"),
        pl.lit(value=True).alias("is_on_device"),
        pl.lit(value=True).alias("is_top"),
        pl.lit("[]").alias("shapes"),
        pl.lit("").alias("overload"),
        pl.Series("stack", stack, dtype=pl.Int64),
        "start_ns",
        "dur_ns",
        pl.lit(None).alias("flops"),
        *(pl.col(of).alias(name) if isinstance(of, str) else pl.lit(of).alias(name) for name, of in values.items()),
    )
    return made.select(CALLS.keys()).cast(CALLS)  # type: ignore[arg-type]


def torch_names(names: pl.Series) -> pl.Series:
    """Return names as in torch's table, where all steps are one row."""
    return names.cast(pl.String).str.replace(r"^ProfilerStep#.*$", "ProfilerStep*")


def _torch_shapes() -> pl.Expr:
    inner = pl.col("shapes").cast(pl.String).str.strip_prefix("[").str.strip_suffix("]")
    return pl.format("[{}]", inner.str.replace_all(_TENSOR_LIST, "[]").fill_null(""))


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


def _loose_memory(trace: Trace) -> pl.DataFrame:
    """Return the allocations that lie in no event of any thread; torch has a row [memory] for them."""
    time = trace.memory["time_ns"].to_numpy()
    row, _ = _host_rows(trace)
    events = trace.events[row]
    start = events["start_ns"].to_numpy()
    open_events = np.searchsorted(np.sort(start), time, "right")
    open_events -= np.searchsorted(np.sort(start + events["dur_ns"].to_numpy()), time, "left")
    loose = open_events == 0
    deltas = {name: delta[loose] for name, delta in _deltas(trace).items()}
    values = {f"{part}_{name}": delta for name, delta in deltas.items() for part in ("self", "total")}
    frame = pl.DataFrame(values | {"start_ns": time[loose]}).with_columns(
        pl.lit("[memory]").alias("key"),
        pl.lit("memory").alias("kind"),
        pl.lit(value=False).alias("is_annotation"),
        pl.lit(value=False).alias("is_on_device"),
        pl.lit(value=True).alias("is_top"),
        pl.lit("[]").alias("shapes"),
        pl.lit("").alias("overload"),
        pl.lit(NO_PARENT).alias("stack"),
        pl.lit(None).alias("flops"),
        *(
            pl.lit(0).alias(name)
            for name in ("dur_ns", "self_cpu_ns", "total_cpu_ns", "self_device_ns", "total_device_ns")
        ),
    )
    return frame.select(CALLS.keys()).cast(CALLS)  # type: ignore[arg-type]


def _merged_into_parent(name: pl.Series, parent: IntArray) -> np.ndarray:
    """Return True for only children with the name of their parent; torch drops those nodes."""
    code = name.cast(pl.Categorical).to_physical().to_numpy()
    children = np.bincount(parent[parent >= 0], minlength=len(parent))
    has_parent = parent >= 0
    return has_parent & (code[parent] == code) & (children[parent] == 1)


def _with_merged(self_ns: IntArray, parent: IntArray, depth: IntArray, is_merged: np.ndarray) -> IntArray:
    """Add the self time of merged nodes to the node they are merged into, from the inside out."""
    total = self_ns.copy()
    for level in reversed(levels(depth)):
        rows = level[is_merged[level]]
        np.add.at(total, parent[rows], total[rows])
    return total
