"""Tests of what is kept about names from one trace to the next."""

from __future__ import annotations

import polars as pl
import pytest

from torchprof_magic.model import known_names as known_names_module
from torchprof_magic.model.known_names import FEW_NAMES, KnownNames, known_names, which_match

PATTERN = r"^aten::"


def ask(known: KnownNames, *names: str, pattern: str = PATTERN) -> list[bool]:
    texts = pl.Series(names, dtype=pl.String)
    return list(known.matches(pattern, texts, known.numbers_of(texts)))


def test_names_match_as_the_regular_expression_says_whenever_they_come() -> None:
    known = KnownNames()
    assert ask(known, "aten::mm", "Memcpy HtoD") == [True, False]
    assert ask(known, "Memcpy HtoD", "aten::add", "aten::mm") == [False, True, True]
    assert ask(known, "aten::add", "aten::mm", pattern="mm$") == [False, True]
    assert ask(known) == []


def test_only_names_that_are_new_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    known, looked_at = KnownNames(), []
    pattern = r"^aten::\w+"
    assert ask(known, "aten::mm", "aten::add", pattern=pattern) == [True, True]
    contains = pl.Series.str.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(pl.Series, "str", property(lambda names: looked_at.extend(names) or contains(names)))
    assert ask(known, "aten::add", "aten::mul", "aten::mm", pattern=pattern) == [True, True, True]
    assert looked_at == ["aten::mul"]


PLAIN = (
    "",
    "mm",
    "^mm",
    "mm$",
    "^mm$",
    r"^aten::(mm|add|)$",
    "(mm|add)_",
    "^aten::|mm$",
    "^mm|add$|x",
    r"a\.b|\(c\)$",
    r"\\",
    "$|q",
)
OTHER = (
    r"\w+",
    "m+",
    "^(mm|add)?$",
    "(a)(b)",
    "(a|(b|c))",
    "m.",
    "[am]",
    "(?i)MM",
    "(?:mm)",
    r"\bmm",
    r"\<mm",
    "m{2}",
    "^^mm",
    "(mm$|b)",
)
TEXTS = (
    "",
    "mm",
    "Mm",
    "aten::mm",
    "aten::mm_",
    "aten::add",
    "add_",
    "aten::",
    "mm\n",
    "\nmm",
    "a.b",
    "axb",
    "x(c)",
    "(c)y",
    "ab",
    "\\",
    "ä\U0001f525mm",
    "\0mm",
)


@pytest.mark.parametrize("pattern", [*PLAIN, *OTHER])
def test_names_match_as_polars_says(pattern: str) -> None:
    names = pl.Series(TEXTS)
    assert list(which_match(names, pattern)) == names.str.contains(pattern).to_list()
    many = pl.Series([*TEXTS, *map(str, range(FEW_NAMES))])
    assert list(which_match(many, pattern)) == many.str.contains(pattern).to_list()


@pytest.mark.parametrize("pattern", PLAIN)
def test_plain_texts_are_found_without_a_regular_expression(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = pl.Series(TEXTS)
    expected = names.str.contains(pattern).to_list()
    monkeypatch.delattr(pl.Series, "str")
    assert ask(KnownNames(), *TEXTS, pattern=pattern) == expected


def test_patterns_beyond_those_that_are_kept_are_answered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_names_module, "MOST_PATTERNS", 1)
    known = KnownNames()
    assert ask(known, "aten::mm") == [True]
    for _ in range(2):
        assert ask(known, "aten::mm", "mm", pattern="^mm") == [False, True]


def test_traces_share_what_is_known_until_there_is_too_much_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_names_module, "_shared", KnownNames())
    monkeypatch.setattr(known_names_module, "MOST_NAMES", 3)
    first = known_names(pl.Series(["a", "b"]))
    numbers = first.numbers_of(pl.Series(["a", "b"]))
    assert known_names(pl.Series(["c"])) is first
    second = known_names(pl.Series(["c", "d"]))
    assert second is not first
    assert list(first.matches("b", pl.Series(["a", "b"]), numbers)) == [False, True]


def test_a_trace_with_many_or_long_names_is_not_kept() -> None:
    shared = known_names(pl.Series(["a"]))
    assert known_names(pl.Series([str(number) for number in range(5_001)])) is not shared
    assert known_names(pl.Series(["a" * 1_000_001])) is not shared


def test_texts_are_asked_for_a_match_wherever_they_come_from() -> None:
    assert which_match(pl.Series(["GPU 0", "python", ""]), r"(?i)\bgpu\b").tolist() == [True, False, False]
