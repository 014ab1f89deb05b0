"""The table that torch's own ``key_averages()`` would return for a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.analysis.flops import flops_of_events, has_flops
from torchprof_magic.analysis.shared import ask_names
from torchprof_magic.analysis.sums import LARGEST, running_sum
from torchprof_magic.model.intervals import IntArray, levels, nest, self_time
from torchprof_magic.model.shapes import Column, Table
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
_NESTED = ("cpu_op", "user_annotation", "runtime", "python_function")

# A list of tensors among the input dimensions, which torch's own table shows as an empty list.
_TENSOR_LIST = r"\[\[[^\[\]]*\](?:,\s*\[[^\[\]]*\])*\]"

COLUMNS = (
    Column(name="key", title="Name", unit="code", definition="Name of the op. All steps are one row, ProfilerStep*."),
    Column(name="kind", title="Kind", unit="text", definition="Category of the event.", is_minor=True),
    Column(
        name="count",
        title="Calls",
        unit="count",
        definition="How often the op ran. As in torch, an only child with the name of its parent is merged into it.",
    ),
    Column(
        name="self_cpu_ns",
        title="Self CPU",
        unit="ns",
        definition="Duration minus direct children (ops, annotations, runtime calls, Python frames on the thread).",
        has_bar=True,
    ),
    Column(
        name="total_cpu_ns",
        title="Total CPU",
        unit="ns",
        definition="Summed duration. As in torch, a recursive op counts at every level.",
    ),
    Column(
        name="self_cpu_bytes",
        title="Self CPU memory",
        unit="bytes",
        definition="Bytes of the op minus those of its direct children.",
    ),
    Column(
        name="total_cpu_bytes",
        title="Total CPU memory",
        unit="bytes",
        definition="Host memory allocated minus freed between start and end of the op; as in torch, by any thread.",
    ),
    Column(
        name="self_device_bytes",
        title="Self device memory",
        unit="bytes",
        definition="Device bytes of the op minus those of its direct children.",
    ),
    Column(
        name="total_device_bytes",
        title="Total device memory",
        unit="bytes",
        definition="Device memory allocated minus freed between start and end of the op; as in torch, by any thread.",
    ),
    Column(
        name="flops",
        title="FLOPs",
        unit="flop",
        definition="As in `ops`. torch counts the same for products of matrices and for `aten::conv2d`, of which the "
        "FLOPs are here those of `aten::convolution` in it; it also counts additions and multiplications of "
        "elements, which are left out here, but neither other convolutions nor a backward pass of them nor attention.",
    ),
)
_SHAPES = Column(
    name="shapes",
    title="Input shapes",
    unit="code",
    definition="Dimensions of the input tensors; as in torch, a list of tensors is shown empty.",
)
_VALUES = ("cpu_ns", "cpu_bytes", "device_bytes")


def averages_table(trace: Trace, *, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> Table:
    """Return one row per op with torch's own definitions of calls, self and total CPU time and memory.

    Unlike ``ops``, recursion counts at every level and steps and Python frames are rows, so the numbers can be checked
    against ``prof.key_averages()``. torch 2.13 records no stacks of its own, so it groups by an empty stack whatever
    ``group_by_stack_n`` says, and so does this; ``ops_by("stack")`` groups by stacks rebuilt from the Python frames.
    """
    del group_by_stack_n
    calls = pl.concat([_calls(trace), _loose_memory(trace)])
    keys = ["key", "is_annotation", "shapes"] if group_by_input_shape else ["key", "is_annotation"]
    frame = calls.group_by(keys).agg(
        pl.col("kind").first(),
        pl.len().alias("count"),
        *(_summed(f"{part}_{value}", calls.height) for value in _VALUES for part in ("self", "total")),
        pl.when(pl.col("flops").is_not_null().any()).then(pl.col("flops").sum()).alias("flops"),
    )
    columns = tuple(column for column in COLUMNS if column.name not in _absent(trace))
    columns = (*columns[:2], _SHAPES, *columns[2:]) if group_by_input_shape else columns
    frame = frame.select(column.name for column in columns).sort("self_cpu_ns", "key", descending=[True, False])
    return Table(frame=frame, columns=columns, sort_by="self_cpu_ns")


def _summed(name: str, height: int) -> pl.Expr:
    """Return the sum of a column, which stops where that of damaged values would wrap around int64."""
    highest = LARGEST // max(height, 1)
    return pl.col(name).clip(-highest, highest).sum()


def _absent(trace: Trace) -> set[str]:
    """Return the columns of what was not recorded."""
    absent = set() if has_flops(trace) else {"flops"}
    of_device = {"self_device_bytes", "total_device_bytes"}
    if trace.memory.height == 0:
        return {"self_cpu_bytes", "total_cpu_bytes", *of_device, *absent}
    return absent if trace.memory["device"].str.contains(DEVICE_MEMORY).any() else absent | of_device


def _calls(trace: Trace) -> pl.DataFrame:
    """Return one row per event that torch keeps, nested and with only children merged as torch does."""
    frame = _torch_events(trace)
    lane, start, dur = (frame[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns", "dur_ns"))
    parent, depth, _ = nest(lane, start, dur)
    name = _torch_names(frame["name"])
    is_merged = _merged_into_parent(name, parent)
    totals = {"cpu_ns": dur} | _bytes_between(trace, start, start + dur)
    selves = {name: _with_merged(self_time(parent, total), parent, depth, is_merged) for name, total in totals.items()}
    return (
        frame.select(
            name.alias("key"),
            pl.col("category").cast(pl.String).alias("kind"),
            (pl.col("category") == "user_annotation").alias("is_annotation"),
            _torch_shapes().alias("shapes"),
            "flops",
        )
        .with_columns(
            *(pl.Series(f"self_{name}", values) for name, values in selves.items()),
            *(pl.Series(f"total_{name}", values) for name, values in totals.items()),
        )
        .filter(~pl.Series(is_merged))
        .select(*_CALLS)
    )


_CALLS: dict[str, type[pl.DataType]] = {
    "key": pl.String,
    "kind": pl.String,
    "is_annotation": pl.Boolean,
    "shapes": pl.String,
    "flops": pl.Int64,
} | {f"{part}_{value}": pl.Int64 for value in _VALUES for part in ("self", "total")}


def _torch_events(trace: Trace) -> pl.DataFrame:
    is_hidden = ask_names(trace.events["name"], pl.col("name").is_in(_HIDDEN)).astype(np.bool_)
    events = trace.events.with_columns(flops_of_events(trace))
    return events.filter(pl.col("category").is_in(_NESTED), ~pl.Series(is_hidden))


def _torch_names(names: pl.Series) -> pl.Series:
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
    events, time = _torch_events(trace), trace.memory["time_ns"].to_numpy()
    start = events["start_ns"].to_numpy()
    open_events = np.searchsorted(np.sort(start), time, "right")
    open_events -= np.searchsorted(np.sort(start + events["dur_ns"].to_numpy()), time, "left")
    loose = open_events == 0
    deltas = {name: delta[loose] for name, delta in _deltas(trace).items()}
    texts = {"key": "[memory]", "kind": "memory", "is_annotation": False, "shapes": "[]"}
    values = {f"{part}_{name}": delta for name, delta in deltas.items() for part in ("self", "total")}
    frame = pl.DataFrame(values | {"self_cpu_ns": np.zeros(loose.sum(), np.int64)})
    frame = frame.with_columns(
        pl.col("self_cpu_ns").alias("total_cpu_ns"),
        pl.lit(None).alias("flops"),
        *(pl.lit(value).alias(name) for name, value in texts.items()),
    )
    return frame.select(pl.col(name).cast(dtype) for name, dtype in _CALLS.items())


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
