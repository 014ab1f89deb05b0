"""The Python stacks that torch gives its events, where it gives them any."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.ops.calls import Nest, nest_among, ops_around
from torchprof_magic.facts.shared import ask_event_names, in_category, once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, merge_paths
from torchprof_magic.model.rows import filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.model.trace import Trace

RANGE_OF_NODE = "autograd::engine::evaluate_function: "
# Frames that torch leaves out: those that contain both texts (torch/autograd/profiler_util.py, _filter_stack_entry).
_LEFT_OUT = (
    ("autograd/__init__", "_make_grads"),
    ("autograd/__init__", "backward"),
    ("torch/tensor", "backward"),
    ("_internal/common_utils", "prof_callable"),
    ("_internal/common_utils", "prof_func_call"),
    ("_internal/common_utils", "prof_meth_call"),
)


class StackTree(NamedTuple):
    """Distinct stacks: the innermost frame of each, and the stack of its caller, an earlier row or -1.

    ``frames`` nests the Python frames alone, and ``of_frame`` is the stack that each of them makes.
    """

    name: pl.Series
    parent: IntArray
    frames: Nest
    of_frame: IntArray


@once_per_trace
def stack_tree(trace: Trace) -> StackTree:
    """Return the stacks of a trace.

    A range begins in the frame of the function that enters it, and outlives it. So frames are nested without ranges.
    """
    frames = nest_among(trace, in_category(trace, "python_function"))
    if len(frames.row) == 0:  # torch of 2021 wrote texts instead
        parent = trace.stacks["parent"].to_numpy().astype(np.int64)
        return StackTree(trace.stacks["name"].cast(pl.String), parent, frames, np.empty(0, np.int64))
    names = trace.events["name"].gather(frames.row)
    path, first = merge_paths(frames.parent, names.to_physical().to_numpy().astype(np.int64))
    above = frames.parent[first]
    return StackTree(names.gather(first).cast(pl.String), np.where(above >= 0, path[above], NO_PARENT), frames, path)


def own_stacks(trace: Trace, row: IntArray, op_around: IntArray) -> IntArray:
    """Return the stack of each event row, a row of ``stack_tree``, or -1.

    It is that of the moment in which the event begins; a Python function has the stack of its caller. Runtime calls and
    device work have that of the op that they belong to, a row of ``events`` in ``op_around``, and none without.
    """
    is_torchs = in_category(trace, "cpu_op", "user_annotation", "python_function")[row]
    asked = np.where(is_torchs, row, op_around)
    found = _stacks_at(trace, asked)
    found[asked < 0] = NO_PARENT
    return np.where(in_category(trace, "python_function")[row], _stacks_of_callers(trace, row), found)


def _stacks_at(trace: Trace, row: IntArray) -> IntArray:
    """Return the stack in which each event row begins."""
    tree = stack_tree(trace)
    if len(tree.frames.row) == 0:
        stack = filled(trace.events["stack"], NO_PARENT)
        return stack[row] if len(stack) else row.copy()
    start = trace.events["start_ns"].to_numpy()[row]
    frame = ops_around(trace, tree.frames, row, start)
    return np.append(tree.of_frame, NO_PARENT)[frame]


def _stacks_of_callers(trace: Trace, row: IntArray) -> IntArray:
    """Return the stack of the caller of each row that is a frame, else -1."""
    tree = stack_tree(trace)
    caller = np.full(trace.events.height + 1, NO_PARENT, np.int64)
    caller[tree.frames.row] = np.append(tree.of_frame, NO_PARENT)[tree.frames.parent]
    return caller[row]


def with_forward_stacks(
    trace: Trace, row: IntArray, parent: IntArray, turns: Sequence[IntArray], stack: IntArray
) -> IntArray:
    """Return the stacks with that of the forward op for all that a node of autograd ran.

    That op is the first one of the same sequence number on the thread of the forward pass. ``row`` are event rows,
    nested by ``parent``, whose levels are ``turns``.
    """
    events, is_node = trace.events, _nodes(trace, row, parent)
    if not is_node.any():
        return stack
    node = np.where(is_node, np.arange(len(row)), NO_PARENT)
    for level in turns[1:]:
        inner = level[node[level] < 0]
        node[inner] = node[parent[inner]]
    ops = pl.DataFrame(
        {
            "sequence": events["sequence"].gather(row).fill_null(NO_PARENT),
            "lane": events["lane"].gather(row).cast(pl.Int64),
            "start_ns": events["start_ns"].gather(row),
            "end_ns": events["start_ns"].gather(row) + events["dur_ns"].gather(row),
            "stack": stack,
        }
    )
    first = ops.filter(pl.Series(node < 0), pl.col("sequence") >= 0).sort(
        "start_ns", "end_ns", descending=[False, True]
    )
    first = first.unique(["sequence", "lane"], keep="first", maintain_order=True)
    nodes = np.flatnonzero(is_node)
    wanted = ops.select("sequence").with_columns(pl.Series("lane", _forward_lanes(trace, row)))[nodes]
    known = wanted.join(first, on=["sequence", "lane"], how="left", maintain_order="left")["stack"]
    of_node = np.full(len(row), NO_PARENT, np.int64)
    of_node[nodes] = known.fill_null(NO_PARENT).to_numpy()
    return np.where(node >= 0, of_node[node], stack)


def _nodes(trace: Trace, row: IntArray, parent: IntArray) -> BoolArray:
    """Return which ops are nodes of autograd: the engine puts a range with their name around each."""
    is_range = ask_event_names(trace, pl.col("name").str.starts_with(RANGE_OF_NODE)).astype(np.bool_)
    inside = np.flatnonzero(in_category(trace, "cpu_op")[row] & np.append(is_range[row], False)[parent])
    above, names = (trace.events["name"].gather(rows).cast(pl.String) for rows in (row[parent[inside]], row[inside]))
    found = np.zeros(len(row), np.bool_)
    found[inside] = (above == RANGE_OF_NODE + names).to_numpy()
    return found


def _forward_lanes(trace: Trace, row: IntArray) -> pl.Series:
    """Return the lane of the thread on which the forward op of each event ran, -1 if unknown.

    The file has autograd's own numbers of threads. Which lane each is, the links between the passes tell.
    """
    events, links = trace.events, trace.flows.filter(pl.col("kind") == "backward")
    pairs = pl.DataFrame(
        {
            "number": events["fwd_thread"].gather(links["target"]),
            "lane": events["lane"].gather(links["source"]).cast(pl.Int64),
        }
    ).drop_nulls()
    lanes = pairs.group_by("number").agg(pl.col("lane").mode().min())
    numbers = events["fwd_thread"].gather(row)
    return numbers.replace_strict(lanes["number"], lanes["lane"], default=NO_PARENT, return_dtype=pl.Int64).fill_null(
        NO_PARENT
    )


def frames_of(trace: Trace, stacks: Sequence[int], most: int | None = None) -> dict[int, tuple[str, ...]]:
    """Return the frames of each stack, the innermost first and at most ``most``, without those that torch leaves out.

    The loop runs over distinct stacks, not over events.
    """
    tree = stack_tree(trace)
    names = [None if _is_left_out(name) else name for name in tree.name.to_list()]
    parents = tree.parent.tolist()
    found: dict[int, tuple[str, ...]] = {}
    for stack in stacks:
        frames: list[str] = []
        at = stack
        while at >= 0 and (most is None or len(frames) < most):
            if (name := names[at]) is not None:
                frames.append(name)
            at = parents[at]
        found[stack] = tuple(frames)
    return found


def _is_left_out(name: str) -> bool:
    return any(first in name and second in name for first, second in _LEFT_OUT)
