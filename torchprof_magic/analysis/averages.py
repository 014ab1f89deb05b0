"""What would torch's own ``key_averages()`` say of this trace?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.intervals import IntArray, levels, nest, self_time
from torchprof_magic.shapes import Column, Table

if TYPE_CHECKING:
    from torchprof_magic.trace import Trace

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

COLUMNS = (
    Column(name="key", title="Name", unit="code", definition="Name of the op; all steps are one row, ProfilerStep*."),
    Column(name="kind", title="Kind", unit="text", definition="Category of the event.", is_minor=True),
    Column(
        name="count",
        title="Calls",
        unit="count",
        definition="How often the op ran. As in torch, an only child with its parent's name is merged into it.",
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
        definition="Summed durations. As in torch, a recursive op is counted at every level.",
    ),
)


def averages_table(trace: Trace, *, group_by_input_shape: bool = False) -> Table:
    """Return one row per op with torch's own definitions of calls, self and total CPU time.

    Unlike ``ops``, recursion counts at every level and steps are a row, so the numbers can be checked against
    ``prof.key_averages()``.
    """
    events = trace.events.with_columns(pl.col("name").cast(pl.String))
    chosen = events["category"].is_in(_NESTED) & ~events["name"].is_in(_HIDDEN)
    frame = events.filter(chosen)
    lane, start, dur = (frame[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns", "dur_ns"))
    parent, depth, _ = nest(lane, start, dur)
    name = frame["name"].str.replace(r"^ProfilerStep#.*$", "ProfilerStep*")
    is_merged = _merged_into_parent(name, parent)
    self_cpu = _with_merged(self_time(parent, dur), parent, depth, is_merged)
    frame = frame.select(
        name.alias("key"), pl.col("category").cast(pl.String).alias("kind"), pl.col("shapes").cast(pl.String), "dur_ns"
    ).with_columns(pl.Series("self_cpu_ns", self_cpu), pl.Series("is_merged", is_merged))
    keys = ["key", "kind", "shapes"] if group_by_input_shape else ["key", "kind"]
    frame = frame.filter(~pl.col("is_merged") & (pl.col("kind") != "python_function"))
    frame = frame.group_by(keys).agg(
        pl.len().alias("count"), pl.col("self_cpu_ns").sum(), pl.col("dur_ns").sum().alias("total_cpu_ns")
    )
    shapes = Column(name="shapes", title="Input shapes", unit="code", definition="Dimensions of the input tensors.")
    columns = (*COLUMNS[:2], shapes, *COLUMNS[2:]) if group_by_input_shape else COLUMNS
    frame = frame.select(column.name for column in columns).sort("self_cpu_ns", "key", descending=[True, False])
    return Table(frame=frame, columns=columns, sort_by="self_cpu_ns")


def _merged_into_parent(name: pl.Series, parent: IntArray) -> np.ndarray:
    """Return True for only children that carry their parent's name; torch drops those nodes."""
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
