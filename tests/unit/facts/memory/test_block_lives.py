"""Blocks of a snapshot live from their allocation to their release, also beyond the ends of the history."""

from __future__ import annotations

import pytest
from amount import sampled
from made_snapshots import at, entry, random_history, segment, snapshot_of

from torchprof_magic.facts.memory.block_lives import block_lives, level_after


@pytest.mark.parametrize("seed", sampled(range(20)))
@pytest.mark.parametrize("kept", [300, 40])
def test_what_is_alive_after_each_action_is_what_the_allocator_had_in_use(seed: int, kept: int) -> None:
    entries, after, blocks = random_history(seed)
    trace = snapshot_of(*entries[-kept:], segments=(segment(10**6, *blocks),))
    lives = block_lives(trace)["cuda:0"]
    level = level_after(lives, kept)
    for row, in_use in enumerate(after[-kept:]):
        mask = lives.at(row)
        found = dict(zip(lives.address[mask].tolist(), lives.size_bytes[mask].tolist(), strict=True))
        assert found == in_use
        assert level[row + 1] == sum(in_use.values())


def test_a_block_that_another_stream_still_uses_lives_until_it_can_be_allocated_again() -> None:
    trace = snapshot_of(entry("alloc", 0, 8, 4096), entry("free_requested", 1, 8, 4096), entry("alloc", 2, 5, 8192))
    lives = block_lives(trace)["cuda:0"]
    assert level_after(lives, 3).tolist() == [0, 8, 8, 13]


def test_an_allocation_at_the_address_of_a_block_ends_that_block() -> None:
    trace = snapshot_of(entry("alloc", 0, 8, 4096), entry("alloc", 1, 5, 4096))
    assert level_after(block_lives(trace)["cuda:0"], 2).tolist() == [0, 8, 5]


def test_without_a_history_the_blocks_of_the_segments_are_there() -> None:
    trace = snapshot_of(segments=(segment(99, at(1, 7), at(2, 9, state="inactive")),))
    assert level_after(block_lives(trace)["cuda:0"], 0).tolist() == [7]
