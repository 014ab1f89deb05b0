"""Paths that are URLs: where they point to, and how to show them without credentials."""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath
from urllib.parse import SplitResult, unquote, urlsplit

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+")
_LOCAL = re.compile(r"(?:file|local)://(?:localhost(?=/))?", re.IGNORECASE)
_DRIVE = re.compile(r"/[A-Za-z]:")
_OF_PATHS = ("file", "local", "zip", "tar")  # nothing but a path follows
# A mistyped URL: one slash for two, backslashes, spaces, or a path object, which joins slashes.
_MISTYPED = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.\-]+)\s*:(?=[/\\]|[^@]*@)[/\\]*")


def is_url(path: object) -> bool:
    """Return whether a path is a URL: ``s3://...``, ``https://...``, or any other scheme of fsspec."""
    if not isinstance(path, str) or "://" not in path:
        return False
    schemes = path.partition("://")[0].split("::")
    return all(_SCHEME.fullmatch(scheme) for scheme in schemes)


def local_path(url: str) -> Path | None:
    """Return the path in a ``file://`` URL, or in a text without a scheme; ``None`` for another kind of URL."""
    found = _LOCAL.match(url)
    if found is None:
        return None if "://" in url else Path(url)
    text = url[found.end() :]
    if sys.platform == "win32" and _DRIVE.match(text):
        text = text[1:]
    path = Path(text)
    return path if path.exists() else Path(unquote(text))


def public_url(url: str) -> str:
    """Return a URL without user, password, query and fragment, which may hold credentials."""
    return "::".join(_public_part(part) for part in url.split("::"))


def public_path(path: str) -> str:
    """Return a path as it is, unless it may be a mistyped URL that holds credentials."""
    if is_url(path):
        return public_url(path)
    found = _MISTYPED.match(path)
    if found is not None:
        return public_url(f"{found[1]}://{path[found.end() :]}".replace("\\", "/"))
    user, has_user, rest = path.rpartition("@")
    return f"...@{rest}" if has_user and ":" in user else path


def _public_part(part: str) -> str:
    if "://" not in part:
        return part.rpartition("@")[2].partition("?")[0].partition("#")[0]
    try:
        found = urlsplit(part)
    except ValueError:
        return part.partition("://")[0] + "://..."
    if _has_odd_user(found):
        return f"{found.scheme}://{(found.netloc + found.path).rpartition('@')[2].lstrip('/')}"
    return f"{found.scheme}://{found.netloc.rpartition('@')[2]}{found.path}"


def _has_odd_user(found: SplitResult) -> bool:
    """Return whether user and password may be in the path, because a slash is in the password or before the user."""
    if "@" not in found.path or found.scheme in _OF_PATHS or "@" in found.netloc:
        return False
    return not found.netloc or ":" in found.netloc


def name_of(url: str) -> str:
    """Return the last part of a URL's path, as a title."""
    place = next(part for part in public_url(url).split("::") if "://" in part).partition("://")[2]
    return unquote(PurePosixPath(place).name)
