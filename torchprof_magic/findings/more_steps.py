"""How to record several steps where a recording without a loop is one step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchprof_magic.model.cell_tree import tree_of_cell

if TYPE_CHECKING:
    from torchprof_magic.model.meta import CellSource
    from torchprof_magic.model.trace import Trace

_IN_CELLS = (
    "For several steps, repeat the work in a loop of the cell, or call torchprof_magic.step() where each step ends and "
    "record with --step manual."
)
_IN_BLOCKS = "For several steps, loop over p.steps(...) in the block of `with profile() as p`."
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)
_DEFERRED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def more_steps(trace: Trace) -> str:
    """Return a sentence that says how to record several steps; empty if there are several, or a loop."""
    stepping, cell = trace.meta.stepping, trace.meta.cell
    if stepping is None or stepping.how not in ("cell", "optimizer") or trace.steps.height != 1:
        return ""
    if cell is None:
        return _IN_BLOCKS if stepping.how == "cell" else ""
    return "" if _has_loop(cell) or _names_steps(cell) else _IN_CELLS


def _has_loop(cell: CellSource) -> bool:
    """Return whether a loop stands in a cell, outside of functions; True if the cell cannot be parsed."""
    tree = tree_of_cell(cell.source)
    if tree is None:
        return True
    left: list[ast.AST] = [*tree.body]
    while left:
        node = left.pop()
        if isinstance(node, _LOOPS):
            return True
        if not isinstance(node, _DEFERRED):
            left += [child for child in ast.iter_child_nodes(node) if isinstance(child, _BLOCKS)]
    return False


def _names_steps(cell: CellSource) -> bool:
    """Return whether the line of the magic says what ends a step."""
    return "--step" in cell.source.lstrip().partition("\n")[0]
