"""What was in use before a recording and is not in its curve of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.memory.alive import is_snapshot
from torchprof_magic.facts.memory.blocks import HOST, memory_blocks
from torchprof_magic.model.units import format_bytes

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


def uncounted_bytes(trace: Trace) -> int | None:
    """Return the bytes on the host from before the recording that the curve lacks; None if they are not known.

    The curve has the parameters, buffers, gradients, optimizer state and inputs from before. Of several cycles, that
    with the most bytes counts.
    """
    if not trace.meta.knows_storages:
        return None
    blocks = memory_blocks(trace)
    cycle = pl.Series(blocks.groups.cycle, dtype=pl.Int32).gather(blocks.group)
    is_host = pl.Series(blocks.groups.is_host[blocks.group])
    known = pl.DataFrame({"address": blocks.address, "cycle": cycle, "born": blocks.born}).filter(is_host)
    known = known.filter(pl.col("born") < 0).with_columns(pl.col("address").cast(pl.UInt64))
    older = trace.storages.filter("is_older").join(known, on=["address", "cycle"], how="anti")
    most = older.group_by("cycle").agg(pl.col("bytes").sum())["bytes"].max()
    return int(most or 0)  # type: ignore[arg-type]


def starting_note(trace: Trace, device: str) -> str:
    """Return what the peak of a device does not count, as far as that is known; accelerators count everything."""
    if device != HOST or is_snapshot(trace):
        return ""
    uncounted = uncounted_bytes(trace)
    if uncounted is None:
        return "" if trace.tags.height else "without what was in use before"
    return f"without {format_bytes(uncounted)} of older tensors" if uncounted else ""
