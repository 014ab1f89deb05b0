"""Whether a program worked on a device whose work was not recorded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.facts.device.busy import has_any_device
from torchprof_magic.facts.device.coverage import launches_of
from torchprof_magic.facts.shared import is_named, once_per_trace
from torchprof_magic.model.vendors import DEVICE_MEMORY, DEVICE_OP

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# What moves the work of a cell to an accelerator.
_MOVES = re.compile(r"""\.cuda\(|["'](cuda|xpu|mps|mtia|hpu|npu)(:[0-9]+)?["']""")


class DeviceSigns(NamedTuple):
    """What tells of a device: launches, ops that only a device runs, its memory, and code that moves work to it."""

    launches: int
    ops: int
    memory: bool
    code: bool


@once_per_trace
def signs_of_device(trace: Trace) -> DeviceSigns | None:
    """Return what tells that a device worked although none of its work is in the trace; ``None`` if nothing does.

    Code counts only if the process that recorded had a device.
    """
    if has_any_device(trace):
        return None
    is_op = (trace.events["category"] == "cpu_op").to_numpy()
    cell = trace.meta.cell
    found = DeviceSigns(
        launches=int(launches_of(trace).is_missing.sum()),
        ops=int((is_op & is_named(trace, DEVICE_OP)).sum()),
        memory=bool(is_op.any() and trace.memory["device"].str.contains(DEVICE_MEMORY).any()),
        code=bool(trace.meta.device_names) and cell is not None and _MOVES.search(cell.source) is not None,
    )
    return found if any(found) else None
