"""Which option was meant by a word that is none."""

from __future__ import annotations

from difflib import get_close_matches

from torchprof_magic.options.table import KEYWORDS, OPTIONS


def closest_flag(word: str) -> str:
    """Return the flag that a word is nearly, or nearly the keyword of; empty if it is like none."""
    flags = {option.flag.replace("_", "-"): option.dashed for option in OPTIONS.values()}
    names = {option.name.replace("_", "-"): option.dashed for option in OPTIONS.values()} | flags
    return _closest(word.lstrip("-").partition("=")[0].replace("_", "-"), names)


def closest_keyword(word: str) -> str:
    """Return the keyword that a word is nearly, or nearly the flag of; empty if it is like none."""
    flags = {option.flag: name for name, option in OPTIONS.items() if name in KEYWORDS}
    return _closest(word, flags | {name: name for name in KEYWORDS})


def meant(option: str) -> str:
    """Return the question whether an option was meant, as the rest of a message; empty without one."""
    return f"; did you mean {option}?" if option else ""


def _closest(word: str, names: dict[str, str]) -> str:
    found = get_close_matches(word, names, n=1)
    return names[found[0]] if found else ""
