"""What torch says of a guard that failed, so that a function of torch.compile was compiled again."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Cause = Literal[
    "", "size", "dtype", "device", "requires_grad", "mode", "module", "length", "global", "attribute", "type",
    "backend", "value", "other",
]  # fmt: skip

# `n == 3   # return x * n  # model.py:7 in forward (HINT: ...)`, and lines with the stack, which newer versions add.
_SOURCE = re.compile(r"\s\s+#\s.*?#\s(?P<file>\S[^#]*?):(?P<line>[0-9]{1,9}) in ", re.DOTALL)
_STACK = re.compile(r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>[0-9]{1,9}), in ', re.MULTILINE)
_EXPECTED = re.compile(r"\b(?:expected|got)\s")
_SOURCE_BEGIN = re.compile(r"\s\s+#\s")
# In older versions, what is local is `L['x']`.
_LOCAL = re.compile(r"\bL\['(?P<name>[A-Za-z_][A-Za-z0-9_]*)'\]")
# What a guard says, by what differed; the first that is found counts.
_CAUSES: tuple[tuple[Cause, re.Pattern[str]], ...] = (
    ("backend", re.compile(r"BACKEND_MATCH|___check_current_backend|different backend")),
    ("size", re.compile(r"(size|stride|rank) mismatch|\.(size|stride)\(\)|\.shape\[|\.ndimension\(\)|Eq\(s[0-9]")),
    ("dtype", re.compile(r"dtype mismatch")),
    ("device", re.compile(r"device (index )?mismatch")),
    ("requires_grad", re.compile(r"requires_grad mismatch")),
    ("mode", re.compile(r"GLOBAL_STATE|grad_mode|dispatch key set mismatch|autocast|___check_global_state|inference")),
    ("module", re.compile(r"\btraining\b|___check_obj_id\((self|mod)\b")),
    ("length", re.compile(r"\blen\(|___tuple_iterator_len|___dict_contains|dict keys|DICT_")),
    ("type", re.compile(r"___check_type_id|___check_obj_id|type\(|TYPE_MATCH|ID_MATCH|expected type")),
    ("global", re.compile(r"^G\[|\bG\['")),
    ("attribute", re.compile(r"^[A-Za-z_][\w\[\]'\"]*\.\w[^=<>!]*(==|!=|\bis\b)")),
    ("value", re.compile(r"==|!=|<|>|\bis\b|\bnot\b|\bin\b")),
)


class FailedGuard(NamedTuple):
    """A guard: what differed, as torch words it, what torch says of the values, and the line that it comes from.

    ``cause`` is one of a few kinds. ``file`` is empty and ``line`` None where torch does not tell the line.
    """

    text: str
    value: str
    cause: Cause
    file: str
    line: int | None


def failed_guard(reason: str) -> FailedGuard:
    """Return the guard that torch names as the reason of a compilation; all of it is empty without a reason."""
    first = _SOURCE_BEGIN.split(reason.strip(), maxsplit=1)[0].strip()
    said = (_LOCAL.sub(r"\g<name>", first).splitlines() or [""])[0]
    place = _STACK.findall(reason)[-1:] or _SOURCE.findall(reason)[-1:]
    file, line = (place[0][0], int(place[0][1])) if place else ("", None)
    match = _EXPECTED.search(said)
    at = match.start() if match is not None else len(said)
    text, value = (said[:at].rstrip(" .:"), said[at:].rstrip(".")) if at else (said, "")
    return FailedGuard(text, value, cause_of(said), file, line)


def cause_of(text: str) -> Cause:
    """Return the kind of what a guard says; empty for an empty text."""
    if not text:
        return ""
    return next((cause for cause, pattern in _CAUSES if pattern.search(text)), "other")
