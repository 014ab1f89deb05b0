"""Which collectives of different ranks are the same one, and by how much the clocks of the ranks differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from torchprof_magic.facts.device.collectives import POINT_TO_POINT

if TYPE_CHECKING:
    from torchprof_magic.model.trace import DType

MATCHED_SCHEMA: dict[str, DType] = {
    "rank": pl.Int32,
    "step": pl.Int32,
    "name": pl.String,
    "group": pl.String,
    "group_title": pl.String,
    "group_size": pl.Int32,
    "start_unix_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "bytes": pl.Int64,
    "on_host": pl.Boolean,
    "counts": pl.Boolean,
    "row": pl.Int32,
    "key": pl.Int64,
}
# The share of the collectives that lie within the stated error of a clock.
_WITHIN = 0.9
_LEAST_FOR_SHARE = 10


class Matched(NamedTuple):
    """The collectives that several ranks took part in.

    ``rows`` has one row for each of them and rank; those of one collective share a ``key``. ``unmatched`` is how many
    collectives of single ranks have no counterpart on all others, in the steps that the ranks share.
    """

    rows: pl.DataFrame
    unmatched: int


def match_collectives(rows: pl.DataFrame) -> Matched:
    """Return the same collectives of different ranks under one key.

    ``rows`` are the collectives of all ranks with the columns ``rank`` and ``start_unix_ns``, in order of time on each
    rank. In each process group, they are the same by their sequence number; without it, by their order if all ranks
    have the same ones in the steps that they share, and else by their order among those of their name in each step.
    """
    rows = rows.filter(~pl.col("name").is_in(POINT_TO_POINT))
    parts, unmatched, used = [], 0, 0
    for _, group in sorted(rows.group_by("group"), key=lambda item: str(item[0])):
        if group["rank"].n_unique() < 2:  # noqa: PLR2004 - one rank has nobody to wait for
            continue
        found = _keyed(group.sort("rank", "start_unix_ns", maintain_order=True))
        ranks = found["rank"].n_unique()
        is_whole = (pl.len() == ranks) & (pl.col("rank").n_unique() == ranks)
        kept = found.filter(is_whole.over("key"))
        unmatched += found.height - kept.height
        numbers = kept["key"].rank("dense").cast(pl.Int64) + used
        used = int(numbers.max() or used)  # type: ignore[arg-type]
        parts.append(kept.with_columns(numbers.alias("key")).select(MATCHED_SCHEMA.keys()))
    return Matched(pl.concat(parts) if parts else pl.DataFrame(schema=MATCHED_SCHEMA), unmatched)


def _keyed(group: pl.DataFrame) -> pl.DataFrame:
    """Return the collectives of a process group with a number that is the same for the same one."""
    if group["sequence"].null_count() == 0 and not group.select("rank", "sequence").is_duplicated().any():
        shared = group.filter(pl.col("sequence").is_between(*_shared_range(group, "sequence")))
        return shared.with_columns(pl.col("sequence").alias("key"))
    if group["step"].null_count() < group.height:
        group = group.filter(pl.col("step").is_between(*_shared_range(group.drop_nulls("step"), "step")))
    order = pl.int_range(pl.len()).over("rank")
    signatures = group.group_by("rank").agg(pl.col("name")).with_columns(pl.col("name").list.join(" "))
    if signatures["name"].n_unique() == 1:
        return group.with_columns(order.cast(pl.Int64).alias("key"))
    places = group.with_columns(pl.int_range(pl.len()).over("rank", "step", "name").alias("place"))
    keys = places.select(pl.struct("step", "name", "place").rank("dense").cast(pl.Int64).alias("key"))
    found = places.with_columns(keys["key"])
    # Where a rank has more of a name in a step than another, it cannot be told which are the same.
    counts = found.group_by("rank", "step", "name").agg(pl.len().alias("count"))
    uneven = counts.group_by("step", "name").agg((pl.col("count").n_unique() > 1).alias("is_uneven"))
    found = found.join(uneven, on=["step", "name"], how="left", nulls_equal=True, maintain_order="left")
    alone = pl.int_range(pl.len(), dtype=pl.Int64) + found.height + 1
    return found.with_columns(pl.when("is_uneven").then(-alone).otherwise("key").alias("key"))


def _shared_range(rows: pl.DataFrame, column: str) -> tuple[int, int]:
    """Return the first and the last value that lies within those of every rank."""
    ends = rows.group_by("rank").agg(pl.col(column).min().alias("first"), pl.col(column).max().alias("last"))
    return int(ends["first"].max()), int(ends["last"].min())  # type: ignore[arg-type]


def clocks_of(rows: pl.DataFrame) -> pl.DataFrame:
    """Return ``rank``, ``clock_offset_ns`` and ``clock_error_ns``: how far the clock of each rank is ahead.

    All ranks of a collective leave it together, so the difference of its ends is that of the clocks. The offset is the
    median over the collectives that the most ranks share, relative to the middle of all clocks; the error is what nine
    of ten of them keep within, all if there are fewer than ten.
    """
    schema: dict[str, DType] = {"rank": pl.Int32, "clock_offset_ns": pl.Int64, "clock_error_ns": pl.Int64}
    if rows.height == 0:
        return pl.DataFrame(schema=schema)
    ends = rows.select("rank", "key", (pl.col("start_unix_ns") + pl.col("dur_ns")).alias("end_ns"))
    sizes = ends.with_columns(pl.len().over("key").alias("ranks"))
    widest = sizes.filter(pl.col("ranks") == pl.col("ranks").max())
    covered = set(widest["rank"].unique().to_list())
    used = widest if covered == set(ends["rank"].unique().to_list()) else sizes
    # The middle as an integer: float64 would round times since 1970 to a quarter of a microsecond.
    middle = pl.col("end_ns").sort().get(pl.len() // 2).over("key")
    used = used.with_columns((pl.col("end_ns") - middle).alias("ahead_ns"))
    offset = pl.col("ahead_ns").median().over("rank")
    used = used.with_columns((pl.col("ahead_ns") - offset).abs().alias("off_ns"))
    error = (
        pl.when(pl.len() >= _LEAST_FOR_SHARE)
        .then(pl.col("off_ns").quantile(_WITHIN, interpolation="linear"))
        .otherwise(pl.col("off_ns").max())
    )
    found = used.group_by("rank").agg(
        pl.col("ahead_ns").median().alias("clock_offset_ns"), error.alias("clock_error_ns")
    )
    return found.sort("rank").select(pl.col(name).round().cast(dtype) for name, dtype in schema.items())
