"""What the calls of ops have to do, and which of the recorded time each call took for it.

On a trace with a device, that is the time of its kernels; on one without, the time of the op on the host.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_work import graph_work, is_captured, origins
from torchprof_magic.facts.device.kernel_types import type_in
from torchprof_magic.facts.device.unrecorded import signs_of_device
from torchprof_magic.facts.ops.calls import Nest, nest_among, ops_around
from torchprof_magic.facts.ops.formulas import formula_of, read_inputs, work_of
from torchprof_magic.facts.ops.hints import gradients_of_results, tensors_inside
from torchprof_magic.facts.shared import (
    ask_event_names,
    device_rows,
    in_category,
    is_named,
    launch_sources,
    once_per_trace,
)
from torchprof_magic.model.dtypes import KINDS, kind_of_type
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, marked_above, nearest_marked
from torchprof_magic.model.rows import are_known, values_at
from torchprof_magic.model.vendors import COLLECTIVE_KERNEL

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.facts.ops.formulas import Work
    from torchprof_magic.model.trace import Trace

    Floats = npt.NDArray[np.float64]

_KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
_CALL = ("name", "shapes", "dtypes", "concrete_inputs")
# Copies on one device, whose bytes are read and written in its own memory.
_ON_DEVICE = r"DtoD|Device\s*->\s*Device"


# How many ops with formulas lie in one another at most: aten::stack, aten::cat, and what a compiler puts around.
_NESTED = 4
# Ranges of a server's step that say how long the requests are.
_LENGTHS = r"\bexecute_.*sqsk[0-9]"


class TimedWork(NamedTuple):
    """Pieces of recorded time with what was done in each: kernels, or ops on the host, one row per event.

    ``row`` is the event, and ``op`` the event of the op that it is of. ``share`` is the part of the call's work that is
    done in it: all of it, unless a call has several kernels. ``flops`` are the operations and ``bytes`` what has to be
    moved, nan where they are not known. ``kind`` is the number of the type among ``KINDS``, or -1, and ``is_matrix`` is
    set for products.
    """

    row: IntArray
    op: IntArray
    share: Floats
    flops: Floats
    bytes: Floats
    kind: IntArray
    is_matrix: BoolArray


_NONE = np.empty(0, np.int64)
_NO_WORK = TimedWork(_NONE, _NONE, np.empty(0), np.empty(0), np.empty(0), _NONE, np.empty(0, np.bool_))


@once_per_trace
def timed_work(trace: Trace) -> TimedWork:
    """Return all time of which the work is known; each piece once.

    Where a device worked that was not recorded, the time of the host is that of launching, and tells nothing of it.
    """
    if not trace.has_device and signs_of_device(trace) is not None:
        return _NO_WORK
    calls = _candidates(trace)
    if trace.has_device:
        return _on_device(trace, calls)
    flops, moved, kind, is_matrix = calls.evaluated(trace, calls.rows, np.full(len(calls.rows), NO_PARENT, np.int64))
    at = _outermost(trace, calls, flops)
    rows = calls.rows[at]
    return TimedWork(rows, rows, np.ones(len(rows)), flops[at], moved[at], kind[at], is_matrix[at])


class _Calls(NamedTuple):
    """Calls of ops that have a formula: their rows, and the first kernel of each, or -1."""

    rows: IntArray
    kernel: IntArray

    def evaluated(self, trace: Trace, rows: IntArray, launch: IntArray) -> tuple[Floats, Floats, IntArray, BoolArray]:
        """Return operations, bytes, kind and whether it is a product of some of these calls.

        ``launch`` is the call that launched the graph of which each is a replay, or -1.
        """
        kernels = self.kernel[np.searchsorted(self.rows, rows)]
        calls = trace.events.select(_CALL)[rows].with_columns(
            _types_of_lists(trace, rows, kernels),
            _contexts(trace, rows, launch),
            gradients_of_results(trace, rows),
            tensors_inside(trace, rows),
        )
        # A trace has millions of calls but few distinct ones.
        distinct = calls.unique(maintain_order=True).with_row_index("number")
        texts = distinct.drop("number").select(pl.all().cast(pl.String)).rows()
        works = [work_of(name, read_inputs(*rest)) for name, *rest in texts]
        joined = calls.join(distinct, on=calls.columns, how="left", nulls_equal=True, maintain_order="left")
        number = joined["number"].to_numpy().astype(np.int64)
        flops, moved, kinds, is_matrix = (column[number] for column in _columns(works))
        is_tf32 = np.append(is_named(trace, r"tf32|TF32|s1688|xf32"), False)[kernels]
        kinds[is_matrix & is_tf32 & (kinds == _KIND_NUMBERS["f32"])] = _KIND_NUMBERS["tf32"]
        return flops, moved, kinds, is_matrix


def _columns(works: list[Work | None]) -> tuple[Floats, Floats, IntArray, BoolArray]:
    """Return operations, bytes, kind and whether it is a product of each, nan and -1 for what is not known."""
    flops = [np.nan if work is None else work.flops for work in works]
    moved = [np.nan if work is None or work.bytes is None else work.bytes for work in works]
    kinds = [-1 if work is None else _kind_number(work.dtype) for work in works]
    is_matrix = [work is not None and work.is_matrix for work in works]
    return np.array(flops, float), np.array(moved, float), np.array(kinds, np.int64), np.array(is_matrix, np.bool_)


@cache
def _kind_number(dtype: str) -> int:
    return _KIND_NUMBERS.get(kind_of_type(dtype), -1)


def _candidates(trace: Trace) -> _Calls:
    """Return the calls of all ops that have a formula and recorded shapes."""
    events = trace.events
    names = events["name"].unique().cast(pl.String).to_list()
    known = [name for name in names if formula_of(name) is not None]
    has_formula = ask_event_names(trace, pl.col("name").is_in(known)).astype(np.bool_)
    is_call = has_formula & in_category(trace, "cpu_op") & are_known(events["shapes"])
    rows = np.flatnonzero(is_call)
    kernel = np.full(len(rows), NO_PARENT, np.int64)
    if trace.has_device and len(rows):
        work, at = _kernels_of(trace, nest_among(trace, is_call))
        kernel[at[::-1]] = work[::-1]
        _hand_up(trace, rows, kernel)
    return _Calls(rows, kernel)


def _hand_up(trace: Trace, rows: IntArray, kernel: IntArray) -> None:
    """Give calls without a kernel of their own the first one of a call inside."""
    parent = trace.events["parent"].to_numpy()
    place = np.full(trace.events.height + 1, NO_PARENT, np.int64)
    place[rows] = np.arange(len(rows))
    around = place[marked_above(parent, place[:-1] >= 0, parent[rows].astype(np.int64))]
    for _ in range(_NESTED):
        gives = np.flatnonzero((kernel >= 0) & (around >= 0))[::-1]
        gives = gives[kernel[around[gives]] < 0]
        kernel[around[gives]] = kernel[gives]


def _kernels_of(trace: Trace, calls: Nest) -> tuple[IntArray, IntArray]:
    """Return the kernels and copies that belong to the innermost of some calls, and the index of each call."""
    work = device_rows(trace)
    at = ops_around(trace, calls, origins(trace)[work])
    return work[at >= 0].astype(np.int64), at[at >= 0]


def _types_of_lists(trace: Trace, rows: IntArray, kernels: IntArray) -> pl.Series:
    """Return the type that the kernel of each call works on, for calls with lists of tensors; empty for others."""
    has_list = trace.events["dtypes"][rows].cast(pl.String).str.contains("TensorList", literal=True)
    names = values_at(trace.events["name"], np.maximum(kernels, 0)).cast(pl.String)
    wanted = has_list.fill_null(value=False) & pl.Series(kernels >= 0)
    distinct = names.filter(wanted).unique().to_list()
    types = {name: type_in(name) for name in distinct}
    found = names.replace_strict(types, default="", return_dtype=pl.String)
    return found.set(~wanted, "").alias("kernel_type")


def _contexts(trace: Trace, rows: IntArray, launch: IntArray) -> pl.Series:
    """Return the range around each call, or around its replay, that says how long its requests are; empty for none."""
    is_step = is_named(trace, _LENGTHS, "user_annotation")
    if not is_step.any():
        return pl.Series("context", [""], dtype=pl.String).new_from_index(0, len(rows))
    around = marked_above(trace.events["parent"].to_numpy(), is_step, np.where(launch >= 0, launch, rows))
    names = values_at(trace.events["name"], np.maximum(around, 0)).cast(pl.String)
    return names.set(pl.Series(around < 0), "").alias("context")


def _outermost(trace: Trace, calls: _Calls, flops: Floats) -> IntArray:
    """Return which calls have known work and lie in none of the others that do."""
    known = np.flatnonzero(~np.isnan(flops))
    rows = calls.rows[known]
    is_marked = np.zeros(trace.events.height, np.bool_)
    is_marked[rows] = True
    parent = trace.events["parent"].to_numpy()
    around = nearest_marked(parent, trace.events["depth"].to_numpy(), is_marked)
    return known[around[parent[rows]] < 0]


def _any_replay(trace: Trace, rows: IntArray) -> IntArray:
    """Return for each call that was captured a call that replays some graph, else -1."""
    replays = graph_work(trace).replays
    if len(replays) == 0:
        return np.full(len(rows), NO_PARENT, np.int64)
    return np.where(is_captured(trace)[rows], replays[0], NO_PARENT)


def _on_device(trace: Trace, calls: _Calls) -> TimedWork:
    """Return the kernels whose work is known; copies between devices and collectives are other matters."""
    flops, _, _, _ = calls.evaluated(trace, calls.rows, _any_replay(trace, calls.rows))
    chosen = _outermost(trace, calls, flops)
    calls = _Calls(calls.rows[chosen], calls.kernel[chosen])
    is_call = np.zeros(trace.events.height, np.bool_)
    is_call[calls.rows] = True
    work, at = _kernels_of(trace, nest_among(trace, is_call))
    is_other = is_named(trace, COLLECTIVE_KERNEL, "kernel") | _leaves_device(trace)
    work, at = work[~is_other[work]], at[~is_other[work]]
    launch = np.where(graph_work(trace).is_graph[work], launch_sources(trace)[work], NO_PARENT).astype(np.int64)
    keys, first, of = np.unique(at * (trace.events.height + 1) + launch + 1, return_index=True, return_inverse=True)
    dur = trace.events["dur_ns"].to_numpy()[work].astype(np.float64)
    whole = np.bincount(of, weights=dur, minlength=len(keys))
    pieces = np.bincount(of, minlength=len(keys))
    share = np.where(whole[of] > 0, dur / np.maximum(whole[of], 1), 1 / np.maximum(pieces[of], 1))
    rows = calls.rows[at[first]]
    flops, moved, kind, is_matrix = calls.evaluated(trace, rows, launch[first])
    known = ~np.isnan(flops)[of]
    of, work, share = of[known], work[known], share[known]
    return TimedWork(work, rows[of], share, flops[of] * share, moved[of] * share, kind[of], is_matrix[of])


def _leaves_device(trace: Trace) -> BoolArray:
    """Return which events are copies that are not within the memory of one device."""
    return in_category(trace, "memcpy") & ~is_named(trace, _ON_DEVICE, "memcpy")
