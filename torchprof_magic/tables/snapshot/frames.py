"""The memory that a caching allocator holds, from a snapshot: by device, pool, segment and block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.memory.alive import alive_at, peak_row
from torchprof_magic.facts.memory.block_lives import block_lives, device_history, level_after
from torchprof_magic.facts.memory.stack_lines import lines_of
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.model.intervals import NO_PARENT
from torchprof_magic.model.rows import filled
from torchprof_magic.model.shapes import Column

if TYPE_CHECKING:
    from torchprof_magic.facts.memory.alive import Moment
    from torchprof_magic.model.trace import Trace

DEFAULT_POOL = "0.0"
_DEVICE = Column(name="device", title="Device", unit="text", definition="Type and number of the device.")
_RESERVED = Column(
    name="reserved_bytes",
    title="Reserved",
    unit="bytes",
    definition="Memory that the allocator has reserved: the sizes of its segments.",
)
_HELD_COLUMNS = (
    Column(
        name="allocated_bytes",
        title="Allocated",
        unit="bytes",
        definition="Blocks in use by the program, at their rounded sizes.",
    ),
    Column(
        name="active_bytes",
        title="Active",
        unit="bytes",
        definition="These, and freed blocks that another stream still uses.",
    ),
    Column(
        name="requested_bytes",
        title="Requested",
        unit="bytes",
        definition="Sizes that were requested for the active blocks; the rest of them was lost to rounding.",
    ),
    Column(name="inactive_bytes", title="Inactive", unit="bytes", definition="Free blocks: reserved minus active."),
    Column(
        name="inactive_split_bytes",
        title="Inactive split",
        unit="bytes",
        definition="Free blocks in segments that also hold active ones, so that they cannot be given back to the "
        "driver.",
    ),
    Column(
        name="largest_free_bytes",
        title="Largest free",
        unit="bytes",
        definition="Largest free block: what can be allocated without reserving more.",
    ),
    Column(name="segments", title="Segments", unit="count", definition="Number of segments."),
    Column(name="blocks", title="Blocks", unit="count", definition="Number of blocks, free ones included."),
)
DEVICE_COLUMNS = (
    _DEVICE,
    _RESERVED,
    *_HELD_COLUMNS,
    Column(
        name="unused_ratio",
        title="Unused",
        unit="ratio",
        definition="Share of the reserved memory that is not active: 1 - active / reserved.",
    ),
    Column(
        name="fragmentation_ratio",
        title="Fragmentation",
        unit="ratio",
        definition="Share of the free memory that is not in the largest free block: 1 - largest free / inactive.",
    ),
    Column(
        name="private_pool_bytes",
        title="Private pools",
        unit="bytes",
        definition="Part of the reserved memory in pools of their own, as of CUDA graphs; nothing else can use it.",
    ),
    Column(
        name="start_bytes",
        title="At the start",
        unit="bytes",
        definition="Requested bytes in use when the history began.",
    ),
    Column(
        name="peak_bytes", title="Peak", unit="bytes", definition="Most requested bytes that were in use at one moment."
    ),
    Column(name="peak_at_ns", title="Peak at", unit="ns", definition="When; null without a history."),
    Column(
        name="peak_reserved_bytes",
        title="Reserved at the peak",
        unit="bytes",
        definition="Memory reserved at that moment.",
    ),
    Column(name="end_bytes", title="At the end", unit="bytes", definition="Requested bytes in use when it was taken."),
    Column(name="out_of_memory", title="Out of memory", unit="count", definition="How often an allocation failed."),
)
POOL_COLUMNS = (
    _DEVICE,
    Column(name="pool", title="Pool", unit="text", definition="Id of the pool; 0.0 is the default one."),
    Column(
        name="is_private",
        title="Private",
        unit="bool",
        definition="Whether it is a pool of its own, as of a CUDA graph or of torch.cuda.MemPool.",
    ),
    _RESERVED,
    *_HELD_COLUMNS,
)
SEGMENT_COLUMNS = (
    _DEVICE,
    Column(name="address", title="Address", unit="count", definition="Address of its first byte."),
    Column(name="total_bytes", title="Size", unit="bytes", definition="Size that was reserved from the driver."),
    *(column for column in _HELD_COLUMNS if column.name != "segments"),
    Column(name="kind", title="Kind", unit="text", definition="small for blocks of up to 1 MiB, or large."),
    Column(name="pool", title="Pool", unit="text", definition="Id of its pool; 0.0 is the default one."),
    Column(name="stream", title="Stream", unit="count", definition="Stream that its blocks are for."),
    Column(name="is_expandable", title="Expandable", unit="bool", definition="Whether it can grow."),
    Column(
        name="line", title="Line", unit="code", definition="Line of the user's code that made it grow; null if unknown."
    ),
    Column(name="function", title="Function", unit="code", definition="Function of that line."),
)
BLOCK_COLUMNS = (
    _DEVICE,
    Column(name="segment", title="Segment", unit="count", definition="Row of `report.snapshot.segments`."),
    Column(name="address", title="Address", unit="count", definition="Address of its first byte."),
    Column(name="size_bytes", title="Size", unit="bytes", definition="Size, rounded up by the allocator."),
    Column(
        name="requested_bytes",
        title="Requested",
        unit="bytes",
        definition="Size that was requested; of an inactive block that of its last use.",
    ),
    Column(
        name="state", title="State", unit="text", definition="active_allocated, active_pending_free or inactive (free)."
    ),
    Column(
        name="allocated_at_ns",
        title="Allocated",
        unit="ns",
        definition="When it was allocated; null if before the history, or if it is inactive.",
    ),
    Column(name="pool", title="Pool", unit="text", definition="Id of its pool; 0.0 is the default one."),
    Column(
        name="line", title="Line", unit="code", definition="Line of the user's code that allocated it; null if unknown."
    ),
    Column(name="function", title="Function", unit="code", definition="Function of that line, or op of torch."),
    Column(
        name="stack", title="Stack", unit="count", definition="Innermost frame that allocated it, a row of `stacks`."
    ),
)
# What held the memory of a device at a moment, from the history of its allocator.
ALIVE_COLUMNS = (
    Column(name="device", title="Device", unit="text", definition="Type and number of the device."),
    Column(name="size_bytes", title="Size", unit="bytes", definition="Size that was requested.", has_bar=True),
    Column(
        name="allocated_at_ns",
        title="Allocated",
        unit="ns",
        definition="When it was allocated, relative to the first recorded event; null if before the history.",
    ),
    Column(
        name="freed_at_ns",
        title="Freed",
        unit="ns",
        definition="When it could be allocated again; null if it was still in use at the end.",
    ),
    Column(
        name="line",
        title="Line",
        unit="code",
        definition="file:line of the innermost frame in the user's files that allocated it, or else in a library; null "
        "if unknown.",
    ),
    Column(
        name="function",
        title="Function",
        unit="code",
        definition="Function of that line. Without Python frames, the node of autograd or the op of torch.",
    ),
    Column(
        name="category", title="Category", unit="text", definition="What it holds; null, as a snapshot does not say."
    ),
    Column(name="address", title="Address", unit="count", definition="Address of the block."),
    Column(
        name="stack",
        title="Stack",
        unit="count",
        definition="Innermost frame that allocated it, a row of `stacks`; null if unknown.",
    ),
)


def segments_table(trace: Trace) -> pl.DataFrame:
    """Return one row per segment, in the order of the snapshot, with the columns of ``SEGMENT_COLUMNS``."""
    stack = filled(trace.segments["stack"], NO_PARENT)
    rows = _segments(trace).with_columns(lines_of(trace, stack))
    return rows.select(column.name for column in SEGMENT_COLUMNS)


def blocks_table(trace: Trace) -> pl.DataFrame:
    """Return one row per block, in the order of the snapshot, with the columns of ``BLOCK_COLUMNS``."""
    stack = filled(trace.blocks["stack"], NO_PARENT)
    owners = trace.segments.select("device", pl.col("pool").cast(pl.String))[trace.blocks["segment"].to_list()]
    rows = pl.concat([trace.blocks, owners, lines_of(trace, stack)], how="horizontal")
    begun = pl.concat([_BEGUN, *(_begun_on(trace, device) for device in block_lives(trace))])
    rows = rows.with_columns(pl.col("state") != "inactive").join(
        begun, on=["device", "address", "state"], how="left", maintain_order="left"
    )
    return rows.with_columns(trace.blocks["state"]).select(column.name for column in BLOCK_COLUMNS)


_BEGUN = pl.DataFrame(
    schema={"device": pl.String, "address": pl.UInt64, "allocated_at_ns": pl.Int64, "state": pl.Boolean}
)


def held_by_line(trace: Trace, at: Moment = "peak", device: str | None = None) -> pl.DataFrame:
    """Return who allocated what is in use at a moment: device, line, function, bytes and blocks, the largest first."""
    blocks = alive_at(trace, at, device)
    lines = blocks.group_by("device", "line", "function", maintain_order=True)
    held = lines.agg(pl.col("size_bytes").sum(), pl.len().alias("blocks"))
    return held.sort("size_bytes", descending=True, maintain_order=True)


def _begun_on(trace: Trace, device: str) -> pl.DataFrame:
    """Return when the blocks that are in use at the end were allocated, of those that were in the history."""
    lives, times = block_lives(trace)[device], device_history(trace, device)["time_ns"].to_numpy()
    mask = (lives.begin >= 0) & (lives.end == len(times))
    frame = pl.DataFrame({"address": lives.address[mask], "allocated_at_ns": times[lives.begin[mask]]})
    return frame.select(
        pl.lit(device).alias("device"), "address", "allocated_at_ns", pl.lit(value=True).alias("state")
    ).cast(_BEGUN.schema)


def pools_table(trace: Trace) -> pl.DataFrame:
    """Return one row per device and pool, the default one first, with the columns of ``POOL_COLUMNS``."""
    rows = _segments(trace).group_by("device", "pool", maintain_order=True).agg(*_SUMS)
    rows = rows.with_columns((pl.col("pool") != DEFAULT_POOL).alias("is_private"))
    return rows.sort("device", "is_private", "pool").select(column.name for column in POOL_COLUMNS)


def snapshot_devices(trace: Trace) -> pl.DataFrame:
    """Return one row per device, with the columns of ``DEVICE_COLUMNS``; ratios are null where they would be 0 / 0."""
    private = pl.col("total_bytes").filter(pl.col("pool") != DEFAULT_POOL).sum().alias("private_pool_bytes")
    sums = _segments(trace).group_by("device").agg(*_SUMS, private)
    levels = pl.DataFrame([_levels_on(trace, device) for device in block_lives(trace)], schema=_LEVELS, orient="row")
    rows = levels.join(sums, on="device", how="left", maintain_order="left").with_columns(
        pl.col(name).fill_null(0) for name in sums.columns if name != "device"
    )
    unused = 1 - pl.col("active_bytes") / pl.col("reserved_bytes")
    apart = 1 - pl.col("largest_free_bytes") / pl.col("inactive_bytes")
    return rows.with_columns(
        pl.when(pl.col("reserved_bytes") > 0).then(unused).alias("unused_ratio"),
        pl.when(pl.col("inactive_bytes") > 0).then(apart).alias("fragmentation_ratio"),
    ).select(column.name for column in DEVICE_COLUMNS)


_LEVELS = {
    "device": pl.String,
    "start_bytes": pl.Int64,
    "peak_bytes": pl.Int64,
    "peak_at_ns": pl.Int64,
    "peak_reserved_bytes": pl.Int64,
    "end_bytes": pl.Int64,
    "out_of_memory": pl.UInt32,
}
_GROWS = ("segment_alloc", "segment_map")
_SHRINKS = ("segment_free", "segment_unmap")


def _levels_on(trace: Trace, device: str) -> tuple[str, int, int, int | None, int, int, int]:
    """Return what was in use at the beginning, at the peak and at the end, and what was reserved at the peak."""
    history, lives = device_history(trace, device), block_lives(trace)[device]
    level, row = level_after(lives, history.height), peak_row(lives, history.height)
    sign = pl.col("action").is_in(_GROWS).cast(pl.Int64) - pl.col("action").is_in(_SHRINKS).cast(pl.Int64)
    later = history[row + 1 :].select((pl.col("size_bytes") * sign).sum()).item()
    reserved = trace.segments.filter(pl.col("device") == device)["total_bytes"].sum()
    failed = int((history["action"] == "oom").sum())
    at_ns = history["time_ns"][row] if row >= 0 else None
    return device, int(level[0]), int(level[row + 1]), at_ns, int(reserved - later), int(level[-1]), failed


@once_per_trace
def _segments(trace: Trace) -> pl.DataFrame:
    """Return the segments with sums over their blocks."""
    is_active, is_free = pl.col("state") != "inactive", pl.col("state") == "inactive"
    size, free = pl.col("size_bytes"), pl.col("size_bytes").filter(is_free)
    held = trace.blocks.group_by("segment").agg(
        size.filter(pl.col("state") == "active_allocated").sum().alias("allocated_bytes"),
        size.filter(is_active).sum().alias("active_bytes"),
        pl.col("requested_bytes").filter(is_active).sum().alias("requested_bytes"),
        free.sum().alias("inactive_bytes"),
        pl.when(is_active.any()).then(free.sum()).otherwise(0).alias("inactive_split_bytes"),
        free.max().fill_null(0).alias("largest_free_bytes"),
        pl.len().alias("blocks"),
    )
    rows = trace.segments.with_row_index("segment").with_columns(pl.col("segment").cast(pl.Int32))
    rows = rows.with_columns(pl.col("kind", "pool").cast(pl.String))
    joined = rows.join(held, on="segment", how="left", maintain_order="left")
    return joined.with_columns(pl.col(name).fill_null(0) for name in held.columns if name != "segment")


_SUMS = (
    pl.col("total_bytes").sum().alias("reserved_bytes"),
    pl.col("allocated_bytes", "active_bytes", "requested_bytes", "inactive_bytes", "inactive_split_bytes").sum(),
    pl.col("largest_free_bytes").max(),
    pl.len().alias("segments"),
    pl.col("blocks").sum(),
)
