"""Builders of damaged files: small valid traces, their damage, and the expected result."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchprof_magic.model.errors import IngestError, NotATraceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEAD = '"schemaVersion": 1, '


@dataclass(frozen=True, kw_only=True)
class BadFile:
    """Some bytes, and what reading them gives: the kept events in the order of the trace, and what was counted.

    ``starts_ns`` and ``durs_ns`` are given where times matter. With ``error`` nothing can be read, and the message
    holds ``says``. ``smallest_block`` spares large files from being read byte by byte.
    """

    title: str
    content: bytes
    names: Sequence[str] | int = ()
    problems: Mapping[str, int] = field(default_factory=dict)
    starts_ns: Sequence[int] | None = None
    durs_ns: Sequence[int] | None = None
    error: type[Exception] | None = None
    says: str = ""
    smallest_block: int = 1


def kept(
    title: str,
    content: bytes,
    names: str | Sequence[str] | int,
    problems: Mapping[str, int] | None = None,
    *,
    starts_ns: Sequence[int] | None = None,
    durs_ns: Sequence[int] | None = None,
    smallest_block: int = 1,
) -> BadFile:
    """Return a file of which events can be read; names of one word each may be given as one text."""
    expected = names.split() if isinstance(names, str) else names
    return BadFile(
        title=title,
        content=content,
        names=expected,
        problems=problems or {},
        starts_ns=starts_ns,
        durs_ns=durs_ns,
        smallest_block=smallest_block,
    )


def refused(
    title: str, content: bytes, says: str, error: type[Exception] = NotATraceError, *, smallest_block: int = 1
) -> BadFile:
    """Return a file of which nothing can be read, with a phrase of the message."""
    return BadFile(title=title, content=content, error=error, says=says, smallest_block=smallest_block)


def unreadable(title: str, content: bytes, says: str) -> BadFile:
    """Return a file that may have been a trace but of which nothing is left."""
    return refused(title, content, says, IngestError)


def event(name: str, ts: object = 1, dur: object = 1, /, **changes: str | None) -> str:
    """Return the JSON of a CPU op; ``changes`` are JSON themselves, and ``None`` leaves a key out."""
    fields = {
        "ph": '"X"',
        "cat": '"cpu_op"',
        "name": json.dumps(name),
        "pid": "7",
        "tid": "1",
        "ts": f"{ts}",
        "dur": f"{dur}",
        "args": '{"External id": 1}',
    } | changes
    return "{" + ", ".join(f'"{key}": {value}' for key, value in fields.items() if value is not None) + "}"


def trace(*events: str, before: str = HEAD, after: str = "") -> bytes:
    """Return a whole file in UTF-8; ``before`` and ``after`` is what stands around the list of events."""
    return ("{" + before + '"traceEvents": [' + ", ".join(events) + "]" + after + "}").encode()


# Three ops one after the other on one thread, 1 us each, 1 us apart.
A, B, C = event("a", 1), event("b", 3), event("c", 5)
ABC = trace(A, B, C, after=', "traceName": "x.json", "displayTimeUnit": "ms"')


def with_b(**changes: str | None) -> bytes:
    """Return the three ops, with other JSON for some values of the middle one."""
    return trace(A, event("b", 3, **changes), C)


def counter(**changes: str | None) -> bytes:
    """Return the three ops with a counter in place of the middle one; ``changes`` are those of its values."""
    return with_b(**{"ph": '"C"', "cat": None, "dur": None, **changes})


def upto(text: bytes, needle: str, *, behind: bool = True) -> bytes:
    """Return the text up to the last place where the needle stands, with it or without."""
    at = text.rindex(needle.encode())
    return text[: at + len(needle.encode()) * behind]
