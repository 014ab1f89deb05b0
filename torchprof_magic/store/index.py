"""The list of the traces that were written into a folder, in its file ``.torchprof-store.json``.

It decides what may be deleted, so an entry that is damaged, or a file that differs from its entry, is left alone.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from torchprof_magic.errors import OptionsError
from torchprof_magic.files.atomic import read_own, replacing
from torchprof_magic.store.template import check_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

INDEX = ".torchprof-store.json"
LIMIT_BYTES = 16 << 20  # far more than any index that we write
MOST_DELETED = 1000  # deleted traces that stay in the list
LATEST = 253_402_300_799.0  # the last second that a datetime can hold


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trace that was written. ``timestamp`` is seconds since 1970; size and ``mtime_ns`` tell if it was changed."""

    name: str
    timestamp: Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
    step: int
    cycle: int
    rank: int
    size_bytes: int
    mtime_ns: int
    state: Literal["kept", "deleted"] = "kept"


class _Index(msgspec.Struct):
    version: Literal[1]
    traces: list[msgspec.Raw]


def read_index(folder: Path) -> tuple[Entry, ...]:
    """Return the traces that were written into the folder, in that order, without damaged entries."""
    try:
        rows = msgspec.json.decode(read_own(folder / INDEX, LIMIT_BYTES)[0], type=_Index).traces
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return ()
    return tuple({entry.name: entry for row in rows if (entry := _entry(row)) is not None}.values())


def write_index(folder: Path, entries: Iterable[Entry]) -> None:
    """Replace the list; raises ``OSError``."""
    kept = list(entries)
    deleted = [entry for entry in kept if entry.state == "deleted"]
    forgotten = {entry.name for entry in deleted[:-MOST_DELETED]}
    rows = [entry for entry in kept if entry.name not in forgotten]
    with replacing(folder / INDEX) as file:
        file.write(msgspec.json.encode({"version": 1, "traces": rows}))


def is_as_written(folder: Path, entry: Entry) -> bool:
    """Return whether the file exists and is still the one that was written; a link never is."""
    try:
        found = os.lstat(folder / entry.name)
    except OSError:
        return False
    is_same = (found.st_size, found.st_mtime_ns) == (entry.size_bytes, entry.mtime_ns)
    return stat.S_ISREG(found.st_mode) and is_same


def _entry(row: msgspec.Raw) -> Entry | None:
    try:
        entry = msgspec.json.decode(row, type=Entry)
        check_name(entry.name)
    except (msgspec.MsgspecError, OptionsError):
        return None
    return entry
