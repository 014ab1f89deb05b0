"""How is an error of somebody else's library told without the credentials that it may repeat?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from torchprof_magic.files.urls import public_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_CHARS = 200
HIDDEN = "***"
_FEWEST_CHARS = 3  # a shorter secret is not worth making every text unreadable
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{0,40}://[^\s'\"<>)\]},]+")
_NAMED = re.compile(
    r"(?i)([\w.\-]{0,40}(?:password|passwd|secret|token|credential|signature|access_?key|api_?key|accountkey|authorization)"
    r"[\w.\-]{0,40}['\"]?\s?[=:]\s?)(?:(?:bearer|basic|aws4-hmac-sha256)\s+)?(['\"]?)[^\s'\",;&]+"
)


def secrets_of(url: str, options: Mapping[str, object]) -> frozenset[str]:
    """Return the texts that must not be shown: what surrounds an address, and every text among the options."""
    found = {*_parts_of(url), *_texts_in(options)}
    spellings = {spelling for text in found for spelling in (text, unquote(text), quote(text, safe=""))}
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


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        yield from _parts_of(value)
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts_in(inner)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for inner in value:
            yield from _texts_in(inner)


def told(exc: BaseException, secrets: frozenset[str]) -> str:
    """Return what an exception says in one line, with its kind and without anything that may be secret."""
    try:
        text = " ".join(str(exc).split())
    except Exception:  # noqa: BLE001 - texts of others are made by code of others
        text = ""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = text[: 5 * MOST_CHARS]  # only now, or half a secret could be left at the end
    text = _URL.sub(lambda match: public_url(match[0]), text)
    text = _NAMED.sub(rf"\1\2{HIDDEN}", text)
    text = text if len(text) <= MOST_CHARS else f"{text[: MOST_CHARS - 1]}…"
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__
