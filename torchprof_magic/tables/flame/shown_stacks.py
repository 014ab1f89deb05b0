"""What the flame graph of a report shows: calls, or in a memory snapshot the stacks that hold the peak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.facts.memory.alive import is_snapshot
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.tables.execution_trace import has_graph
from torchprof_magic.tables.flame.call_tree import flame_tree
from torchprof_magic.tables.snapshot.stack_flame import bytes_flame

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.shapes import Tree
    from torchprof_magic.model.trace import Trace


def has_calls(trace: Trace) -> bool:
    """Return whether there is anything to nest by time, which an execution trace lacks."""
    return not has_graph(trace)


def flame_view(trace: Trace, part: TimeRange = WHOLE) -> Tree:
    """Return the merged call tree; of a snapshot without any event that of the bytes at the peak of each device.

    A snapshot has no timeline to choose a part in.
    """
    return bytes_flame(trace) if is_snapshot(trace) else flame_tree(trace, part)
