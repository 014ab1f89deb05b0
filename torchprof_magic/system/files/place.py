"""A path that a user gave, looked at once: what it is, where it lies, and how it may be shown."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torchprof_magic.system.files.urls import is_url, local_path, name_of, public_path, public_url

Kind = Literal["file", "folder", "pattern", "remote file", "remote folder"]
PATTERN = re.compile(r"[*?[]")
# Of a URL, what follows a question mark is no part of the path.
_URL_PATTERN = re.compile(r"^[^?#]*\*")
_MISTYPED_URL = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.\-]+\s*:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A file or several: ``text`` is what the user gave, and ``shown`` the same without credentials.

    ``path`` is where it lies on this machine, ``None`` for what must be fetched. ``size_bytes`` is ``None`` for what is
    not there, or not here. ``flaw`` says why it cannot be opened.
    """

    kind: Kind
    text: str
    shown: str
    path: Path | None = None
    size_bytes: int | None = None
    flaw: str = ""

    @property
    def is_many(self) -> bool:
        """Whether it stands for several files: a folder, a pattern such as ``*.json.gz``, or a URL of either."""
        return self.kind not in ("file", "remote file")

    @property
    def is_there(self) -> bool:
        """Whether it is on this machine."""
        return self.size_bytes is not None

    @property
    def name(self) -> str:
        """The name of the file or folder, without credentials."""
        return self.path.name if self.path is not None else name_of(self.text)


def place_of(path: object) -> Place:
    """Return what a path, a pattern or a URL stands for; raises ``TypeError`` for what is none of them."""
    if not isinstance(path, (str, os.PathLike)) or isinstance(text := os.fspath(path), bytes):
        raise TypeError(f"load() takes paths as str or os.PathLike (got {type(path).__name__})")
    if not is_url(text):
        try:
            return _local(text, Path(text).expanduser())
        except RuntimeError:
            flaw = "cannot resolve this home directory"
            return Place(kind="file", text=text, shown=public_path(text), path=Path(text), flaw=flaw)
    local = local_path(text) if "::" not in text else None
    if local is not None:
        return _local(text, local, is_url=True)
    is_many = text.endswith("/") or _URL_PATTERN.search(text)
    return Place(kind="remote folder" if is_many else "remote file", text=text, shown=public_url(text))


def local_file(path: Path) -> Place | None:
    """Return a file that was found in a folder, ``None`` for a folder."""
    place = _looked_at(str(path), path)
    return place if place.kind == "file" else None


def _local(text: str, path: Path, *, is_url: bool = False) -> Place:
    if not text:
        return Place(kind="file", text=text, shown=text, path=path)
    place = _looked_at(text, path)
    is_pattern = PATTERN.search(str(path)) and (is_url or not _MISTYPED_URL.match(text))
    if place.is_there or not is_pattern:
        return place
    return Place(kind="pattern", text=text, shown=place.shown, path=path)


def _looked_at(text: str, path: Path) -> Place:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return Place(kind="file", text=text, shown=public_path(text), path=path)
    kind: Kind = "folder" if stat.S_ISDIR(found.st_mode) else "file"
    return Place(kind=kind, text=text, shown=str(path), path=path, size_bytes=found.st_size)
