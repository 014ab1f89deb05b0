"""What each block of memory is used for.

Tags of a live run decide. Blocks without one are judged by where they were allocated and released: by op, phase and
lifetime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.host.closures import OPTIMIZER_STEP, in_closures
from torchprof_magic.facts.host.phases import PHASES, structural_phases
from torchprof_magic.facts.memory.blocks import NONE, Blocks, memory_blocks, tagged_category
from torchprof_magic.facts.ops.calls import nest_among, ops_around
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.facts.source.places import module_of_events
from torchprof_magic.model.intervals import depth_of, levels, nearest_marked
from torchprof_magic.model.trace import MEMORY_CATEGORIES

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

# Ops that make a tensor of nothing, or a copy on another device. Those that the user calls outside of modules, rather
# than other ops, make the inputs of a step: no parameter has a part in them.
_FACTORY = (
    r"^aten::(empty|empty_strided|zeros|ones|full|rand|randn|randint|randperm|arange|linspace|eye|tensor|scalar_tensor"
    r"|normal|to|_to_copy|lift_fresh|from_file|pin_memory|_pin_memory)$"
)
# Ops that allocate what another one fills.
_ALLOCATING = r"^aten::(empty|empty_strided|empty_like|new_empty|new_empty_strided|resize_|empty_permuted)$"
_CODE = {name: number for number, name in enumerate(MEMORY_CATEGORIES)}


class BlockOps(NamedTuple):
    """Ops as rows of ``trace.events`` or -1, at some rows of ``trace.memory``.

    ``inner`` is the innermost and ``outer`` the outermost. ``telling`` is the innermost that does more than to
    allocate, where one is around it: ``aten::randn`` and not the ``aten::empty`` in it.
    """

    inner: IntArray
    outer: IntArray
    telling: IntArray


@once_per_trace
def memory_ops(trace: Trace) -> BlockOps:
    """Return the ops around each row of ``trace.memory``, without annotations."""
    ops = nest_among(trace, in_category(trace, "cpu_op"))
    inner = ops_around(trace, ops, trace.memory["event"].to_numpy(), trace.memory["time_ns"].to_numpy())
    outer = np.arange(len(ops.row) + 1)
    outer[NONE] = NONE
    for rows in levels(depth_of(ops.parent))[1:]:
        outer[rows] = outer[ops.parent[rows]]
    row = np.append(ops.row, NONE)
    does_more = ~is_named(trace, _ALLOCATING)[ops.row]
    telling = nearest_marked(ops.parent, depth_of(ops.parent), does_more)[inner]
    return BlockOps(row[inner], row[outer[inner]], row[np.where(telling >= 0, telling, inner)])


@once_per_trace
def block_categories(trace: Trace) -> IntArray:
    """Return the index into ``MEMORY_CATEGORIES`` of each block of ``memory_blocks``."""
    blocks = memory_blocks(trace)
    code = tagged_category(trace, blocks)
    untagged = np.flatnonzero((code < 0) & (blocks.born >= 0))
    code[untagged] = _judged(trace, blocks, untagged)
    code[code < 0] = _CODE["unknown"]
    return code


def _judged(trace: Trace, blocks: Blocks, chosen: IntArray) -> IntArray:
    """Return the category of blocks without a tag; the first rule that holds decides."""
    ops = memory_ops(trace)
    born, freed = blocks.born[chosen], blocks.freed[chosen]
    event = trace.memory["event"].to_numpy()
    born_event, freed_event = event[born], np.append(event, NONE)[freed]
    outer = ops.outer[born]
    phase = np.append(structural_phases(trace), NONE)[born_event]
    step = np.append(_optimizer_steps(trace), NONE)
    in_step = step[born_event]
    is_in_op = outer >= 0
    is_of_data = phase == PHASES.index("data")
    is_brief = is_in_op & (np.append(ops.outer, NONE)[freed] == outer)
    is_backward = phase == PHASES.index("backward")
    outlives_pass = ~_ends_in_pass(trace, blocks, chosen)
    is_scratch = (in_step >= 0) & (freed >= 0) & (step[freed_event] == in_step)
    rules = (
        (is_of_data, "input"),
        (is_brief, "temporary"),
        (is_backward & outlives_pass, "gradient"),
        (is_backward, "autograd"),
        (is_scratch, "temporary"),
        (in_step >= 0, "optimizer_state"),
        (is_in_op & _is_made_by_user(trace, ops.inner[born], outer), "input"),
        (is_in_op, "activation"),
    )
    return np.select([holds for holds, _ in rules], [_CODE[name] for _, name in rules], _CODE["unknown"])


def _optimizer_steps(trace: Trace) -> IntArray:
    """Return the range of ``Optimizer.step`` around each event, a row of events, or -1; of what closures do, -1."""
    events = trace.events
    is_step = is_named(trace, OPTIMIZER_STEP)
    is_step &= ~in_category(trace, "python_function")
    found = nearest_marked(events["parent"].to_numpy(), events["depth"].to_numpy(), is_step)
    return np.where(in_closures(trace), NONE, found[:-1]).astype(np.int64)


def _is_made_by_user(trace: Trace, inner: IntArray, outer: IntArray) -> BoolArray:
    """Return whether an op that makes a new tensor was called by the user's code, outside of modules."""
    is_factory = is_named(trace, _FACTORY)
    found = np.append(is_factory, False)[outer] & np.append(is_factory, False)[inner]
    rows = np.flatnonzero(found)
    if len(rows):
        found[rows] = module_of_events(trace, outer[rows]).is_null().to_numpy()
    return found


def _ends_in_pass(trace: Trace, blocks: Blocks, chosen: IntArray) -> BoolArray:
    """Return whether blocks are released before the end of the backward pass in which they were allocated.

    A pass is a series of nodes of autograd, on any threads, with no other op between them.
    """
    events = trace.events
    time = trace.memory["time_ns"].to_numpy()
    is_op = in_category(trace, "cpu_op")
    above = nearest_marked(events["parent"].to_numpy(), events["depth"].to_numpy(), is_op)
    rows = np.flatnonzero(is_op & (above[events["parent"].to_numpy()] < 0))
    start = events["start_ns"].to_numpy()[rows]
    rows = rows[np.argsort(start, kind="stable")]
    start, end = np.sort(start), (events["start_ns"] + events["dur_ns"]).to_numpy()[rows]
    is_node = structural_phases(trace)[rows] == PHASES.index("backward")
    begins = np.flatnonzero(np.diff(is_node, prepend=not is_node[0]) if len(rows) else [])
    last = np.maximum.reduceat(end, begins) if len(rows) else end
    run = np.searchsorted(start[begins], time[blocks.born[chosen]], side="right") - 1
    pass_end = np.append(last, 0)[run]
    ended = np.append(time, np.iinfo(np.int64).max)[blocks.ended[chosen]]
    return ended <= pass_end
