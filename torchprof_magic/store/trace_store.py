"""How does a finished trace get into its folder, whole, and how do the oldest leave it?"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Literal

from torchprof_magic.errors import OptionsError, StoreError
from torchprof_magic.files import locks
from torchprof_magic.files.part_files import delete, delete_left_parts, part_file, place, sync_folder, write_verified
from torchprof_magic.store import journal
from torchprof_magic.store.index import Entry, is_as_written, read_index, write_index
from torchprof_magic.store.template import check_name
from torchprof_magic.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchprof_magic.files.part_files import Part
    from torchprof_magic.store.template import Template, TraceValues

SavedState = Literal["kept", "uploading", "deleted", "changed", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrace:
    """A trace that is now in its folder. ``deleted`` are the older ones that had to go; ``notes`` what went wrong."""

    path: Path
    size_bytes: int
    raw_bytes: int
    deleted: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTrace:
    """A trace that was written into the folder at some time, and what has become of it.

    ``deleted``: it was one of the oldest. ``missing``: somebody else deleted it. ``changed``: there is another file
    of that name now. ``uploading``: it is here, and has still to be uploaded.
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
    """A folder of traces. With ``keep`` only so many of each rank stay, over all runs that used the folder.

    Only files that were written here, and are still as they were written, are ever deleted; one that has still to be
    uploaded stays until that is done. ``gzip`` adds ``.gz`` to the names; a template that ends so asks for it too.
    """

    folder: Path
    filename: Template
    gzip: bool = False
    overwrite: bool = False
    keep: int | None = None
    patience_seconds: float = locks.PATIENCE_SECONDS

    def __post_init__(self) -> None:
        if self.keep is not None and self.keep < 1:
            raise OptionsError(f"--keep must be at least 1 (got {self.keep})")
        if self.filename.is_folder:
            raise OptionsError("the template of a folder cannot name files")
        object.__setattr__(self, "folder", self.folder.absolute())  # the user may change the current folder

    def target(self, values: TraceValues) -> Path:
        """Return where a trace with these values goes; raise ``OptionsError`` when they make no name."""
        return self.folder / self._named(self.filename.format(values).name)

    def prepare(self, values: TraceValues) -> None:
        """Find out before the run whether traces can be stored: make the folder, and write into it.

        Raises ``OptionsError`` for a name that cannot be, and ``StoreError`` for a folder that cannot be used.
        """
        self.target(values)
        try:
            os.makedirs(self.folder, exist_ok=True)  # noqa: PTH103 - by os, as everything here
            with part_file(self.folder):
                pass
        except OSError as exc:
            reason = exc.strerror or exc
            raise StoreError(f"{self.folder}: traces cannot be stored here ({reason}); choose another folder") from exc

    def put(self, source: Path, values: TraceValues, *, name: str | None = None) -> StoredTrace:
        """Store a finished trace, which stays where it is, and then delete the oldest ones if there are too many.

        ``name`` takes the place of the template's, for layouts such as TensorBoard's. The new file is read back before
        it gets its name and before anything else is replaced or deleted. Raises ``StoreError`` when it could not be
        stored: then the folder is as it was. What only went wrong afterwards is in ``notes``.
        """
        target = self.target(values) if name is None else self.folder / self._named(check_name(name))
        try:
            return self._put(source, target, values)
        except StoreError as exc:
            raise StoreError(f"{_kept_where(target, source)}: {exc}") from exc.__cause__
        except OSError as exc:
            reason = f"{exc.strerror or exc}{_free(self.folder)}"
            raise StoreError(f"{_kept_where(target, source)}: {reason}; make room or choose another folder") from exc

    def put_beside(self, source: Path, name: str) -> Path:
        """Store a file that goes with the traces, such as a snapshot, and return where it is; the source stays.

        It appears whole or not at all. It is in no list, so ``keep`` neither counts nor deletes it. Raises
        ``StoreError`` when it could not be stored, or the disk does not confirm it.
        """
        target = self.folder / check_name(name)
        try:
            self._put_beside(source, target)
        except StoreError as exc:
            raise StoreError(f"{_kept_where(target, source, 'file')}: {exc}") from exc.__cause__
        except OSError as exc:
            reason = f"{exc.strerror or exc}{_free(self.folder)}"
            raise StoreError(f"{_kept_where(target, source, 'file')}: {reason}; make room or copy it yourself") from exc
        return target

    def saved_traces(self) -> tuple[SavedTrace, ...]:
        """Return what was written into the folder, by any process, oldest first."""
        uploading = journal.pending_keys(self.folder)
        return tuple(self._saved(entry, uploading) for entry in read_index(self.folder))

    def _named(self, name: str) -> str:
        return check_name(f"{name}.gz") if self.gzip and not _is_packed(name) else name

    def _put(self, source: Path, target: Path, values: TraceValues) -> StoredTrace:
        os.makedirs(self.folder, exist_ok=True)  # noqa: PTH103
        delete_left_parts(self.folder)
        self._refuse(target)
        with part_file(self.folder) as part:
            content = write_verified(part, source, is_packed=_is_packed(target.name))
            with locks.folder_lock(self.folder, self.patience_seconds) as lock:
                self._refuse(target)
                stored = self._publish(part, target, values, lock)
        return replace(stored, raw_bytes=content.size_bytes)

    def _put_beside(self, source: Path, target: Path) -> None:
        os.makedirs(self.folder, exist_ok=True)  # noqa: PTH103
        delete_left_parts(self.folder)
        self._refuse(target)
        with part_file(self.folder) as part:
            write_verified(part, source, is_packed=False)
            try:
                place(part, target, may_replace=self.overwrite)
            except FileExistsError as exc:
                raise StoreError(_TAKEN) from exc
        try:
            sync_folder(self.folder)
        except OSError:
            if not self.overwrite:  # the older one is gone, and this one is better than nothing
                delete(target)
            raise

    def _refuse(self, target: Path) -> None:
        """Raise ``StoreError`` for a name that is taken; a folder is never replaced."""
        try:
            found = os.lstat(target)
        except FileNotFoundError:
            return
        if not self.overwrite or stat.S_ISDIR(found.st_mode):
            raise StoreError(_TAKEN)

    def _publish(self, part: Part, target: Path, values: TraceValues, lock: locks.Lock) -> StoredTrace:
        """Note the new file in the index and give it its name.

        The index comes first: killed in between, it names a file that is not there, which harms nobody. The other way
        round there would be a file that is never deleted.
        """
        found = os.fstat(part.handle)
        entry = _entry(target.name, values, found)
        before = read_index(self.folder)
        notes: list[str] = []
        entries = (*(old for old in before if old.name != entry.name), entry)
        is_noted = self._note(entries, lock, notes)
        try:
            place(part, target, may_replace=self.overwrite)
        except OSError as exc:
            if is_noted:
                self._note(before, lock, notes)
            if isinstance(exc, FileExistsError):
                raise StoreError(_TAKEN) from exc
            raise
        deleted: tuple[Path, ...] = ()
        if self._is_lasting(entry, notes) and is_noted and self.keep is not None:
            deleted = self._prune(entries, entry, lock, notes)
        return StoredTrace(path=target, size_bytes=entry.size_bytes, raw_bytes=0, deleted=deleted, notes=tuple(notes))

    def _note(self, entries: Sequence[Entry], lock: locks.Lock, notes: list[str]) -> bool:
        """Write the index and return whether it is there."""
        if lock is locks.Lock.BUSY:
            notes.append(f"another process held {self.folder} too long, so this trace is never deleted by --keep")
            return False
        try:
            write_index(self.folder, entries)
        except OSError as exc:
            notes.append(f"the list of traces was not written ({exc.strerror or exc}), so --keep cannot count this one")
            return False
        return True

    def _is_lasting(self, entry: Entry, notes: list[str]) -> bool:
        """Return whether the new file is there for good; only then may an older one go."""
        try:
            sync_folder(self.folder)
        except OSError as exc:
            notes.append(f"the disk did not confirm the new file ({exc.strerror or exc}); nothing older was deleted")
            return False
        if not is_as_written(self.folder, entry):
            notes.append("the new file was changed by somebody else; nothing older was deleted")
            return False
        return True

    def _prune(self, entries: Sequence[Entry], new: Entry, lock: locks.Lock, notes: list[str]) -> tuple[Path, ...]:
        """Delete the oldest of this rank that are more than ``keep``, and return their paths."""
        assert self.keep is not None
        own = [entry for entry in entries if entry.rank == new.rank and entry.state == "kept"]
        there = [entry for entry in own if is_as_written(self.folder, entry)]
        uploading = journal.pending_keys(self.folder)
        old = [entry for entry in there[: -self.keep] if not journal.is_pending(entry.name, uploading)]
        gone = [entry.name for entry in old if self._delete(entry, notes)]
        if gone:
            self._note(
                [replace(entry, state="deleted") if entry.name in gone else entry for entry in entries], lock, notes
            )
        return tuple(self.folder / name for name in gone)

    def _delete(self, entry: Entry, notes: list[str]) -> bool:
        try:
            delete(self.folder / entry.name)
        except OSError as exc:
            notes.append(f"{entry.name} was to be deleted, and could not be ({exc.strerror or exc})")
            return False
        return True

    def _saved(self, entry: Entry, uploading: frozenset[str]) -> SavedTrace:
        return SavedTrace(
            path=self.folder / entry.name,
            timestamp=datetime.fromtimestamp(entry.timestamp, timezone.utc),
            step=entry.step,
            cycle=entry.cycle,
            rank=entry.rank,
            size_bytes=entry.size_bytes,
            state=self._state(entry, uploading),
        )

    def _state(self, entry: Entry, uploading: frozenset[str]) -> SavedState:
        if is_as_written(self.folder, entry):
            return "uploading" if journal.is_pending(entry.name, uploading) else "kept"
        if os.path.lexists(self.folder / entry.name):
            return "changed"
        return "deleted" if entry.state == "deleted" else "missing"


_TAKEN = "there is something of that name, which was left alone; choose another --filename, or --overwrite"


def _is_packed(name: str) -> bool:
    return name.lower().endswith(".gz")


def _entry(name: str, values: TraceValues, found: os.stat_result) -> Entry:
    return Entry(
        name=name,
        timestamp=max(0.0, values.timestamp.timestamp()),
        step=values.step,
        cycle=values.cycle,
        rank=values.rank,
        size_bytes=found.st_size,
        mtime_ns=found.st_mtime_ns,
    )


def _kept_where(target: Path, source: Path, what: str = "trace") -> str:
    return f"{target} was not stored (the {what} is still in {source})"


def _free(folder: Path) -> str:
    try:
        found = os.statvfs(folder)
    except (OSError, AttributeError):  # Windows has no such call
        return ""
    return f" ({format_bytes(found.f_bavail * found.f_frsize)} free)"
