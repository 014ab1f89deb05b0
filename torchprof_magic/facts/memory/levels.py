"""The bytes in use on each device after every change, in all and by category."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.memory.block_categories import block_categories
from torchprof_magic.facts.memory.blocks import HOST, LATEST, Blocks, memory_blocks
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
        total[rows] = _totals(trace, blocks, known.sum(axis=0), chosen, rows)
        by_category[:, rows] = _adding_up(known, total[rows])
    return Levels(total, by_category)


class SilentReleases(NamedTuple):
    """The releases on the host that are not in the file, in order of cycles and time, and the levels after each.

    ``next_row`` is the first row of ``trace.memory`` after it, or the number of all.
    """

    time_ns: IntArray
    next_row: IntArray
    levels: Levels


@once_per_trace
def silent_releases(trace: Trace) -> SilentReleases:
    """Return the releases of memory of the host from before the recording that only a live run noted."""
    blocks, category, levels = memory_blocks(trace), block_categories(trace), memory_levels(trace)
    silent, end_ns = np.flatnonzero(blocks.silent_ns < LATEST), blocks.end_ns(trace)
    silent = silent[np.lexsort((end_ns[silent], blocks.group[silent]))]
    change = np.zeros((len(MEMORY_CATEGORIES), len(silent)), np.int64)
    change[category[silent], np.arange(len(silent))] = -blocks.size_bytes[silent]
    found = np.empty_like(change)
    for group in np.unique(blocks.group[silent]).tolist():
        mine, rows = np.flatnonzero(blocks.group[silent] == group), np.flatnonzero(blocks.groups.of_row == group)
        at = np.searchsorted(rows, blocks.ended[silent[mine]])
        start = np.searchsorted(at, at)  # the first release since the row before
        summed = np.cumsum(np.insert(change[:, mine], 0, 0, axis=1), axis=1)
        known = levels.by_category[:, rows]
        known = np.insert(known, 0, _before(trace, blocks, category, group, rows, known), axis=1)
        found[:, mine] = known[:, at] + summed[:, 1:] - summed[:, start]
    return SilentReleases(end_ns[silent], blocks.ended[silent], Levels(found.sum(axis=0, dtype=np.int64), found))


def _before(trace: Trace, blocks: Blocks, category: IntArray, group: int, rows: IntArray, known: IntArray) -> IntArray:
    """Return the bytes of each category before the first row of a group."""
    mine, first = blocks.group == group, rows[0]
    found = known[:, 0].copy()
    for is_changed, sign in ((mine & (blocks.born == first), -1), (mine & (blocks.ended == first), 1)):
        found += sign * sum_by(category[is_changed], blocks.size_bytes[is_changed], len(found))
    if trace.memory["address"][int(first)] is None:
        found[_UNKNOWN] -= int(trace.memory["delta_bytes"][int(first)])
    return found


def _known_levels(blocks: Blocks, category: IntArray, chosen: IntArray, rows: IntArray) -> IntArray:
    """Return for each category the bytes of its blocks that are in use after each of some rows of memory.

    Zeros if the sizes are damaged, so that they would overflow.
    """
    width = len(rows) + 1
    change = np.zeros(len(MEMORY_CATEGORIES) * width, np.int64)
    size = blocks.size_bytes[chosen]
    if _add_up(size):
        first = category[chosen] * width
        change += sum_by(first + np.searchsorted(rows, blocks.born[chosen]), size, len(change))  # 0 for older ones
        change -= sum_by(first + np.searchsorted(rows, blocks.ended[chosen]), size, len(change))
    return np.cumsum(change.reshape(-1, width), axis=1)[:, :-1]


def _add_up(size_bytes: IntArray) -> bool:
    return float(size_bytes.astype(np.float64).sum()) < LARGEST


def _totals(trace: Trace, blocks: Blocks, in_blocks: IntArray, chosen: IntArray, rows: IntArray) -> IntArray:
    """Return the bytes in use after each row of memory of one device, of which so many are in blocks.

    An accelerator's are those that its allocator reports. torch's total of the host goes on from one recording of the
    process to the next and keeps what was released in between, so there the blocks are added up, and the records
    without an address.
    """
    memory, size = trace.memory[rows], blocks.size_bytes[chosen]
    delta = memory["delta_bytes"].to_numpy()
    if memory["device"][0] == HOST:
        if _add_up(size):
            return in_blocks + _from_least(running_sum(np.where(memory["address"].is_null(), delta, 0)), 0)
    elif memory["allocated_bytes"].null_count() == 0:
        return memory["allocated_bytes"].to_numpy()
    held = float(size[blocks.born[chosen] < 0].astype(np.float64).sum())
    return _from_least(running_sum(delta), int(min(held, LARGEST)))


def _from_least(running: IntArray, held: int) -> IntArray:
    """Return a running sum that begins with what was held, or with more, so that it never is less than 0."""
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
