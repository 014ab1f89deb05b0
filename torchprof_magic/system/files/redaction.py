"""Removes credentials from error messages of other libraries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from torchprof_magic.model.units import printable
from torchprof_magic.system.files.urls import public_url

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_CHARS = 200
HIDDEN = "***"
_FEWEST_CHARS = 3  # hiding shorter texts would make messages unreadable
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{0,40}://[^\s'\"<>)\]},]+")
_NAMED = re.compile(
    r"(?i)([\w.\-]{0,40}(?:password|passwd|secret|token|credential|signature|access_?key|api_?key|accountkey|authorization)"
    r"[\w.\-]{0,40}['\"]?\s?[=:]\s?)(?:(?:bearer|basic|aws4-hmac-sha256)\s+)?(['\"]?)[^\s'\",;&]+"
)


def secrets_of(url: str) -> frozenset[str]:
    """Return the parts of a URL that must not be shown: user, password, query and fragment, in every quoting."""
    spellings = {spelling for text in _parts_of(url) for spelling in (text, unquote(text), quote(text, safe=""))}
    return frozenset(text for text in spellings if len(text) >= _FEWEST_CHARS)


def _parts_of(url: str) -> Iterator[str]:
    try:
        split = urlsplit(url)
    except ValueError:
        yield url
        return
    user, has_user, _ = split.netloc.rpartition("@")
    if has_user:
        yield user
        yield from user.split(":", 1)
    for tail in (split.query, split.fragment):
        if tail:
            yield tail
            yield from (pair.partition("=")[2] or pair for pair in tail.split("&"))


def told(exc: BaseException, secrets: frozenset[str]) -> str:
    """Return type and message of an exception in one line, with secrets hidden."""
    try:
        text = " ".join(str(exc).split())
    except Exception:  # noqa: BLE001 - __str__ of the exception may fail
        text = ""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = text[: 5 * MOST_CHARS]  # after hiding, or a part of a secret could remain at the end
    text = _URL.sub(lambda match: public_url(match[0]), text)
    text = _NAMED.sub(rf"\1\2{HIDDEN}", text)
    text = text if len(text) <= MOST_CHARS else f"{text[: MOST_CHARS - 1]}…"
    return printable(f"{type(exc).__name__}: {text}") if text else type(exc).__name__
