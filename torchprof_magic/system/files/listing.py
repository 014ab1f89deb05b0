"""Which files a folder, a pattern or a URL of several stands for."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from pathlib import Path

from torchprof_magic.model.errors import IngestError, NotATraceError
from torchprof_magic.system.files.urls import is_url, local_path, public_path, public_url

# The endings of files that hold a recording. Others in a folder are left alone, and so are hidden ones.
ENDINGS = (".json", ".json.gz", ".torchprof")
# What is beside recordings in folders of kept traces, and ends like one.
_NO_TRACES = ("index.json", "journal.json", "meta.json")
_PATTERN = re.compile(r"[*?[]")
# Of a URL, what follows a question mark is no part of the path.
_URL_PATTERN = re.compile(r"^[^?#]*\*")
_MISTYPED_URL = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.\-]+\s*:")
_DIGITS = re.compile(r"([0-9]+)")
MOST_FILES = 100_000


def is_many(path: object) -> bool:
    """Return whether this stands for several files: a list of paths, a folder, or a pattern such as ``*.json.gz``."""
    if isinstance(path, (str, os.PathLike)):
        text = os.fspath(path)
        if isinstance(text, bytes) or not text:
            return False
        if is_url(text) and local_path(text) is None:
            return text.endswith("/") or bool(_URL_PATTERN.search(text))
        return _is_folder(text) or (_may_be_pattern(text) and not _is_there(text))
    return isinstance(path, Iterable) and not isinstance(path, (bytes, bytearray))


def files_of(path: object) -> list[str]:
    """Return the files that a list, folder, pattern or URL stands for, in the order of the numbers in their names.

    In a folder these are the files that end in ``.json``, ``.json.gz`` or ``.torchprof``, also in folders below it.
    Raises ``NotATraceError`` if there are none, and ``IngestError`` if they cannot be listed.
    """
    if not isinstance(path, (str, os.PathLike)):
        assert isinstance(path, Iterable)
        return [each for part in path for each in _files_of_one(part)]
    found = _files_of_one(path)
    if not found:
        where = "this folder has" if _is_folder(os.fspath(path)) else "there are"
        raise NotATraceError(
            f"{public_path(os.fspath(path))}: {where} no trace files; they end in {', '.join(ENDINGS)}"
        )
    return found


def _files_of_one(path: object) -> list[str]:
    if not isinstance(path, (str, os.PathLike)) or isinstance(text := os.fspath(path), bytes):
        raise TypeError(f"load() takes paths as str or os.PathLike (got {type(path).__name__})")
    if not is_many(text):
        return [text]
    if is_url(text) and local_path(text) is None:
        return _in_order(_remote(text))
    local = (local_path(text) if is_url(text) else None) or Path(text).expanduser()
    if _is_folder(str(local)):
        return _in_order(str(each) for each in local.rglob("*") if _may_be_trace(each.name) and each.is_file())
    # Path.glob does not take patterns of absolute paths.
    return _in_order(each for each in glob.glob(str(local), recursive=True) if not _is_folder(each))  # noqa: PTH207


def _may_be_pattern(text: str) -> bool:
    path = text.partition("://")[2] if is_url(text) else text
    return bool(_PATTERN.search(path)) and (is_url(text) or _MISTYPED_URL.match(text) is None)


def _is_there(text: str) -> bool:
    try:
        return Path(text).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False


def _is_folder(text: str) -> bool:
    try:
        local = local_path(text) if is_url(text) else Path(text).expanduser()
        return local is not None and local.is_dir()
    except (OSError, ValueError, RuntimeError):
        return False


def _may_be_trace(name: str) -> bool:
    return name.lower().endswith(ENDINGS) and not name.startswith(".") and name not in _NO_TRACES


def _remote(url: str) -> list[str]:
    try:
        import fsspec  # noqa: PLC0415 - an extra, only for URLs
    except ImportError:
        raise IngestError("URLs need fsspec; install it with `pip install 'torchprof-magic[remote]'`") from None
    failure = ""
    try:
        system, root = fsspec.core.url_to_fs(url)
        paths = system.glob(root) if _PATTERN.search(root) else system.find(root)
        return [system.unstrip_protocol(each) for each in paths if _may_be_trace(each.rpartition("/")[2])]
    except Exception as exc:  # noqa: BLE001 - file systems raise anything, with texts that can hold credentials
        failure = type(exc).__name__
    raise IngestError(f"{public_url(url)}: cannot list the files there ({failure})")


def _in_order(paths: Iterable[str]) -> list[str]:
    """Return paths so that ``rank10`` comes after ``rank9``."""
    found = sorted(paths, key=lambda path: [int(part) if part.isdecimal() else part for part in _DIGITS.split(path)])
    return found[:MOST_FILES]
