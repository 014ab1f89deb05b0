"""Which names match a pattern, kept from one trace to the next.

The ranks of a job and the cells of a notebook ask some fifty patterns of the same few hundred names.
"""

from __future__ import annotations

import re
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    import polars as pl

    from torchprof_magic.model.intervals import BoolArray, IntArray

# Names of a trace with more of them, or longer ones, are not kept for the next; and so many are kept of all traces.
MOST_OF_TRACE = 5_000
MAX_CHARS_OF_TRACE = 1_000_000
MOST_NAMES = 20_000
MOST_PATTERNS = 200
_UNKNOWN = -1
# Among so many names Python has found plain texts before polars has compiled a pattern.
FEW_NAMES = 300
# Text without operators; and alternatives of it, with at most one group of such texts each.
_PLAIN = r"(?:[^\\.^$*+?{}\[\]|()]|\\[^\w\s<>])*"
_TEXT = re.compile(_PLAIN)
_ALTERNATIVE = re.compile(rf"(\^?)({_PLAIN})(?:\(([^()]*)\)({_PLAIN}))?(\$?)")
_BETWEEN_ALTERNATIVES = re.compile(r"\|(?![^(]*\))")


class _Texts(NamedTuple):
    """The texts that a pattern looks for, by where in a name they must be."""

    whole: frozenset[str]
    first: tuple[str, ...]
    last: tuple[str, ...]
    anywhere: tuple[str, ...]

    def are_in(self, name: str) -> bool:
        """Return whether one of them is in a name."""
        is_at_edge = name in self.whole or name.startswith(self.first) or name.endswith(self.last)
        return is_at_edge or any(text in name for text in self.anywhere)


class KnownNames:
    """Names, by numbers from 0 on, and which of them match the patterns that were asked. Any thread may ask."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._answers: dict[str, npt.NDArray[np.int8]] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers_of(self, names: pl.Series) -> IntArray:
        """Return the number of each name; new names get the next ones."""
        numbers = self._numbers
        with self._lock:
            return np.array([numbers.setdefault(name, len(numbers)) for name in names.to_list()], np.int64)

    def matches(self, pattern: str, names: pl.Series, numbers: IntArray) -> BoolArray:
        """Return for each name whether a regular expression matches it somewhere; only new names are looked at."""
        with self._lock:
            answers = self._table(pattern)
            found = answers[numbers]
            is_new = found == _UNKNOWN
            if is_new.any():
                new = np.flatnonzero(is_new)
                found[new] = answers[numbers[new]] = _matches(pattern, names[new])
            return found > 0

    def _table(self, pattern: str) -> npt.NDArray[np.int8]:
        """Return the answers for all names so far, ``_UNKNOWN`` where there is none."""
        known = self._answers.get(pattern)
        if known is None or len(known) < len(self):
            table = np.full(len(self), _UNKNOWN, np.int8)
            if known is not None:
                table[: len(known)] = known
            elif len(self._answers) == MOST_PATTERNS:
                return table
            self._answers[pattern] = known = table
        return known


def _matches(pattern: str, names: pl.Series) -> BoolArray:
    """Return for each name whether a regular expression matches it somewhere."""
    texts = _texts_of(pattern) if len(names) <= FEW_NAMES else None
    if texts is None:
        return names.str.contains(pattern).to_numpy()
    return np.array([texts.are_in(name) for name in names.to_list()], np.bool_)


@lru_cache(maxsize=MOST_PATTERNS)
def _texts_of(pattern: str) -> _Texts | None:
    """Return what a pattern of plain texts looks for, as most patterns are; None for any other."""
    places: dict[tuple[bool, bool], list[str]] = {
        (first, last): [] for first in (True, False) for last in (True, False)
    }
    for alternative in _BETWEEN_ALTERNATIVES.split(pattern):
        found = _ALTERNATIVE.fullmatch(alternative)
        if found is None:
            return None
        first, before, group, after, last = found.groups("")
        texts = group.split("|")
        if not all(map(_TEXT.fullmatch, texts)):
            return None
        places[bool(first), bool(last)] += [_unescaped(before + text + after) for text in texts]
    return _Texts(
        whole=frozenset(places[True, True]),
        first=tuple(places[True, False]),
        last=tuple(places[False, True]),
        anywhere=tuple(places[False, False]),
    )


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def known_names(names: pl.Series) -> KnownNames:
    """Return where the distinct names of a trace are looked up: with those of the traces before, if they are few."""
    global _shared  # noqa: PLW0603 - what is looked up in the old one keeps it
    if len(names) > MOST_OF_TRACE or sum(map(len, names.to_list())) > MAX_CHARS_OF_TRACE:
        return KnownNames()
    if len(_shared) + len(names) > MOST_NAMES:
        _shared = KnownNames()
    return _shared


def which_match(names: pl.Series, pattern: str) -> BoolArray:
    """Return which of some texts without nulls, few and mostly different, a regular expression matches somewhere."""
    known = known_names(names)
    return known.matches(pattern, names, known.numbers_of(names))


_shared = KnownNames()
