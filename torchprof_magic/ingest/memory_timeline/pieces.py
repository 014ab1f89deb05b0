"""Pieces of memory that rise and fall as the bytes of each category do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Piece(NamedTuple):
    """A piece of memory of one category; ``begin`` and ``end`` number changes, and ``end`` is None if it stays."""

    category: int
    size_bytes: int
    begin: int
    end: int | None


def pieces_of(changes: Iterable[tuple[int, int]]) -> tuple[list[Piece], int]:
    """Return the pieces of changes, each a category and what is added to it, and how many bytes fell below 0.

    A timeline holds sums of categories and no blocks. What is freed is taken from what came last, and a piece of which
    only a part is freed becomes two, so there are at most as many pieces as changes.
    """
    alive: dict[int, list[Piece]] = {}
    ended: list[Piece] = []
    below_bytes = 0
    for number, (category, delta_bytes) in enumerate(changes):
        stack = alive.setdefault(category, [])
        if delta_bytes > 0:
            stack.append(Piece(category, delta_bytes, number, None))
        freed_bytes = -delta_bytes
        while freed_bytes > 0 and stack:
            last = stack.pop()
            taken = min(freed_bytes, last.size_bytes)
            if taken < last.size_bytes:
                stack.append(last._replace(size_bytes=last.size_bytes - taken))
            ended.append(last._replace(size_bytes=taken, end=number))
            freed_bytes -= taken
        below_bytes += max(freed_bytes, 0)
    return [*ended, *(piece for stack in alive.values() for piece in stack)], below_bytes
