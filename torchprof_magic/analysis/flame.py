"""The merged call tree, from Python down to kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from torchprof_magic.analysis.calls import nest_among, ops_around
from torchprof_magic.analysis.phases import PHASE, PHASES, phase_of_events
from torchprof_magic.analysis.shared import launch_sources, once_per_trace
from torchprof_magic.model.intervals import (
    NO_PARENT,
    BoolArray,
    IntArray,
    depth_of,
    levels,
    merge_paths,
    own_time,
    rolled_up,
)
from torchprof_magic.model.shapes import Tree, Weight
from torchprof_magic.model.trace import DEVICE_CATEGORIES, STEP_PATTERN, Trace

if TYPE_CHECKING:
    from torchprof_magic.model.meta import Meta

KINDS = ("root", "annotation", "op", "python", "runtime", "kernel")
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

# Frames of the notebook and of the profiler itself, which are around every cell and not part of the program.
_PLUMBING = (
    r"(^|/)(IPython|ipykernel|traitlets|tornado|asyncio|torchprof_magic)/|^runpy\.py|^<frozen runpy>"
    r"|(^|/)ipykernel_launcher\.py|(^|/)torch/profiler/|^torch/autograd/profiler\.py"
    r"|^(asyncio|concurrent)/|^threading\.py\(\d+\): (_bootstrap|run)"
)
ROOT_NAME = "all"


class _Calls(NamedTuple):
    """Every event that gets a box, with the box around it; rows stand after their parents."""

    name: pl.Series
    kind: npt.NDArray[np.int64]
    phase: npt.NDArray[np.int64]
    parent: IntArray
    self_cpu_ns: IntArray
    self_device_ns: IntArray


@once_per_trace
def flame_tree(trace: Trace) -> Tree:
    """Return the call tree of all threads, equal paths merged, widest first.

    Kernels, copies and fills hang under the op that launched them. Weights are ns: ``cpu`` is host time, ``device``
    the summed time of device work.
    """
    calls = _calls(trace)
    name = calls.name.cast(pl.Categorical).to_physical().to_numpy().astype(np.int64)
    path, first = merge_paths(calls.parent, np.unique(name * len(KINDS) + calls.kind, return_inverse=True)[1])
    frame = _summed(calls, path, first)
    device = (Weight(name="device_ns", title="Device", unit="ns"),) if trace.has_device else ()
    weights = (
        Weight(name="cpu_ns", title="CPU", unit="ns"),
        *device,
        Weight(name="calls", title="Calls", unit="count"),
    )
    return Tree(frame=_in_preorder(frame), weights=weights)


def _calls(trace: Trace) -> _Calls:
    events = trace.events
    boxes, device = nest_among(trace, _visible_on_host(trace)), _device_rows(trace)
    host = boxes.row
    start, dur = (events[name].to_numpy()[host] for name in ("start_ns", "dur_ns"))
    rows = np.concatenate((host, device))
    name = events["name"].cast(pl.String)[rows]
    distinct = name.unique()  # a trace has millions of rows but few names
    name = name.replace_strict(distinct, _readable(distinct, trace.meta))
    kind = events["category"][rows].cast(pl.String).replace_strict(_KIND_OF, return_dtype=pl.String)
    nothing = np.zeros(len(device), np.int64)
    return _Calls(
        name=name,
        kind=kind.cast(KIND).to_physical().to_numpy().astype(np.int64),
        phase=phase_of_events(trace)[rows].astype(np.int64),
        parent=np.concatenate((boxes.parent, ops_around(trace, boxes, launch_sources(trace)[device]))),
        self_cpu_ns=np.concatenate((own_time(boxes.parent, start, dur, boxes.overlaps), nothing)),
        self_device_ns=np.concatenate((np.zeros(len(host), np.int64), events["dur_ns"].to_numpy()[device])),
    )


def _visible_on_host(trace: Trace) -> BoolArray:
    """Return which events are host events of the user's program; runtime calls stay with their op.

    With stacks, torch records every thread of the process. Threads without ops belong to the notebook (its sockets, its
    progress bar) and would only show waiting.
    """
    category = pl.col("category")
    is_op = category.is_in(("cpu_op", "user_annotation"))
    is_plumbing = pl.col("name").cast(pl.String).is_in(_plumbing(trace).implode())
    is_useful_frame = (category == "python_function") & ~is_plumbing & (is_op.any().over("lane") | ~is_op.any())
    return trace.events.select((is_op | is_useful_frame).alias("shown"))["shown"].to_numpy()


def _plumbing(trace: Trace) -> pl.Series:
    """Return the names of Python frames that say nothing: the machinery's, and the cell's own around all of it."""
    frames = trace.events.filter(pl.col("category") == "python_function")["name"].unique().cast(pl.String)
    file = frames.str.extract(r"^(.*)\(\d+\): <module>$")
    is_cell = file.is_in([filename for filename, _ in trace.meta.cell_labels]).fill_null(value=False)
    return frames.filter(frames.str.contains(_PLUMBING) | is_cell)


def _readable(name: pl.Series, meta: Meta) -> pl.Series:
    """Return readable names: all steps are one box, and cells have the names that the notebook shows."""
    name = name.str.replace(STEP_PATTERN, "ProfilerStep")
    labels = dict(meta.cell_labels)
    parts = name.str.extract_groups(r"^(?<file>.*)(?<line>\((\d+)\))(?<rest>: .*)$").struct
    label = parts.field("file").replace_strict(labels, default=None, return_dtype=pl.String) if labels else None
    if label is None:
        return name
    frame = pl.DataFrame({"name": name, "label": label, "line": parts.field("line"), "rest": parts.field("rest")})
    labelled = pl.format("{} line {}{}", "label", pl.col("line").str.strip_chars("()"), "rest")
    return frame.select(pl.coalesce(labelled, "name").alias("name"))["name"]


def _device_rows(trace: Trace) -> IntArray:
    return np.flatnonzero(trace.events["category"].is_in(DEVICE_CATEGORIES).to_numpy())


def _summed(calls: _Calls, path: IntArray, first: IntArray) -> pl.DataFrame:
    """Return one row per path: its kind, the path above it, and its own weights; row 0 is the root."""
    count = len(first)
    parent_call = calls.parent[first]
    parent = np.where(parent_call >= 0, path[parent_call] + 1, 0)

    def total(values: IntArray) -> IntArray:
        return np.bincount(path, weights=values, minlength=count).astype(np.int64)

    name = calls.name[first]
    return pl.DataFrame(
        {
            "name": pl.concat([pl.Series([ROOT_NAME]), name]),
            "parent": np.concatenate(([NO_PARENT], parent)),
            "kind": np.concatenate(([KINDS.index("root")], calls.kind[first])),
            "phase": np.concatenate(([PHASES.index("python")], _main_phase(calls, path, count))),
            "self_cpu_ns": np.concatenate(([0], total(calls.self_cpu_ns))),
            "self_device_ns": np.concatenate(([0], total(calls.self_device_ns))),
            "self_calls": np.concatenate(([0], np.bincount(path, minlength=count))),
        }
    )


def _main_phase(calls: _Calls, path: IntArray, count: int) -> IntArray:
    """Return the phase in which each path spent most of its own time."""
    weight = calls.self_cpu_ns + calls.self_device_ns + 1
    table = np.bincount(path * len(PHASES) + calls.phase, weights=weight, minlength=count * len(PHASES))
    return table.reshape(count, len(PHASES)).argmax(axis=1)


def _in_preorder(frame: pl.DataFrame) -> pl.DataFrame:
    """Add totals and order the rows so that every box is followed by what is inside, widest first."""
    parent = frame["parent"].to_numpy()
    totals = {
        weight: rolled_up(frame[f"self_{weight}"].to_numpy(), parent) for weight in ("cpu_ns", "device_ns", "calls")
    }
    boxes = rolled_up(np.ones(len(parent), np.int64), parent)
    siblings = np.lexsort((-totals["device_ns"], -totals["cpu_ns"], parent))
    position = _preorder_positions(parent, boxes, siblings)
    order = np.argsort(position)
    columns = [pl.Series(f"total_{name}", values).cast(pl.Float64) for name, values in totals.items()]
    frame = frame.with_columns(*columns)[order]
    moved = np.where(frame["parent"].to_numpy() >= 0, position[np.maximum(frame["parent"].to_numpy(), 0)], NO_PARENT)
    return frame.select(
        pl.Series("parent", moved, dtype=pl.Int32),
        pl.col("name").cast(pl.Categorical),
        _named(pl.col("kind"), KINDS, KIND),
        _named(pl.col("phase"), PHASES, PHASE),
        *(pl.col(f"{part}_{name}").cast(pl.Float64) for name in totals for part in ("self", "total")),
    )


def _named(code: pl.Expr, names: tuple[str, ...], dtype: pl.Enum) -> pl.Expr:
    return code.replace_strict(dict(enumerate(names)), return_dtype=pl.String).cast(dtype)


def _preorder_positions(parent: IntArray, boxes: IntArray, siblings: IntArray) -> IntArray:
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
