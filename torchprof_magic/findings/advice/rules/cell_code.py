"""What the source of a cell says about its loop: expressions that have the same value in every step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.model.cell_tree import tree_of_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.meta import CellSource, Stepping

# Methods that return a converted or moved copy of a tensor.
COPIES = frozenset(
    ("to", "cuda", "cpu", "float", "double", "half", "bfloat16", "int", "long", "type", "contiguous", "pin_memory")
)
# Functions of torch and numpy whose result depends only on their arguments.
CONSTANTS = frozenset(
    ("tensor", "as_tensor", "from_numpy", "arange", "linspace", "logspace", "ones", "zeros", "full", "eye", "tril",
     "triu", "tril_indices", "triu_indices", "meshgrid", "outer", "stack", "cat", "sqrt", "exp", "log", "pow", "sin",
     "cos", "hann_window", "hamming_window", "diag", "array", "flip", "where")
)  # fmt: skip
# Methods of tensors that only compute from their tensor and arguments.
_PURE_METHODS = COPIES | frozenset(
    ("unsqueeze", "squeeze", "view", "reshape", "expand", "repeat", "t", "transpose", "permute", "flatten", "pow",
     "exp", "log", "sqrt", "sin", "cos", "tril", "triu", "bool", "sum", "mean", "neg", "abs", "size", "dim", "numel",
     "masked_fill", "flip")
)  # fmt: skip
_CHANGING = frozenset(
    ("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "add", "update", "setdefault",
     "popleft", "appendleft", "fill", "resize", "put", "write", "step")
)  # fmt: skip
# Expressions that are constant if all their parts are.
_PLAIN = (
    ast.Attribute, ast.List, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.Compare, ast.Subscript, ast.Slice, ast.Starred
)  # fmt: skip
_MODULES = frozenset(("torch", "np", "numpy"))
_FUNCTIONS = frozenset(("len", "float", "int", "list", "tuple", "range", "min", "max"))


class Constant(NamedTuple):
    """An expression with the same value in every step, and the line of its statement.

    ``kind`` is ``copy`` if it converts or moves a tensor, and ``constant`` if it makes one. ``is_whole`` says whether
    the line does nothing else.
    """

    line: int
    text: str
    kind: str
    is_whole: bool


class _Names(NamedTuple):
    """The names that a loop binds anew, and those whose objects it changes."""

    bound: frozenset[str]
    changed: frozenset[str]

    def vary(self, name: str) -> bool:
        """Return whether a name can stand for another value in the next step."""
        return name in self.bound or name in self.changed


def loop_constants(cell: CellSource, stepping: Stepping) -> list[Constant]:
    """Return what the loop that makes the steps computes anew each time; empty if the cell cannot be parsed."""
    loop = _loop_at(cell.source, stepping.line)
    if loop is None or any(isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom)) for node in ast.walk(loop)):
        return []  # while it waits, other code may change anything
    names = _Names(frozenset(_bound_in(loop)), frozenset(_changed_in(loop)))
    return [found for statement in _statements(loop.body) for found in _constants_of(statement, names)]


def _loop_at(source: str, line: int | None) -> ast.For | ast.While | ast.AsyncFor | None:
    """Return the loop that begins on a line."""
    tree = tree_of_cell(source)
    if tree is None:
        return None
    loops = (node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While, ast.AsyncFor)))
    return next((node for node in loops if node.lineno == line), None)


def _bound_in(loop: ast.AST) -> Iterator[str]:
    for node in ast.walk(loop):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from ((alias.asname or alias.name).partition(".")[0] for alias in aliases)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
                yield name
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                yield from names


def _changed_in(loop: ast.AST) -> Iterator[str]:
    for node in ast.walk(loop):
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                yield _root(node)
            case ast.AugAssign(target=target):
                yield _root(target)
            case ast.Call(func=func, keywords=keywords):
                if isinstance(func, ast.Attribute) and _changes(func.attr):
                    yield _root(func)
                yield from (_root(keyword.value) for keyword in keywords if keyword.arg == "out")


def _changes(method: str) -> bool:
    return method in _CHANGING or (method.endswith("_") and not method.endswith("__"))


def _root(node: ast.expr) -> str:
    """Return the name at the left end of attributes, items and calls of methods."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Starred)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block and of the blocks in it, but not those of functions."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        yield statement
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, name, []) or [])
        for handler in getattr(statement, "handlers", ()):
            yield from _statements(handler.body)


def _constants_of(statement: ast.stmt, names: _Names) -> list[Constant]:
    """Return the largest constant expressions in a statement, but not in the blocks in it."""
    if isinstance(statement, ast.Assign) and _kind(statement.value, names):
        # An object that the loop changes must be a new one in every step.
        is_kept = all(isinstance(target, ast.Name) and target.id not in names.changed for target in statement.targets)
        return [_constant(statement, statement.value, names, is_whole=True)] if is_kept else []
    if isinstance(statement, ast.AugAssign):
        own = [statement.value]
    else:
        values = (value for _, value in ast.iter_fields(statement))
        own = [value for value in values if isinstance(value, ast.expr)]
    return [_constant(statement, node, names, is_whole=False) for value in own for node in _largest(value, names)]


def _constant(statement: ast.stmt, node: ast.expr, names: _Names, *, is_whole: bool) -> Constant:
    return Constant(statement.lineno, ast.unparse(node), _kind(node, names), is_whole)


def _largest(node: ast.expr, names: _Names) -> Iterator[ast.expr]:
    if _kind(node, names):
        yield node
        return
    if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield from _largest(child, names)
        elif isinstance(child, ast.keyword):
            yield from _largest(child.value, names)


def _kind(node: ast.expr, names: _Names) -> str:
    """Return whether an expression makes or copies a tensor that is the same in every step; empty if it does not."""
    if not isinstance(node, ast.Call) or not _is_constant(node, names):
        return ""
    func = node.func
    if not isinstance(func, ast.Attribute):
        return ""
    if _root(func.value) in _MODULES and isinstance(func.value, (ast.Name, ast.Attribute)):
        return "constant"
    if any(_makes(inner) for inner in ast.walk(node)):
        return "constant"
    # Parameters are attributes, and optimizers change them.
    return "copy" if func.attr in COPIES and isinstance(func.value, (ast.Name, ast.Subscript)) else ""


def _makes(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in _MODULES
        and node.func.attr in CONSTANTS
    )


def _is_constant(node: ast.expr, names: _Names) -> bool:
    """Return whether an expression has the same value each time, as far as its text tells."""
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return not names.vary(name)
        case ast.Call(keywords=keywords) if any(keyword.arg in ("requires_grad", "out") for keyword in keywords):
            return False
        case ast.Call(func=func, args=args, keywords=keywords):
            arguments = (*args, *(keyword.value for keyword in keywords))
            return _is_pure(func, names) and all(_is_constant(argument, names) for argument in arguments)
    parts = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    return isinstance(node, _PLAIN) and all(_is_constant(part, names) for part in parts)


def _is_pure(func: ast.expr, names: _Names) -> bool:
    match func:
        case ast.Name(id=name):
            return name in _FUNCTIONS
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in _MODULES:
            return name in CONSTANTS
        case ast.Attribute(value=value, attr=name):
            return name in _PURE_METHODS and _is_constant(value, names)
        case _:
            return False
