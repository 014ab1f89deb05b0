"""What the flame graph of a report shows: calls, or in a memory snapshot the stacks that hold the peak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.facts.memory.alive import is_snapshot
from torchprof_magic.tables.execution_trace import has_graph
from torchprof_magic.tables.flame.call_tree import flame_tree, flame_tree_in
from torchprof_magic.tables.snapshot.stack_flame import bytes_flame

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.shapes import Tree
    from torchprof_magic.model.trace import Trace


def has_calls(trace: Trace) -> bool:
    """Return whether there is anything to nest by time, which an execution trace lacks."""
    return not has_graph(trace)


def flame_view(trace: Trace) -> Tree:
    """Return the merged call tree; of a snapshot without any event that of the bytes at the peak of each device."""
    return bytes_flame(trace) if is_snapshot(trace) else flame_tree(trace)


def flame_view_in(trace: Trace, part: TimeRange) -> Tree:
    """Return the merged call tree of what lies in a range. A snapshot has no timeline to choose one in."""
    return bytes_flame(trace) if is_snapshot(trace) else flame_tree_in(trace, part)
