"""Tests of patterns that are a few texts without wildcards."""

from __future__ import annotations

import polars as pl
import pytest

from torchprof_magic.model.known_names import which_match
from torchprof_magic.model.plain_texts import plain_texts

NAMES = (
    "aten::mm", "aten::mm_out", "xaten::mm", "aten::addmm", "aten:mm", "mm", "nccl:all_reduce", "f(x)#1", "f(x)", "f.x",
    "fox", "a|b", "a", "b", "ab", "", "^a", "a$", "a\n", "\na", "\\", "ä",
)  # fmt: skip
PLAIN = (
    "mm", "^aten::", "mm$", "^aten::mm$", r"^aten::(mm|addmm)$", r"(mm|nccl:)", r"^(nccl:|gloo:)", r"(a|)m",
    r"^f\(x\)#", r"f\.x", r"^a$|^b$", r"^aten::|x$|l:a", r"(a|b)", "a|b", "^ä$", "", "^", "$", "^$", "^(a|b)b$",
)  # fmt: skip
OTHERS = (
    r"f.x", r"a\|b", r"\\", r"\bmm\b", r"(?i)MM", r"a*", r"[am]m", r"^(a(b|c))", r"(a)(b)", r"(^a|b$)", r"^aten::\w+$",
    "a{2}",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PLAIN)
def test_a_choice_of_texts_matches_as_its_regular_expression_does(pattern: str) -> None:
    wanted = plain_texts(pattern)
    assert wanted is not None
    assert [wanted.match(name) for name in NAMES] == pl.Series(NAMES).str.contains(pattern).to_list()


@pytest.mark.parametrize("pattern", OTHERS)
def test_what_is_more_than_a_choice_of_texts_is_left_to_the_regular_expression(pattern: str) -> None:
    assert plain_texts(pattern) is None
    assert which_match(pl.Series(NAMES), pattern).tolist() == pl.Series(NAMES).str.contains(pattern).to_list()


def test_the_texts_of_a_pattern_are_known_by_where_they_must_stand() -> None:
    wanted = plain_texts(r"^aten::(mm|add)$|^nccl:|\(timed\)$|Launch")
    assert wanted is not None
    assert wanted.whole == {"aten::mm", "aten::add"}
    assert wanted[1:] == (("nccl:",), ("(timed)",), ("Launch",))
