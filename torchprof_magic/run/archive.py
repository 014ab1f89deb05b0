"""The traces of a run that are kept: copies in a folder of the user's, and their uploads."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.distributed import rank_flaw, ranks
from torchprof_magic.errors import StoreError, TorchProfError
from torchprof_magic.model.problems import problem
from torchprof_magic.store.template import TraceValues, numbered, parse_filename, parse_folder, split_suffix
from torchprof_magic.store.trace_store import NameTakenError, TraceStore, saved_traces
from torchprof_magic.store.upload import Uploads

if TYPE_CHECKING:
    from torchprof_magic.capture import Cycle, Recording
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.options import KeepOptions
    from torchprof_magic.store.trace_store import SavedTrace, StoredFile
    from torchprof_magic.store.upload import UploadStatus

DEFAULT_FILENAME = "{run_name}-{timestamp}.pt.trace.json"
DEFAULT_RUN_NAME = "run"
# A name that is taken gets a number; a folder with this many traces of one name has another problem.
MAX_NUMBER = 1000
# Deleted traces that one problem names.
MAX_NAMED = 20
SNAPSHOT_SUFFIX = ".snapshot.pickle"
# The problems whose text holds the path of the snapshot.
_NAMES_SNAPSHOT = ("capture.snapshot", "capture.out_of_memory_snapshot")

# One queue for each remote folder, for the life of the kernel.
_uploads: dict[str, Uploads] = {}


class Archive:
    """Copies each cycle of one run into the folder of kept traces. Raises ``OptionsError`` for an invalid template.

    ``cycles`` is how many there will be, ``None`` when that is unknown; ``cell`` is the number of the notebook cell.
    """

    def __init__(self, options: KeepOptions, *, cycles: int | None, cell: int = 0) -> None:
        self._options = options
        self._values = TraceValues(run_name=options.run_name or DEFAULT_RUN_NAME, cell=cell, **ranks()._asdict())
        self._store = TraceStore(
            folder=Path(parse_folder(options.trace_dir).format(self._values)),
            overwrite=options.overwrite,
            keep_last=options.keep_last,
        )
        template = parse_filename(options.filename or DEFAULT_FILENAME)
        self._template = template.told_apart(cycles=cycles, world_size=self._values.world_size)
        self._template.format(self._values)

    @property
    def folder(self) -> Path:
        """The folder of the copies."""
        return self._store.folder

    def prepare(self) -> None:
        """Check before the run that traces can be stored, and continue uploads of earlier kernels.

        Raises ``StoreError``.
        """
        self._store.prepare()
        if self._options.remote:
            self._queue().resume(self._store.folder)

    def keep(self, recording: Recording) -> Recording:
        """Store every cycle and return the recording with the paths of the copies, and with what failed as problems."""
        problems = self._rank_problems() if recording.cycles else []
        cycles = tuple(self._kept(cycle, problems) for cycle in recording.cycles)
        recording = self._with_snapshot(replace(recording, cycles=cycles), problems)
        return replace(recording, problems=(*recording.problems, *problems))

    def _kept(self, cycle: Cycle, problems: list[Problem]) -> Cycle:
        values = replace(self._values, cycle=cycle.number)
        if cycle.steps:
            last = cycle.steps[-1]
            values = replace(values, step=last.number, epoch=last.epoch, batch=last.batch)
        try:
            stored = self._put(cycle.path, self._name(values), values)
        except Exception as exc:  # noqa: BLE001 - the report does not depend on the copy
            problems.append(problem("store.not_stored", reason=_text_of(exc, cycle.path)))
            return cycle
        problems += [problem("store.note", file=stored.path.name, note=note) for note in stored.notes]
        problems += _deleted_of(stored)
        if self._options.remote:
            self._upload(stored.path, problems)
        return replace(cycle, stored=stored.path)

    def _name(self, values: TraceValues) -> str:
        name = self._template.format(values)
        if self._options.tensorboard:  # as torch.profiler.tensorboard_trace_handler names it
            name = f"{socket.gethostname()}_{os.getpid()}.{time.time_ns()}.pt.trace.json"
        return f"{name}.gz" if self._options.gzip and not name.lower().endswith(".gz") else name

    def _put(self, source: Path, name: str, values: TraceValues | None) -> StoredFile:
        """Store under this name, or with a number in it when it is taken."""
        for number in range(1, MAX_NUMBER):
            try:
                return self._store.put(source, numbered(name, number), values)
            except NameTakenError:
                continue
        return self._store.put(source, numbered(name, MAX_NUMBER), values)

    def _with_snapshot(self, recording: Recording, problems: list[Problem]) -> Recording:
        """Store the snapshot beside the traces, unless the user named another file; the notes then name the copy.

        A snapshot that could not be copied, or may not be safe there, stays where it was written.
        """
        source = recording.snapshot
        if source is None or source.parent != recording.folder:
            return recording
        kept = [cycle.stored.name for cycle in recording.cycles if cycle.stored is not None]
        stem, _ = split_suffix(kept[0] if kept else self._template.format(self._values))
        try:
            stored = self._put(source, stem + SNAPSHOT_SUFFIX, None)
        except Exception as exc:  # noqa: BLE001 - the report does not depend on the copy
            problems.append(problem("store.snapshot_not_stored", reason=_text_of(exc, source)))
            return recording
        if stored.notes:
            problems += [problem("store.snapshot_note", file=stored.path.name, note=note) for note in stored.notes]
            return recording
        told = tuple(_with_path(found, source, stored.path) for found in recording.problems)
        return replace(recording, snapshot=stored.path, problems=told)

    def _rank_problems(self) -> list[Problem]:
        """Return a warning when the launcher does not tell the rank; another process may then use the same one."""
        flaw = rank_flaw()
        if not flaw:
            return []
        return [problem("store.rank_unknown", reason=flaw, rank=self._values.rank)]

    def _upload(self, path: Path, problems: list[Problem]) -> None:
        try:
            self._queue().submit(path)
        except StoreError as exc:
            problems.append(problem("store.not_uploaded", error=exc, path=path))

    def _queue(self) -> Uploads:
        remote = self._options.remote
        if remote not in _uploads:
            _uploads[remote] = Uploads(remote, overwrite=self._options.overwrite)
        return _uploads[remote]


def _deleted_of(stored: StoredFile) -> list[Problem]:
    if not stored.deleted:
        return []
    hidden = len(stored.deleted) - MAX_NAMED
    more = f" and {hidden:,} more" if hidden > 0 else ""
    files = ", ".join(stored.deleted[:MAX_NAMED]) + more
    return [problem("store.deleted", folder=stored.path.parent, files=files)]


def _text_of(exc: Exception, source: Path) -> str:
    return str(exc) if isinstance(exc, TorchProfError) else f"{source}: {type(exc).__name__}: {exc}"


def _with_path(found: Problem, source: Path, stored: Path) -> Problem:
    """Return a problem about the snapshot with the path of its copy, which is the file that stays."""
    if found.code not in _NAMES_SNAPSHOT:
        return found
    message, fix = (text.replace(str(source), str(stored)) for text in (found.message, found.fix))
    return replace(found, message=message, fix=fix)


def kept_traces(folder: str) -> tuple[SavedTrace, ...]:
    """Return the traces that any process kept in a folder, in the order in which they were written."""
    return saved_traces(Path(folder).expanduser())


def upload_statuses() -> list[UploadStatus]:
    """Return the state of every upload of this kernel."""
    return [status for uploads in _uploads.values() for status in uploads.statuses()]


def retry_uploads() -> int:
    """Try the failed uploads again and return how many there are."""
    return sum(uploads.retry() for uploads in _uploads.values())
