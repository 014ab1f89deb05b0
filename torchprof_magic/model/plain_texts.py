"""Patterns that are a few texts without wildcards, for which no regular expression need be compiled.

Nearly half of the patterns that a trace is asked are of this kind, and compiling one takes longer than a few hundred
names take here.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

# A bar or a backslash can only be part of a text where it is escaped, so it is left to the regular expression.
_TEXT = r"(?:[^\\.^$*+?{}\[\]|()]|\\[^\w\\|])*"
_BRANCH = re.compile(rf"(\^?)({_TEXT})(?:\(({_TEXT}(?:\|{_TEXT})*)\)({_TEXT}))?(\$?)")
_BAR_OUTSIDE = re.compile(r"\|(?![^(]*\))")
_ESCAPE = re.compile(r"\\(.)")


class PlainTexts(NamedTuple):
    """The texts of which a name is one, begins with one, ends with one, or contains one."""

    whole: frozenset[str]
    beginnings: tuple[str, ...]
    endings: tuple[str, ...]
    inside: tuple[str, ...]

    def match(self, name: str) -> bool:
        """Return whether a name fits any of them."""
        if name in self.whole or name.startswith(self.beginnings) or name.endswith(self.endings):
            return True
        return any(text in name for text in self.inside)


@cache
def plain_texts(pattern: str) -> PlainTexts | None:
    """Return the texts that a regular expression looks for, ``None`` if it is more than a choice of texts."""
    found: dict[tuple[str, str], list[str]] = {}
    for branch in _BAR_OUTSIDE.split(pattern):
        match = _BRANCH.fullmatch(branch)
        if match is None:
            return None
        start, before, choice, after, end = match.groups(default="")
        texts = (_ESCAPE.sub(r"\1", before + each + after) for each in choice.split("|"))
        found.setdefault((start, end), []).extend(texts)
    return PlainTexts(
        frozenset(found.get(("^", "$"), ())),
        *(tuple(found.get(anchors, ())) for anchors in (("^", ""), ("", "$"), ("", ""))),
    )
