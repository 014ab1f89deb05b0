"""A finished cycle becomes a file that is complete, valid and has the right names in it.

torch's C++ export does not report failures: no space, no permission and a bad name all return ``None``, and it works
once per cycle. So each cycle is exported to a temporary file in its folder, checked, synced and renamed. If the disk is
full, another folder is tried.
"""

from __future__ import annotations

import errno
import os
import pickle
import shutil
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from torchprof_magic.capture.output.fallback_folders import free_bytes, told_room
from torchprof_magic.capture.output.validate import NO_FILE, find_flaw
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.files.atomic import publish as _publish
from torchprof_magic.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torchprof_magic.capture.interrupts.guard import InterruptGuard
    from torchprof_magic.capture.output.fallback_folders import FallbackFolders
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.capture.torch_api.engine import Engine

# Interrupts that are held back until the file is written: one for the cell, one for the report. The next gives it up.
SAVE_PATIENCE = 2
# One event with shapes and memory takes up to 390 bytes in a file, a plain one 280; and what every file begins with.
EVENT_BYTES = 400
FILE_BYTES = 10_000
# With less free than this it is worth knowing the need before torch's only fast export; with more it would cost time.
SCARCE_BYTES = 1_000_000_000
_NO_ROOM = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}  # Windows has no quotas


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Where a cycle is, and ``why`` it is not in its own folder, if so."""

    path: Path
    why: str = ""


def save_cycle(
    engine: Engine, path: Path, guard: InterruptGuard, problems: ProblemLog, fallbacks: FallbackFolders
) -> Saved | None:
    """Write the cycle to ``path``, or to a fallback folder if its disk does not take it, and note what was lost.

    Never raises for disk reasons. A file that was there before stays as it was when the cycle cannot be saved there.
    """
    writer = _Writer(engine, guard)
    try:
        if guard.pending <= SAVE_PATIENCE:
            return _save(writer, path, problems, fallbacks)
        _note_given_up(path, problems)
    except Exception as exc:  # noqa: BLE001 - one cycle that cannot be saved must not lose the others
        _note_not_saved(writer, path, {path.parent: exc}, problems)
    except KeyboardInterrupt:
        _note_given_up(path, problems)
    finally:
        writer.close()
        fallbacks.remove_empty()
    return None


def flaw_of(path: Path, engine: Engine) -> str | None:
    """Return what is wrong with a file. One that cannot be checked is kept: it is the only one of its cycle."""
    try:
        return find_flaw(path, engine)
    except Exception as exc:  # noqa: BLE001 - the disk, or names that torch itself cannot read
        return f"it could not be checked ({_reason(exc)})"


def note_fallback(saved: Saved, path: Path, problems: ProblemLog) -> None:
    """Note that a cycle was saved in a fallback folder, where its file stays until the user deletes it."""
    if saved.why:
        problems.note(
            "capture.saved_elsewhere",
            "warning",
            f"{path.name} could not be written to {path.parent} ({saved.why}), so it is in {saved.path.parent}.",
            "It stays there until you delete it. Make room or choose another folder for the next run.",
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
        _note_flaw(path, writer.flaw, problems)
    if writer.doubt:
        _note_doubt(target, writer.doubt, problems)
    return Saved(path=target, why=_why_not(path.parent, failures, target) if target != path else "")


def _first_written(
    writer: _Writer, path: Path, failures: dict[Path, Exception], fallbacks: FallbackFolders
) -> Path | None:
    """Write to the first place that takes the file, and return it; the others are added to ``failures``."""
    for place in _places(writer, path.parent, fallbacks):
        try:
            target = path if place == path.parent else fallbacks.folder_in(place) / path.name
            writer.write(target)
        except OSError as exc:
            failures[place] = exc
        else:
            return target
    return None


def _places(writer: _Writer, here: Path, fallbacks: FallbackFolders) -> Iterator[Path]:
    """Yield the folders to try: ``here`` is the last one if it is known to have too little room."""
    is_short = _is_short(here, writer)
    if not is_short:
        yield here
    yield from fallbacks.places(here)
    if is_short:
        yield here


def _is_short(here: Path, writer: _Writer) -> bool:
    """Return whether ``here`` is known to have too little room for the file."""
    if not os.path.isdir(here):  # noqa: PTH112 - a disk that does not answer is no error here
        return True
    free = free_bytes(here)
    return free is not None and free < SCARCE_BYTES and free < writer.need_bytes


class _Writer:
    """Writes one cycle to one file after another until one can be written, and deletes what is left of the others.

    torch's fast export works once. Its file is the draft of all that follows, until the cycle is saved somewhere.
    ``flaw`` is what is known to be wrong with the file that was written; ``doubt`` is why it may not last.
    """

    def __init__(self, engine: Engine, guard: InterruptGuard) -> None:
        self.flaw: str | None = None
        self.doubt = ""
        self._engine = engine
        self._guard = guard
        self._is_exported = False
        self._draft: _Draft | None = None

    @cached_property
    def need_bytes(self) -> int:
        """How much room the file needs, roughly. Counting the events takes microseconds for each."""
        return FILE_BYTES + self._engine.event_count * EVENT_BYTES

    def write(self, path: Path) -> None:
        """Write the cycle to ``path``; raises if it is not there then."""
        part = path.with_name(f".{path.name}.part")
        try:
            with self._guard.patience(SAVE_PATIENCE):
                flaw = self._fill(part) if self._is_exported else self._export(part, path)
            try:
                _publish(part, path)
            except OSError as exc:
                self.doubt = _reason(exc)
                raise
            self.flaw, self.doubt = flaw, ""
        finally:
            discard(part.with_name(f"{part.name}.tmp"))  # Kineto's own, left when the disk is full
            discard(_second(part))
            if self._draft is None or part != self._draft.part:
                discard(part)

    def rescue(self) -> Path | None:
        """Give the draft its name as it is, flawed or not, and return where it is: better than nothing."""
        if self._draft is None:
            return None
        try:
            _publish(self._draft.part, self._draft.target)
        except OSError:
            return None
        self.flaw = self._draft.flaw
        return self._draft.target

    def close(self) -> None:
        """Delete the draft, if it was given no name."""
        if self._draft is not None:
            discard(self._draft.part)

    def _export(self, part: Path, path: Path) -> str | None:
        """Let torch write the trace, once more if something is wrong with it, and return the flaw that is left.

        Raises what the disk says, for another may take it.
        """
        self._is_exported = True
        self._engine.profiler.export_chrome_trace(str(part))
        flaw = flaw_of(part, self._engine)
        if flaw != NO_FILE:
            self._draft = _Draft(part=part, target=path, flaw=flaw)
        if flaw is not None and compat.HAS_PYTHON_EXPORT:
            flaw = self._export_over(part, flaw)
        if flaw == NO_FILE:
            raise OSError(NO_FILE)
        return flaw

    def _export_over(self, part: Path, flaw: str) -> str | None:
        """Replace what torch wrote by what its Python export writes, unless that is no better."""
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
        self._engine.profiler.export_chrome_trace(str(part), use_python_export=True)
        left = find_flaw(part, None)
        if left == NO_FILE:
            raise OSError(NO_FILE)
        return left

    def _fill(self, part: Path) -> str | None:
        """Write the trace once more, and return its flaw: as a copy of the draft, unless torch can do better."""
        draft = self._draft
        if draft is not None and (draft.flaw is None or not compat.HAS_PYTHON_EXPORT):
            with suppress(OSError) if compat.HAS_PYTHON_EXPORT else nullcontext():
                shutil.copyfile(draft.part, part)
                return draft.flaw
        if not compat.HAS_PYTHON_EXPORT:
            raise OSError(NO_FILE)
        return self._export_again(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """What torch's fast export wrote, what it is to be named, and what is wrong with it."""

    part: Path
    target: Path
    flaw: str | None


def _second(part: Path) -> Path:
    return part.with_name(f"{part.name}2")


def save_execution_trace(written: Path, target: Path, problems: ProblemLog) -> None:
    """Move torch's execution trace to where the user wants it, if it is whole; what was lost is noted."""
    temporary = target.with_name(f".{target.name}.part")
    try:
        flaw = find_flaw(written, None)
        if flaw is None:
            shutil.copyfile(written, temporary)
            _publish(temporary, target)
    except OSError as exc:
        flaw = _reason(exc)
    finally:
        discard(temporary)
        discard(written)
    if flaw is not None:
        problems.note(
            "capture.no_execution_trace",
            "data_loss",
            f"The execution trace was not saved to {target}: {flaw}.",
            "Choose another file with --execution-trace, then run the cell again.",
        )


def save_snapshot(snapshot: object, target: Path, guard: InterruptGuard, problems: ProblemLog) -> bool:
    """Write a snapshot of the allocator as torch does, and return whether it is there; what was lost is noted.

    One with a history of the user's own can have gigabytes, so repeated interrupts give it up.
    """
    temporary = target.with_name(f".{target.name}.part")
    try:
        with temporary.open("wb") as file, guard.patience(SAVE_PATIENCE):
            pickle.dump(snapshot, file, protocol=4)  # what torch's own viewer reads
        _publish(temporary, target)
    except (Exception, KeyboardInterrupt) as exc:  # noqa: BLE001 - the user's code must not fail because of it
        reason = "given up after repeated interrupts" if isinstance(exc, KeyboardInterrupt) else _reason(exc)
        problems.note(
            "capture.snapshot_not_saved",
            "data_loss",
            f"The memory snapshot was not saved to {target}: {reason}.",
            "Make room or choose another file with --snapshot, then run the cell again.",
        )
        return False
    finally:
        discard(temporary)
    return True


def discard(path: Path) -> None:
    """Delete a file that may not be there; asked twice, because some network disks are busy for a moment."""
    for _ in range(2):
        with suppress(OSError):
            path.unlink(missing_ok=True)
            return


def _reason(exc: BaseException) -> str:
    """Return what happened, without the name of a temporary file."""
    return getattr(exc, "strerror", None) or str(exc) or type(exc).__name__


def _need(exc: Exception, writer: _Writer) -> str:
    """Return how much room the file needs, roughly, if room is what there may be too little of."""
    number = getattr(exc, "errno", None)
    is_room = number in _NO_ROOM or (number is None and NO_FILE in str(exc))
    return f"; it needs about {format_bytes(writer.need_bytes)}" if is_room else ""


def _why_not(here: Path, failures: Mapping[Path, Exception], target: Path) -> str:
    """Return why a file is in ``target``, with what it takes, and what is free where it should have been."""
    if here in failures:
        reason = _reason(failures[here])
    else:
        reason = "too little room" if os.path.isdir(here) else "there is no such folder"  # noqa: PTH112 - the same
    try:
        return f"{reason}; it takes {format_bytes(target.stat().st_size)}, {told_room(here)}"
    except OSError:
        return f"{reason}; {told_room(here)}"


def _note_flaw(path: Path, flaw: str, problems: ProblemLog) -> None:
    problems.note(
        "capture.invalid_trace",
        "data_loss",
        f"{path.name} was kept as torch wrote it: {flaw}.",
        "Avoid quotes, backslashes and non-ASCII letters in record_function names and metadata, or use a newer torch.",
    )


def _note_doubt(path: Path, doubt: str, problems: ProblemLog) -> None:
    """Note that a file is there that the disk refused at first: a second success is no proof that it will stay."""
    problems.note(
        "capture.not_confirmed",
        "warning",
        f"{path} is there, but at first the disk did not confirm it: {doubt}.",
        "Save the report, or copy that file to another disk.",
    )


def _note_given_up(path: Path, problems: ProblemLog) -> None:
    problems.note(
        "capture.given_up",
        "data_loss",
        f"{path.name} was not saved: it was given up, because of repeated interrupts.",
        "Run the cell again.",
    )


def _note_not_saved(writer: _Writer, path: Path, failures: Mapping[Path, Exception], problems: ProblemLog) -> None:
    here = failures[path.parent]
    others = [f"{place} ({_reason(exc)})" for place, exc in failures.items() if place != path.parent]
    if others:
        tried = f" Tried as well: {', '.join(others)}."
    else:
        tried = " No other place has room." if isinstance(here, OSError) else ""
    problems.note(
        "capture.not_saved",
        "data_loss",
        f"{path.name} was not saved: {_reason(here)}{_need(here, writer)} ({told_room(path.parent)}).{tried}",
        "Make room or choose another folder, then run the cell again.",
    )
