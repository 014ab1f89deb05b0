"""Marks the lines of a cell, so that the times at which they began are noted.

Only code that runs where it is written is marked, never the body of a function or class: a function with marks in it
could not be compiled as a whole. No name is used and no line moves.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType

    from torchprof_magic.capture import LineMarks
    from torchprof_magic.run.stepping.syntax import Loop

# Stands for the marks in an instrumented tree.
_STAND_IN = "torchprof lines 7c1e40b2"
_UNMARKED = (ast.Global, ast.Nonlocal)
_BLOCKS = ("body", "orelse", "finalbody")


def mark_lines(tree: ast.Module, step_loop: Loop | None) -> ast.Module:
    """Put a mark before every statement outside of functions and classes; changes ``tree``.

    Loops inside the loop that steps, or inside any other loop if none does, are inner ones.
    """
    first = _first_statement(tree.body)
    tree.body[first:] = _marked(tree.body[first:], step_loop, is_inner=False, depth=0)
    return tree


def with_marks(code: CodeType, marks: LineMarks) -> CodeType:
    """Return the code of a marked cell with the marks in it, as a constant."""
    constants = (marks if isinstance(value, str) and value == _STAND_IN else value for value in code.co_consts)
    return code.replace(co_consts=tuple(constants))


def _first_statement(body: list[ast.stmt]) -> int:
    """Return the place of the first statement that may have something before it."""
    for place, node in enumerate(body):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not (is_future or (is_text and place == 0)):
            return place
    return len(body)


def _marked(
    body: Iterable[ast.stmt], step_loop: Loop | None, *, is_inner: bool, depth: int, header: int = 0
) -> list[ast.stmt]:
    """Return the statements of a block with their marks; ``header`` is the line of the loop around it."""
    marked: list[ast.stmt] = []
    for node in body:
        if not isinstance(node, _UNMARKED):
            line = header if isinstance(node, ast.Continue) and header else node.lineno
            marked.append(_mark(line, node, is_inner=is_inner))
        _mark_inside(node, step_loop, is_inner=is_inner, depth=depth, header=header)
        marked.append(node)
    return marked


def _mark_inside(node: ast.stmt, step_loop: Loop | None, *, is_inner: bool, depth: int, header: int) -> None:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    is_loop = isinstance(node, (ast.For, ast.AsyncFor, ast.While))
    # The loop that steps, and those around it, are the outer ones.
    inner = is_inner or (is_loop and (depth >= 1 if step_loop is None else not _holds(node, step_loop)))
    for name in _BLOCKS:
        block = getattr(node, name, None)
        if not block:
            continue
        is_body = is_loop and name == "body"
        around = node.lineno if is_body else header
        inside = _marked(
            block, step_loop, is_inner=inner if is_body else is_inner, depth=depth + is_loop, header=around
        )
        if is_body or (isinstance(node, (ast.With, ast.AsyncWith)) and name == "body"):
            inside.append(_mark(node.lineno, node, is_inner=inner))  # fetching the next item, or leaving
        setattr(node, name, inside)
    for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        handler.body = _marked(handler.body, step_loop, is_inner=is_inner, depth=depth, header=header)


def _holds(node: ast.AST, loop: Loop) -> bool:
    return any(inside is loop for inside in ast.walk(node))


def _mark(line: int, at: ast.stmt, *, is_inner: bool) -> ast.stmt:
    """Return ``if marks.is_on: marks.append(marks.clock()); marks.append(line)``."""
    test = _attribute("is_inner_on" if is_inner else "is_on")
    clock = ast.Call(_attribute("clock"), [], [])
    calls = [ast.Expr(ast.Call(_attribute("append"), [value], [])) for value in (clock, ast.Constant(line))]
    mark = ast.If(test, list(calls), [])
    for node in ast.walk(mark):
        if isinstance(node, (ast.stmt, ast.expr)):
            ast.copy_location(node, at)
            node.end_lineno, node.end_col_offset = at.lineno, at.col_offset
    return mark


def _attribute(name: str) -> ast.Attribute:
    return ast.Attribute(ast.Constant(_STAND_IN), name, ast.Load())
