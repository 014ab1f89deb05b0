"""The traces of a run that are kept: copies in a folder of the user's, and their uploads."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.model.errors import StoreError, TorchProfError
from torchprof_magic.model.meta import encodable
from torchprof_magic.model.problems import problem
from torchprof_magic.model.trace import SAVED_TRACES_SCHEMA
from torchprof_magic.model.units import format_count
from torchprof_magic.store.template import (
    TraceValues,
    check_name,
    number_in,
    numbered,
    parse_filename,
    parse_folder,
    parse_remote,
    split_suffix,
)
from torchprof_magic.store.trace_store import NameTakenError, TraceStore, saved_traces
from torchprof_magic.store.transfer import destination
from torchprof_magic.store.upload import Uploads
from torchprof_magic.system.files.urls import public_url
from torchprof_magic.system.process.distributed import rank_flaw, ranks

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.model.meta import Problem, StepMark
    from torchprof_magic.model.recording import Cycle, Recording
    from torchprof_magic.options import KeepOptions
    from torchprof_magic.store.trace_store import SavedTrace, StoredFile
    from torchprof_magic.store.upload import UploadStatus

DEFAULT_FILENAME = "{run_name}-{timestamp}.pt.trace.json"
DEFAULT_RUN_NAME = "run"
NS_PER_S = 1_000_000_000
# A name that is taken gets a number. With this many taken one after the other, the folder has another problem.
MAX_TRIES = 1000
KEEP_ALL = -1
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
    With ``is_first_only``, later cycles are left out: nobody has asked for the details that they are of.
    """

    def __init__(self, options: KeepOptions, *, cycles: int | None, cell: int = 0, is_first_only: bool = False) -> None:
        self._options = options
        values = TraceValues(run_name=options.run_name or DEFAULT_RUN_NAME, cell=cell, **ranks()._asdict())
        self._values = _counted(values, options, batch=0, batch_in_epoch=0)
        self._store = TraceStore(
            folder=Path(parse_folder(options.trace_dir).format(self._values)),
            overwrite=options.overwrite,
            keep_last=None if options.keep_last == KEEP_ALL else options.keep_last,
        )
        self._remote = parse_remote(options.remote).format(self._values) if options.remote else ""
        self._kept_names: list[str] = []
        template = parse_filename(options.filename or DEFAULT_FILENAME)
        self._is_first_only = is_first_only
        self._template = template.told_apart(cycles=1 if is_first_only else cycles, world_size=self._values.world_size)
        self._template.format(self._values)
        if options.worker_name:
            check_name(options.worker_name, "--worker-name")

    @property
    def folder(self) -> Path:
        """The folder of the copies."""
        return self._store.folder

    def prepare(self) -> None:
        """Check before the run that traces can be stored, and continue uploads of earlier kernels.

        Raises ``StoreError``.
        """
        self._store.prepare()
        if self._remote:
            self._queue().resume(self._store.folder, self._prune)

    def keep(self, recording: Recording) -> Recording:
        """Store every cycle and return the recording with the paths of the copies, and with what failed as problems.

        Copies that will be deleted once they are uploaded are left out.
        """
        problems = self._rank_problems() if recording.cycles else []
        cycles = tuple(self._kept(cycle, problems) for cycle in recording.cycles)
        recording = self._with_snapshot(replace(recording, cycles=cycles), problems)
        if self._store.keep_last == 0:
            recording = replace(recording, cycles=tuple(replace(cycle, stored=None) for cycle in recording.cycles))
        return replace(recording, problems=(*recording.problems, *problems))

    def _kept(self, cycle: Cycle, problems: list[Problem]) -> Cycle:
        if self._is_first_only and cycle.number:
            return cycle
        values = replace(self._values, cycle=cycle.number)
        if cycle.steps:
            last = cycle.steps[-1]
            values = _counted(
                _at_end_of(last, values),
                self._options,
                batch=last.number + last.is_complete,
                batch_in_epoch=last.batch + last.is_complete,
            )
        queue = partial(self._upload, problems=problems) if self._remote else None
        try:
            stored = self._put(cycle.path, self._name(values), values, queue)
        except Exception as exc:  # noqa: BLE001 - the report does not depend on the copy
            problems.append(problem("store.not_stored", reason=_text_of(exc, cycle.path)))
            return cycle
        problems += [problem("store.note", file=stored.path.name, note=note) for note in stored.notes]
        problems += _deleted_of(stored)
        self._kept_names.append(stored.path.name)
        return replace(cycle, stored=stored.path)

    def _name(self, values: TraceValues) -> str:
        name = self._template.format(values)
        if self._options.tensorboard:  # as torch.profiler.tensorboard_trace_handler names it
            worker = self._options.worker_name or f"{socket.gethostname()}_{os.getpid()}"
            name = f"{worker}.{time.time_ns()}.pt.trace.json"
        return f"{name}.gz" if self._options.gzip and not name.lower().endswith(".gz") else name

    def _put(
        self, source: Path, name: str, values: TraceValues | None, queue: Callable[[Path], object] | None = None
    ) -> StoredFile:
        """Store under this name, or with a number in it when it is taken, or was given to a trace before."""
        used = () if self._options.overwrite else self._store.used_names()
        first = 1 + max((number_in(each, name) for each in used), default=0)
        for number in range(first, first + MAX_TRIES):
            try:
                return self._store.put(source, numbered(name, number), values, queue)
            except NameTakenError:
                continue
        return self._store.put(source, numbered(name, first + MAX_TRIES), values, queue)

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
            self._queue().submit(path, self._prune)
        except StoreError as exc:
            problems.append(problem("store.not_uploaded", error=exc, path=path))

    def _queue(self) -> Uploads:
        remote = self._remote
        if remote not in _uploads:
            _uploads[remote] = Uploads(remote, overwrite=self._options.overwrite)
        return _uploads[remote]

    def _prune(self) -> None:
        """Delete what was kept only until it was uploaded; called on the thread of the uploads."""
        self._store.prune(self._values.rank)

    def saved_traces(self) -> pl.DataFrame:
        """Return the traces of this run that were kept, in the order in which they were written, as they are now."""
        names = set(self._kept_names)
        saved = [trace for trace in saved_traces(self._store.folder) if trace.path.name in names]
        uploads = {status.path: status for status in upload_statuses()}
        return pl.DataFrame(
            [_saved_row(trace, uploads.get(trace.path), self._remote) for trace in saved],
            schema=SAVED_TRACES_SCHEMA,
            orient="row",
        )


def _saved_row(trace: SavedTrace, upload: UploadStatus | None, remote: str) -> tuple[object, ...]:
    where = upload.remote if upload else destination(public_url(remote), trace.path.name) if remote else None
    state = upload.state if upload else "not queued" if remote else None
    return (
        encodable(str(trace.path)), trace.timestamp, trace.step, trace.cycle, trace.rank, trace.size_bytes, trace.state,
        where and encodable(where), state, upload.error or None if upload else None,
    )  # fmt: skip


def _counted(values: TraceValues, options: KeepOptions, *, batch: int, batch_in_epoch: int) -> TraceValues:
    """Return the values with the counts of batches that have ended, and of their samples and tokens if told."""
    samples, tokens = options.step_samples, options.step_tokens
    return replace(
        values,
        batch=batch,
        batch_in_epoch=batch_in_epoch,
        sample=None if samples is None else batch * samples,
        sample_in_epoch=None if samples is None else batch_in_epoch * samples,
        token=None if tokens is None else batch * tokens,
        token_in_epoch=None if tokens is None else batch_in_epoch * tokens,
    )


def _at_end_of(mark: StepMark, values: TraceValues) -> TraceValues:
    """Return the values at the end of a step."""
    return replace(
        values,
        step=mark.number,
        epoch=mark.epoch,
        total_wct=mark.run_ns / NS_PER_S,
        epoch_wct=mark.epoch_ns / NS_PER_S,
        batch_wct=mark.step_ns / NS_PER_S,
    )


def _deleted_of(stored: StoredFile) -> list[Problem]:
    if not stored.deleted:
        return []
    hidden = len(stored.deleted) - MAX_NAMED
    more = f" and {format_count(hidden)} more" if hidden > 0 else ""
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


def upload_statuses() -> list[UploadStatus]:
    """Return the state of every upload of this kernel."""
    return [status for uploads in _uploads.values() for status in uploads.statuses()]


def retry_uploads() -> int:
    """Try the failed uploads again and return how many there are."""
    return sum(uploads.retry() for uploads in _uploads.values())
