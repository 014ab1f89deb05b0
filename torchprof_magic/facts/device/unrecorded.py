"""Whether a program worked on a device whose work was not recorded."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.facts.device.busy import has_any_device
from torchprof_magic.facts.device.coverage import launches_of
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.model.cell_tree import tree_of_cell
from torchprof_magic.model.vendors import DEVICE_MEMORY, DEVICE_OP

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# What devices are called in a program.
_DEVICE = re.compile(r"(cuda|xpu|mps|mtia|hpu|npu)(:[0-9]+)?")


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
    is_op = in_category(trace, "cpu_op")
    cell = trace.meta.cell
    found = DeviceSigns(
        launches=int(launches_of(trace).is_missing.sum()),
        ops=int((is_op & is_named(trace, DEVICE_OP)).sum()),
        memory=bool(is_op.any() and trace.memory["device"].str.contains(DEVICE_MEMORY).any()),
        code=bool(trace.meta.device_names) and cell is not None and _moves_work(cell.source),
    )
    return found if any(found) else None


def _moves_work(source: str) -> bool:
    """Return whether a cell moves its work to an accelerator whatever happens: with ``x.cuda()``, or by its name."""
    tree = tree_of_cell(source)
    open_nodes: list[ast.AST] = [] if tree is None else [tree]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, (ast.If, ast.IfExp, ast.Compare)):
            continue  # it may go either way
        if isinstance(node, ast.Attribute) and node.attr == "cuda" and ast.unparse(node.value) != "torch":
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _DEVICE.fullmatch(node.value):
            return True
        open_nodes += ast.iter_child_nodes(node)
    return False
