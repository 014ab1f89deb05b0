"""What a curve of memory lacks of before the recording, and what it has too much of in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.memory.alive import is_snapshot
from torchprof_magic.facts.memory.blocks import HOST
from torchprof_magic.facts.memory.recorders_own import cycles_with_own

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

WITHOUT_OLDER = "not counting what was in use before"


def starting_note(trace: Trace, device: str) -> str:
    """Return what the peak of a device does not count; empty if it counts everything, as allocators report it.

    A live run knows all storages of the host from before it, unless they are too many. Otherwise the parameters,
    buffers, gradients, optimizer state and inputs are known, or only what was released in the recording.
    """
    if is_snapshot(trace) or (device == HOST and trace.meta.knows_storages):
        return ""
    if device != HOST:
        total = trace.memory.filter(pl.col("device") == device)["allocated_bytes"]
        return WITHOUT_OLDER if len(total) and total.is_null().all() else ""
    return "without older tensors but those of models and optimizers" if trace.tags.height else WITHOUT_OLDER


def own_note(trace: Trace, device: str) -> str:
    """Return what the peak of a device counts too much; empty if that is nothing."""
    return "in part kept by torch's recording" if device == HOST and len(cycles_with_own(trace)) else ""
