"""Putting calls into the syntax tree of a cell that report the iterations of its loops.

The cell is not re-indented and no line moves, so tracebacks and ``inspect.getsource`` stay correct. Only the iterable
of a loop is wrapped, or calls with the line number of the loop are put around it. What is called are constants of the
code, because a name would be in the user's namespace, which ``%reset`` and ``del`` can empty while the cell runs.
"""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, Any

from torchprof_magic.run.stepping.plan import loops_around
from torchprof_magic.run.stepping.syntax import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from torchprof_magic.run.stepping.plan import StepPlan
    from torchprof_magic.run.stepping.syntax import Loop

# Stands for what a loop of the plan calls, with its number.
_STAND_IN = "torchprof stepper 2f6d1c9e "


def instrument(tree: ast.Module, plan: StepPlan) -> ast.Module:
    """Make the loops of the plan report to what ``with_steppers`` puts in; changes ``tree``."""
    if plan.chosen is not None:
        tree = _Instrumenter(plan).visit(tree)
    return tree


def with_steppers(code: CodeType, stepper_of: Callable[[int], object]) -> CodeType:
    """Return the code of an instrumented cell with what its loops call in it, by their numbers."""
    return code.replace(co_consts=tuple(_put_in(value, stepper_of) for value in code.co_consts))


def _put_in(value: object, stepper_of: Callable[[int], object]) -> object:
    is_ours = isinstance(value, str) and value.startswith(_STAND_IN)
    return stepper_of(int(str(value).removeprefix(_STAND_IN))) if is_ours else value


class _Instrumenter(ast.NodeTransformer):
    """Wraps the iterable of a ``for`` or ``async for`` loop, or adds calls around and in a ``while`` loop.

    The loops that may make the steps report their iterations; those around them, which have the numbers from
    ``stepping`` on, only their lengths.
    """

    def __init__(self, plan: StepPlan) -> None:
        several = plan.watched or ((plan.chosen,) if plan.chosen is not None else ())
        self._numbers = {id(one.loop): number for number, one in enumerate((*several, *loops_around(plan)))}
        self._stepping = len(several)
        self._nests = {id(one.nest): self._numbers[id(one.loop)] for one in several}
        self._is_decided = not plan.watched

    def visit(self, node: ast.AST) -> Any:
        """Visit statements only: loops are in no expressions, and those may be nested more deeply than calls may be."""
        return super().visit(node) if isinstance(node, (ast.Module, *BLOCKS)) else node

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        number = self._numbers.get(id(node))
        if number is not None:
            at = _place_of_iteration(node)
            if number >= self._stepping:
                node.iter = self._call("around", number, at, node.iter)
            else:
                parts = ast.copy_location(ast.Starred(self._call("parts", number, at, node.iter), ast.Load()), at)
                node.iter = self._call("pairs", number, at, parts)
        return self._with_end(node, [node])

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        number = self._numbers.get(id(node))
        if number is not None and number < self._stepping:
            at = _place_of_iteration(node)
            opened = ast.copy_location(ast.Call(self._call("opening", number, at, node.iter), [], []), at)
            node.iter = self._call("async_steps", number, at, opened)
            node.body.insert(0, self._statement("inside", number, node))
        return self._with_end(node, [node])

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        number = self._numbers.get(id(node))
        if number is None or number >= self._stepping:
            return self._with_end(node, [node])
        node.body.insert(0, self._statement("begin", number, node))
        node.orelse.insert(0, self._statement("through", number, node))
        return self._with_end(node, [self._statement("enter", number, node), node])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def _with_end(self, node: Loop, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Return the statements of a loop, and behind it what says that it, or the outermost one, is left."""
        number = self._numbers.get(id(node), self._stepping)
        if not self._is_decided and number < self._stepping:
            statements = [*statements, self._statement("leave", number, node)]
        if id(node) in self._nests:
            statements = [*statements, self._statement("end", self._nests[id(node)], node)]
        return statements

    def _call(self, method: str, number: int, at: ast.AST, *arguments: ast.expr) -> ast.Call:
        helper = ast.Attribute(ast.Constant(f"{_STAND_IN}{number}"), method, ast.Load())
        call = ast.Call(helper, list(arguments), [])
        for node in (call, helper, helper.value):
            ast.copy_location(node, at)
        return call

    def _statement(self, method: str, number: int, loop: Loop) -> ast.stmt:
        statement = ast.Expr(self._call(method, number, loop))
        ast.copy_location(statement, loop)
        for node in ast.walk(statement):
            if hasattr(node, "end_lineno"):
                node.end_lineno = loop.lineno
                node.end_col_offset = loop.col_offset  # type: ignore[attr-defined]
        return statement


def _place_of_iteration(loop: ast.For | ast.AsyncFor) -> ast.AST:
    """Return the node that tracebacks mark when Python calls ``__iter__`` or ``__next__`` for a loop."""
    return loop.iter if sys.version_info >= (3, 13) else loop
