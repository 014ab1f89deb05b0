"""Sums of categories become pieces that rise and fall as they do."""

from __future__ import annotations

import random

import pytest
from amount import sampled

from torchprof_magic.ingest.memory_timeline.pieces import Piece, pieces_of


def test_what_is_freed_is_taken_from_what_came_last() -> None:
    pieces, below = pieces_of([(0, 10), (0, 5), (1, 7), (0, -8), (1, -7)])
    assert below == 0
    assert sorted(pieces, key=lambda piece: (piece.begin, piece.end or 99)) == [
        Piece(0, 3, 0, 3),
        Piece(0, 7, 0, None),
        Piece(0, 5, 1, 3),
        Piece(1, 7, 2, 4),
    ]


def test_more_freed_than_there_is_counts() -> None:
    assert pieces_of([(2, 5), (2, -9), (2, -1)]) == ([Piece(2, 5, 0, 1)], 5)


@pytest.mark.parametrize("seed", sampled(range(20)))
def test_pieces_add_up_to_every_level_and_are_no_more_than_the_changes(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same ones in every run
    levels, changes, wanted = [0, 0, 0], [], []
    for _ in range(200):
        category = chance.randrange(3)
        target = chance.randrange(100)
        changes.append((category, target - levels[category]))
        levels[category] = target
        wanted.append(tuple(levels))
    pieces, below = pieces_of(changes)
    assert below == 0
    assert len(pieces) <= len(changes)
    for number, level in enumerate(wanted):
        alive = [piece for piece in pieces if piece.begin <= number and (piece.end is None or number < piece.end)]
        assert tuple(sum(piece.size_bytes for piece in alive if piece.category == at) for at in range(3)) == level
