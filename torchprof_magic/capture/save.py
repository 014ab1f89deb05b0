"""How does a finished cycle become a file that is complete, valid, and has the right names in it?

torch's C++ export tells nobody when it fails: no space, no permission and a bad name all return ``None``. It works
once per cycle. So: export into a temporary file in the target folder, check it, fsync, rename.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
from typing import TYPE_CHECKING

import msgspec

from torchprof_magic.capture import compat
from torchprof_magic.errors import CaptureError
from torchprof_magic.meta import Problem
from torchprof_magic.units import format_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.capture.engine import Engine
    from torchprof_magic.capture.guard import InterruptGuard

# What 2.13's C++ export writes instead of a name with a character that is not plain ASCII (pytorch#146900).
LOST_NAME = b'"name": "unknown"'
# It turns a backslash into a slash, so an annotation with a slash is compared with the name that was recorded.
ANNOTATION = b'"cat": "user_annotation"'
SLASHED_NAME = re.compile(rb'"cat": "user_annotation",\s*"name": "([^"\n]*/[^"\n]*)"')
# Either exporter's spelling; the search ends at the first operation, so it costs nothing on a file that has one.
FIRST_OP = re.compile(rb'"cat": ?"(?:cpu_op|kernel|gpu_memcpy|gpu_memset)"')
# Interrupts that are held back while the slow Python export runs; the next one gives the file up.
EXPORT_PATIENCE = 2


def check_folder(folder: Path) -> None:
    """Raise CaptureError unless a file can be written in ``folder``."""
    probe = folder / f".torchprof-probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"0")
        probe.unlink()
    except OSError as exc:
        raise CaptureError(
            f"traces cannot be written to {folder}: {exc.strerror or exc}. Nothing was run; choose another folder."
        ) from exc


def save_cycle(engine: Engine, path: Path, guard: InterruptGuard) -> list[Problem]:
    """Write the cycle to ``path``, or say in the returned problems what was lost. Never raises for disk reasons."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        return _save(engine, path, temporary, guard)
    except Exception as exc:  # noqa: BLE001 - one cycle that cannot be saved must not lose the others
        return [_not_saved(path, str(exc) or type(exc).__name__)]
    except KeyboardInterrupt:
        return [_not_saved(path, "given up after repeated interrupts")]
    finally:
        temporary.unlink(missing_ok=True)
        temporary.with_name(f"{temporary.name}.tmp").unlink(missing_ok=True)  # Kineto's own, left when the disk is full


def _save(engine: Engine, path: Path, temporary: Path, guard: InterruptGuard) -> list[Problem]:
    engine.profiler.export_chrome_trace(str(temporary))
    flaw = find_flaw(temporary, engine)
    problems: list[Problem] = []
    if flaw is not None:
        problems = _export_again(engine, path, temporary, flaw, guard)
    if temporary.exists():
        _publish(temporary, path)
    return problems


def _export_again(engine: Engine, path: Path, temporary: Path, flaw: str, guard: InterruptGuard) -> list[Problem]:
    """Use torch's Python export, which is slower and escapes names; what cannot be repaired becomes a problem."""
    is_written = temporary.exists() and temporary.stat().st_size > 0
    if not compat.HAS_PYTHON_EXPORT:
        return [_flawed(path, flaw) if is_written else _not_saved(path, flaw)]
    second = temporary.with_name(f"{temporary.name}2")
    try:
        with guard.patience(EXPORT_PATIENCE):
            engine.profiler.export_chrome_trace(str(second), use_python_export=True)
        still = find_flaw(second, None)
        if still is None:
            second.replace(temporary)
            return []
        return [_flawed(path, still) if is_written else _not_saved(path, still)]
    except OSError as exc:
        return [_flawed(path, flaw) if is_written else _not_saved(path, str(exc))]
    finally:
        second.unlink(missing_ok=True)


def find_flaw(path: Path, engine: Engine | None) -> str | None:
    """Return what is wrong with an exported file: not there, empty, not JSON, or names lost (``engine`` knows them)."""
    if not path.exists() or path.stat().st_size == 0:
        return "torch wrote no file"
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            msgspec.json.decode(data, type=msgspec.Raw)
        except msgspec.DecodeError as exc:
            return f"torch wrote invalid JSON ({exc})"
        if engine is None:
            return None
        if data.find(LOST_NAME) >= 0:
            return "torch replaced names with 'unknown'"
        slashed = _slashed_annotations(data)
    if slashed and not slashed <= _recorded_names(engine):
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
    """Return whether any torch operation or device activity is in the file."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return FIRST_OP.search(data) is not None


def _recorded_names(engine: Engine) -> set[str]:
    results = engine.profiler.profiler.kineto_results  # type: ignore[union-attr]
    return {event.name() for event in results.events()}  # type: ignore[union-attr]


def _publish(temporary: Path, path: Path) -> None:
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    temporary.replace(path)


def _flawed(path: Path, flaw: str) -> Problem:
    return Problem(
        code="capture.invalid_trace",
        severity="data_loss",
        count=1,
        message=f"{path.name} was kept as torch wrote it: {flaw}.",
        fix="Avoid quotes, backslashes and non-ASCII letters in record_function names, or use a newer torch.",
    )


def _not_saved(path: Path, reason: str) -> Problem:
    try:
        free = f"{format_bytes(shutil.disk_usage(path.parent).free)} free in {path.parent}"
    except OSError:
        free = f"{path.parent} is gone"
    return Problem(
        code="capture.not_saved",
        severity="data_loss",
        count=1,
        message=f"{path.name} was not saved: {reason} ({free}).",
        fix="Make room or choose another folder, then run the cell again.",
    )
