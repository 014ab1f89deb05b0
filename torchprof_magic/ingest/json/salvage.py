"""Reads damaged JSON event by event, and repairs events whose meaning is clear."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec import Raw

from torchprof_magic.ingest.findings import example_of
from torchprof_magic.ingest.json.repair import Repairer
from torchprof_magic.ingest.json.schema import COUNTER, Args, CounterEvent, Event, ExactEvent

if TYPE_CHECKING:
    from torchprof_magic.ingest.findings import Findings

T = TypeVar("T", bound=msgspec.Struct)

MAX_EVENT_BYTES = 8 << 20
# The end of a damaged string depends on what follows it, so an event is repaired only if this much text follows.
LOOKAHEAD_BYTES = 512
# A file with so many entries in a row that are no events was made to take forever.
MOST_USELESS = 100_000
_NEXT_EVENT = re.compile(rb'(?:[},]\s*)(?=\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|args)"\s*:)|(?=\{\s*"ph"\s*:)')
_BETWEEN = re.compile(rb"[\s,]*")
_TRAILING = re.compile(r"trailing characters \(byte ([0-9]+)\)")

_ANYTHING = msgspec.json.Decoder(Raw)
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_EVENT = msgspec.json.Decoder(ExactEvent)
_COUNTER = msgspec.json.Decoder(CounterEvent)
_LIST_END = rb"]"


class Commas:
    """Counts the commas between the entries of a list: one is expected between two, none before the first."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._due: int | None = 0  # None after a lost piece, which may have included the commas
        self._found = 0

    def skip(self, text: bytes, at: int) -> int:
        """Return where the next entry begins, or the end of the text."""
        end = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        self._found += text.count(b",", at, end)
        return end

    def begin_entry(self) -> None:
        """Compare the commas found with those expected."""
        if self._due is not None:
            self._findings.add("json.comma", abs(self._found - self._due))
        self._due, self._found = 1, 0

    def end_list(self) -> None:
        """Count the commas before the bracket that ends the list."""
        self._findings.add("json.comma", self._found if self._due is not None else 0)

    def lose_entry(self) -> None:
        """Expect no particular number of commas after a lost piece."""
        self._due, self._found = None, 0


class Salvager:
    """Reads the entries of a damaged list one by one, over several calls with more and more text.

    ``is_lost`` is set while an entry could not be read and the beginning of the next one is looked for, and
    ``is_over`` once so much in a row was no event that the rest is not read.
    """

    def __init__(self, findings: Findings, commas: Commas) -> None:
        self.is_lost = self.is_over = False
        self.counters: list[CounterEvent] = []  # those among the last events, with their values
        self._useless = 0
        self._findings = findings
        self._commas = commas

    def events(self, text: bytes, offset: int, *, is_last: bool) -> tuple[list[Event], int]:
        """Return the events in ``text`` (``{...}, {...}`` of a list) and how many of its bytes were consumed.

        The rest is for the next call, with more text appended: an incomplete event, or the ``]`` that ends the list
        and what follows. With ``is_last`` there is no more text, and an incomplete event is cut off. ``offset`` is the
        position of the text in the file, for messages.
        """
        found: list[Event] = []
        self.counters = []
        at = 0
        while True:
            if self.is_lost:
                at = self._next_event(text, at, is_last=is_last)
            at = self._commas.skip(text, at)
            if self.is_lost or at >= len(text) or text.startswith(_LIST_END, at):
                return found, at
            event, end = self._entry(text, at, offset, is_last=is_last)
            if end is None:
                return found, at
            if event is not None and event.ph:
                found.append(event)
                self._useless = 0
            elif self._gives_up(event, offset + at):
                return found, end
            at = end

    def _gives_up(self, event: Event | None, at: int) -> bool:
        """Count an entry that is no event; return whether there have been too many in a row."""
        self._findings.add("chrome.not_an_event", int(event is not None), at=at)
        self._useless += 1
        self.is_over = self._useless > MOST_USELESS
        self._findings.add("json.given_up", int(self.is_over), at=at)
        return self.is_over

    def _entry(self, text: bytes, at: int, offset: int, *, is_last: bool) -> tuple[Event | None, int | None]:
        """Return the event at ``at`` (``None`` if it is none) and where it ends (``None`` if not in this text)."""
        end = _end_of_json(text, at, is_last=is_last)
        if end is None:
            return self._repaired(text, at, offset, is_last=is_last)
        if not text.startswith(b"{", at):
            self._pass_other(offset + at)
            return None, end
        read = _typed(text[at:end], _EVENT)
        if read is None:
            return self._repaired(text, at, offset, is_last=is_last)
        self._commas.begin_entry()
        self._findings.add("chrome.odd_value", len(read[1]), at=offset + at, example=next(iter(read[1]), ""))
        self._keep_counter(read[0], text[at:end])
        return read[0], end

    def _repaired(self, text: bytes, at: int, offset: int, *, is_last: bool) -> tuple[Event | None, int | None]:
        repairer = Repairer(text, at, min(len(text), at + MAX_EVENT_BYTES))
        clean, end = repairer.value(), repairer.at
        is_final = is_last or len(text) - at >= MAX_EVENT_BYTES
        if repairer.is_broken or (repairer.is_cut and is_final):
            return None, self._lost(text, at, offset, is_cut=is_last and not repairer.is_broken)
        if not is_final and (repairer.is_cut or len(text) - end < LOOKAHEAD_BYTES):
            return None, None
        if not text.startswith(b"{", at):
            self._pass_other(offset + at)
            return None, max(end, at + 1)
        self._commas.begin_entry()
        event = _counted(clean, _EVENT, repairer, self._findings, offset + at)
        self._keep_counter(event, clean)
        return event, end

    def _keep_counter(self, event: Event | None, piece: bytes) -> None:
        """Read an event again if it is a counter: only that reads all of its arguments."""
        if event is None or event.ph != COUNTER:
            return
        read = _typed(piece, _COUNTER)
        if read is not None:
            self.counters.append(read[0])

    def _pass_other(self, at: int) -> None:
        """Count an entry that is not an event. Which commas belong to it is unknown."""
        self._findings.add("chrome.not_an_event", at=at)
        self._commas.lose_entry()

    def _lost(self, text: bytes, at: int, offset: int, *, is_cut: bool) -> int | None:
        """Skip the entry at ``at``. One that is cut off at the end of the text is left to the caller."""
        if is_cut and _NEXT_EVENT.search(text, at + 1) is None:
            return None
        self._findings.add("json.lost", at=offset + at)
        self._commas.lose_entry()
        self.is_lost = True
        return at + 1

    def _next_event(self, text: bytes, at: int, *, is_last: bool) -> int:
        """Return where the next event after a lost one begins. Until it is found, all text but its end is consumed."""
        found = _NEXT_EVENT.search(text, at)
        if found is not None:
            self.is_lost = False
            return found.end()
        return len(text) if is_last else max(len(text) - LOOKAHEAD_BYTES, at)


def salvaged(text: bytes, kind: type[T], findings: Findings) -> T | None:
    """Return what can be read of a single damaged object."""
    repairer = Repairer(text, 0, len(text))
    clean = repairer.value()
    if repairer.is_cut or repairer.is_broken:
        return None
    return _counted(clean, msgspec.json.Decoder(kind), repairer, findings, 0)


def _counted(
    clean: bytes, decoder: msgspec.json.Decoder[T], repairer: Repairer, findings: Findings, at: int
) -> T | None:
    """Return the object that was repaired, and count all that was done to it."""
    for code, count in repairer.counts.items():
        findings.add(code, count, at=at)
    read = _typed(clean, decoder)
    if read is None:
        findings.add("json.lost", at=at)
        return None
    findings.add("chrome.odd_value", len(read[1]), at=at, example=next(iter(read[1]), ""))
    return read[0]


def _end_of_json(text: bytes, at: int, *, is_last: bool) -> int | None:
    """Return where the value at ``at`` ends, ``None`` if it is not JSON or not complete."""
    try:
        _ANYTHING.decode(memoryview(text)[at:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        found = _TRAILING.search(str(exc))
        return at + int(found[1]) - 1 if found else None
    return len(text) if is_last or text.startswith(b"{", at) else None


def _typed(piece: bytes, decoder: msgspec.json.Decoder[T]) -> tuple[T, list[str]] | None:
    """Return an object without the values of a wrong type, and what those are.

    ``None`` if it is not JSON, or not UTF-8.
    """
    try:
        return decoder.decode(piece), []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        # msgspec says in another way that a text is not UTF-8 from 0.23 on.
        piece.decode()
        fields = _FIELDS.decode(piece)
        # From msgspec 0.23 on this is a TypeForm, as decoders are made of other types, too.
        kind = cast("type[msgspec.Struct]", decoder.type)
        kept, odd = _valid_fields(fields, kind, fields.get("name", b""))
        return decoder.decode(msgspec.json.encode(kept)), odd
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _valid_fields(
    fields: dict[str, Raw], kind: type[msgspec.Struct], event_name: Raw | bytes
) -> tuple[dict[str, object], list[str]]:
    """Return the fields of the right type, and a text about each other one."""
    kept: dict[str, object] = {}
    odd: list[str] = []
    types = _types(kind)
    for name, value in fields.items():
        if name not in types:
            continue
        try:
            msgspec.json.decode(value, type=types[name])
        except msgspec.ValidationError:
            if issubclass(kind, Event) and name == "args" and bytes(value).startswith(b"{"):
                kept[name], odd_args = _valid_fields(_FIELDS.decode(value), Args, event_name)
                odd += odd_args
            else:
                odd.append(example_of(name, value, event_name))
        except (msgspec.DecodeError, RecursionError):
            odd.append(example_of(name, value, event_name))
        else:
            kept[name] = value
    return kept, odd


@lru_cache
def _types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the types of the fields by the name in the file; finding them out takes msgspec milliseconds."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
