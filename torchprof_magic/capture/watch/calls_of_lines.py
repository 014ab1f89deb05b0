"""What a line of the user's calls, for what happens while it does: its name, read from the code that runs."""

from __future__ import annotations

import ast
import dis
import linecache
import sys
from itertools import islice
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.model.line_calls import call_of_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType

MAX_NAME_CHARS = 60
_IMPORTING = "<frozen importlib"
_INNER = "<locals>"


class Callee(NamedTuple):
    """A function of Python that was called: its code, and the name of its module."""

    code: CodeType
    module: str


class RunningLine(NamedTuple):
    """A place in the user's code, the number of the instruction that runs, and the function that it has called.

    ``callee`` is ``None`` where a function of C was called. ``names`` are the global names of the code.
    """

    code: CodeType
    instruction: int
    callee: Callee | None
    names: Mapping[str, object]

    @property
    def line(self) -> int:
        """The number of the line."""
        at = self.instruction
        found = (line for start, end, line in self.code.co_lines() if start <= at < end)
        return next(found, None) or self.code.co_firstlineno


def name_of_call(running: RunningLine) -> str:
    """Return what a line calls as people know it, such as ``time.sleep`` or ``Queue.get``; empty if not known."""
    if running.callee is not None:
        name = _public_name(running.callee)
        if name:
            return name[:MAX_NAME_CHARS]
    return _name_in_source(running)[:MAX_NAME_CHARS]


def _public_name(callee: Callee) -> str:
    """Return the name of a function; that by which the outermost package offers it, if one does."""
    code, module = callee
    if code.co_filename.startswith(_IMPORTING):
        return "import"
    name: str = getattr(code, "co_qualname", code.co_name)
    if name.startswith("<") or _INNER in name:
        return ""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        package = ".".join(parts[:count])
        if _code_of(_names_of(sys.modules.get(package)).get(name)) is code:
            return f"{package}.{name}"
    if "." in name:
        return name
    return "" if not hasattr(code, "co_qualname") else f"{module}.{name}"


def _code_of(value: object) -> CodeType | None:
    return value.__code__ if type(value) is FunctionType else None


def _names_of(value: object) -> Mapping[str, object]:
    return vars(value) if type(value) is ModuleType else {}


def _name_in_source(running: RunningLine) -> str:
    """Return the name of the call that an instruction makes, read from its source."""
    text = _source_of(running)
    if not hasattr(running.code, "co_positions"):
        return call_of_line(text)
    if text.startswith(("with ", "async with ")):
        return _header_of_with(text)
    try:
        node: ast.expr = ast.parse(f"({text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    if isinstance(node, ast.Await):
        node = node.value
        return _known_name(node.func, running.names) if isinstance(node, ast.Call) else f"await {ast.unparse(node)}"
    if _instruction(running) == "BEFORE_WITH":
        return f"with {ast.unparse(node)}"
    return _known_name(node.func, running.names) if isinstance(node, ast.Call) else ""


def _header_of_with(text: str) -> str:
    """Return what a statement enters, which up to Python 3.11 is the source of that."""
    try:
        statement = ast.parse(text.partition("\n")[0] + " pass").body[0]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    items = statement.items if isinstance(statement, (ast.With, ast.AsyncWith)) else []
    return f"with {', '.join(ast.unparse(item.context_expr) for item in items)}" if items else ""


def _source_of(running: RunningLine) -> str:
    """Return the source of an instruction; up to Python 3.10 that of its line."""
    code = running.code
    if not hasattr(code, "co_positions"):
        return linecache.getline(code.co_filename, running.line).strip()
    place = next(islice(code.co_positions(), running.instruction // 2, None), None)
    first, last, start, end = place or (None,) * 4
    if first is None or last is None:
        return ""
    lines = [linecache.getline(code.co_filename, line).encode() for line in range(first, last + 1)]
    if not lines:
        return ""
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    return b"".join(lines).decode(errors="replace")


def _instruction(running: RunningLine) -> str:
    code = running.code.co_code
    return dis.opname[code[running.instruction]] if 0 <= running.instruction < len(code) else ""


def _known_name(function: ast.expr, names: Mapping[str, object]) -> str:
    """Return a function's name: that of its module, where the program has another, or as it is written."""
    written = ast.unparse(function)
    if isinstance(function, ast.Name):
        value = names.get(function.id)
        if type(value) is BuiltinFunctionType and type(value.__self__) is ModuleType:
            return f"{value.__module__}.{value.__name__}"
        return written
    root, _, rest = written.partition(".")
    known = _names_of(names.get(root)).get("__name__")
    return f"{known}.{rest}" if type(known) is str and rest else written
