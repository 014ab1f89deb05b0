"""The uploads that are not finished, so that the next kernel can continue them.

Each has a file ``upload-KEY.json`` among the records of its folder, which is deleted when the upload is done. It never
holds credentials. The process that uploads holds the lock of ``upload-KEY.lock``.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import msgspec

from torchprof_magic.model.errors import OptionsError
from torchprof_magic.store.records import make_records, records_of
from torchprof_magic.store.template import check_name
from torchprof_magic.system.files.atomic import delete, read_own, replacing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PREFIX = "upload-"
LIMIT_BYTES = 1 << 20
_KEY_DIGITS = 16


class Pending(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An upload that is not finished; ``remote`` is its folder without credentials.

    ``is_started`` means that a remote file of this name may be an incomplete one of ours. ``token`` is part of its
    temporary name.
    """

    name: str
    remote: str
    token: str
    overwrite: bool
    is_started: bool = False
    is_failed: bool = False
    error: str = ""


def key_of(pending: Pending) -> str:
    """Return the part of the file's name that stands for this trace and this remote folder, the trace first."""
    return f"{_hash(pending.name)}-{_hash(pending.remote)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]


def journal_path(folder: Path, pending: Pending) -> Path:
    """Return the file that stands for this upload."""
    return records_of(folder) / _file_of(pending)


def _file_of(pending: Pending) -> str:
    return f"{PREFIX}{key_of(pending)}.json"


def claim_path(folder: Path, pending: Pending) -> Path:
    """Return the file that the uploading process locks."""
    return journal_path(folder, pending).with_suffix(".lock")


def write(folder: Path, pending: Pending) -> None:
    """Save the state of an upload; raises ``OSError``."""
    make_records(folder)
    with replacing(journal_path(folder, pending)) as file:
        file.write(msgspec.json.encode(pending))


def remove(folder: Path, pending: Pending) -> None:
    """Forget an upload that is done; raises ``OSError``."""
    delete(journal_path(folder, pending))


def read_all(folder: Path) -> tuple[Pending, ...]:
    """Return the uploads of this user that are not finished; damaged files stay where they are."""
    found = (_read(records_of(folder) / name) for name in sorted(_files(folder)))
    return tuple(pending for pending in found if pending is not None)


def find(folder: Path, pending: Pending) -> Pending | None:
    """Return what an earlier process saved about the same trace and remote folder."""
    return _read(journal_path(folder, pending))


def unsent(folder: Path, names: Iterable[str]) -> frozenset[str]:
    """Return which of these traces still have to be uploaded, going by file names alone."""
    keys = {name.removeprefix(PREFIX)[:_KEY_DIGITS] for name in _files(folder)}
    return frozenset(name for name in names if _hash(name) in keys)


def _files(folder: Path) -> list[str]:
    try:
        return [name for name in os.listdir(records_of(folder)) if name.startswith(PREFIX) and name.endswith(".json")]  # noqa: PTH208
    except OSError:
        return []


def _read(path: Path) -> Pending | None:
    try:
        # In a shared folder another user must not be able to make us send or overwrite files: only own ones are read.
        pending = msgspec.json.decode(read_own(path, LIMIT_BYTES), type=Pending)
        check_name(pending.name)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError, OptionsError):
        return None
    is_sound = _file_of(pending) == path.name and pending.token.isalnum()
    return pending if is_sound else None
