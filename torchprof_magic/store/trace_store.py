"""The folder of kept traces: a finished trace enters it whole, and the oldest ones leave it."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from torchprof_magic.model.errors import OptionsError, StoreError
from torchprof_magic.model.units import format_file_size
from torchprof_magic.store.copying import copy_verified
from torchprof_magic.store.index import Entry, is_as_written, may_delete, read_index, write_index
from torchprof_magic.store.journal import unsent
from torchprof_magic.store.marks import has_mark, new_id
from torchprof_magic.store.records import make_records, records_of
from torchprof_magic.store.template import check_name
from torchprof_magic.system.files import locks
from torchprof_magic.system.files.atomic import check_encoding, delete, delete_left_parts, part_file, sync_folder
from torchprof_magic.system.files.free_space import free_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torchprof_magic.store.template import TraceValues
    from torchprof_magic.system.files.atomic import Part

SavedState = Literal["kept", "uploading", "deleted", "changed", "missing"]


class NameTakenError(StoreError):
    """A file of this name exists and may not be replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file that was stored, and the names of the older traces that were ``deleted`` for it.

    ``notes`` tell what failed afterwards; with any, the source should be kept too.
    """

    path: Path
    notes: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTrace:
    """A trace that was written into a folder at some time, and its state now.

    ``deleted``: it was one of the oldest. ``missing``: it was deleted by someone else. ``changed``: another file has
    its name now. ``uploading``: it exists and still has to be uploaded.
    """

    path: Path
    timestamp: datetime
    step: int
    cycle: int
    rank: int
    size_bytes: int
    state: SavedState


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStore:
    """A folder of traces. ``keep_last`` is how many of each rank stay, counting all runs that used the folder.

    ``None`` keeps all. With 0 the newest stays until ``prune`` is called, which is when it has been uploaded.
    Only traces that this user's store wrote here and that are unchanged are ever deleted, and none that still has to
    be uploaded.
    """

    folder: Path
    overwrite: bool = False
    keep_last: int | None = None

    def __post_init__(self) -> None:
        if self.keep_last is not None and self.keep_last < 0:
            raise OptionsError(f"--keep-last must be at least 0 (got {self.keep_last})")
        object.__setattr__(self, "folder", self.folder.absolute())  # the user may change the current folder

    def prepare(self) -> None:
        """Create the folder and a file in it, to find problems before the run; raises ``StoreError``."""
        try:
            check_encoding(self.folder)
            os.makedirs(self.folder, exist_ok=True)  # noqa: PTH103 - the tests make each call of ``os`` fail
            with part_file(self.folder):
                pass
        except OSError as exc:
            reason = exc.strerror or exc
            raise StoreError(f"cannot store traces in {self.folder} ({reason}); choose another folder") from exc

    def put(
        self,
        source: Path,
        name: str,
        values: TraceValues | None = None,
        queue: Callable[[Path], object] | None = None,
    ) -> StoredFile:
        """Store a copy of a finished file, gzipped when the name ends in ``.gz``; the source stays where it is.

        With ``values`` it is a trace, which is listed and counted: the oldest ones beyond ``keep_last`` are deleted
        once the new one is safely on the disk. ``queue`` is called with the new trace before any process may delete
        it, to say that it still has to be uploaded. Raises ``StoreError`` when the copy fails; the folder is then as it
        was.
        """
        target = self.folder / check_name(name)
        failed = f"{target} was not stored (the original is still in {source})"
        try:
            return self._put(source, target, values, queue)
        except StoreError as exc:
            raise type(exc)(f"{failed}: {exc}") from exc.__cause__
        except OSError as exc:
            free = free_bytes(self.folder)
            room = "" if free is None else f" ({format_file_size(free)} free)"
            raise StoreError(f"{failed}: {exc.strerror or exc}{room}; free space or choose another folder") from exc

    def used_names(self) -> frozenset[str]:
        """Return the names of the traces that were ever listed here, even if they are deleted."""
        return frozenset(entry.name for entry in read_index(self.folder))

    def prune(self, rank: int) -> tuple[str, ...]:
        """Delete the oldest traces of a rank beyond ``keep_last``, and return their names."""
        if self.keep_last is None:
            return ()
        with locks.folder_lock(_records(self.folder)) as lock:
            if lock is locks.Lock.BUSY:
                return ()  # the next trace makes up for it
            return self._prune(read_index(self.folder), rank, self.keep_last, lock, [])

    def _put(
        self, source: Path, target: Path, values: TraceValues | None, queue: Callable[[Path], object] | None
    ) -> StoredFile:
        os.makedirs(self.folder, exist_ok=True)  # noqa: PTH103
        delete_left_parts(self.folder)
        self._check_free(target)
        notes: list[str] = []
        deleted: tuple[str, ...] = ()
        store_id = "" if values is None else new_id()
        with part_file(self.folder) as part:
            copy_verified(source, part, is_packed=target.name.lower().endswith(".gz"), store_id=store_id)
            if values is None:
                self._place(part, target)
                self._is_synced(notes)
            else:
                entry = _entry(target.name, values, part.handle, store_id)
                with locks.folder_lock(_records(self.folder)) as lock:
                    before = read_index(self.folder)
                    entries = (*(old for old in before if old.name != entry.name), entry)
                    is_listed = self._publish(part, target, before, entries, lock, notes)
                    if queue is not None:
                        queue(target)
                    if self._is_synced(notes) and is_listed and self.keep_last is not None:
                        deleted = self._delete_older(entries, self.keep_last, lock, notes)
        return StoredFile(path=target, notes=tuple(notes), deleted=deleted)

    def _check_free(self, target: Path) -> None:
        """Raise ``NameTakenError`` before the work of copying; a folder is never replaced."""
        try:
            found = os.lstat(target)
        except FileNotFoundError:
            return
        if not self.overwrite or stat.S_ISDIR(found.st_mode):
            raise NameTakenError(_TAKEN)

    def _place(self, part: Part, target: Path) -> None:
        try:
            part.place(target, may_replace=self.overwrite)
        except FileExistsError as exc:
            raise NameTakenError(_TAKEN) from exc

    def _publish(
        self,
        part: Part,
        target: Path,
        before: Sequence[Entry],
        entries: Sequence[Entry],
        lock: locks.Lock,
        notes: list[str],
    ) -> bool:
        """Add the new file to the index, give it its name, and return whether it is listed.

        The index comes first. If the process is killed in between, the index names a file that does not exist, which
        does no harm. In the other order the file would never be deleted.
        """
        is_listed = self._write_index(entries, lock, notes)
        try:
            self._place(part, target)
        except (OSError, StoreError):
            if is_listed:
                self._write_index(before, lock, notes)
            raise
        return is_listed

    def _delete_older(
        self, entries: Sequence[Entry], keep_last: int, lock: locks.Lock, notes: list[str]
    ) -> tuple[str, ...]:
        """Delete the oldest traces once the new one, the last of the entries, is safe; return their names."""
        new = entries[-1]
        if not is_as_written(self.folder, new):
            notes.append("another process changed the new file, so no older one was deleted")
            return ()
        return self._prune(entries, new.rank, max(keep_last, 1), lock, notes)

    def _write_index(self, entries: Sequence[Entry], lock: locks.Lock, notes: list[str]) -> bool:
        """Write the index and return whether that was possible."""
        if lock is locks.Lock.BUSY:
            notes.append(f"another process locked {self.folder} for too long, so --keep-last does not count this trace")
            return False
        try:
            write_index(self.folder, entries)
        except OSError as exc:
            notes.append(
                f"the list of traces could not be written ({exc.strerror or exc}), "
                "so --keep-last does not count this trace"
            )
            return False
        return True

    def _is_synced(self, notes: list[str]) -> bool:
        """Return whether the disk confirms the new file; only then may older ones be deleted."""
        try:
            sync_folder(self.folder)
        except OSError as exc:
            notes.append(f"the disk did not confirm the new file ({exc.strerror or exc}), so no older one was deleted")
            return False
        return True

    def _prune(
        self, entries: Sequence[Entry], rank: int, keep_last: int, lock: locks.Lock, notes: list[str]
    ) -> tuple[str, ...]:
        """Delete the oldest traces of the rank beyond ``keep_last``, and return their names."""
        own = [entry for entry in entries if entry.rank == rank and entry.state == "kept"]
        there = [entry for entry in own if is_as_written(self.folder, entry)]
        waiting = unsent(self.folder, [entry.name for entry in there])
        old = [entry for entry in there[: max(len(there) - keep_last, 0)] if entry.name not in waiting]
        gone = tuple(entry.name for entry in old if may_delete(self.folder, entry) and self._delete(entry, notes))
        if gone:
            left = [replace(entry, state="deleted") if entry.name in gone else entry for entry in entries]
            self._write_index(left, lock, notes)
        return gone

    def _delete(self, entry: Entry, notes: list[str]) -> bool:
        try:
            delete(self.folder / entry.name)
        except OSError as exc:
            notes.append(f"the older trace {entry.name} could not be deleted ({exc.strerror or exc})")
            return False
        return True


def saved_traces(folder: Path) -> tuple[SavedTrace, ...]:
    """Return the traces that any process wrote into the folder, in that order."""
    entries = read_index(folder)
    waiting = unsent(folder, [entry.name for entry in entries])
    return tuple(
        SavedTrace(
            path=folder / entry.name,
            timestamp=datetime.fromtimestamp(entry.timestamp, timezone.utc),
            step=entry.step,
            cycle=entry.cycle,
            rank=entry.rank,
            size_bytes=entry.size_bytes,
            state=_state(folder, entry, is_waiting=entry.name in waiting),
        )
        for entry in entries
    )


def _state(folder: Path, entry: Entry, *, is_waiting: bool) -> SavedState:
    if is_as_written(folder, entry):
        return "uploading" if is_waiting else "kept"
    if os.path.lexists(folder / entry.name):
        return "changed"
    return "deleted" if entry.state == "deleted" else "missing"


def _records(folder: Path) -> Path:
    """Return the folder of the records, which is created if that is possible; otherwise writing there says why."""
    with contextlib.suppress(OSError):
        return make_records(folder)
    return records_of(folder)


_TAKEN = "a file of this name exists; choose another --filename, or replace it with --overwrite"


def _entry(name: str, values: TraceValues, handle: int, store_id: str) -> Entry:
    """Return the entry of a written file, with the time at which its cycle ended.

    One that does not begin as a trace does carries no id, so it stays.
    """
    found = os.fstat(handle)
    return Entry(
        name=name,
        timestamp=max(0.0, values.timestamp.timestamp() + values.total_wct),
        step=values.step,
        cycle=values.cycle,
        rank=values.rank,
        size_bytes=found.st_size,
        mtime_ns=found.st_mtime_ns,
        inode=found.st_ino,
        store_id=store_id if has_mark(handle, store_id) else "",
    )
