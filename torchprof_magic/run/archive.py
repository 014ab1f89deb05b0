"""Where do the traces of a run go that are to outlive its report?"""

from __future__ import annotations

import os
import re
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.errors import TorchProfError
from torchprof_magic.model.meta import Problem
from torchprof_magic.store import (
    StoredTrace,
    StoreError,
    TraceStore,
    Uploads,
    numbered,
    parse_filename,
    parse_folder,
    rank_flaw,
    rank_values,
    tensorboard_name,
)

if TYPE_CHECKING:
    from torchprof_magic.capture import Cycle, Recording
    from torchprof_magic.options import KeepOptions
    from torchprof_magic.store import SavedTrace, TraceValues, UploadStatus

DEFAULT_FILENAME = "{run_name}-{timestamp}.pt.trace.json"
DEFAULT_RUN_NAME = "run"
# A name that is taken gets a number; a folder with this many traces of one name has another problem.
MAX_NUMBER = 1000

SNAPSHOT_SUFFIX = ".snapshot.pickle"
_TRACE_SUFFIX = re.compile(r"(\.pt\.trace)?\.json(\.gz)?$|\.gz$", re.IGNORECASE)
# The notes that name the file of the snapshot.
_NAMES_SNAPSHOT = ("capture.snapshot", "capture.out_of_memory")

# One queue for each address, for the life of the kernel.
_uploads: dict[str, Uploads] = {}


class Keeper:
    """Copies each cycle of one run to where it is kept. Raises ``OptionsError`` for a template that cannot be.

    ``cycles`` is how many there will be, ``None`` when nobody knows; ``cell`` is the number of the notebook's cell.
    """

    def __init__(self, options: KeepOptions, *, cycles: int | None, cell: int = 0) -> None:
        self._options = options
        self._values = replace(rank_values(), run_name=options.run_name or DEFAULT_RUN_NAME, cell=cell)
        template = parse_filename(options.filename or DEFAULT_FILENAME)
        self._store = TraceStore(
            folder=parse_folder(options.trace_dir).format(self._values),
            filename=template.told_apart(cycles=cycles, world_size=self._values.world_size),
            gzip=options.gzip,
            overwrite=options.overwrite,
            keep=options.keep_last,
        )

    @property
    def folder(self) -> Path:
        """Where the copies go."""
        return self._store.folder

    def prepare(self) -> None:
        """Find out before the run whether its traces can be kept, and go on with uploads of earlier kernels.

        Raises ``OptionsError`` and ``StoreError``.
        """
        self._store.prepare(self._values)
        if self._options.remote:
            self._queue().resume(self._store.folder)

    def keep(self, recording: Recording) -> Recording:
        """Store every cycle, and return the recording with where each is now, and with what went wrong as problems."""
        problems = self._rank_problems() if recording.cycles else []
        cycles = tuple(self._kept(cycle, problems) for cycle in recording.cycles)
        recording = self._with_snapshot(replace(recording, cycles=cycles), problems)
        return replace(recording, problems=(*recording.problems, *problems))

    def _with_snapshot(self, recording: Recording, problems: list[Problem]) -> Recording:
        """Store the snapshot beside the traces, unless the user has named another file; the notes then name this one.

        What cannot be copied stays where it was written.
        """
        source = recording.snapshot
        if source is None or source.parent != recording.folder:
            return recording
        try:
            stored = self._put_snapshot(source, recording.cycles)
        except Exception as exc:  # noqa: BLE001 - a copy that fails must not take the report with it
            what = str(exc) if isinstance(exc, TorchProfError) else f"{source}: {type(exc).__name__}: {exc}"
            problems.append(_problem("snapshot_not_stored", "warning", f"{what}.", "That file is not deleted."))
            return recording
        told = tuple(_told_anew(problem, source, stored) for problem in recording.problems)
        return replace(recording, snapshot=stored, problems=told)

    def _put_snapshot(self, source: Path, cycles: tuple[Cycle, ...]) -> Path:
        """Store under the name of the first trace that was kept, or of the one that would have been."""
        kept = [cycle.stored.name for cycle in cycles if cycle.stored is not None]
        stem = _TRACE_SUFFIX.sub("", kept[0] if kept else self._store.target(self._values).name)
        for number in range(1, MAX_NUMBER):
            name = f"{stem}-{number}{SNAPSHOT_SUFFIX}" if number > 1 else f"{stem}{SNAPSHOT_SUFFIX}"
            if self._options.overwrite or not os.path.lexists(self._store.folder / name):
                break
        return self._store.put_beside(source, name)

    def _rank_problems(self) -> list[Problem]:
        """Return a note when a launcher did not tell which process of several this is; another may think the same."""
        flaw = rank_flaw()
        if not flaw:
            return []
        what = f"The rank of this process is unknown: {flaw}. Its traces count as those of rank {self._values.rank}."
        return [
            _problem("rank_unknown", "warning", what, "Start the kernel with its RANK, or put {pid} into --filename.")
        ]

    def _kept(self, cycle: Cycle, problems: list[Problem]) -> Cycle:
        values = replace(self._values, cycle=cycle.number)
        if cycle.steps:
            last = cycle.steps[-1]
            values = replace(values, step=last.number, epoch=last.epoch, batch=last.batch)
        try:
            stored = self._put(cycle.path, values)
        except Exception as exc:  # noqa: BLE001 - a copy that fails must not take the report with it
            what = str(exc) if isinstance(exc, TorchProfError) else f"{cycle.path}: {type(exc).__name__}: {exc}"
            problems.append(
                _problem("not_stored", "data_loss", f"{what}.", "Save the report, or copy that file elsewhere.")
            )
            return cycle
        problems += [
            _problem("note", "warning", f"{stored.path.name} was stored, but {note}.", "") for note in stored.notes
        ]
        if self._options.remote:
            self._upload(stored.path, problems)
        return replace(cycle, stored=stored.path)

    def _put(self, source: Path, values: TraceValues) -> StoredTrace:
        """Store under the name that was asked for, or under that name with a number when it is taken."""
        name = self._store.target(values).name
        if self._options.tensorboard:
            worker = f"{socket.gethostname()}_{os.getpid()}"  # as torch names it
            name = tensorboard_name(worker, time.time_ns(), gzip=self._options.gzip)
        for number in range(2, MAX_NUMBER):
            try:
                return self._store.put(source, values, name=name)
            except StoreError:
                if self._options.overwrite or not os.path.lexists(self._store.folder / name):
                    raise
            name = numbered(self._store.target(values).name, number)
        return self._store.put(source, values, name=name)

    def _upload(self, path: Path, problems: list[Problem]) -> None:
        try:
            self._queue().submit(path)
        except StoreError as exc:
            problems.append(_problem("not_uploaded", "data_loss", f"It is not uploaded: {exc}.", f"It is at {path}."))

    def _queue(self) -> Uploads:
        remote = self._options.remote
        if remote not in _uploads:
            _uploads[remote] = Uploads(remote, overwrite=self._options.overwrite)
        return _uploads[remote]


def _told_anew(problem: Problem, source: Path, stored: Path) -> Problem:
    """Return a note about the snapshot with the name of its copy, which is what stays."""
    if problem.code not in _NAMES_SNAPSHOT:
        return problem
    message, fix = (text.replace(str(source), str(stored)) for text in (problem.message, problem.fix))
    return replace(problem, message=message, fix=fix)


def kept_traces(folder: str) -> tuple[SavedTrace, ...]:
    """Return what was kept in a folder by any process, the oldest first."""
    return TraceStore(folder=Path(folder).expanduser(), filename=parse_filename(DEFAULT_FILENAME)).saved_traces()


def upload_statuses() -> list[UploadStatus]:
    """Return where every upload of this kernel stands."""
    return [status for uploads in _uploads.values() for status in uploads.statuses()]


def retry_uploads() -> int:
    """Try the failed uploads again, and return how many there are."""
    return sum(uploads.retry() for uploads in _uploads.values())


def _problem(code: str, severity: str, message: str, fix: str) -> Problem:
    return Problem(code=f"store.{code}", severity=severity, count=1, message=message, fix=fix)  # type: ignore[arg-type]
