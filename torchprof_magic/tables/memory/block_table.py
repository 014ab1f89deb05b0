"""Every block of memory: where and when it was allocated and released, and what it was used for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.host.phases import EVENT_PHASES, PHASE, phase_of_events
from torchprof_magic.facts.memory.alive import every_block, is_snapshot
from torchprof_magic.facts.memory.block_categories import block_categories, memory_ops
from torchprof_magic.facts.memory.blocks import LATEST, NONE, Blocks, memory_blocks
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.source.attribution import Finder, watched_runs
from torchprof_magic.facts.source.forward_of import forward_of_events
from torchprof_magic.facts.source.places import module_of_events, places_of
from torchprof_magic.facts.source.shown_files import files_as_shown
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.trace import MEMORY_CATEGORIES, MEMORY_CATEGORY

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

PLACE_COLUMNS = (
    Column(
        name="category",
        title="Category",
        unit="text",
        definition=f"What it is used for: {', '.join(MEMORY_CATEGORIES)}. The rules are those of `report.memory`.",
    ),
    Column(
        name="name",
        title="Name",
        unit="code",
        definition="Path of attributes of the parameter or buffer, that of the parameter for a gradient or a state of "
        "an optimizer; for other tensors the variable, element or attribute of the user's code that last had it, such "
        "as logits, cache['x'] or self.hidden. Null if it is not known from a live run.",
    ),
    Column(
        name="module",
        title="Module",
        unit="code",
        definition="Innermost nn.Module that was running when it was allocated; for the backward pass that of the "
        "forward op. Null if it is not known.",
    ),
    Column(
        name="op",
        title="Op",
        unit="code",
        definition="Innermost op that allocated it, without those that only allocate for the op around them, such as "
        "aten::empty in aten::randn; null outside of ops and before the recording.",
    ),
    Column(
        name="file",
        title="File",
        unit="text",
        definition="File of the line of code that allocated it; for nodes of the backward pass that of the forward op.",
        is_minor=True,
    ),
    Column(name="line", title="Line", unit="count", definition="Number of that line; null if it is not known."),
)
SIZE_COLUMN = Column(
    name="size_bytes",
    title="Size",
    unit="bytes",
    definition="Bytes of the block, as the allocator reports them. For one that was alive before the recording, and "
    "whose release was not recorded, those of the storage.",
    has_bar=True,
)
TENSOR_COLUMNS = (
    Column(
        name="shape",
        title="Shape",
        unit="text",
        definition="Dimensions of the tensor; null if it is not known from a live run.",
        is_minor=True,
    ),
    Column(
        name="dtype",
        title="Type",
        unit="text",
        definition="Type of the tensor; null if it is not known from a live run.",
        is_minor=True,
    ),
)
COLUMNS = (
    Column(
        name="device",
        title="Device",
        unit="text",
        definition="cpu, or type and number of the device, such as cuda:0.",
        is_minor=True,
    ),
    Column(name="address", title="Address", unit="count", definition="Address of the block.", is_minor=True),
    SIZE_COLUMN,
    Column(
        name="allocated_at_ns",
        title="Allocated at",
        unit="ns",
        definition="Time of the allocation, relative to the first recorded event; null if it was before the recording.",
    ),
    Column(
        name="freed_at_ns",
        title="Freed at",
        unit="ns",
        definition="Time of the release; null if the block is alive at the end of the recording. If the release is not "
        "in the file, the time at which the address or its name is used by another block.",
    ),
    Column(
        name="lifetime_ns",
        title="Lifetime",
        unit="ns",
        definition="From the allocation to the release; null if one of them is not known.",
    ),
    *PLACE_COLUMNS,
    Column(
        name="phase",
        title="Phase",
        unit="phase",
        definition="Phase of the op that allocated it; null outside of recorded events.",
        is_minor=True,
    ),
    Column(
        name="step",
        title="Step",
        unit="step",
        definition="Number of the step in which it was allocated; null outside of steps.",
    ),
    Column(name="cycle", title="Cycle", unit="step", definition="Recording cycle of the schedule.", is_minor=True),
    *TENSOR_COLUMNS,
)


def allocations_table(trace: Trace, part: TimeRange = WHOLE) -> Table:
    """Return one row per block of memory in the order of allocation; those from before the recording come first.

    A block belongs to the part in which it was allocated; those from before the recording belong to none.
    """
    table = _all_blocks(trace)
    if part == WHOLE:
        return table
    known = table.frame.drop_nulls("allocated_at_ns")
    return replace(table, frame=known.filter(pl.Series(part.holds(known["allocated_at_ns"].to_numpy()))))


@once_per_trace
def _all_blocks(trace: Trace) -> Table:
    if is_snapshot(trace):  # which knows blocks from before its history, and stacks
        found = every_block(trace).with_columns(pl.lit(0, pl.Int32).alias("cycle"))
        frame = pl.concat([_frame_of_blocks(trace).clear(), found], how="diagonal_relaxed")
        return Table(frame=frame.select(column.name for column in COLUMNS), columns=COLUMNS, sort_by="size_bytes")
    return Table(frame=_frame_of_blocks(trace), columns=COLUMNS, sort_by="size_bytes")


def allocations_view(trace: Trace, part: TimeRange = WHOLE) -> Table:
    """Return the table with what made a block first, what few blocks have hidden, and files as people know them."""
    table = allocations_table(trace, part)
    frame = table.frame.with_columns(files_as_shown(trace, table.frame["file"]))
    minor = ("device", "address", "name", "file", "phase", "cycle", "shape", "dtype", "freed_at_ns")
    columns = sorted(
        table.columns, key=lambda column: _FIRST.index(column.name) if column.name in _FIRST else len(_FIRST)
    )
    return replace(
        table, frame=frame, columns=tuple(replace(column, is_minor=column.name in minor) for column in columns)
    )


_FIRST = ("op", "module", "line", "category", "size_bytes", "lifetime_ns", "allocated_at_ns", "freed_at_ns", "step")


def _frame_of_blocks(trace: Trace) -> pl.DataFrame:
    """Return one row per block of the records of memory."""
    blocks = memory_blocks(trace)
    groups = blocks.groups
    time = pl.Series(trace.memory["time_ns"])
    allocated, freed = _gathered(time, blocks.born), pl.Series(blocks.end_ns(trace))
    freed = freed.set(freed == LATEST, None)
    device, cycle = pl.Series(groups.device, dtype=pl.String), pl.Series(groups.cycle, dtype=pl.Int32)
    category = pl.Series(MEMORY_CATEGORIES, dtype=MEMORY_CATEGORY).gather(block_categories(trace))
    frame = pl.DataFrame(
        {
            "device": device.gather(blocks.group),
            "address": blocks.address,
            "size_bytes": blocks.size_bytes,
            "allocated_at_ns": allocated,
            "freed_at_ns": freed,
            "lifetime_ns": freed - allocated,
            "category": category,
            **{name: _gathered(trace.tags[name].cast(pl.String), blocks.named) for name in ("name", "shape", "dtype")},
            **_places(trace, blocks),
            "step": step_at(trace, allocated, cycle.gather(blocks.group)),
            "cycle": cycle.gather(blocks.group),
        },
        schema_overrides={"address": pl.UInt64, "size_bytes": pl.Int64, "lifetime_ns": pl.Int64},
    )
    return frame.select(column.name for column in COLUMNS)


def _places(trace: Trace, blocks: Blocks) -> dict[str, pl.Series]:
    """Return op, module, file, line and phase of each block, null where they are not known."""
    ops, memory = memory_ops(trace), trace.memory
    at = np.append(memory["event"].to_numpy(), NONE)[blocks.born].astype(np.int64)
    op = np.append(ops.telling, NONE)[blocks.born]
    known = np.flatnonzero(at >= 0)
    forward = forward_of_events(trace)[at[known]]
    source = np.full(len(at), NONE, np.int64)
    source[known] = np.where(forward >= 0, forward, at[known])
    moment = np.append(memory["time_ns"].to_numpy(), 0)[blocks.born]
    # The moment of the allocation tells which line of a long range it was.
    file, line = places_of(trace, at, moment).columns()
    module = pl.Series("module", [None], dtype=pl.String).new_from_index(0, len(at))
    if len(known):
        module = module.scatter(known, module_of_events(trace, source[known]).cast(pl.String))
    phase = np.append(phase_of_events(trace), NONE)[at]
    names = trace.events["name"].cast(pl.String)
    return {
        "op": _gathered(names, op),
        "module": module,
        **_with_lines_outside(trace, file, line, at, moment, blocks.born),
        "phase": _gathered(pl.Series(EVENT_PHASES, dtype=PHASE), phase),
    }


def _with_lines_outside(
    trace: Trace, file: pl.Series, line: pl.Series, at: IntArray, moment: IntArray, born: IntArray
) -> dict[str, pl.Series]:
    """Return files and lines, also for allocations outside of all events: the watched line of the main thread then."""
    runs = watched_runs(trace, "line")
    outside = np.flatnonzero((at < 0) & (born >= 0))
    file = file.cast(pl.String)
    if len(outside) and len(runs.lane):
        lanes = np.full(len(outside), int(runs.lane[0]))
        site = Finder(runs).sites_at(lanes, moment[outside])
        file = file.scatter(outside, _gathered(trace.sites["file"].cast(pl.String), site))
        line = line.scatter(outside, _gathered(trace.sites["line"], site))
    return {"file": file, "line": line}


def step_at(trace: Trace, time_ns: pl.Series, cycle: pl.Series) -> pl.Series:
    """Return the number of the step at each time, null outside of steps."""
    steps = trace.steps.sort("start_ns")
    found = np.searchsorted(steps["start_ns"].to_numpy(), time_ns.fill_null(-(2**62)).to_numpy(), side="right") - 1
    number, end, of_cycle = (_gathered(steps[name], found) for name in ("number", "end_ns", "cycle"))
    is_inside = (time_ns <= end) & (of_cycle == cycle)
    return number.zip_with(is_inside.fill_null(value=False), pl.Series([None], dtype=number.dtype))


def _gathered(values: pl.Series, at: IntArray) -> pl.Series:
    index = pl.Series(at, dtype=pl.Int64)
    return values.gather(index.set(index < 0, None))
