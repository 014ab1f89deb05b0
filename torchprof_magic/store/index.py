"""Which files of a folder did this store write, and are they still as they were written?

``.torchprof-store.json`` in the folder says so. It is only ever used to find out what may be deleted, so whatever is
odd about it means: delete nothing.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Literal

from torchprof_magic.errors import OptionsError
from torchprof_magic.files import locks
from torchprof_magic.files.part_files import write_file
from torchprof_magic.store.template import check_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

INDEX = ".torchprof-store.json"
MOST_BYTES = 16 << 20  # no index that we write comes near it
MOST_DELETED = 1000  # of the deleted traces only these are remembered

LATEST = 253_402_300_799.0  # the last second that a datetime can hold

State = Literal["kept", "deleted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file that was written. ``timestamp`` is seconds since 1970; size and ``mtime_ns`` tell if it is still ours."""

    name: str
    timestamp: float
    step: int
    cycle: int
    rank: int
    size_bytes: int
    mtime_ns: int
    state: State = "kept"


_TYPES = {field.name: str(field.type) for field in fields(Entry)}


def read_index(folder: Path) -> tuple[Entry, ...]:
    """Return what was written into the folder, oldest first; entries that make no sense are left out."""
    try:
        found = json.loads(_read(folder / INDEX))
    except (OSError, ValueError, RecursionError):
        return ()
    rows = found.get("traces") if isinstance(found, dict) and found.get("version") == 1 else None
    entries = [_entry(row) for row in rows] if isinstance(rows, list) else []
    return tuple({entry.name: entry for entry in entries if entry is not None}.values())


def write_index(folder: Path, entries: Iterable[Entry]) -> None:
    """Replace the index as a whole; raises ``OSError``."""
    kept = list(entries)
    deleted = [entry for entry in kept if entry.state == "deleted"]
    forgotten = {entry.name for entry in deleted[:-MOST_DELETED]}
    rows = [asdict(entry) for entry in kept if entry.name not in forgotten]
    write_file(folder / INDEX, json.dumps({"version": 1, "traces": rows}, indent=1).encode())


def is_as_written(folder: Path, entry: Entry) -> bool:
    """Return whether the file is there and still the one that was written; a link never is."""
    try:
        found = os.lstat(folder / entry.name)
    except OSError:
        return False
    is_same = (found.st_size, found.st_mtime_ns) == (entry.size_bytes, entry.mtime_ns)
    return stat.S_ISREG(found.st_mode) and is_same


def _read(path: Path) -> bytes:
    handle = os.open(path, (locks.OPEN_OWN & ~os.O_RDWR) | os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        if os.fstat(handle).st_size > MOST_BYTES:
            raise ValueError("this is no index")
        blocks = []
        while block := os.read(handle, MOST_BYTES):
            blocks.append(block)
        return b"".join(blocks)
    finally:
        os.close(handle)


def _entry(row: object) -> Entry | None:
    if not isinstance(row, dict) or set(row) != set(_TYPES) or row["state"] not in ("kept", "deleted"):
        return None
    if not isinstance(row["name"], str) or type(row["timestamp"]) is not float:
        return None
    if not 0 <= row["timestamp"] <= LATEST or any(
        type(row[name]) is not int for name, kind in _TYPES.items() if kind == "int"
    ):
        return None
    try:
        check_name(row["name"])
    except OptionsError:
        return None
    return Entry(**row)
