"""Checks before the user's code runs: whether this run can be recorded and saved."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.capture.output.crash_marker import FOLDER_PREFIX
from torchprof_magic.capture.torch_api import compat, features
from torchprof_magic.capture.torch_api.performance_events import flaw_of_performance_events
from torchprof_magic.model.errors import CaptureError, ProfilerBusyError

if TYPE_CHECKING:
    from torchprof_magic.options import ProfileOptions


def check(options: ProfileOptions) -> None:
    """Raise ``ProfilerBusyError`` if another profiler runs, ``CaptureError`` if this machine lacks what is asked."""
    _check_activities(options)
    _check_version(options)
    _check_config(options)
    check_busy()
    _check_snapshot(options)
    if options.execution_trace:
        _check_target(Path(options.execution_trace).expanduser())
    _check_performance_events(options)


def usable_folder(folder: Path | None) -> Path:
    """Return the folder to record into, a new temporary one if ``folder`` is ``None``.

    Raises ``CaptureError`` if it is not writable.
    """
    folder = folder or _new_folder()
    check_folder(folder)
    return folder


def _check_target(path: Path) -> None:
    if path.is_dir():
        raise CaptureError(f"--execution-trace: {path} is a folder. Name a file in it.")
    check_folder(path.parent)


def _check_activities(options: ProfileOptions) -> None:
    known = compat.available_activities()
    missing = [name for name in options.activities if name not in known]
    if missing:
        raise CaptureError(f"this machine cannot record {', '.join(missing)}. It can record {', '.join(known)}.")


def _check_version(options: ProfileOptions) -> None:
    missing = features.lacking(options)
    if missing:
        raise CaptureError(
            f"torch {features.VERSION} does not support {', '.join(missing)}. Leave it out, or update torch."
        )


def _check_config(options: ProfileOptions) -> None:
    """Refuse the combinations with a config of the user's that are also refused among our own flags."""
    config = options.experimental_config
    if options.profile_memory and compat.is_set_in(config, "profile_all_threads"):
        raise CaptureError(
            "profile_all_threads in experimental_config cannot be combined with --memory (which some presets set): "
            "torch records no allocations when it records all threads. Add --no-memory, or leave it out."
        )
    if options.with_stack and compat.is_set_in(config, "trace_only"):
        raise CaptureError(
            "trace_only in experimental_config cannot be combined with --stack: torch needs its event tree for stacks. "
            "Add --no-stack, or leave it out."
        )


def _check_performance_events(options: ProfileOptions) -> None:
    flaw = flaw_of_performance_events(options.experimental_config)
    if flaw:
        raise CaptureError(
            f"performance_events in experimental_config cannot be recorded on this machine ({flaw}); torch would then "
            "record no op at all. Leave them out, choose other events, or allow perf events "
            "(/proc/sys/kernel/perf_event_paranoid)."
        )


def _check_snapshot(options: ProfileOptions) -> None:
    if not options.snapshot:
        return
    if not compat.has_memory_history():
        raise CaptureError(
            "--snapshot needs an accelerator with an allocator history (CUDA, ROCm or XPU), and this machine has none. "
            "Leave it out, or use --memory to record allocations on the CPU."
        )
    if isinstance(options.snapshot, str):
        target = Path(options.snapshot).expanduser()
        if target.is_dir():
            raise CaptureError(f"--snapshot: {target} is a folder. Name a file in it.")
        check_folder(target.parent)


def check_busy() -> None:
    """Raise ``ProfilerBusyError`` if a profiler runs."""
    busy = compat.busy_profiler()
    if busy is not None:
        raise ProfilerBusyError(
            f"{busy}. torch cannot nest profilers. Stop that one first (leave its with-block, or call its stop()), "
            "or switch it off and discard its data with: %torchprof off"
        )


def _new_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    except OSError as exc:
        raise CaptureError(
            f"cannot create a temporary folder for the trace ({exc}). Nothing was run. Set TMPDIR to a writable folder."
        ) from exc


def check_folder(folder: Path) -> None:
    """Raise ``CaptureError`` unless a file can be written in ``folder``."""
    probe = folder / f".torchprof-probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"0")
        probe.unlink()
    except OSError as exc:
        raise CaptureError(
            f"cannot write traces to {folder}: {exc.strerror or exc}. Nothing was run. Choose another folder."
        ) from exc
