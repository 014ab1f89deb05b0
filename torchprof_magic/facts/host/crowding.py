"""Whether other programs left the threads of a run enough cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchprof_magic.model.meta import Meta


def crowding(meta: Meta) -> float | None:
    """Return the part of the threads, 0 to 1, that had no core for themselves beside other programs; None if not known.

    They are the threads of ops on the CPU, no more than there are cores: beyond that they are in each other's way.
    """
    if meta.others_share is None or not meta.cpu_cores or not meta.cpu_threads:
        return None
    threads = min(meta.cpu_threads, meta.cpu_cores)
    without = threads + meta.others_share * meta.cpu_cores - meta.cpu_cores
    return min(1.0, max(0.0, without / threads))
