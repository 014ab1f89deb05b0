"""The peak of a device's memory if some bytes were not there for some of the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.memory.blocks import memory_blocks
from torchprof_magic.facts.memory.levels import memory_levels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace


class Curve(NamedTuple):
    """The bytes in use on one device over time, in the recording cycle with its highest peak.

    ``group`` is that of ``memory_blocks``, ``rows`` are rows of ``trace.memory``, and the others have a value for each
    of them. ``peak_row`` is an index into these.
    """

    device: str
    is_host: bool
    group: int
    rows: IntArray
    time_ns: IntArray
    total: IntArray
    peak_row: int

    @property
    def peak_bytes(self) -> int:
        """The highest level."""
        return int(self.total[self.peak_row])

    def index_of(self, rows: IntArray) -> IntArray:
        """Return the indexes of rows of ``trace.memory``, 0 for those before the first."""
        return np.searchsorted(self.rows, rows)

    def index_at(self, time_ns: IntArray | int) -> IntArray:
        """Return the index of the first change at or after each time."""
        return np.searchsorted(self.time_ns, time_ns)


class Removal(NamedTuple):
    """Bytes that would not be in use from one index of a curve until before another; negative ones would be added."""

    begin: IntArray
    end: IntArray
    size_bytes: IntArray

    def chosen(self, rows: IntArray | BoolArray) -> Removal:
        """Return some of the intervals."""
        return Removal(self.begin[rows], self.end[rows], self.size_bytes[rows])

    def held_at(self, index: int) -> IntArray:
        """Return the bytes of each interval that holds an index, 0 for the others."""
        return np.where((self.begin <= index) & (index < self.end), self.size_bytes, 0)


def device_curves(trace: Trace) -> list[Curve]:
    """Return the curve of every device, without those that are never in use."""
    groups, total = memory_blocks(trace).groups, memory_levels(trace).total
    time = trace.memory["time_ns"].to_numpy()
    curves: dict[str, Curve] = {}
    for group, device in enumerate(groups.device):  # devices and cycles are few
        rows = np.flatnonzero(groups.of_row == group)
        level = total[rows]
        is_host = bool(groups.is_host[group])
        curve = Curve(device, is_host, group, rows, time[rows], level, int(np.argmax(level)))
        known = curves.get(device)
        if curve.peak_bytes > (known.peak_bytes if known else 0):
            curves[device] = curve
    return list(curves.values())


def joined(parts: Sequence[Removal]) -> Removal:
    """Return all intervals of several removals."""
    return Removal(*(np.concatenate([part[column] for part in parts]) for column in range(3)))


def peak_without(curve: Curve, removal: Removal) -> int:
    """Return the highest level of a curve after a removal, in bytes.

    That is not the old peak less what is removed there: another moment may then be the highest.
    """
    is_real = removal.begin < removal.end
    begin, end, size = (column[is_real] for column in removal)
    places = np.concatenate(([0], begin, end))
    change = np.concatenate(([0], size, -size))
    starts, number = np.unique(places, return_inverse=True)
    removed = np.zeros(len(starts), np.int64)
    np.add.at(removed, number, change)
    inside = starts < len(curve.total)
    level = np.maximum.reduceat(curve.total, starts[inside]) - np.cumsum(removed)[inside]
    return int(level.max())
