"""Collectives by what they communicate, and the bandwidth of the bus between the ranks that this takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.device.collectives import collectives_of
from torchprof_magic.facts.shared import once_for_the_whole
from torchprof_magic.model.shapes import Column, Table

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import DType, Trace

# How many of n bytes have to pass the slowest link for a collective of N ranks, as in the tests of NCCL: of a kind that
# is not here all of them, once.
_TWICE, _ONCE_LESS = ("all_reduce",), ("all_gather", "reduce_scatter", "all_to_all")
COLUMNS = (
    Column(name="name", title="Collective", unit="code", definition="Kind of the collective."),
    Column(name="group", title="Group", unit="text", definition="Its process group; empty if the file does not say."),
    Column(
        name="group_size",
        title="Ranks",
        unit="count",
        definition="Ranks that take part: of its group, or of the whole job where the file names no group; null if it "
        "does not say.",
    ),
    Column(
        name="size_bytes",
        title="Size",
        unit="bytes",
        definition="Bytes of one call: the larger of what goes in and comes out on this rank; null if not recorded.",
    ),
    Column(name="calls", title="Calls", unit="count", definition="How often it ran."),
    Column(
        name="sum_ns",
        title="Time",
        unit="ns",
        definition="Summed duration on this rank, with the time in which it waits for others.",
    ),
    Column(name="least_ns", title="Shortest", unit="ns", definition="The shortest call, which waited the least."),
    Column(
        name="size_bytes_per_s",
        title="Size/s",
        unit="bytes",
        definition="Bytes by the summed duration (`algbw` in the tests of NCCL).",
        is_minor=True,
    ),
    Column(
        name="bus_bytes_per_s",
        title="Bus/s",
        unit="bytes",
        definition="The same for what has to pass the links between N ranks (`busbw`): times 2 · (N − 1) / N for "
        "all_reduce, (N − 1) / N for all_gather, reduce_scatter and all_to_all, 1 for others. It does not depend on "
        "the number of ranks, so it compares with the bandwidth of the links. Null where the ranks are not known.",
    ),
    Column(
        name="best_bus_bytes_per_s",
        title="Best bus/s",
        unit="bytes",
        definition="That of the shortest call: the nearest to what the links do, because the others waited longer.",
    ),
)
_TYPES: dict[str, DType] = {
    "name": pl.String,
    "group": pl.String,
    **dict.fromkeys(("size_bytes_per_s", "bus_bytes_per_s", "best_bus_bytes_per_s"), pl.Float64),
}
_SCHEMA: dict[str, DType] = {column.name: _TYPES.get(column.name, pl.Int64) for column in COLUMNS}


@once_for_the_whole
def collectives_table(trace: Trace, part: TimeRange) -> Table:
    """Return one row per kind, process group and size, what took the longest first.

    Those count that begin in the part.
    """
    found = collectives_of(trace)
    found = found.filter(pl.Series(part.holds(found["start_ns"].to_numpy()), dtype=pl.Boolean))
    frame = (
        found.with_columns(
            pl.col("group_title").alias("group"),
            pl.col("bytes").alias("size_bytes"),
            pl.col("group_size").fill_null(pl.lit(trace.meta.world_size, pl.Int32)),
        )
        .group_by("name", "group", "group_size", "size_bytes")
        .agg(
            pl.len().alias("calls"),
            pl.col("dur_ns").sum().alias("sum_ns"),
            pl.col("dur_ns").min().alias("least_ns"),
        )
        .with_columns(_passing().alias("passing"))
    )
    size, known = pl.col("size_bytes"), pl.col("size_bytes") > 0
    mean = pl.when(known & (pl.col("sum_ns") > 0)).then(size * pl.col("calls") / pl.col("sum_ns") * 1e9)
    best = pl.when(known & (pl.col("least_ns") > 0)).then(size / pl.col("least_ns") * 1e9)
    frame = frame.with_columns(
        mean.alias("size_bytes_per_s"),
        (mean * pl.col("passing")).alias("bus_bytes_per_s"),
        (best * pl.col("passing")).alias("best_bus_bytes_per_s"),
    )
    frame = frame.select(_SCHEMA.keys()).cast(_SCHEMA)  # type: ignore[arg-type]
    order = ("sum_ns", "name", "group", "size_bytes")
    return Table(frame=frame.sort(*order, descending=[True, False, False, False]), columns=COLUMNS)


def _passing() -> pl.Expr:
    """Return which part of the bytes has to pass a link; null where the number of ranks is not known."""
    ranks, name = pl.col("group_size").cast(pl.Float64), pl.col("name")
    others = (ranks - 1) / ranks
    found = pl.when(name.is_in(_TWICE)).then(2 * others).when(name.is_in(_ONCE_LESS)).then(others).otherwise(1.0)
    return pl.when(ranks > 0).then(found)
