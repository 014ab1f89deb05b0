"""Uploads in the background, which continue in the next kernel when this one ends first.

A daemon thread sends one file after the other, so it never delays the end of the interpreter. What is not done is saved
among the records of their folder; see ``journal``. See ``transfer`` for how a file is sent and compared.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from torchprof_magic.model.errors import StoreError
from torchprof_magic.store import journal
from torchprof_magic.store.records import make_records, records_of
from torchprof_magic.store.template import check_name
from torchprof_magic.store.transfer import Delivery, HopelessError, check_remote, deliver, destination
from torchprof_magic.system.files import locks
from torchprof_magic.system.files.redaction import secrets_of, told
from torchprof_magic.system.files.urls import public_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchprof_magic.store.journal import Pending

ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
UploadState = Literal["waiting", "uploading", "retrying", "done", "failed"]
_OPEN_STATES = ("waiting", "uploading", "retrying")


def pause_seconds(attempt: int) -> float:
    """Return how long to wait after the n-th failed attempt: about twice as long each time."""
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - keeps many ranks from coming back at once


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadStatus:
    """The state of one upload. ``remote`` and ``error`` hold no credentials."""

    path: Path
    remote: str
    state: UploadState
    attempt: int = 0
    error: str = ""

    def __str__(self) -> str:
        """Return the state, the failed attempts and the last error: ``retrying (2/5, ...)``."""
        count = f"{self.attempt}/{ATTEMPTS}" if self.attempt and self.state in ("retrying", "failed") else ""
        details = ", ".join(part for part in (count, self.error) if part)
        return f"{self.state} ({details})" if details else self.state


@dataclass(slots=True, kw_only=True)
class _Job:
    """An upload of this process; once it is queued, only the thread changes it."""

    folder: Path
    pending: Pending
    claim: int | None
    state: UploadState = "waiting"
    attempts: int = 0
    error: str = ""
    due: float = 0.0
    then: Callable[[], object] | None = None

    @property
    def path(self) -> Path:
        return self.folder / self.pending.name

    @property
    def is_open(self) -> bool:
        return self.state in _OPEN_STATES

    def status(self) -> UploadStatus:
        return UploadStatus(
            path=self.path,
            remote=destination(self.pending.remote, self.pending.name),
            state=self.state,
            attempt=self.attempts,
            error=self.error,
        )

    def update(self, **changes: str | bool) -> None:
        """Change what is saved for the next kernel. Without space on the disk only this kernel knows."""
        self.pending = replace(self.pending, **changes)
        with contextlib.suppress(OSError):
            journal.write(self.folder, self.pending)

    def drop(self) -> None:
        if self.claim is not None:
            locks.drop(journal.claim_path(self.folder, self.pending), self.claim)
            self.claim = None


class Uploads:
    """A queue of files for one remote folder, and the thread that sends them.

    A different remote file of the same name is replaced only with ``overwrite``, or when it is an incomplete one of an
    earlier attempt.
    """

    def __init__(self, remote: str, *, overwrite: bool = False) -> None:
        self._remote = check_remote(remote)
        self._public = public_url(remote)
        self._secrets = secrets_of(remote)
        self._overwrite = overwrite
        self._jobs: dict[tuple[Path, str], _Job] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"Uploads({self._public!r}, {len(self._jobs)} files)"

    def submit(self, path: Path, then: Callable[[], object] | None = None) -> None:
        """Queue a finished file and return at once; ``then`` is called on the thread that has sent it.

        Raises ``StoreError`` when it cannot be queued.
        """
        self._refuse_in_child()
        folder, name = path.absolute().parent, check_name(path.name)
        pending = journal.Pending(name=name, remote=self._public, token=secrets.token_hex(8), overwrite=self._overwrite)
        with self._changed:
            known = self._jobs.get((folder, name))
            if known is not None and known.is_open:
                raise StoreError(f"{name}: it is already being uploaded")
            if known is not None:
                known.drop()
            claim = self._claim(folder, pending)
            earlier = journal.find(folder, pending)
            if earlier is not None:  # then an incomplete remote file is ours
                pending = replace(pending, token=earlier.token, is_started=earlier.is_started)
            job = _Job(folder=folder, pending=pending, claim=claim, then=then)
            job.update()
            self._add(job)

    def resume(self, folder: Path, then: Callable[[], object] | None = None) -> None:
        """Continue what earlier kernels left in a folder for the same remote folder; failed ones wait for ``retry``.

        ``then`` is called after each of them.
        """
        self._refuse_in_child()
        folder = folder.absolute()
        with self._changed:
            for pending in journal.read_all(folder):
                if pending.remote != self._public or (folder, pending.name) in self._jobs:
                    continue
                with contextlib.suppress(StoreError):  # another process is uploading it
                    job = _Job(folder=folder, pending=pending, claim=self._claim(folder, pending), then=then)
                    if pending.is_failed:
                        job.state, job.error = "failed", pending.error
                    self._add(job)

    def retry(self) -> int:
        """Queue the failed uploads again and return how many there are."""
        self._refuse_in_child()
        with self._changed:
            failed = [job for job in self._jobs.values() if job.state == "failed"]
            for job in failed:
                job.state, job.attempts, job.error, job.due = "waiting", 0, "", 0.0
                job.update(is_failed=False, error="")
                self._add(job)
        return len(failed)

    def statuses(self) -> tuple[UploadStatus, ...]:
        """Return the state of every upload of this kernel, in the order in which they were queued."""
        with self._changed:
            return tuple(job.status() for job in self._jobs.values())

    def _refuse_in_child(self) -> None:
        """A forked child has the queue without its thread, and a copy of its lock that may be held for ever."""
        if os.getpid() != self._pid:
            raise StoreError("uploads are not available in a forked child process")

    def _claim(self, folder: Path, pending: Pending) -> int:
        try:
            make_records(folder)
            claim = locks.claim(journal.claim_path(folder, pending))
        except OSError as exc:
            reason = exc.strerror or exc
            raise StoreError(f"{records_of(folder)}: cannot save the state of uploads here ({reason})") from exc
        if claim is None:
            raise StoreError(f"{pending.name}: another process is uploading it")
        return claim

    def _add(self, job: _Job) -> None:
        """Queue an upload, and start the thread or wake it."""
        self._jobs[job.folder, job.pending.name] = job
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="torchprof-uploads", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            self._attempt(job)

    def _next(self) -> _Job | None:
        """Wait for the upload that is due first and return it; the thread ends when none is left."""
        with self._changed:
            while waiting := [job for job in self._jobs.values() if job.is_open]:
                job = min(waiting, key=lambda job: job.due)
                rest = job.due - time.monotonic()
                if rest <= 0:
                    job.state = "uploading"
                    return job
                self._changed.wait(rest)
            self._thread = None  # the next upload starts another one
        return None

    def _attempt(self, job: _Job) -> None:
        """Try once and save the result. No exception may end the thread."""
        delivery = Delivery(
            path=job.path,
            url=destination(self._remote, job.pending.name),
            token=job.pending.token,
            overwrite=job.pending.overwrite,
            is_started=job.pending.is_started,
        )
        try:
            deliver(delivery, lambda: job.update(is_started=True))
        except BaseException as exc:  # noqa: BLE001 - libraries raise anything, and the other uploads must go on
            if not sys.is_finalizing():
                self._fail(job, exc)
            return
        with contextlib.suppress(OSError):
            journal.remove(job.folder, job.pending)
        error = _after(job)
        with self._changed:
            job.state, job.error = "done", error
            job.drop()
            self._changed.notify_all()

    def _fail(self, job: _Job, exc: BaseException) -> None:
        """Save a failed attempt: another one follows, or it was the last."""
        with self._changed:
            job.attempts += 1
            job.error = str(exc) if isinstance(exc, StoreError) else told(exc, self._secrets)
            is_failed = isinstance(exc, HopelessError) or job.attempts >= ATTEMPTS
            job.state = "failed" if is_failed else "retrying"
            job.due = time.monotonic() + pause_seconds(job.attempts)
            job.update(is_failed=is_failed, error=job.error)
            self._changed.notify_all()


def _after(job: _Job) -> str:
    """Do what comes after an upload, and return what went wrong with it. No exception may end the thread."""
    try:
        if job.then is not None:
            job.then()
    except Exception as exc:  # noqa: BLE001 - the file has arrived, and the other uploads must go on
        return f"{type(exc).__name__}: {exc}"
    return ""
