"""Which option was meant by a word that is none."""

from __future__ import annotations

import pytest

from torchprof_magic.options import closest_flag, closest_keyword


@pytest.mark.parametrize(
    ("word", "flag"),
    [
        ("--memroy", "--memory"),
        ("--profile-memory", "--memory"),
        ("--profile_memory", "--memory"),
        ("--actve=3", "--active"),
        ("--stacks", "--stack"),
        ("--qwxz", ""),
    ],
)
def test_a_flag_is_found_by_its_own_name_or_by_that_of_its_keyword(word: str, flag: str) -> None:
    assert closest_flag(word) == flag


@pytest.mark.parametrize(
    ("word", "keyword"),
    [("memory", "profile_memory"), ("record_shape", "record_shapes"), ("modules", "with_modules"), ("qwxz", "")],
)
def test_a_keyword_is_found_by_its_own_name_or_by_that_of_its_flag(word: str, keyword: str) -> None:
    assert closest_keyword(word) == keyword
