"""How does a finished cycle become a file that is complete, valid, and has the right names in it?

torch's C++ export tells nobody when it fails: no space, no permission and a bad name all return ``None``. It works
once per cycle. So: export into a temporary file in the target folder, check it, fsync, rename.
"""

from __future__ import annotations

import errno
import mmap
import os
import pickle
import re
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from torchprof_magic.capture import compat
from torchprof_magic.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchprof_magic.capture.engine import Engine
    from torchprof_magic.capture.guard import InterruptGuard
    from torchprof_magic.capture.problems import ProblemLog

NO_FILE = "torch wrote no file"
# What 2.13's C++ export writes instead of a name with a character that is not plain ASCII (pytorch#146900).
LOST_NAME = b'"name": "unknown"'
# It turns a backslash into a slash, so an annotation with a slash is compared with the name that was recorded.
ANNOTATION = b'"cat": "user_annotation"'
SLASHED_NAME = re.compile(rb'"cat": "user_annotation",\s*"name": "([^"\n]*/[^"\n]*)"')
# Either exporter's spelling; the search ends at the first operation, so it costs nothing on a file that has one.
FIRST_OP = re.compile(rb'"cat": ?"(?:cpu_op|kernel|gpu_memcpy|gpu_memset)"')
# Interrupts that are held back until the file is written: one for the cell, one for the report. The next gives it up.
SAVE_PATIENCE = 2
# One event of a plain recording, measured over 700,000; shapes and stacks make it more.
EVENT_BYTES = 256
_NO_ROOM = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}  # Windows has no quotas


def save_cycle(engine: Engine, path: Path, guard: InterruptGuard, problems: ProblemLog) -> bool:
    """Write the cycle to ``path`` and return whether it is there; what was lost is noted in ``problems``.

    Never raises for disk reasons. A file that was there before stays as it was when the cycle cannot be saved.
    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        if guard.pending > SAVE_PATIENCE:
            return _given_up(path, problems)
        return _save(engine, path, temporary, guard, problems)
    except Exception as exc:  # noqa: BLE001 - one cycle that cannot be saved must not lose the others
        return _not_saved(path, f"{_reason(exc)}{_need(engine, exc)}", problems)
    except KeyboardInterrupt:
        return _given_up(path, problems)
    finally:
        discard(temporary)
        discard(temporary.with_name(f"{temporary.name}.tmp"))  # Kineto's own, left when the disk is full


def _save(engine: Engine, path: Path, temporary: Path, guard: InterruptGuard, problems: ProblemLog) -> bool:
    with guard.patience(SAVE_PATIENCE):
        engine.profiler.export_chrome_trace(str(temporary))
        flaw = _checked(temporary, engine)
        if flaw is not None and compat.HAS_PYTHON_EXPORT:
            flaw = _export_again(engine, temporary, flaw)
    if flaw == NO_FILE:
        return _not_saved(path, f"{flaw}{_need(engine)}", problems)
    _publish(temporary, path)
    if flaw is not None:
        _note_flaw(path, flaw, problems)
    return True


def _export_again(engine: Engine, temporary: Path, flaw: str) -> str | None:
    """Use torch's Python export, which is slower and escapes names, and return the flaw that is left.

    What torch wrote the first time stays if this fails, for it can be written only once. Raises if there is nothing.
    """
    second = temporary.with_name(f"{temporary.name}2")
    try:
        engine.profiler.export_chrome_trace(str(second), use_python_export=True)
        left = find_flaw(second, None)
        if left is None or (flaw == NO_FILE and left != NO_FILE):
            second.replace(temporary)
            return left
    except (Exception, KeyboardInterrupt):
        if flaw == NO_FILE:
            raise
    finally:
        discard(second)
    return flaw


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


def _checked(path: Path, engine: Engine) -> str | None:
    """Return the flaw of a file. One that cannot be checked is kept all the same: there is no other of this cycle."""
    try:
        return find_flaw(path, engine)
    except Exception as exc:  # noqa: BLE001 - the disk, or names that torch itself cannot read
        return f"it could not be checked ({_reason(exc)})"


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


def find_flaw(path: Path, engine: Engine | None) -> str | None:
    """Return what is wrong with an exported file: not there, empty, not JSON, or names lost (``engine`` knows them)."""
    if not _is_written(path):
        return NO_FILE
    with _mapped(path) as data:
        try:
            msgspec.json.decode(data, type=msgspec.Raw)
        except msgspec.DecodeError as exc:
            return f"torch wrote invalid JSON ({exc})"
        if engine is None:
            return None
        if data.find(LOST_NAME) >= 0:
            return "torch replaced names with 'unknown'"
        slashed = _slashed_annotations(data)
    if slashed and not slashed <= engine.recorded_names():
        return "torch changed backslashes in names"
    return None


def _slashed_annotations(data: mmap.mmap) -> set[str]:
    """Return the annotations with a slash; finding the few annotations first is three times faster than the pattern."""
    names: set[str] = set()
    at = data.find(ANNOTATION)
    while at >= 0:
        match = SLASHED_NAME.match(data, at)
        if match:
            names.add(match[1].decode("ascii", "replace"))
        at = data.find(ANNOTATION, at + len(ANNOTATION))
    return names


def has_ops(path: Path) -> bool:
    """Return whether any torch operation or device activity is in the file; one that cannot be read may have some."""
    try:
        with _mapped(path) as data:
            return FIRST_OP.search(data) is not None
    except OSError:
        return True


def _is_written(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def discard(path: Path) -> None:
    """Delete a file that may not be there; asked twice, because some network disks are busy for a moment."""
    for _ in range(2):
        with suppress(OSError):
            path.unlink(missing_ok=True)
            return


def _reason(exc: BaseException) -> str:
    """Return what happened, without the name of a temporary file."""
    return getattr(exc, "strerror", None) or str(exc) or type(exc).__name__


def _need(engine: Engine, exc: Exception | None = None) -> str:
    """Return how much room the file needs, roughly, if room is what there may be too little of."""
    if exc is not None and getattr(exc, "errno", None) not in _NO_ROOM:
        return ""
    return f"; it needs about {format_bytes(engine.event_count * EVENT_BYTES)}"


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    """Open a file that is not empty, without reading it into memory."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def _publish(temporary: Path, path: Path) -> None:
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    temporary.replace(path)


def _note_flaw(path: Path, flaw: str, problems: ProblemLog) -> None:
    problems.note(
        "capture.invalid_trace",
        "data_loss",
        f"{path.name} was kept as torch wrote it: {flaw}.",
        "Avoid quotes, backslashes and non-ASCII letters in record_function names, or use a newer torch.",
    )


def _given_up(path: Path, problems: ProblemLog) -> bool:
    problems.note(
        "capture.given_up",
        "data_loss",
        f"{path.name} was not saved: it was given up, because of repeated interrupts.",
        "Run the cell again.",
    )
    return False


def _not_saved(path: Path, reason: str, problems: ProblemLog) -> bool:
    try:
        free = f"{format_bytes(shutil.disk_usage(path.parent).free)} free in {path.parent}"
    except OSError:
        free = f"{path.parent} is gone"
    problems.note(
        "capture.not_saved",
        "data_loss",
        f"{path.name} was not saved: {reason} ({free}).",
        "Make room or choose another folder, then run the cell again.",
    )
    return False
