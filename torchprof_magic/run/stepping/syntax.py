"""Walking over the syntax trees of cells, however deeply an expression is nested."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Loop = ast.For | ast.AsyncFor | ast.While
LOOPS = (ast.For, ast.AsyncFor, ast.While)
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
# Code in these runs when it is called, not where it is written.
DEFERRED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
# Only these hold statements.
BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)
_PLACED = (ast.stmt, ast.expr, ast.ExceptHandler, ast.arg, ast.keyword, ast.alias, ast.pattern)


def walk_here(node: ast.AST, barriers: tuple[type[ast.AST], ...] = ()) -> Iterator[ast.AST]:
    """Yield ``node`` and its descendants in source order, except inside functions, classes and ``barriers``."""
    left = [node]
    while left:
        found = left.pop()
        if not isinstance(found, (*DEFERRED, *barriers)):
            yield found
            left += reversed([*ast.iter_child_nodes(found)])


def blocks_in(node: ast.AST) -> list[ast.AST]:
    """Return the statements, handlers and cases that stand directly in a statement."""
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, BLOCKS)]


def loops_in(loop: Loop) -> Iterator[Loop]:
    """Yield the loops that stand in a loop, and in no other one inside it."""
    left = blocks_in(loop)
    while left:
        node = left.pop()
        if isinstance(node, LOOPS):
            yield node
        elif not isinstance(node, DEFERRED):
            left += blocks_in(node)


def names_in(node: ast.AST) -> set[str]:
    """Return the names in a piece of code."""
    return {inside.id for inside in walk_here(node) if isinstance(inside, ast.Name)}


def fill_locations(tree: ast.Module) -> ast.Module:
    """Give nodes without a place that of the node around them, as ``ast.fix_missing_locations`` does; changes ``tree``.

    That function calls itself, which Python limits, while it compiles expressions that are nested more deeply.
    """
    left: list[tuple[ast.AST, tuple[int, int, int, int]]] = [(tree, (1, 0, 1, 0))]
    while left:
        node, around = left.pop()
        if isinstance(node, _PLACED):
            around = _located(node, around)
        left += [(child, around) for child in ast.iter_child_nodes(node)]
    return tree


def _located(node: ast.AST, around: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    names = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    for name, value in zip(names, around, strict=True):
        if getattr(node, name, None) is None:
            setattr(node, name, value)
    return tuple(getattr(node, name) for name in names)


def dotted(node: ast.AST) -> str:
    """Return ``a.b.c`` for an attribute chain, or an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ".".join(reversed(parts))
    return ".".join([node.id, *reversed(parts)])
