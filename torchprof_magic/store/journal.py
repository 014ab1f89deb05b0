"""Which uploads are not finished, so that the next kernel can go on with them?

One small file per upload, next to the trace: ``.torchprof-upload-KEY.json``. It never holds what may be secret of an
address, so an upload that needs such a thing waits until somebody gives the address again. It is deleted when the
upload is done. ``.torchprof-upload-KEY.lock`` is held by the process that is at it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from torchprof_magic.errors import OptionsError
from torchprof_magic.files import locks
from torchprof_magic.files.part_files import delete, write_file
from torchprof_magic.store.template import check_name

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = ".torchprof-upload-"
MOST_BYTES = 1 << 20
_KEY_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An upload that is not finished.

    ``remote`` is the folder it goes to, without anything secret; ``needs_remote`` says that it cannot be reached so.
    ``is_started`` means that a file of this name elsewhere may be a half-written one of ours. ``digest`` is the SHA-256
    of what was last sent.
    """

    name: str
    remote: str
    token: str
    needs_remote: bool
    delete_local: bool
    overwrite: bool
    is_started: bool = False
    is_failed: bool = False
    attempts: int = 0
    size_bytes: int = -1
    digest: str = ""
    error: str = ""


_TYPES = {"str": str, "bool": bool, "int": int}
_FIELDS = {field.name: _TYPES[str(field.type)] for field in fields(Pending)}


def key_of(name: str, remote: str) -> str:
    """Return what the journal's file is named after: the trace first, so that it is found without opening any."""
    return f"{_hash(name)}-{_hash(remote)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]


def journal_path(folder: Path, pending: Pending) -> Path:
    """Return the file that stands for this upload."""
    return folder / f"{PREFIX}{key_of(pending.name, pending.remote)}.json"


def claim_path(folder: Path, pending: Pending) -> Path:
    """Return the file whose lock is held by the process that uploads."""
    return journal_path(folder, pending).with_suffix(".lock")


def write(folder: Path, pending: Pending) -> None:
    """Note an upload, as a whole or not at all; raises ``OSError``."""
    write_file(journal_path(folder, pending), json.dumps(asdict(pending), indent=1).encode())


def remove(folder: Path, pending: Pending) -> None:
    """Note that an upload is over; raises ``OSError``."""
    delete(journal_path(folder, pending))


def read_all(folder: Path) -> tuple[Pending, ...]:
    """Return the uploads that are not finished; files that make no sense are left where they are."""
    found = (_read(folder / name) for name in sorted(_names(folder)))
    return tuple(pending for pending in found if pending is not None)


def find(folder: Path, pending: Pending) -> Pending | None:
    """Return what an earlier process noted about the same file and the same place."""
    return _read(journal_path(folder, pending))


def pending_keys(folder: Path) -> frozenset[str]:
    """Return a mark for every trace with an upload that is not finished; see ``is_pending``."""
    return frozenset(name.removeprefix(PREFIX)[:_KEY_DIGITS] for name in _names(folder))


def is_pending(name: str, keys: frozenset[str]) -> bool:
    """Return whether the trace of this name still has to be uploaded, as far as the folder tells."""
    return _hash(name) in keys


def _names(folder: Path) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.startswith(PREFIX) and name.endswith(".json")]  # noqa: PTH208
    except OSError:
        return []


def _is_own(handle: int) -> bool:
    return sys.platform == "win32" or os.fstat(handle).st_uid == os.geteuid()


def _read(path: Path) -> Pending | None:
    try:
        handle = os.open(path, locks.OPEN_OWN)
        try:
            # In a shared folder nobody may have us send files to an address of theirs.
            row = json.loads(os.read(handle, MOST_BYTES)) if _is_own(handle) else None
        finally:
            os.close(handle)
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or {name: type(value) for name, value in row.items()} != _FIELDS:
        return None
    try:
        check_name(row["name"])
    except OptionsError:
        return None
    pending = Pending(**row)
    return pending if journal_path(path.parent, pending) == path and pending.token.isalnum() else None
