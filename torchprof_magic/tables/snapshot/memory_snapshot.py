"""A memory snapshot of a caching allocator, as frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchprof_magic.facts.memory.alive import alive_at
from torchprof_magic.tables.snapshot.frames import (
    blocks_table,
    held_by_line,
    pools_table,
    segments_table,
    snapshot_devices,
)
from torchprof_magic.tables.snapshot.stack_flame import bytes_flame

if TYPE_CHECKING:
    import polars as pl

    from torchprof_magic.facts.memory.alive import Moment
    from torchprof_magic.model.shapes import Tree
    from torchprof_magic.model.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What the caching allocators of the devices held, and what they had done before.

    All frames are polars data frames, and empty if the report has no snapshot. Sizes are bytes and times int64 ns from
    the first recorded event. docs/definitions.md defines the columns.
    """

    trace: Trace

    @property
    def devices(self) -> pl.DataFrame:
        """One row per device: what is reserved, active and free, how fragmented it is, and the peak of the history."""
        return snapshot_devices(self.trace)

    @property
    def pools(self) -> pl.DataFrame:
        """One row per device and memory pool, private ones included, such as those of CUDA graphs."""
        return pools_table(self.trace)

    @property
    def segments(self) -> pl.DataFrame:
        """One row per segment, which is memory that was reserved from the driver at once."""
        return segments_table(self.trace)

    @property
    def blocks(self) -> pl.DataFrame:
        """One row per block of a segment, in use or free, with the line that allocated it."""
        return blocks_table(self.trace)

    @property
    def history(self) -> pl.DataFrame:
        """One row per action of the allocators, in order of time; its length is bounded by ``--snapshot-entries``."""
        return self.trace.history

    @property
    def annotations(self) -> pl.DataFrame:
        """One row per range of ``record_function`` that ran meanwhile."""
        return self.trace.annotations

    @property
    def peak(self) -> pl.DataFrame:
        """One row per block that was in use at the peak of its device, the largest first; their sizes add up to it."""
        return alive_at(self.trace, "peak")

    def alive(self, at: Moment = "peak", device: str | None = None) -> pl.DataFrame:
        """Return the blocks in use at ``"peak"``, at the ``"end"`` or at a time in ns, the largest first.

        ``device`` limits them to one. Raises ``ValueError`` for an unknown device or moment.
        """
        return alive_at(self.trace, at, device)

    def by_line(self, at: Moment = "peak", device: str | None = None) -> pl.DataFrame:
        """Return who allocated what is in use at a moment: ``device, line, function, size_bytes, blocks``.

        The largest are first. A ``line`` is null if the code had no Python frame, or ran before the history.
        """
        return held_by_line(self.trace, at, device)

    def flame(self, at: Moment = "peak", device: str | None = None) -> Tree:
        """Return the stacks that allocated what is in use at a moment, as a flame graph of bytes."""
        return bytes_flame(self.trace, at, device)
