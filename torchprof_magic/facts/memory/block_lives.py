"""When each block of a memory snapshot was allocated and freed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, IntArray
from torchprof_magic.model.rows import filled

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


class Lives(NamedTuple):
    """One row per block that was ever in use on one device.

    ``begin`` and ``end`` are rows of its history: a block is in use from ``begin`` on until before ``end``. ``begin``
    is -1 for one that was allocated before the history, and ``end`` the height of the history for one that stays.
    Blocks count until they can be allocated again (``free_completed``), as in the curve. ``stack`` is -1 if unknown.
    """

    begin: IntArray
    end: IntArray
    size_bytes: IntArray
    address: np.ndarray
    stack: IntArray

    def at(self, row: int) -> np.ndarray:
        """Return which blocks were in use after a row of the history."""
        return (self.begin <= row) & (row < self.end)


@once_per_trace
def block_lives(trace: Trace) -> dict[str, Lives]:
    """Return the blocks of each device, from its history and from what it still held.

    A block that was freed without having been allocated was there before the history, and so was one that is in use at
    the end and was not allocated in it. Memory can be handed out only once, so an allocation at the address of a block
    in use ends that block.
    """
    devices = pl.concat([trace.history["device"], trace.segments["device"]]).unique().sort().to_list()
    return {device: _lives_on(trace, device) for device in devices}


def device_history(trace: Trace, device: str) -> pl.DataFrame:
    """Return the history of one device."""
    return trace.history.filter(pl.col("device") == device)


def _lives_on(trace: Trace, device: str) -> Lives:
    history = device_history(trace, device)
    seen = _seen_in(history)
    owner = trace.segments["device"][trace.blocks["segment"].to_list()]
    held = trace.blocks.filter((pl.Series(owner) == device) & (pl.col("state") != "inactive"))
    is_new = ~np.isin(held["address"].to_numpy(), seen.address[seen.end == history.height])
    before = held.filter(pl.Series(is_new))
    return Lives(
        begin=np.concatenate((seen.begin, np.full(before.height, NO_PARENT))),
        end=np.concatenate((seen.end, np.full(before.height, history.height))),
        size_bytes=np.concatenate((seen.size_bytes, before["requested_bytes"].to_numpy())),
        address=np.concatenate((seen.address, before["address"].to_numpy())),
        stack=np.concatenate((seen.stack, filled(before["stack"], NO_PARENT))),
    )


def _seen_in(history: pl.DataFrame) -> Lives:
    """Return the blocks that the history names, paired by address."""
    rows = history.with_row_index("row").filter(pl.col("action").is_in(("alloc", "free_completed")))
    rows = rows.sort("address", maintain_order=True)
    row, address = rows["row"].to_numpy().astype(np.int64), rows["address"].to_numpy()
    is_alloc = (rows["action"] == "alloc").to_numpy()
    has_next = np.append(address[1:] == address[:-1], [False] * min(len(address), 1))
    follows = np.append([False] * min(len(address), 1), has_next[:-1]).astype(np.bool_)
    was_alloc = np.append([False] * min(len(address), 1), is_alloc[:-1]).astype(np.bool_) & follows
    next_row = np.where(has_next, np.append(row[1:], row[:1]), history.height)
    is_from_before = ~is_alloc & ~was_alloc
    kept = is_alloc | is_from_before
    stack = filled(rows["stack"], NO_PARENT)
    return Lives(
        begin=np.where(is_alloc, row, NO_PARENT)[kept],
        end=np.where(is_alloc, next_row, row)[kept],
        size_bytes=rows["size_bytes"].to_numpy()[kept],
        address=address[kept],
        # The stack of a release says who freed it, not who allocated it.
        stack=np.where(is_alloc, stack, NO_PARENT)[kept],
    )


def level_after(lives: Lives, rows: int) -> IntArray:
    """Return the bytes in use after each of the rows of a history, before the first of which is element 0."""
    change = np.zeros(rows + 2, np.int64)
    np.add.at(change, lives.begin + 1, lives.size_bytes)
    np.add.at(change, lives.end + 1, -lives.size_bytes)
    return np.cumsum(change)[: rows + 1]
