"""What it would save to release memory that grows: at the recorded peak, and with every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.memory.blocks import memory_blocks
from torchprof_magic.findings.savings.lower_peak import Curve, Removal
from torchprof_magic.model.units import counted, format_bytes
from torchprof_magic.tables.memory.leaks import MEASURED, leaks_table

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


class Release(NamedTuple):
    """What would not be kept, the bytes that each step leaves behind, and a clause that says how that is known."""

    removal: Removal
    bytes_per_step: int
    reason: str


def release_of_growth(trace: Trace, curve: Curve) -> Release | None:
    """Return what is saved if blocks that certainly pile up are released at the end of the step that allocates them."""
    leaks = leaks_table(trace).frame.filter((pl.col("certainty") == MEASURED) & (pl.col("device") == curve.device))
    if leaks.height == 0:
        return None
    blocks = memory_blocks(trace)
    addresses = leaks["addresses"].explode().to_numpy()
    is_kept = (blocks.group == curve.group) & (blocks.born >= 0) & (blocks.ended == trace.memory.height)
    rows = np.flatnonzero(is_kept & np.isin(blocks.address, addresses))
    born = trace.memory["time_ns"].to_numpy()[blocks.born[rows]]
    ends = np.sort(trace.steps["end_ns"].to_numpy())
    begin = curve.index_at(np.append(ends, np.iinfo(np.int64).max)[np.searchsorted(ends, born)])
    removal = Removal(begin, curve.index_of(blocks.ended[rows]), blocks.size_bytes[rows])
    grows, held = int(leaks["bytes_per_step"].sum()), removal.held_at(curve.peak_row)
    reason = (
        f"each step leaves {format_bytes(grows)} behind, so the saving grows by that with every step of a longer run. "
        f"At the recorded peak, {counted(int((held > 0).sum()), 'block')} of earlier steps with "
        f"{format_bytes(int(held.sum()))} would be released"
    )
    return Release(removal, grows, reason)
