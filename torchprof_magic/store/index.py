"""The list of the traces that were written into a folder, kept among the records of that folder.

It decides what may be deleted. A list that another user wrote is therefore neither read nor replaced, a link is not
followed, and a file that is not the user's own, or that differs from its entry, is left alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from torchprof_magic.model.errors import OptionsError
from torchprof_magic.store.marks import ID_BYTES, has_mark
from torchprof_magic.store.records import make_records, records_of
from torchprof_magic.store.template import check_name
from torchprof_magic.system.files.atomic import READ_OWN, read_own, replacing
from torchprof_magic.system.files.links import is_own

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

INDEX = "traces.json"
LIMIT_BYTES = 16 << 20  # far more than any index that we write
MOST_DELETED = 1000  # deleted traces that stay in the list
LATEST = 253_402_300_799.0  # the last second that a datetime can hold


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trace that was written. ``timestamp`` is seconds since 1970.

    Size, ``mtime_ns`` and ``inode`` tell whether the file was changed. ``store_id`` is the id in it, "" if it has none.
    """

    name: str
    timestamp: Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
    step: int
    cycle: int
    rank: int
    size_bytes: int
    mtime_ns: int
    inode: int
    store_id: Annotated[str, msgspec.Meta(pattern=f"^([0-9a-f]{{{2 * ID_BYTES}}})?$")]
    state: Literal["kept", "deleted"] = "kept"


class _Index(msgspec.Struct):
    version: Literal[2]
    traces: list[msgspec.Raw]


def read_index(folder: Path) -> tuple[Entry, ...]:
    """Return the traces that were written into the folder, in that order, without damaged entries."""
    try:
        rows = msgspec.json.decode(read_own(records_of(folder) / INDEX, LIMIT_BYTES), type=_Index).traces
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return ()
    return tuple({entry.name: entry for row in rows if (entry := _entry(row)) is not None}.values())


def write_index(folder: Path, entries: Iterable[Entry]) -> None:
    """Replace the list; raises ``OSError``, also when the list is another user's."""
    path = make_records(folder) / INDEX
    _refuse_foreign(path)
    kept = list(entries)
    deleted = [entry for entry in kept if entry.state == "deleted"]
    forgotten = {entry.name for entry in deleted[:-MOST_DELETED]}
    rows = [entry for entry in kept if entry.name not in forgotten]
    with replacing(path) as file:
        file.write(msgspec.json.encode({"version": 2, "traces": rows}))


def _refuse_foreign(path: Path) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not is_own(found):
        raise PermissionError(errno.EPERM, "it belongs to another user", str(path))


def is_as_written(folder: Path, entry: Entry) -> bool:
    """Return whether the file exists and is still the one that was written; a link never is."""
    try:
        return _is_same(os.lstat(folder / entry.name), entry)
    except OSError:
        return False


def may_delete(folder: Path, entry: Entry) -> bool:
    """Return whether the file is as it was written and has the id that the store wrote into it."""
    try:
        handle = os.open(folder / entry.name, READ_OWN)
    except OSError:
        return False
    try:
        return _is_same(os.fstat(handle), entry) and has_mark(handle, entry.store_id)
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.close(handle)


def _is_same(found: os.stat_result, entry: Entry) -> bool:
    facts = (found.st_size, found.st_mtime_ns, found.st_ino)
    is_same = facts == (entry.size_bytes, entry.mtime_ns, entry.inode)
    return is_same and stat.S_ISREG(found.st_mode) and is_own(found)


def _entry(row: msgspec.Raw) -> Entry | None:
    try:
        entry = msgspec.json.decode(row, type=Entry)
        check_name(entry.name)
    except (msgspec.MsgspecError, OptionsError):
        return None
    return entry
