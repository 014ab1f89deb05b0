"""What was in use before a recording and is not in its curve of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.facts.memory.alive import is_snapshot
from torchprof_magic.facts.memory.blocks import HOST

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


def starting_note(trace: Trace, device: str) -> str:
    """Return what the peak of a device does not count; empty if it counts everything, as accelerators do.

    A live run knows all storages of the host from before it, unless they are too many. Otherwise the parameters,
    buffers, gradients, optimizer state and inputs are known, or only what was released in the recording.
    """
    if device != HOST or is_snapshot(trace) or trace.meta.knows_storages:
        return ""
    what = "older tensors but those of models and optimizers" if trace.tags.height else "what was in use before"
    return f"without {what}"
