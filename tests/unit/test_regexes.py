"""No regular expression of the package can take long over a hostile text."""

from __future__ import annotations

import io
import itertools
import re
import time
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import torchprof_magic

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import sre_parse

PACKAGE = Path(torchprof_magic.__file__).parent
FEW = 300  # repetitions that are bounded by a number cost at most so much more


def compiled() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Yield every compiled expression of every module, also those in tables."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(("torchprof_magic", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        if "re.compile(" not in path.read_text(encoding="utf-8"):
            continue
        module = __import__(name, fromlist=["_"])
        for key, value in vars(module).items():
            for number, pattern in enumerate(patterns_in(value)):
                yield f"{name}.{key}[{number}]", pattern


def patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from patterns_in(tuple(value.values()))
    elif isinstance(value, tuple):
        for item in value:
            yield from patterns_in(item)


def repeats_a_repetition(parsed: Any, *, is_repeated: bool = False) -> bool:
    for kind, argument in parsed:
        if str(kind) in ("MAX_REPEAT", "MIN_REPEAT"):
            _, most, inner = argument
            is_long = most > FEW
            if (is_long and is_repeated) or repeats_a_repetition(inner, is_repeated=is_repeated or is_long):
                return True
        elif any(repeats_a_repetition(part, is_repeated=is_repeated) for part in parts_of(argument)):
            return True
    return False


def parts_of(argument: Any) -> Iterator[Any]:
    if isinstance(argument, sre_parse.SubPattern):
        yield argument
    elif isinstance(argument, (tuple, list)):
        for item in argument:
            yield from parts_of(item)


@pytest.fixture(scope="module")
def patterns() -> dict[str, re.Pattern[Any]]:
    return dict(compiled())


def test_the_expressions_of_the_package_are_found(patterns: dict[str, re.Pattern[Any]]) -> None:
    assert len(patterns) > 30
    assert repeats_a_repetition(sre_parse.parse(r"(\s|/\*.*?\*/)*x"))


def test_no_expression_repeats_a_repetition(patterns: dict[str, re.Pattern[Any]]) -> None:
    parsed = {name: sre_parse.parse(pattern.pattern, pattern.flags) for name, pattern in patterns.items()}
    assert [name for name, each in parsed.items() if repeats_a_repetition(each)] == []


BEGINNINGS = ("", '"', "'", "{", "}", "]", ",", "read_a", "a", "x=", "://", "0")
PIECES = (" ", ",", "\n", "a", "0", "/**/", "\\", '"', "a::", "(", "--\n", "{ ", "]")


def test_a_long_text_of_one_piece_takes_no_time(patterns: dict[str, re.Pattern[Any]]) -> None:
    for begin, piece in itertools.product(BEGINNINGS, PIECES):
        text = begin + piece * 20_000 + "\x00"
        for name, pattern in patterns.items():
            began = time.process_time()
            pattern.match(text.encode() if isinstance(pattern.pattern, bytes) else text)
            assert time.process_time() - began < 0.5, (name, begin, piece)


def texts_in(path: Path) -> Iterator[str]:
    """Yield the texts of a module, of which polars and re make expressions, as they are written."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.STRING:
            yield token.string


def test_no_expression_takes_digits_outside_ascii_for_a_number() -> None:
    # For texts that sign includes the digits of all scripts, of which polars makes no number; for bytes it does not.
    found = [
        (path.name, text)
        for path in PACKAGE.rglob("*.py")
        if r"\d" in path.read_text(encoding="utf-8")
        for text in texts_in(path)
        if r"\d" in text.partition('"')[2]
    ]
    assert [(name, text) for name, text in found if not re.match("(?i)r?br?[\"']", text)] == []
