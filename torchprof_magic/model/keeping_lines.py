"""The lines of code that put something where a path says that it is kept, such as ``kept.append(loss)``."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of a path, so many letters are read: its last name counts.
MOST_CHARS = 500
# Methods of lists, dictionaries, sets, deques and queues that put something in.
_PUTTING = frozenset(
    ("add", "append", "appendleft", "extend", "extendleft", "insert", "put", "put_nowait", "setdefault", "update")
)
# A piece of a path, from its end: .name, ['key'], […] or [3].
_LAST = re.compile(r"(?:\.?(?P<name>\w+)|\[(?P<key>'[^']*')\]|\[(?P<element>[^\[\]']*)\])$")

# An attribute or variable, or a key: ("name", "kept") or ("key", "loss").
_Place: TypeAlias = tuple[str, str]


def keeping_lines(source: ast.AST, path: str) -> list[int]:
    """Return the numbers of the lines that put something into the container at a path, or add to the path, in order.

    ``path`` is code: ``kept[…]``, ``model.history[3]``, ``stats['out'][…].grad`` or ``self.total``. Of a path only the
    last name is compared, because a function may know the container by another way.
    """
    place, has_elements = _container(path)
    if place is None:
        return []
    return sorted({line for node in ast.walk(source) for line in _lines_that_keep(node, place, has_elements)})


def _container(path: str) -> tuple[_Place | None, bool]:
    """Return the last name of the container that a path goes through, or of the path, and whether it is a container."""
    rest, ends = path[-MOST_CHARS:], []
    while found := _LAST.search(rest):
        kind = found.lastgroup or ""
        ends.append((kind, found[kind].strip("'")))
        rest = rest[: found.start()]
    # The innermost container of many: what is indexed last, and by the number of an element if any is.
    for wanted in ("element", "key"):
        for at, (kind, _) in enumerate(ends[:-1]):
            if kind == wanted and ends[at + 1][0] != "element":
                return ends[at + 1], True
    return (ends[0] if ends else None), False


def _lines_that_keep(node: ast.AST, place: _Place, has_elements: bool) -> Iterator[int]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _PUTTING and _place_of(node.func.value) == place:
            yield node.lineno
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            is_element = isinstance(target, ast.Subscript) and _place_of(target.value) == place
            is_whole = _place_of(target) == place and (isinstance(node, ast.AugAssign) or not has_elements)
            if is_element or (is_whole and _adds(node, place)):
                yield node.lineno


def _adds(node: ast.Assign | ast.AugAssign | ast.AnnAssign, place: _Place) -> bool:
    """Return whether what was there before stays part of what is assigned, as in ``total = total + loss``."""
    before = [] if node.value is None else map(_place_of, ast.walk(node.value))
    return isinstance(node, ast.AugAssign) or place in before


def _place_of(node: ast.AST) -> _Place | None:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return "name", name
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return "key", key
    return None
