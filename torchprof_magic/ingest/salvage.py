"""What can still be read of damaged JSON? Event by event, repaired where the meaning is plain."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Raw

from torchprof_magic.ingest.repair import Repairer
from torchprof_magic.ingest.schema import Args, Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.ingest.findings import Findings

T = TypeVar("T", bound=msgspec.Struct)

MAX_EVENT_BYTES = 8 << 20
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_EVENT_START = re.compile(rb'\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|args)"\s*:')
_BETWEEN = re.compile(rb"[\s,]*")
_MAX_JOINED = 64

_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_LIST_END = rb"]"


def salvage(text: bytes, findings: Findings, offset: int, *, kind: type[T], is_last: bool) -> tuple[list[T], int]:
    """Return the objects in ``text`` (``{...}, {...}`` of a list) and how many of its bytes are used up.

    The rest is for the next call, with more text behind it: an object that is not whole, or the ``]`` that ends the
    list and what follows. ``offset`` is that of the text within the file, for messages.
    """
    decoder = msgspec.json.Decoder(kind)
    found: list[T] = []
    at = 0
    while True:
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        if at >= len(text) or text.startswith(_LIST_END, at):
            return found, at
        if not is_last and len(text) - at < MAX_EVENT_BYTES and _BOUNDARY.search(text, at) is None:
            return found, at  # perhaps not whole yet
        if not text.startswith(b"{", at):
            at = _skip_other(text, at, findings, offset)
            continue
        event, end = _one(text, at, decoder, findings, offset, is_last=is_last)
        if end is None:
            return found, at
        if event is not None:
            found.append(event)
        at = end


def _one(
    text: bytes, at: int, decoder: msgspec.json.Decoder[T], findings: Findings, offset: int, *, is_last: bool
) -> tuple[T | None, int | None]:
    """Return the object at ``at`` (``None`` when it is lost) and where it ends (``None``: not within the text)."""
    for end in _ends(text, at):
        try:
            return decoder.decode(text[at:end]), end
        except msgspec.ValidationError:
            return _with_valid_fields(text[at:end], decoder, findings, offset + at), end
        except (UnicodeDecodeError, RecursionError):
            break
        except msgspec.DecodeError as exc:
            if "truncated" not in str(exc):
                break
    return _repaired(text, at, decoder, findings, offset, is_last=is_last)


def _repaired(
    text: bytes, at: int, decoder: msgspec.json.Decoder[T], findings: Findings, offset: int, *, is_last: bool
) -> tuple[T | None, int | None]:
    repairer = Repairer(text, at, min(len(text), at + MAX_EVENT_BYTES))
    clean, end = repairer.value(), repairer.at
    if repairer.is_cut and not is_last and len(text) - at < MAX_EVENT_BYTES:
        return None, None
    for code, count in repairer.counts.items():
        findings.add(code, count, at=offset + at)
    if repairer.is_cut:
        if end < len(text) or not is_last:  # else the text itself is cut off, which is counted once, at its end
            findings.add("json.lost", at=offset + at)
        return None, _resume(text, at + 1, end)
    event = _with_valid_fields(clean, decoder, findings, offset + at)
    return event, end if event is not None else _resume(text, at + 1, end)


def _ends(text: bytes, at: int) -> Iterator[int]:
    """Yield where the object that begins at ``at`` may end: each ``}`` before a ``, {``."""
    for joined, found in enumerate(_BOUNDARY.finditer(text, at)):
        if joined == _MAX_JOINED:
            return
        yield found.start() + 1


def _resume(text: bytes, at: int, limit: int) -> int:
    """Return where the next event begins behind a lost one."""
    found = _EVENT_START.search(text, at)
    return found.start() if found else max(limit, at)


def _skip_other(text: bytes, at: int, findings: Findings, offset: int) -> int:
    """Pass an entry of the list that is no object; count it."""
    findings.add("chrome.not_an_event", at=offset + at)
    repairer = Repairer(text, at, min(len(text), at + MAX_EVENT_BYTES))
    repairer.value()
    return max(repairer.at, at + 1)


def _with_valid_fields(piece: bytes, decoder: msgspec.json.Decoder[T], findings: Findings, at: int) -> T | None:
    """Decode an object of which some values may have other types than they should; those are left out and counted."""
    try:
        return decoder.decode(piece)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        fields = _FIELDS.decode(piece)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        findings.add("json.lost", at=at)
        return None
    kept, odd = _valid_fields(fields, decoder.type)
    findings.add("chrome.odd_value", odd, at=at)
    event: T = decoder.decode(msgspec.json.encode(kept))
    return event


def _valid_fields(fields: dict[str, Raw], kind: type[msgspec.Struct]) -> tuple[dict[str, object], int]:
    kept: dict[str, object] = {}
    odd = 0
    types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name, value in fields.items():
        if name not in types:
            continue
        try:
            msgspec.json.decode(value, type=types[name])
        except msgspec.ValidationError:
            if issubclass(kind, Event) and name == "args" and bytes(value).startswith(b"{"):
                kept[name], odd_args = _valid_fields(_FIELDS.decode(value), Args)
                odd += odd_args
            else:
                odd += 1
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            odd += 1
        else:
            kept[name] = value
    return kept, odd
