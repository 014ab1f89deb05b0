"""The memory timeline of torch: what is created and destroyed on a device, and the bytes of each category."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.analysis.memory import memory_series
from torchprof_magic.analysis.sums import running_sum
from torchprof_magic.model.memory_categories import BEFORE, TORCH_ACTIONS, TORCH_NUMBERS, TORCH_ORDER, UNKNOWN

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

_CREATE, _DESTROY = (TORCH_ACTIONS.index(name) + 1 for name in ("create", "destroy"))
_PREEXISTING = TORCH_ACTIONS.index("preexisting") + 1


class Timeline(NamedTuple):
    """What happens to the memory of one device, in torch's order, with torch's numbers for actions and categories.

    Attributes:
        device: Type and number of the device.
        time_ns: Unix time, -1 for what was there before the recording.
        action: 1 for memory that was there before, 2 for created, 4 for destroyed.
        size_bytes: Negative for what is destroyed.
        category: A place in ``TORCH_ORDER``.
    """

    device: str
    time_ns: IntArray
    action: IntArray
    size_bytes: IntArray
    category: IntArray


def timeline_device(trace: Trace, device: str | None) -> str:
    """Return the device, or the first accelerator, or the CPU; raises ``ValueError`` if it has no memory recorded."""
    known = memory_series(trace).frame["lane"].unique(maintain_order=True).to_list()
    if not known:
        raise ValueError("memory was not recorded; add --memory to %%torchprof, or profile_memory=True to profile()")
    if device is None:
        return str(known[0])
    if device not in known:
        raise ValueError(f"no memory of {device!r} was recorded; choose from {', '.join(known)}")
    return device


def recorded_blocks(trace: Trace, device: str) -> pl.DataFrame:
    """Return the blocks of a device: ``size_bytes, allocated_at_ns, freed_at_ns, category``, in order of time.

    ``allocated_at_ns`` is null for memory that was there before the recording: blocks that are freed without having
    been allocated, and what the totals of the allocator count beyond them. ``freed_at_ns`` is null for what stays.
    """
    rows = trace.memory.filter(pl.col("device") == device)
    first, rows = rows.head(1), rows.filter(pl.col("delta_bytes") != 0).with_row_index("row")
    ordered = _with_keys(rows).sort(*_KEYS, maintain_order=True)
    is_alloc, is_same = pl.col("delta_bytes") > 0, pl.all_horizontal(_same_as(key, -1) for key in _KEYS)
    follows = pl.all_horizontal(is_alloc.shift(1), *(_same_as(key, 1) for key in _KEYS))
    paired = ordered.with_columns(
        pl.when(is_alloc).then("time_ns").alias("allocated_at_ns"),
        pl.when(~is_alloc).then("time_ns").when(is_same).then(pl.col("time_ns").shift(-1)).alias("freed_at_ns"),
        pl.col("delta_bytes").abs().alias("size_bytes"),
    ).filter(is_alloc | ~follows.fill_null(value=False))
    blocks = paired.sort("row").select("size_bytes", "allocated_at_ns", "freed_at_ns")
    rest = _never_freed(first, blocks)
    if rest > 0:
        stays = pl.DataFrame({"size_bytes": [rest]}).with_columns(
            pl.lit(None, pl.Int64).alias("allocated_at_ns"), pl.lit(None, pl.Int64).alias("freed_at_ns")
        )
        blocks = pl.concat([stays.cast(blocks.schema), blocks])
    return blocks.with_columns(pl.lit("unknown").alias("category"))


_KEYS = ("address", "size_key", "depth")


def _with_keys(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with what pairs each allocation with its release, which follow each other under equal keys.

    That is the address. Old files have none: a release then ends the last block of its size that is still there.
    """
    has_none, is_alloc = pl.col("address").is_null(), pl.col("delta_bytes") > 0
    rows = rows.with_columns(pl.when(has_none).then(pl.col("delta_bytes").abs()).otherwise(0).alias("size_key"))
    depth = pl.when(is_alloc).then(1).otherwise(-1).cum_sum().over("address", "size_key")
    return rows.with_columns(pl.when(has_none).then(depth + (~is_alloc).cast(pl.Int64)).otherwise(0).alias("depth"))


def _same_as(key: str, by: int) -> pl.Expr:
    return pl.col(key).eq_missing(pl.col(key).shift(by))


def _never_freed(first: pl.DataFrame, blocks: pl.DataFrame) -> int:
    """Return how much was there before the first row, and is not freed later, if the allocator reported its total."""
    if first.height == 0 or first["allocated_bytes"][0] is None:
        return 0
    before = int(first["allocated_bytes"][0]) - int(first["delta_bytes"][0])
    return before - int(blocks.filter(pl.col("allocated_at_ns").is_null())["size_bytes"].sum())


def timeline_of(blocks: pl.DataFrame, device: str, start_unix_ns: int) -> Timeline:
    """Return the timeline of blocks, which have the columns of ``recorded_blocks``, in torch's order."""
    category = blocks["category"].cast(pl.String).replace_strict(TORCH_NUMBERS, default=UNKNOWN, return_dtype=pl.Int64)
    begin = blocks["allocated_at_ns"] + start_unix_ns
    end = (blocks["freed_at_ns"] + start_unix_ns).drop_nulls()
    is_freed = blocks["freed_at_ns"].is_not_null()
    size = blocks["size_bytes"]
    action = begin.is_null().replace_strict({True: _PREEXISTING, False: _CREATE}, return_dtype=pl.Int64)
    frame = pl.DataFrame(
        {
            "time_ns": pl.concat([begin.fill_null(BEFORE), end]),
            "action": pl.concat([action, pl.repeat(_DESTROY, len(end), dtype=pl.Int64, eager=True)]),
            "size_bytes": pl.concat([size, -size.filter(is_freed)]),
            "category": pl.concat([category, category.filter(is_freed)]),
        }
    ).sort("time_ns", "action", maintain_order=True)
    return Timeline(device, *(column.to_numpy() for column in frame.get_columns()))


def category_curve(timeline: Timeline) -> tuple[list[int], list[list[int]]]:
    """Return times in µs, and the bytes of each category from each of them on, as torch's memory timeline has them.

    The first of nine numbers is always 0; the others are in the order of ``TORCH_ORDER``. What was there before counts
    at the first time, which can therefore come twice.
    """
    # torch divides as Python does, which rounds differently from integer division.
    time_us = np.array([time if time < 0 else int(time / 1000) for time in timeline.time_ns.tolist()], np.int64)
    if len(time_us) == 0:
        return [], []
    last = np.flatnonzero(np.append(time_us[1:] != time_us[:-1], [True]))
    levels = np.zeros((len(last), len(TORCH_ORDER) + 1), np.int64)
    for number in range(len(TORCH_ORDER)):
        change = np.where(timeline.category == number, timeline.size_bytes, 0)
        levels[:, number + 1] = running_sum(change)[last]
    times = time_us[last]
    known = times[times >= 0]
    times = np.where(times < 0, known.min() if len(known) else BEFORE, times)
    return times.tolist(), levels.tolist()
