"""Writes a keyword into a call of the user's source, exactly, or not at all.

What comes out is parsed again: its tree must be that of the source, with the keyword and nothing else changed. So
comments, other arguments and the shape of the lines stay, and what cannot be written safely is left alone.
"""

from __future__ import annotations

import ast
import io
import tokenize
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.model.cell_tree import tree_of_cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchprof_magic.findings.advice.kinds import Edit

# The fields of a statement that hold other statements.
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


class _Place(NamedTuple):
    """A call, by its number in the order of ``ast.walk``, and the statement that it stands in."""

    number: int
    call: ast.Call
    statement: ast.stmt


class _Span(NamedTuple):
    """Which characters of a source, from ``start`` to before ``end``, a text takes the place of."""

    start: int
    end: int
    text: str


def edited(source: str, line: int, edit: Edit) -> str | None:
    """Return the source with the keyword of ``edit`` in its call; None if that cannot be written for certain.

    ``line`` is that of the advice, counted from 1. If the call is not in the statement there, the one is meant that
    makes what the statement names, or what the loops around it go over.
    """
    tree, expected = tree_of_cell(source), tree_of_cell(source)
    if tree is None or expected is None or "\r" in source:
        return None
    places = _chosen(tree, line, edit)
    calls = list(ast.walk(expected))
    spans = []
    for place in places:
        span = _span(source, place.call, edit)
        if span is None:
            return None
        _set(calls[place.number], edit)
        spans.append(span)
    changed = _applied(source, spans)
    found = tree_of_cell(changed)
    is_exact = bool(spans) and found is not None and ast.dump(found) == ast.dump(expected)
    return changed if is_exact else None


def _places(tree: ast.Module, edit: Edit) -> Iterator[_Place]:
    """Yield the calls that the edit may be of, and that lack its keyword or have another value."""
    numbers = {node: number for number, node in enumerate(ast.walk(tree))}
    for statement in ast.walk(tree):
        if isinstance(statement, ast.stmt):
            for node in _header(statement):
                if isinstance(node, ast.Call) and _is_meant(node, edit) and not _is_done(node, edit):
                    yield _Place(numbers[node], node, statement)


def _header(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield what is in a statement, without the statements in its blocks."""
    for name, value in ast.iter_fields(statement):
        if name not in _BLOCKS:
            for node in value if isinstance(value, list) else [value]:
                if isinstance(node, ast.AST):
                    yield from ast.walk(node)


def _headers_at(tree: ast.Module, line: int) -> list[ast.stmt]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno <= line <= _last_line(node)]


def _last_line(statement: ast.stmt) -> int:
    """Return the last line of a statement, or of what stands before its block."""
    if not any(getattr(statement, name, None) for name in _BLOCKS):
        return statement.end_lineno or statement.lineno
    return max((getattr(node, "end_lineno", 0) or 0 for node in _header(statement)), default=statement.lineno)


def _chosen(tree: ast.Module, line: int, edit: Edit) -> list[_Place]:
    """Return the calls to change: those in the statement of the advice, else the one that makes what it names."""
    places, headers = list(_places(tree, edit)), _headers_at(tree, line)
    here = [place for place in places if place.statement in headers]
    if here or edit.is_here:
        return here if len(here) == 1 or edit.is_here else []
    named = {_last_name(node) for statement in headers for node in _header(statement)}
    named |= {_last_name(node) for loop in _loops_around(tree, line) for node in ast.walk(loop.iter)}
    makers = [place for place in places if (named - {""}).intersection(map(_last_name, _targets(place.statement)))]
    return makers if len(makers) == 1 else []


def _loops_around(tree: ast.Module, line: int) -> Iterator[ast.For]:
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and node.lineno <= line <= (node.end_lineno or node.lineno):
            yield node


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign) else []


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_meant(call: ast.Call, edit: Edit) -> bool:
    if _last_name(call.func) not in edit.calls or (edit.is_move and not isinstance(call.func, ast.Attribute)):
        return False
    return not edit.is_move or _moves(call)


def _moves(call: ast.Call) -> bool:
    """Return whether ``.to(…)`` or ``.cuda()`` names a device, as far as its text tells; not ``torch.float16``."""
    if _last_name(call.func) != "to":
        return True
    device = call.args[0] if call.args else next((each.value for each in call.keywords if each.arg == "device"), None)
    is_dtype = isinstance(device, ast.Attribute) and _last_name(device.value) == "torch"
    return device is not None and not is_dtype


def _given(call: ast.Call, edit: Edit) -> ast.expr | None:
    """Return the value that the call gives now, by its name or by its position."""
    by_name = next((each.value for each in call.keywords if each.arg == edit.keyword), None)
    is_by_position = by_name is None and edit.position is not None and len(call.args) > edit.position
    return call.args[edit.position or 0] if is_by_position else by_name


def _is_done(call: ast.Call, edit: Edit) -> bool:
    given = _given(call, edit)
    return given is not None and ast.dump(given) == ast.dump(_value(edit))


def _value(edit: Edit) -> ast.expr:
    return ast.parse(edit.value, mode="eval").body


def _set(call: ast.AST, edit: Edit) -> None:
    """Give the call of a tree the value."""
    assert isinstance(call, ast.Call)
    given = _given(call, edit)
    if given is None:
        call.keywords.append(ast.keyword(edit.keyword, _value(edit)))
    elif given in call.args:
        call.args[call.args.index(given)] = _value(edit)
    else:
        next(each for each in call.keywords if each.arg == edit.keyword).value = _value(edit)


def _span(source: str, call: ast.Call, edit: Edit) -> _Span | None:
    """Return what to write where; None if arguments may be hidden in others, or stand where the keyword would."""
    is_starred = any(isinstance(each, ast.Starred) for each in call.args)
    if is_starred or any(each.arg is None for each in call.keywords):
        return None
    given = _given(call, edit)
    if given is not None:
        return _Span(*_range(source, given), edit.value)
    if edit.only_given or (edit.is_move and len(call.args) > 1):
        return None
    return _added(source, call, f"{edit.keyword}={edit.value}")


def _added(source: str, call: ast.Call, text: str) -> _Span | None:
    """Return where a keyword is added: behind the last argument of a call, or the comma after it."""
    start, end = _range(source, call)
    inside = source[start:end]
    try:
        tokens = [each for each in tokenize.generate_tokens(io.StringIO(inside).readline) if each.string.strip()]
    except (tokenize.TokenError, SyntaxError):
        return None
    *_, last, closing = [each for each in tokens if each.type != tokenize.COMMENT]
    if closing.string != ")":
        return None
    at = start + _offset(inside.split("\n"), *last.end)
    before, after = {"(": ("", ""), ",": (" ", ",")}.get(last.string, (", ", ""))
    return _Span(at, at, f"{before}{text}{after}")


def _range(source: str, node: ast.expr) -> tuple[int, int]:
    """Return the characters of an expression; Python counts the bytes of a line."""
    lines = source.split("\n")

    def offset(line: int, column: int) -> int:
        return _offset(lines, line, len(lines[line - 1].encode()[:column].decode(errors="ignore")))

    return offset(node.lineno, node.col_offset), offset(node.end_lineno or node.lineno, node.end_col_offset or 0)


def _offset(lines: Sequence[str], line: int, column: int) -> int:
    return sum(len(each) + 1 for each in lines[: line - 1]) + column


def _applied(source: str, spans: Sequence[_Span]) -> str:
    for start, end, text in sorted(spans, reverse=True):
        source = source[:start] + text + source[end:]
    return source
