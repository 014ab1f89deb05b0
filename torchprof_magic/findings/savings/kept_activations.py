"""The activations that each call of a module keeps for its backward pass."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.memory.block_categories import block_categories, memory_ops
from torchprof_magic.facts.memory.blocks import DEVICE_ROUND_BYTES, memory_blocks
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.source.attribution import is_repeated
from torchprof_magic.facts.source.forward_of import backward_nodes, forward_of_events
from torchprof_magic.facts.sums import range_max
from torchprof_magic.model.trace import MEMORY_CATEGORIES
from torchprof_magic.tables.source.modules import module_runs

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

_SHAPE = re.compile(r"\[([0-9, ]*)\](?: ×([0-9]+))?")
_ITEM_BYTES = (1, 2, 4, 8)
# Outputs of more elements than any memory holds are damaged.
_MOST_ELEMENTS = 2**50
_LATEST = 2**62


class ForwardCalls(NamedTuple):
    """Calls of the forward of modules whose backward pass was recorded too; ``site`` is a row of ``sites``.

    A module that calls itself has only its outer calls. Times are ns.
    """

    sites: pl.DataFrame
    site: IntArray
    lane: IntArray
    start_ns: IntArray
    end_ns: IntArray
    backward_start_ns: IntArray
    backward_end_ns: IntArray


class KeptActivations(NamedTuple):
    """One row per call and activation that was allocated in the call and outlives it; sorted by call.

    ``call`` is an index into ``calls``, ``block`` one of ``memory_blocks``, which is in several rows if calls are
    nested. ``is_output`` is true for what the call returns, and ``is_kept`` for the others that are released in the
    backward pass of the call: that is what they were kept for.
    """

    calls: ForwardCalls
    call: IntArray
    block: IntArray
    is_output: BoolArray
    is_kept: BoolArray


class Inputs(NamedTuple):
    """One row per call and activation that it gets as an argument; not all of them are known."""

    call: IntArray
    block: IntArray


@once_per_trace
def inputs_of_calls(trace: Trace) -> Inputs:
    """Return for the calls of ``kept_activations`` the activations that they get: the last ones of these shapes.

    Of several arguments of one shape, only the one that was allocated last is found.
    """
    calls, blocks = kept_activations(trace).calls, memory_blocks(trace)
    chosen = _activations(trace)
    born = trace.memory["time_ns"].to_numpy()[blocks.born[chosen]]
    known = pl.DataFrame(
        {
            "block": chosen,
            "born_ns": born,
            "ended_ns": _ends(trace, chosen),
            "size": blocks.size_bytes[chosen],
            "on_host": blocks.groups.is_host[blocks.group[chosen]],
        }
    )
    asked = pl.DataFrame({"site": calls.site, "start_ns": calls.start_ns}).with_row_index("call")
    asked = asked.join(_sizes_of(calls, "inputs"), on="site", how="inner").sort("start_ns")
    found = asked.join_asof(
        known, left_on="start_ns", right_on="born_ns", by=["size", "on_host"], check_sortedness=False
    ).filter(pl.col("ended_ns") > pl.col("start_ns"))
    found = found.sort("call", "shape", "born_ns").group_by("call", "shape", maintain_order=True).last()
    return Inputs(*(found[name].to_numpy().astype(np.int64) for name in ("call", "block")))


@once_per_trace
def kept_activations(trace: Trace) -> KeptActivations:
    """Return what each call of a module keeps for backward; empty if no module or no backward pass was recorded."""
    calls = _calls(trace)
    call, block = _pairs(trace, calls)
    is_output = _is_output(trace, calls, call, block)
    ended = _ends(trace, block)
    is_kept = (ended > calls.backward_start_ns[call]) & (ended <= calls.backward_end_ns[call]) & ~is_output
    return KeptActivations(calls, call, block, is_output, is_kept)


def _calls(trace: Trace) -> ForwardCalls:
    sites, runs = module_runs(trace)
    start, end = runs.start_ns, runs.start_ns + runs.dur_ns
    backward_start, backward_end = _backward_of(trace, runs.lane, start, end)
    # What ran inside a backward pass, or on its lane before the call ended, is no backward pass of the call.
    chosen = np.flatnonzero((backward_start >= end) & (backward_end > 0) & ~is_repeated(runs))
    return ForwardCalls(
        sites,
        *(column[chosen] for column in (runs.site, runs.lane, start, end, backward_start, backward_end)),
    )


def _backward_of(trace: Trace, lane: IntArray, start: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """Return when the first node of autograd of each call begins, and when the last one ends; -1 without any."""
    events = trace.events
    nodes = backward_nodes(trace).row
    forward = forward_of_events(trace)[nodes]
    at = events["start_ns"].to_numpy()
    node_lane, made = events["lane"].to_numpy()[forward].astype(np.int64), at[forward]
    begins, ends = at[nodes], (events["start_ns"] + events["dur_ns"]).to_numpy()[nodes]
    first, last = np.full(len(lane), -1, np.int64), np.full(len(lane), -1, np.int64)
    for number in np.unique(lane).tolist():  # threads are few
        mine = np.flatnonzero(node_lane == number)
        mine = mine[np.argsort(made[mine], kind="stable")]
        here = np.flatnonzero(lane == number)
        low = np.searchsorted(made[mine], start[here], side="left")
        high = np.searchsorted(made[mine], end[here], side="right")
        has_any = low < high
        here, low, high = here[has_any], low[has_any], high[has_any]
        if len(here):
            first[here] = -range_max(-begins[mine], low, high)
            last[here] = range_max(ends[mine], low, high)
    return first, last


def _pairs(trace: Trace, calls: ForwardCalls) -> tuple[IntArray, IntArray]:
    """Return the call and the block of each row of ``KeptActivations``."""
    memory, blocks = trace.memory, memory_blocks(trace)
    block = _activations(trace)
    event = memory["event"].to_numpy()[blocks.born[block]]
    lanes = np.append(trace.events["lane"].to_numpy(), -1)[event].astype(np.int64)
    born = memory["time_ns"].to_numpy()[blocks.born[block]]
    found_call, found_block = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number in np.unique(calls.lane).tolist():  # threads are few
        mine = np.flatnonzero(lanes == number)  # in order of time
        here = np.flatnonzero(calls.lane == number)
        low = np.searchsorted(born[mine], calls.start_ns[here], side="left")
        high = np.searchsorted(born[mine], calls.end_ns[here], side="right")
        count = high - low
        found_call.append(np.repeat(here, count))
        offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        found_block.append(block[mine[np.repeat(low, count) + offset]])
    call, block = np.concatenate(found_call), np.concatenate(found_block)
    outlives = _ends(trace, block) > calls.end_ns[call]
    call, block = call[outlives], block[outlives]
    order = np.argsort(call, kind="stable")
    return call[order], block[order]


def _activations(trace: Trace) -> IntArray:
    """Return the activations that were allocated in the recording, in order of time."""
    is_activation = block_categories(trace) == MEMORY_CATEGORIES.index("activation")
    return np.flatnonzero(is_activation & (memory_blocks(trace).born >= 0))


def _ends(trace: Trace, block: IntArray) -> IntArray:
    """Return when blocks are gone, in ns."""
    return np.append(trace.memory["time_ns"].to_numpy(), _LATEST)[memory_blocks(trace).ended[block]]


def _is_output(trace: Trace, calls: ForwardCalls, call: IntArray, block: IntArray) -> BoolArray:
    """Return which blocks hold what their call returns.

    Those are the last ones with the shape of an output, or, where no shape is known or none fits, the largest one of
    the last op of the call that kept any.
    """
    blocks, of_op = memory_blocks(trace), memory_ops(trace).outer
    frame = pl.DataFrame(
        {
            "call": call,
            "site": calls.site[call],
            "op": of_op[blocks.born[block]],
            "born": blocks.born[block],
            "size": blocks.size_bytes[block],
            "on_host": blocks.groups.is_host[blocks.group[block]],
        }
    ).with_row_index("pair")
    fits = frame.join(_sizes_of(calls, "outputs"), on=["site", "size", "on_host"], how="inner")
    # Of what one op allocated, the result is the largest: a mask or a mean has the same shape at most.
    fits = fits.unique(["pair", "shape"]).sort("call", "shape", "op", "size", "born")
    fits = fits.filter(pl.int_range(pl.len()).reverse().over("call", "shape") < pl.col("count"))
    others = frame.join(fits.select("call"), on="call", how="anti").sort("call", "op", "size", "born")
    found = np.zeros(len(call), np.bool_)
    found[fits["pair"].to_numpy()] = True
    found[others.group_by("call", maintain_order=True).last()["pair"].to_numpy()] = True
    return found


def _sizes_of(calls: ForwardCalls, column: str) -> pl.DataFrame:
    """Return the sizes that the inputs or outputs of each site can have, one row for each size of an element."""
    texts = calls.sites.select(pl.int_range(pl.len()).alias("site"), pl.col(column).cast(pl.String)).drop_nulls()
    rows = []
    for text in texts[column].unique().to_list():  # shapes repeat from layer to layer
        counts: dict[int, int] = {}
        for shape, times in _SHAPE.findall(text):
            elements = np.prod([float(size) for size in re.findall("[0-9]+", shape)])
            if 0 < elements < _MOST_ELEMENTS:
                counts[int(elements)] = counts.get(int(elements), 0) + int(times[:9] or 1)
        rows += [
            (text, number, elements * item, on_host, count)
            for number, (elements, count) in enumerate(counts.items())
            for item in _ITEM_BYTES
            for on_host in (True, False)
        ]
    schema = {column: pl.String, "shape": pl.Int64, "size": pl.Int64, "on_host": pl.Boolean, "count": pl.Int64}
    sizes = pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        pl.when("on_host")
        .then("size")
        .otherwise((pl.col("size") + DEVICE_ROUND_BYTES - 1) // DEVICE_ROUND_BYTES * DEVICE_ROUND_BYTES)
        .alias("size")
    )
    return texts.join(sizes, on=column, how="inner").drop(column).unique()
