"""The files that a folder, a pattern or a URL of several stands for."""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.model.errors import IngestError, NotATraceError
from torchprof_magic.system.files.place import PATTERN, Place, local_file, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The endings of files that hold a recording. Others in a folder are left alone, and so are hidden ones.
ENDINGS = (".json", ".json.gz", ".torchprof")
# What is beside recordings in folders of kept traces, and ends like one.
_NO_TRACES = ("index.json", "journal.json", "meta.json")
_DIGITS = re.compile(r"([0-9]+)")
MOST_FILES = 100_000


def files_at(given: Place | Iterable[object]) -> list[Place]:
    """Return the files that a place or a list of paths stands for, in the order of the numbers in their names.

    In a folder these are the files that end in ``.json``, ``.json.gz`` or ``.torchprof``, also in folders below it.
    Raises ``NotATraceError`` if a place has none, and ``IngestError`` if they cannot be listed.
    """
    if not isinstance(given, Place):
        return [file for path in given for file in _files_of(place_of(path))]
    found = _files_of(given)
    if not found:
        where = "this folder has" if given.kind == "folder" else "there are"
        raise NotATraceError(f"{given.shown}: {where} no trace files; they end in {', '.join(ENDINGS)}")
    return found


def _files_of(place: Place) -> list[Place]:
    if not place.is_many:
        return [place]
    if place.path is None:
        return _in_order(map(place_of, _remote(place)))
    return _in_order(file for path in _below(place.path, place.kind) if (file := local_file(path)) is not None)


def _below(path: Path, kind: str) -> Iterator[Path]:
    """Yield the paths in a folder that may be those of traces, or all that match a pattern."""
    if kind == "folder":
        return (each for each in path.rglob("*") if _may_be_trace(each.name))
    # Path.glob does not take patterns of absolute paths.
    return map(Path, glob.iglob(str(path), recursive=True))  # noqa: PTH207


def _may_be_trace(name: str) -> bool:
    return name.lower().endswith(ENDINGS) and not name.startswith(".") and name not in _NO_TRACES


def _remote(place: Place) -> list[str]:
    try:
        import fsspec  # noqa: PLC0415 - an extra, only for URLs
    except ImportError:
        raise IngestError("URLs need fsspec; install it with `pip install 'torchprof-magic[remote]'`") from None
    failure = ""
    try:
        system, root = fsspec.core.url_to_fs(place.text)
        paths = system.glob(root) if PATTERN.search(root) else system.find(root)
        return [system.unstrip_protocol(each) for each in paths if _may_be_trace(each.rpartition("/")[2])]
    except Exception as exc:  # noqa: BLE001 - file systems raise anything, with texts that can hold credentials
        failure = type(exc).__name__
    raise IngestError(f"{place.shown}: cannot list the files there ({failure})")


def _in_order(places: Iterable[Place]) -> list[Place]:
    """Return files so that ``rank10`` comes after ``rank9``."""
    found = sorted(places, key=lambda file: [_as_number(part) for part in _DIGITS.split(file.text)])
    return found[:MOST_FILES]


def _as_number(part: str) -> int | str:
    return int(part) if part.isdecimal() else part
