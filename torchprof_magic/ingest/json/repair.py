"""Repairs one value of broken JSON: reads it leniently and writes it again as strict JSON."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

MAX_DEPTH = 64
# Only malicious files are nested this deeply; such an event is dropped.
HOPELESS_DEPTH = 200_000

_SPACE = re.compile(rb"[ \t\r\n]*")
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?=[\s,\]}]|$)")
_WORD = re.compile(rb'[^\s,\[\]{}"]+')
_LOOSE_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_LITERALS = (b"true", b"false", b"null")
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}|)', re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
# What follows a quote that ends a string, which distinguishes it from a quote within.
_AFTER_KEY = re.compile(rb"\s*:")
_AFTER_MEMBER = re.compile(rb'\s*(?:\}|$|,\s*(?:\}|$|"(?:[^"\\]|\\.){0,200}"\s*:))', re.DOTALL)
_AFTER_ITEM = re.compile(rb"\s*(?:[,\]]|$)")
# Valid JSON never continues like this after an escaped quote.
_NEXT_KEY = re.compile(rb'\s*,\s*"[^"\\]{0,200}"\s*:')
_EVENT = re.compile(rb'\{\s*"ph"\s*:')
_IN_OTHER_EVENT = re.compile(rb'\{\s*"ph"\s*:|\}\s*,\s*\{\s*"(?:cat|name|pid|tid|ts|dur|id|args)"\s*:')
_EVENT_BEGINS_BYTES = 64  # of which the expression above sees enough
# A bracket followed by another object cannot be the end of the list of events.
MORE_EVENTS = re.compile(rb"\][\s\]}]{0,64},\s{0,64}\{")
PERHAPS_MORE_EVENTS = re.compile(rb"\][\s\]}]{0,64}(?:,\s{0,64})?$")


class Repairer:
    """Reads one value of ``text`` that begins at ``at``, and writes it as strict JSON.

    After ``value()``, ``at`` is where the value ends. ``is_cut`` is set if the text ended within it, ``is_broken`` if
    it cannot be separated from the events after it, and ``counts`` holds the repairs by code. A string ends at the
    first quote after which JSON can continue.
    """

    def __init__(self, text: bytes, at: int, limit: int) -> None:
        self.at = at
        self.is_cut = False
        self.is_broken = False
        self.counts: Counter[str] = Counter()
        self._text = text
        self._limit = limit
        self._out: list[bytes] = []
        self._open: list[bytes] = []
        self._muted_from: int | None = None
        # Functions and not methods: a method would refer to this object, and stay until garbage is collected.
        self._expect = Repairer._value
        self._is_done = False
        self._comma_at = at

    def value(self) -> bytes:
        """Return the value as strict JSON."""
        while not (self._is_done or self.is_cut or self.is_broken):
            self.at = _SPACE.match(self._text, self.at, self._limit).end()  # type: ignore[union-attr]
            if self.at >= self._limit:
                self.is_cut = True
                break
            self._expect(self, self._text[self.at : self.at + 1])
        return b"".join(self._out)

    # One method per state of the grammar; each handles the next character.

    def _value(self, char: bytes) -> None:
        if char == b"{" and self._open and _EVENT.match(self._text, self.at, self._limit):
            self._close_before_event()
        elif char in (b"{", b"["):
            self._push(char)
        elif char == b'"':
            self._write(self._string(_AFTER_MEMBER if self._inner() == b"{" else _AFTER_ITEM))
            self._after_value()
        elif char == b"]" and self._inner() == b"[":
            self._drop_comma()
            self._pop()
        elif char in (b"}", b"]", b","):
            self.counts["json.structure"] += 1
            self._write(b"null")
            self._after_value()
            if self._is_done:
                self.at += 1
        elif char == b":":
            self.counts["json.structure"] += 1
            self.at += 1
        else:
            self._write(self._plain())
            self._after_value()

    def _key(self, char: bytes) -> None:
        if char == b'"':
            self._write(self._string(_AFTER_KEY))
            self._expect = Repairer._colon
        elif char == b"}":
            self._drop_comma()
            self._pop()
        elif char == b",":
            self.counts["json.comma"] += 1
            self.at += 1
        elif char in (b"{", b"]"):
            self._close_all() if char == b"{" else self._bracket()
        else:
            self.counts["json.structure"] += 1
            found = _WORD.match(self._text, self.at, self._limit)
            self.at = found.end() if found else self.at + 1

    def _colon(self, char: bytes) -> None:
        self._write(b":")
        self._expect = Repairer._value
        if char == b":":
            self.at += 1
        else:
            self.counts["json.structure"] += 1
            self._write(b"null")
            self._after_value()

    def _comma(self, char: bytes) -> None:
        inner = self._inner()
        if char == b",":
            self._next(char)
        elif (inner, char) in ((b"{", b"}"), (b"[", b"]")):
            self._pop()
        elif inner == b"[" and char == b"}":
            self.counts["json.structure"] += 1
            self._pop(consume=False)
        elif inner == b"{" and char in (b"{", b"]"):
            self._close_all() if char == b"{" else self._bracket()
        elif char == b":":
            self.counts["json.structure"] += 1
            self.at += 1
        else:
            self.counts["json.comma"] += 1
            self._next(b"")

    # Moving through the grammar.

    def _inner(self) -> bytes:
        return self._open[-1] if self._open else b""

    def _write(self, piece: bytes) -> None:
        self._out.append(piece)

    def _next(self, consumed: bytes) -> None:
        self._write(b",")
        self._comma_at = self.at
        self.at += len(consumed)
        self._expect = Repairer._key if self._inner() == b"{" else Repairer._value

    def _push(self, char: bytes) -> None:
        if len(self._open) == MAX_DEPTH and self._muted_from is None:
            self._muted_from = len(self._out)
        self.is_broken = len(self._open) >= HOPELESS_DEPTH
        self._open.append(char)
        self._write(char)
        self.at += 1
        self._expect = Repairer._key if char == b"{" else Repairer._value

    def _pop(self, *, consume: bool = True) -> None:
        self._write(b"}" if self._open.pop() == b"{" else b"]")
        self.at += consume
        if self._muted_from is not None and len(self._open) == MAX_DEPTH:
            del self._out[self._muted_from :]
            self._write(b"null")
            self._muted_from = None
            self.counts["json.deep_nesting"] += 1
        self._after_value()

    def _after_value(self) -> None:
        self._expect = Repairer._comma
        self._is_done = not self._open

    def _drop_comma(self) -> bool:
        is_comma = bool(self._out) and self._out[-1] == b","
        if is_comma:
            self._out.pop()
            self.counts["json.comma"] += 1
        return is_comma

    def _close_all(self) -> None:
        """End the value before a character that cannot belong to it: the next one of a list, or the list's end."""
        self.counts["json.structure"] += 1
        if self._drop_comma():  # it separates this value from the next
            self.counts["json.comma"] -= 1
            self.at = self._comma_at
        while self._open:
            self._pop(consume=False)

    def _close_before_event(self) -> None:
        """End the value where an event begins, because events do not contain events."""
        if self._out[-1] == b":":
            self._write(b"null")
        self._close_all()

    def _bracket(self) -> None:
        """Handle an unexpected ``]``: it ends an outer list, or the list of events, or is superfluous."""
        if b"[" in self._open:
            self.counts["json.structure"] += 1
            self._drop_comma()
            while self._inner() != b"[":
                self._pop(consume=False)
        elif MORE_EVENTS.match(self._text, self.at, self._limit):
            self.counts["json.structure"] += 1
            self.at += 1
        else:
            self._close_all()

    # Scalars.

    def _plain(self) -> bytes:
        found = _NUMBER.match(self._text, self.at, self._limit)
        if found:
            self.at = found.end()
            return found[0]
        word = _WORD.match(self._text, self.at, self._limit)
        self.at = word.end() if word else self.at + 1
        text = word[0] if word else b""
        if text in _LITERALS:
            return text
        if _LOOSE_NUMBER.fullmatch(text):
            self.counts["json.structure"] += 1
            return _strict_number(text)
        self.counts["json.not_a_number"] += 1
        return b"null"

    def _string(self, after: re.Pattern[bytes]) -> bytes:
        """Return the string that begins at the quote, correctly escaped."""
        start = self.at + 1
        end = self._end_of_string(start, after)
        if end < 0:
            self.is_cut, self.at = True, self._limit
            return b'""'
        if _IN_OTHER_EVENT.search(self._text, start, end):
            self.is_broken = True
            return b'""'
        self.at = end + 1
        return b'"' + self._escaped(self._text[start:end]) + b'"'

    def _end_of_string(self, start: int, after: re.Pattern[bytes]) -> int:
        """Return where the quote is that ends the string, or -1.

        A quote with a backslash before it ends one whose backslashes were not escaped, as in a Windows folder.
        """
        at = checked_to = seen_to = start
        has_bad_escape = False
        while (end := self._text.find(b'"', at, self._limit)) >= 0:
            at = end + 1
            if after.match(self._text, end + 1, self._limit) is None:
                if _IN_OTHER_EVENT.search(self._text, max(seen_to - _EVENT_BEGINS_BYTES, start), end):
                    return end  # whatever ends it lies behind the beginning of another event, too
                seen_to = end
                continue
            if _backslashes_at_end(self._text[max(start, end - 64) : end]) % 2 == 0:
                return end
            # Each part is looked at once, because a hostile string can have a quote like this in every place.
            has_bad_escape = has_bad_escape or _has_bad_escape(self._text, checked_to, end - 1)
            checked_to = end - 1
            if has_bad_escape or _NEXT_KEY.match(self._text, end + 1, self._limit) is not None:
                return end
        return -1

    def _escaped(self, raw: bytes) -> bytes:
        if b'"' in raw:
            raw = self._with_quotes_escaped(raw)
        if b"\\" in raw:
            if _has_bad_escape(raw, 0, len(raw)):
                self.counts["json.bad_escape"] += 1
                raw = _literal(raw)
            whole = _SURROGATE.sub(lambda found: rb"\ufffd" if found[1] else found[0], raw)
            self.counts["json.bad_utf8"] += whole != raw
            raw = whole
        raw, controls = _CONTROL.subn(lambda found: b"\\u%04x" % found[0][0], raw)
        self.counts["json.control_character"] += controls
        try:
            raw.decode()
        except UnicodeDecodeError:
            self.counts["json.bad_utf8"] += 1
            raw = raw.decode(errors="replace").encode()
        return raw

    def _with_quotes_escaped(self, raw: bytes) -> bytes:
        parts = raw.split(b'"')
        joined = parts[:1]
        for before, part in pairwise(parts):
            is_escaped = _backslashes_at_end(before) % 2 == 1
            self.counts["json.inner_quote"] += not is_escaped
            joined += [b'"' if is_escaped else b'\\"', part]
        return b"".join(joined)


def _backslashes_at_end(raw: bytes) -> int:
    return len(raw) - len(raw.rstrip(b"\\"))


def _has_bad_escape(text: bytes, start: int, end: int) -> bool:
    return any(len(found[0]) == 1 for found in _ESCAPE.finditer(text, start, end))


def _literal(raw: bytes) -> bytes:
    """Return a string with all backslashes escaped, except before a quote or another backslash."""
    return re.sub(rb'\\(["\\])|\\', lambda found: found[0] if found[1] else rb"\\", raw)


def _strict_number(text: bytes) -> bytes:
    """Return ``+1``, ``.5``, ``1.`` or ``007`` as JSON writes it."""
    sign = b"-" if text.startswith(b"-") else b""
    body = text.lstrip(b"+-").lower()
    digits, e, exponent = body.partition(b"e")
    whole, _, part = digits.partition(b".")
    return sign + (whole.lstrip(b"0") or b"0") + (b"." + part if part else b"") + e + exponent
