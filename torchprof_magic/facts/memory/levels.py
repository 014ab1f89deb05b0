"""The bytes in use on each device after every change, in all and by category."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.memory.block_categories import block_categories
from torchprof_magic.facts.memory.blocks import Blocks, memory_blocks
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.sums import LARGEST, running_sum, sum_by
from torchprof_magic.model.trace import MEMORY_CATEGORIES

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace


_UNKNOWN = MEMORY_CATEGORIES.index("unknown")


class Levels(NamedTuple):
    """Bytes in use on its device after each row of ``trace.memory``: in all, and a row for each category."""

    total: IntArray
    by_category: IntArray


@once_per_trace
def memory_levels(trace: Trace) -> Levels:
    """Return the bytes in use after each row of ``trace.memory``; the categories add up to the total."""
    blocks, category = memory_blocks(trace), block_categories(trace)
    of_row, height = blocks.groups.of_row, trace.memory.height
    total, by_category = np.zeros(height, np.int64), np.zeros((len(MEMORY_CATEGORIES), height), np.int64)
    for group in range(len(blocks.groups.device)):  # devices and cycles are few
        rows = np.flatnonzero(of_row == group)
        chosen = np.flatnonzero(blocks.group == group)
        known = _known_levels(blocks, category, chosen, rows)
        total[rows] = _totals(trace, blocks, chosen, rows)
        by_category[:, rows] = _adding_up(known, total[rows])
    return Levels(total, by_category)


def _known_levels(blocks: Blocks, category: IntArray, chosen: IntArray, rows: IntArray) -> IntArray:
    """Return for each category the bytes of its blocks that are in use after each of some rows of memory.

    Zeros if the sizes are damaged, so that they would overflow.
    """
    width = len(rows) + 1
    change = np.zeros(len(MEMORY_CATEGORIES) * width, np.int64)
    size = blocks.size_bytes[chosen]
    if float(size.astype(np.float64).sum()) < LARGEST:
        first = category[chosen] * width
        change += sum_by(first + np.searchsorted(rows, blocks.born[chosen]), size, len(change))  # 0 for older ones
        change -= sum_by(first + np.searchsorted(rows, blocks.ended[chosen]), size, len(change))
    return np.cumsum(change.reshape(-1, width), axis=1)[:, :-1]


def _totals(trace: Trace, blocks: Blocks, chosen: IntArray, rows: IntArray) -> IntArray:
    """Return the bytes in use after each row of memory of one device."""
    memory = trace.memory[rows]
    running = running_sum(memory["delta_bytes"].to_numpy())
    has_tags = bool((blocks.tag[chosen] >= 0).any())
    if memory["allocated_bytes"].null_count() == 0 and not (has_tags and memory["device"][0] == "cpu"):
        return memory["allocated_bytes"].to_numpy()
    old = blocks.size_bytes[chosen][blocks.born[chosen] < 0]
    held = int(np.clip(old.astype(np.float64).sum(), 0, LARGEST))
    if has_tags and held < LARGEST:
        # The CPU's own totals also count what earlier recordings of this process saw allocated and not released.
        silent = (blocks.freed[chosen] < 0) & (blocks.ended[chosen] < trace.memory.height)
        gone = np.zeros(len(rows) + 1, np.int64)
        at = np.searchsorted(rows, blocks.ended[chosen][silent])
        np.add.at(gone, at, blocks.size_bytes[chosen][silent])
        return held + running - np.cumsum(gone)[:-1]
    start = max(held, -int(min(running.min(initial=0), 0)))
    return np.minimum(running, LARGEST - start) + start


def _adding_up(known: IntArray, total: IntArray) -> IntArray:
    """Return the levels of the categories so that they add up to the total: the rest is unknown.

    Where a file reports a lower total than its own records, less is known, of the last categories first.
    """
    rest = total - known.sum(axis=0)
    found = known.copy()
    found[_UNKNOWN] += rest
    lack = np.maximum(-found[_UNKNOWN], 0)
    if lack.any():
        for category in reversed(range(_UNKNOWN)):
            taken = np.minimum(found[category], lack)
            found[category] -= taken
            found[_UNKNOWN] += taken
            lack -= taken
    return found
