"""Saving a finished cycle as a file that is complete, valid and has correct names.

torch's C++ export does not report failures: it returns ``None`` if there is no space, no permission or an invalid name,
and it works once per cycle. So each cycle is exported to a temporary file in its folder, checked, synced and renamed.
If the disk is full, another folder is tried.
"""

from __future__ import annotations

import errno
import gzip
import os
import pickle
import shutil
import tempfile
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from torchprof_magic.capture.output.crash_marker import FOLDER_PREFIX
from torchprof_magic.capture.output.fallback_folders import free_space
from torchprof_magic.capture.output.validate import NO_FILE, find_flaw
from torchprof_magic.capture.torch_api import compat, features
from torchprof_magic.model.units import format_file_size
from torchprof_magic.system.files.atomic import delete, publish, replacing
from torchprof_magic.system.files.free_space import free_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from torchprof_magic.capture.interrupts.guard import InterruptGuard
    from torchprof_magic.capture.output.fallback_folders import FallbackFolders
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.capture.torch_api.engine import Engine

# Interrupts that are held back until the file is written: one for the cell, one for the report. The next one aborts.
SAVE_PATIENCE = 2
# An event with shapes and memory takes up to 390 bytes in a file, a plain one 280. And the head of every file.
EVENT_BYTES = 400
FILE_BYTES = 10_000
# With less free space than this, the size is estimated before torch's only fast export. Otherwise that costs time.
SCARCE_BYTES = 1_000_000_000
_NO_ROOM = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}  # Windows has no quotas


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Where a cycle was saved, and ``why`` it is not in its own folder, if so."""

    path: Path
    why: str = ""


def save_cycle(
    engine: Engine,
    path: Path,
    guard: InterruptGuard,
    problems: ProblemLog,
    fallbacks: FallbackFolders,
    tell: Callable[[str], None],
) -> Saved | None:
    """Write the cycle to ``path``, or to a fallback folder if that fails, and note what was lost.

    ``tell`` is called with the stage, ``saving`` or ``checking``. Never raises because of the disk. An existing file
    stays as it is if the cycle cannot be saved there.
    """
    writer = _Writer(engine, guard, tell)
    try:
        if guard.pending <= SAVE_PATIENCE:
            return _save(writer, path, problems, fallbacks)
        problems.note("capture.given_up", file=path.name)
    except Exception as exc:  # noqa: BLE001 - one cycle that cannot be saved must not lose the others
        _note_not_saved(writer, path, {path.parent: exc}, problems)
    except KeyboardInterrupt:
        problems.note("capture.given_up", file=path.name)
    finally:
        writer.close()
        fallbacks.remove_empty()
    return None


def flaw_of(path: Path, engine: Engine) -> str | None:
    """Return what is wrong with a file. One that cannot be checked is kept: it is the only file of its cycle."""
    try:
        return find_flaw(path, engine)
    except Exception as exc:  # noqa: BLE001 - the disk, or names that torch itself cannot read
        return f"it could not be checked ({_reason(exc)})"


def note_fallback(saved: Saved, path: Path, problems: ProblemLog) -> None:
    """Note that a cycle was saved to a fallback folder, if it was."""
    if saved.why:
        problems.note(
            "capture.saved_elsewhere",
            file=path.name,
            folder=path.parent,
            reason=saved.why,
            fallback=saved.path.parent,
        )


def _save(writer: _Writer, path: Path, problems: ProblemLog, fallbacks: FallbackFolders) -> Saved | None:
    failures: dict[Path, Exception] = {}
    try:
        target = _first_written(writer, path, failures, fallbacks)
    except (Exception, KeyboardInterrupt):
        target = writer.rescue()
        if target is None:
            raise
    target = target or writer.rescue()
    if target is None:
        _note_not_saved(writer, path, failures, problems)
        return None
    if writer.flaw is not None:
        problems.note("capture.invalid_trace", file=path.name, flaw=writer.flaw)
    if writer.is_host_only:
        problems.note("capture.host_only", file=path.name)
    if writer.doubt:  # a second attempt that succeeds does not prove that the file is safe
        problems.note("capture.not_confirmed", path=target, error=writer.doubt)
    return Saved(path=target, why=_why_not(path.parent, failures, target) if target != path else "")


def _first_written(
    writer: _Writer, path: Path, failures: dict[Path, Exception], fallbacks: FallbackFolders
) -> Path | None:
    """Write to the first folder that works, and return the file; failed folders are added to ``failures``."""
    for place in _places(writer, path.parent, fallbacks):
        try:
            is_here = place == path.parent
            target = path if is_here else fallbacks.folder_in(place) / path.name
            writer.write(target, must_last=not (is_here and _is_temporary(place)))
        except OSError as exc:
            failures[place] = exc
        else:
            return target
    return None


def _is_temporary(folder: Path) -> bool:
    """Return whether a folder was made for one run, whose files are read at once and deleted with the report."""
    return folder.name.startswith(FOLDER_PREFIX) and folder.parent == Path(tempfile.gettempdir())


def _places(writer: _Writer, here: Path, fallbacks: FallbackFolders) -> Iterator[Path]:
    """Yield the folders to try; ``here`` comes last if it is known to have too little space."""
    is_short = _is_short(here, writer)
    if not is_short:
        yield here
    yield from fallbacks.places(here)
    if is_short:
        yield here


def _is_short(here: Path, writer: _Writer) -> bool:
    """Return whether ``here`` is known to have too little space for the file."""
    if not os.path.isdir(here):  # noqa: PTH112 - does not raise if the disk does not respond
        return True
    free = free_bytes(here)
    return free is not None and free < SCARCE_BYTES and free < writer.need_bytes


class _Writer:
    """Writes one cycle to one folder after another until that succeeds, and deletes incomplete files.

    torch's fast export works once. Its file is the draft for all later attempts, until the cycle is saved. ``flaw`` is
    what is wrong with the file that was written; ``doubt`` is the disk error that was reported before it succeeded.
    ``is_host_only`` is set if torch did not export what the device did.
    """

    def __init__(self, engine: Engine, guard: InterruptGuard, tell: Callable[[str], None]) -> None:
        self.flaw: str | None = None
        self.doubt = ""
        self.is_host_only = False
        self._engine = engine
        self._guard = guard
        self._tell = tell
        self._is_exported = False
        self._draft: _Draft | None = None

    @cached_property
    def need_bytes(self) -> int:
        """The approximate size of the file. Counting the events takes microseconds for each."""
        return FILE_BYTES + self._engine.event_count * EVENT_BYTES

    def write(self, path: Path, *, must_last: bool) -> None:
        """Write the cycle to ``path``; raises if that fails.

        What ``must_last`` is on the disk then, which takes as long as torch's export. The rest may still be on its way.
        """
        part = path.with_name(f".{path.name}.part")
        try:
            with self._guard.patience(SAVE_PATIENCE):
                flaw = self._fill(part) if self._is_exported else self._export(part, path)
            try:
                publish(part, path, must_last=must_last)
            except OSError as exc:
                self.doubt = _reason(exc)
                raise
            self.flaw, self.doubt = flaw, ""
        finally:
            discard(part.with_name(f"{part.name}.tmp"))  # Kineto leaves this behind if the disk is full
            discard(_second(part))
            if self._draft is None or part != self._draft.part:
                discard(part)

    def rescue(self) -> Path | None:
        """Rename the draft as it is, even with a flaw, and return its path: better than losing the cycle."""
        if self._draft is None:
            return None
        try:
            publish(self._draft.part, self._draft.target, must_last=True)
        except OSError:
            return None
        self.flaw = self._draft.flaw
        return self._draft.target

    def close(self) -> None:
        """Delete the draft, unless it was renamed."""
        if self._draft is not None:
            discard(self._draft.part)

    def _export(self, part: Path, path: Path) -> str | None:
        """Let torch write the trace, twice if something is wrong with it, and return the remaining flaw.

        Raises the error of the disk, so that another folder can be tried.
        """
        self._is_exported = True
        self._tell("saving")
        self._engine.export(part)
        self._tell("checking")
        flaw = flaw_of(part, self._engine)
        if flaw != NO_FILE:
            self._draft = _Draft(part=part, target=path, flaw=flaw)
        if flaw is not None and features.HAS_PYTHON_EXPORT:
            self.is_host_only = self._engine.has_own_device_export and flaw == NO_FILE
            flaw = self._export_over(part, flaw)
        if flaw == NO_FILE:
            raise OSError(NO_FILE)
        return flaw

    def _export_over(self, part: Path, flaw: str) -> str | None:
        """Replace the file with one from torch's Python export, unless that is no better."""
        try:
            left = self._export_again(_second(part))
        except OSError:
            raise
        except (Exception, KeyboardInterrupt):
            if flaw == NO_FILE:
                raise
            return flaw
        if left is not None and flaw != NO_FILE:
            return flaw
        _second(part).replace(part)
        self._draft = replace(self._draft, flaw=left) if self._draft is not None else None
        return left

    def _export_again(self, part: Path) -> str | None:
        """Use torch's Python export, which is slower, escapes names and can be repeated; return its flaw."""
        self._engine.export_again(part)
        left = find_flaw(part, None)
        if left == NO_FILE:
            raise OSError(NO_FILE)
        return left

    def _fill(self, part: Path) -> str | None:
        """Write the trace again, and return its flaw: as a copy of the draft, unless torch can do better."""
        draft = self._draft
        if draft is not None and (draft.flaw is None or not features.HAS_PYTHON_EXPORT):
            with suppress(OSError) if features.HAS_PYTHON_EXPORT else nullcontext():
                shutil.copyfile(draft.part, part)
                return draft.flaw
        if not features.HAS_PYTHON_EXPORT:
            raise OSError(NO_FILE)
        return self._export_again(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """The file from torch's fast export, its final name, and what is wrong with it."""

    part: Path
    target: Path
    flaw: str | None


def _second(part: Path) -> Path:
    return part.with_name(f"{part.name}2")


def save_execution_trace(written: Path, target: Path, problems: ProblemLog, *, has_resources: bool = False) -> None:
    """Move torch's execution trace to the file that the user chose, if it is valid; note if it was lost.

    It is gzipped if the name ends in ``.gz``. Its resources, if they were asked for, are moved to a folder beside it;
    torch before 2.6 always writes them.
    """
    try:
        flaw = find_flaw(written, None)
        if flaw is None:
            with written.open("rb") as source, replacing(target) as copy, _packed(copy, target) as file:
                shutil.copyfileobj(source, file)
            if has_resources:
                _move_resources(compat.resources_of(written), compat.resources_of(target))
    except OSError as exc:
        flaw = _reason(exc)
    finally:
        discard_execution_trace(written)
    if flaw is not None:
        problems.note("capture.no_execution_trace", path=target, reason=flaw)


def _packed(file: IO[bytes], target: Path) -> AbstractContextManager[IO[bytes]]:
    if target.suffix.lower() != ".gz":
        return nullcontext(file)
    packed: Any = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
    return closing(packed)


def _move_resources(written: Path, target: Path) -> None:
    if written.is_dir():
        shutil.copytree(written, target, dirs_exist_ok=True)


def discard_execution_trace(written: Path) -> None:
    """Delete torch's execution trace and its resources."""
    discard(written)
    shutil.rmtree(compat.resources_of(written), ignore_errors=True)


def save_snapshot(snapshot: object, target: Path, guard: InterruptGuard, problems: ProblemLog) -> bool:
    """Write a memory snapshot as torch does, and return whether that succeeded; note if it was lost.

    A snapshot with the user's own history can have gigabytes, so repeated interrupts abort this.
    """
    try:
        with replacing(target) as file, guard.patience(SAVE_PATIENCE):
            pickle.dump(snapshot, file, protocol=4)  # what torch's own viewer reads
    except (Exception, KeyboardInterrupt) as exc:  # noqa: BLE001 - the user's code must not fail because of it
        reason = "it was interrupted repeatedly" if isinstance(exc, KeyboardInterrupt) else _reason(exc)
        problems.note("capture.snapshot_not_saved", path=target, reason=reason)
        return False
    return True


def discard(path: Path) -> None:
    """Delete a file that may not exist, and leave one that cannot be deleted."""
    with suppress(OSError):
        delete(path)


def _reason(exc: BaseException) -> str:
    """Return the error text without the name of a temporary file."""
    return getattr(exc, "strerror", None) or str(exc) or type(exc).__name__


def _need(exc: Exception, writer: _Writer) -> str:
    """Return the approximate size of the file, in words, if the error may be a lack of space."""
    number = getattr(exc, "errno", None)
    is_room = number in _NO_ROOM or (number is None and NO_FILE in str(exc))
    return f"; it needs about {format_file_size(writer.need_bytes)}" if is_room else ""


def _why_not(here: Path, failures: Mapping[Path, Exception], target: Path) -> str:
    """Return why a file was saved to ``target``, with its size, and the free space where it should be."""
    if here in failures:
        reason = _reason(failures[here])
    else:
        reason = "not enough space" if os.path.isdir(here) else "the folder does not exist"  # noqa: PTH112 - the same
    try:
        return f"{reason}; the file takes {format_file_size(target.stat().st_size)}, {free_space(here)}"
    except OSError:
        return f"{reason}; {free_space(here)}"


def _note_not_saved(writer: _Writer, path: Path, failures: Mapping[Path, Exception], problems: ProblemLog) -> None:
    here = failures[path.parent]
    others = [f"{place} ({_reason(exc)})" for place, exc in failures.items() if place != path.parent]
    if others:
        tried = f" Also tried: {', '.join(others)}."
    else:
        tried = " No other folder has space." if isinstance(here, OSError) else ""
    reason = f"{_reason(here)}{_need(here, writer)}"
    problems.note("capture.not_saved", file=path.name, reason=reason, space=free_space(path.parent), tried=tried)
