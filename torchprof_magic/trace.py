"""What happened, as columns: the one model that every reader fills and every analysis reads.

All times are int64 ns from ``meta.start_unix_ns``. Frames are never changed after construction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from torchprof_magic.meta import Meta, Problem

CATEGORIES = (
    "cpu_op",
    "user_annotation",
    "python_function",
    "runtime",
    "kernel",
    "memcpy",
    "memset",
    "gpu_user_annotation",
    "overhead",
    "other",
)
HOST_CATEGORIES = ("cpu_op", "user_annotation", "python_function", "runtime", "overhead")
DEVICE_CATEGORIES = ("kernel", "memcpy", "memset")

CATEGORY = pl.Enum(CATEGORIES)
LANE_KIND = pl.Enum(("thread", "stream", "stream annotations", "other"))
FLOW_KIND = pl.Enum(("launch", "backward"))
TEXT = pl.Categorical()

EVENTS_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "name": TEXT,
    "category": CATEGORY,
    "lane": pl.Int32,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "parent": pl.Int32,
    "depth": pl.Int32,
    "step": pl.Int32,
    "cycle": pl.Int32,
    "correlation": pl.Int64,
    "sequence": pl.Int64,
    "fwd_thread": pl.Int64,
    "shapes": TEXT,
    "dtypes": TEXT,
    "bytes": pl.Int64,
    "stream": pl.Int32,
    "device": pl.Int32,
    "stack": pl.Int32,
    "overlaps": pl.Boolean,
}
LANES_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "kind": LANE_KIND,
    "pid": pl.String,
    "tid": pl.String,
    "device": pl.Int32,
    "stream": pl.Int32,
    "name": pl.String,
}
FLOWS_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "kind": FLOW_KIND,
    "source": pl.Int32,
    "target": pl.Int32,
}
MEMORY_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "time_ns": pl.Int64,
    "device": pl.String,
    "delta_bytes": pl.Int64,
    "allocated_bytes": pl.Int64,
    "reserved_bytes": pl.Int64,
    "address": pl.UInt64,
    "event": pl.Int32,
    "cycle": pl.Int32,
}
STEPS_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "number": pl.Int32,
    "cycle": pl.Int32,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "complete": pl.Boolean,
}


STACKS_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "parent": pl.Int32,
    "name": TEXT,
    "file": TEXT,
    "line": pl.Int32,
    "function": TEXT,
}
ARROWS_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "category": pl.String,
    "starts": pl.Int64,
    "ends": pl.Int64,
    "ids": pl.Int64,
    "paired": pl.Int64,
}


class _Referable:
    """Lets results be kept for as long as their trace lives; ``dataclass(weakref_slot=True)`` needs Python 3.11."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace(_Referable):
    """One recording, or one file, as frames.

    ``events`` is sorted by lane, start and falling duration, so a row's ``parent`` (-1: none) stands above it;
    ``lane`` is a row of ``lanes``. ``flows`` holds rows of ``events``: launch -> device event, forward op ->
    backward op. ``memory.event`` is the innermost host event around the allocation, or -1. ``step`` is null
    outside every step. ``stacks`` is the prefix tree of Python frames, a frame below its caller; ``events.stack`` is
    the row of the innermost frame around the event (around its launch, for device events), null where none is known.
    ``events.overlaps`` marks events that began inside another on their lane and outlived it. ``arrows`` counts the
    file's own flow arrows by category: how many begin, end, and have both ends.
    """

    events: pl.DataFrame
    lanes: pl.DataFrame
    flows: pl.DataFrame
    memory: pl.DataFrame
    steps: pl.DataFrame
    stacks: pl.DataFrame
    arrows: pl.DataFrame
    meta: Meta
    problems: tuple[Problem, ...] = ()

    @property
    def has_device(self) -> bool:
        """True when any kernel, copy or fill on an accelerator was recorded."""
        return bool(self.events["category"].is_in(DEVICE_CATEGORIES).any())
