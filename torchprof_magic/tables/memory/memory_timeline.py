"""The memory timeline of torch: what is created and destroyed on a device, and the bytes of each category."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.memory.block_categories import block_categories
from torchprof_magic.facts.memory.blocks import LATEST, memory_blocks
from torchprof_magic.facts.memory.levels import memory_levels
from torchprof_magic.facts.sums import running_sum
from torchprof_magic.model.memory_categories import BEFORE, TORCH_ACTIONS, TORCH_NUMBERS, TORCH_ORDER, UNKNOWN
from torchprof_magic.model.trace import MEMORY_CATEGORIES, MEMORY_CATEGORY
from torchprof_magic.tables.memory.in_use import memory_series

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import DType, Trace

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


def recorded_changes(trace: Trace, device: str) -> pl.DataFrame:
    """Return what is created and destroyed on a device: ``time_ns, size_bytes, category``.

    ``time_ns`` is null for memory that was there before the recording; ``size_bytes`` is negative for what is
    destroyed. Up to every time they add up to the total in ``report.memory``: what no block explains is unknown.
    Between two cycles of a recording nothing is known, so the blocks of one end where the next one begins.
    """
    groups = memory_blocks(trace).groups
    mine = [group for group, name in enumerate(groups.device) if name == device]
    starts = [int(trace.memory["time_ns"][int(np.argmax(groups.of_row == group))]) for group in mine]
    frames = [pl.DataFrame(schema=_CHANGES)]
    for place, group in enumerate(mine):  # the cycles of a recording are few
        begin = pl.lit(starts[place] if place else None, pl.Int64)
        frames.append(_changes_of(trace, group).with_columns(pl.col("time_ns").fill_null(begin)))
        if place + 1 < len(mine):
            left = frames[-1].group_by("category", maintain_order=True).agg(-pl.col("size_bytes").sum())
            frames.append(left.select(pl.lit(starts[place + 1], pl.Int64).alias("time_ns"), "size_bytes", "category"))
    return pl.concat(frames).filter(pl.col("size_bytes") != 0)


_CHANGES: dict[str, DType] = {"time_ns": pl.Int64, "size_bytes": pl.Int64, "category": MEMORY_CATEGORY}


def _changes_of(trace: Trace, group: int) -> pl.DataFrame:
    """Return the changes of one device in one cycle."""
    blocks, category = memory_blocks(trace), block_categories(trace)
    chosen = np.flatnonzero(blocks.group == group)
    born, ended, size = blocks.born[chosen], blocks.ended[chosen], blocks.size_bytes[chosen]
    end_ns = blocks.end_ns(trace)[chosen]
    is_freed = end_ns < LATEST
    rows = np.flatnonzero(blocks.groups.of_row == group)
    rest = memory_levels(trace).total[rows] - _sums_after(rows, born, ended, size)
    is_in_block = bool(((born == rows[0]) | (ended == rows[0])).any())
    before = int(rest[0]) - (0 if is_in_block else int(trace.memory["delta_bytes"][int(rows[0])]))
    step = np.diff(rest, prepend=before)
    unknown = np.full(len(rows) + 1, MEMORY_CATEGORIES.index("unknown"))
    row = np.concatenate((born, [-1], rows))
    times = pl.Series(np.append(trace.memory["time_ns"].to_numpy(), 0)[row])
    times = times.set(pl.Series(row < 0), None)
    times = pl.concat([times[: len(born)], pl.Series(end_ns[is_freed]), times[len(born) :]])
    number = np.concatenate((category[chosen], category[chosen][is_freed], unknown))
    return pl.DataFrame(
        {
            "time_ns": times,
            "size_bytes": np.concatenate((size, -size[is_freed], [before], step)),
            "category": pl.Series(MEMORY_CATEGORIES, dtype=MEMORY_CATEGORY).gather(number),
        },
        schema=_CHANGES,
    )


def _sums_after(rows: IntArray, born: IntArray, ended: IntArray, size: IntArray) -> IntArray:
    """Return the bytes of blocks that are in use after each of some rows of memory."""
    change = np.zeros(len(rows) + 1, np.int64)
    np.add.at(change, np.searchsorted(rows, born), size)
    np.add.at(change, np.searchsorted(rows, ended), -size)
    return np.cumsum(change)[:-1]


def timeline_of(changes: pl.DataFrame, device: str, start_unix_ns: int) -> Timeline:
    """Return the timeline of changes, which have the columns of ``recorded_changes``, in torch's order."""
    number = pl.col("category").cast(pl.String).replace_strict(TORCH_NUMBERS, default=UNKNOWN, return_dtype=pl.Int64)
    is_created = pl.when(pl.col("size_bytes") > 0).then(_CREATE).otherwise(_DESTROY)
    action = pl.when(pl.col("time_ns").is_null()).then(_PREEXISTING).otherwise(is_created)
    frame = changes.select(
        (pl.col("time_ns") + start_unix_ns).fill_null(BEFORE),
        action.cast(pl.Int64).alias("action"),
        "size_bytes",
        number,
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
