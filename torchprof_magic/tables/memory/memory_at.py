"""What is in memory at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.memory.alive import held_at, is_snapshot
from torchprof_magic.facts.memory.blocks import memory_blocks
from torchprof_magic.facts.memory.levels import memory_levels
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.tables.memory.block_table import PLACE_COLUMNS, SIZE_COLUMN, TENSOR_COLUMNS, allocations_table

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

PEAK = "peak"
# The name of what was alive before the recording and of which nothing else is known.
BEFORE = "before the recording"
COLUMNS = (
    *PLACE_COLUMNS,
    Column(name="step", title="Step", unit="step", definition="Step in which it was allocated; null outside of steps."),
    SIZE_COLUMN,
    Column(
        name="age_ns",
        title="Age",
        unit="ns",
        definition="Time since its allocation at this moment; null if it was allocated before the recording.",
    ),
    Column(
        name="lifetime_ns",
        title="Lifetime",
        unit="ns",
        definition="From its allocation to its release; null if one of them was not recorded.",
    ),
    *TENSOR_COLUMNS,
    Column(
        name="device",
        title="Device",
        unit="text",
        definition="cpu, or type and number of the device, such as cuda:0.",
        is_minor=True,
    ),
    Column(
        name="address",
        title="Address",
        unit="count",
        definition="Address of the block; null for the rest from before the recording.",
        is_minor=True,
    ),
    Column(
        name="allocated_at_ns",
        title="Allocated at",
        unit="ns",
        definition="Time of the allocation; null if it was before the recording.",
        is_minor=True,
    ),
    Column(
        name="freed_at_ns",
        title="Freed at",
        unit="ns",
        definition="Time of the release; null if it is in use at the end.",
        is_minor=True,
    ),
)


def memory_at(trace: Trace, when: str | int, device: str | None = None) -> Table:
    """Return one row per block that is in use at a moment, the largest first; the sizes add up to the total then.

    Blocks from before the recording without a name are last, and are called ``BEFORE``; of an accelerator, what no
    live object explains is one of them. ``when`` is ``"peak"``, or a time in ns from the first recorded event. Without
    a device, it is the accelerator with the highest peak, or else the CPU. Raises ``ValueError`` for a device without
    recorded memory, or another text than ``"peak"``.
    """
    if isinstance(when, str) and when != PEAK:
        raise ValueError(f"the moment must be 'peak' or a time in ns (got {when!r})")
    if trace.memory.height == 0:
        return Table(frame=_empty(trace), columns=COLUMNS, sort_by="size_bytes")
    if is_snapshot(trace):  # which knows blocks from before its history, and stacks
        alive = held_at(trace, "peak" if when == PEAK else int(when), device)
        frame = pl.concat([_empty(trace).clear(), alive], how="diagonal_relaxed")
        return Table(frame=frame.select(column.name for column in COLUMNS), columns=COLUMNS, sort_by="size_bytes")
    name = _device(trace, device)
    row, group = _row_at(trace, name, None if when == PEAK else int(when))
    blocks = memory_blocks(trace)
    total = memory_levels(trace).total
    if row < 0:  # before the first change of the device
        first = int(np.flatnonzero(blocks.groups.of_row == group)[0])
        held, time_ns = int(total[first]) - int(trace.memory["delta_bytes"][first]), int(when)
    else:
        held = int(total[row])
        time_ns = int(trace.memory["time_ns"][row]) if when == PEAK else int(when)
    alive = allocations_table(trace).frame[blocks.alive_after(row, group)]
    rest = held - int(alive["size_bytes"].sum())
    # Some were released since that row, and torch did not record it.
    alive = alive.filter(pl.col("freed_at_ns").is_null() | (pl.col("freed_at_ns") > time_ns))
    frame = alive.with_columns((time_ns - pl.col("allocated_at_ns")).alias("age_ns"))
    if rest > 0:
        entry = {"device": name, "category": "unknown", "name": BEFORE, "size_bytes": rest}
        schema = {column: frame.schema[column] for column in entry}
        frame = pl.concat([frame, pl.DataFrame([entry], schema=schema)], how="diagonal")
    # What was there before and has no name says nothing of the program: it is last, however large it is.
    is_rest = pl.col("allocated_at_ns").is_null() & (pl.col("category") == "unknown")
    is_rest &= pl.col("name").is_null() | pl.col("address").is_null()
    frame = frame.with_columns(is_rest.alias("is_rest"))
    frame = frame.with_columns(pl.when("is_rest").then(pl.lit(BEFORE)).otherwise("name").alias("name"))
    frame = frame.sort("is_rest", "size_bytes", descending=[False, True], maintain_order=True)
    frame = frame.select(column.name for column in COLUMNS)
    return Table(frame=frame, columns=COLUMNS, sort_by="size_bytes")


def _empty(trace: Trace) -> pl.DataFrame:
    frame = allocations_table(trace).frame.with_columns(pl.lit(None, pl.Int64).alias("age_ns"))
    return frame.select(column.name for column in COLUMNS)


def _device(trace: Trace, device: str | None) -> str:
    """Return a known device, or the accelerator with the highest peak, or else the CPU."""
    peaks = (
        trace.memory.select("device", pl.Series("total", memory_levels(trace).total))
        .group_by("device")
        .agg(pl.col("total").max())
    )
    if device is None:
        return str(
            peaks.sort(pl.col("device") != "cpu", "total", "device", descending=[True, True, False])["device"][0]
        )
    known = sorted(peaks["device"].to_list())
    if device not in known:
        raise ValueError(f"no memory of {device!r} was recorded; choose from {', '.join(known)}")
    return device


def _row_at(trace: Trace, device: str, time_ns: int | None) -> tuple[int, int]:
    """Return the last row of memory up to a time, or that of the peak; -1 before the first one; and its group."""
    groups = memory_blocks(trace).groups
    mine = np.array([name == device for name in groups.device])
    rows = np.flatnonzero(mine[groups.of_row])
    if time_ns is None:
        row = int(rows[np.argmax(memory_levels(trace).total[rows])])
        return row, int(groups.of_row[row])
    place = int(np.searchsorted(trace.memory["time_ns"].to_numpy()[rows], time_ns, side="right")) - 1
    return (int(rows[place]) if place >= 0 else -1), int(groups.of_row[rows[max(place, 0)]])
