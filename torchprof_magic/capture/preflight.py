"""Can this run be recorded and saved? Everything that can be known is asked before the user's code runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.capture.output.crash_marker import FOLDER_PREFIX
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.errors import CaptureError, ProfilerBusyError

if TYPE_CHECKING:
    from torchprof_magic.options import ProfileOptions


def check(options: ProfileOptions, folder: Path | None) -> Path:
    """Return the folder to record into, a new one of our own when none is named.

    Raises ``ProfilerBusyError`` when another profiler runs, and ``CaptureError`` when this machine lacks an activity
    or the folder cannot be written.
    """
    _check_activities(options)
    _check_version(options)
    _check_config(options)
    check_busy()
    _check_snapshot(options)
    if options.execution_trace:
        _check_target(Path(options.execution_trace).expanduser())
    folder = folder or _new_folder()
    check_folder(folder)
    return folder


def _check_target(path: Path) -> None:
    if path.is_dir():
        raise CaptureError(f"{path} is a folder; name a file in it")
    check_folder(path.parent)


def _check_activities(options: ProfileOptions) -> None:
    known = compat.available_activities()
    missing = [name for name in options.activities if name not in known]
    if missing:
        raise CaptureError(f"this machine cannot record {', '.join(missing)}; it can record {', '.join(known)}")


def _check_version(options: ProfileOptions) -> None:
    missing = compat.lacking(options)
    if missing:
        raise CaptureError(f"this torch ({compat.VERSION}) has no {', '.join(missing)}; leave it out, or update torch")


def _check_config(options: ProfileOptions) -> None:
    """Refuse what a config of the user's own excludes, as it is refused where flags ask for it."""
    config = options.experimental_config
    if options.profile_memory and compat.is_set_in(config, "profile_all_threads"):
        raise CaptureError(
            "profile_all_threads in experimental_config and --memory (which some presets hold) exclude each other: "
            "torch records no allocation while it watches all threads. Add --no-memory, or leave that out"
        )
    if options.with_stack and compat.is_set_in(config, "trace_only"):
        raise CaptureError(
            "trace_only in experimental_config and --stack exclude each other: torch needs its event tree for stacks. "
            "Add --no-stack, or leave that out"
        )


def _check_snapshot(options: ProfileOptions) -> None:
    if not options.snapshot:
        return
    if not compat.has_memory_history():
        raise CaptureError(
            "--snapshot needs an accelerator whose allocator torch can watch (CUDA, ROCm or XPU), and none is here. "
            "Leave it out; --memory records the allocations of the CPU"
        )
    if isinstance(options.snapshot, str):
        target = Path(options.snapshot).expanduser()
        if target.is_dir():
            raise CaptureError(f"--snapshot: {target} is a folder; name a file in it")
        check_folder(target.parent)


def check_busy() -> None:
    """Raise ProfilerBusyError when a profiler runs."""
    busy = compat.busy_profiler()
    if busy is not None:
        raise ProfilerBusyError(
            f"{busy}; torch cannot nest profilers without losing data. Stop that one first "
            "(leave its with-block, or call its stop()), or switch it off and lose its data with: %torchprof off"
        )


def _new_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    except OSError as exc:
        raise CaptureError(f"no folder for the recording could be made ({exc}); name one with folder=...") from exc


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
