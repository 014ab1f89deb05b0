"""The syntax tree of a recorded cell."""

from __future__ import annotations

import ast
import re

# Lines that are no Python but IPython's; something must stand in their place, for a block may hold nothing else.
_NOT_PYTHON = re.compile(r"^([ \t]*)[%!].*$", re.MULTILINE)


def tree_of_cell(source: str) -> ast.Module | None:
    """Return the tree of a cell without its magics, at the same lines; ``None`` if it cannot be parsed."""
    try:
        return ast.parse(_NOT_PYTHON.sub(r"\1pass", source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
