"""How do traces get to another place in the background, and survive the end of the kernel on the way?

One thread that never holds up the interpreter's end sends one file after the other. What is not done is noted next to
the traces, and ``resume`` in a later kernel goes on. See ``transfer`` for how a file is sent and compared.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import sys
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from torchprof_magic.errors import StoreError
from torchprof_magic.files import locks
from torchprof_magic.files.part_files import delete
from torchprof_magic.files.redaction import secrets_of, told
from torchprof_magic.files.urls import public_url
from torchprof_magic.store import journal
from torchprof_magic.store.journal import Pending
from torchprof_magic.store.template import check_name
from torchprof_magic.store.transfer import (
    Delivery,
    Fingerprint,
    HopelessError,
    check_remote,
    deliver,
    destination,
    has_arrived,
    is_untouched,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
UploadState = Literal["waiting", "uploading", "retrying", "done", "failed"]
UNKNOWN_REMOTE = "the address was given with credentials, which are not kept; give it again to go on"
BUSY_ELSEWHERE = "another process is uploading it"


def pause_seconds(attempt: int) -> float:
    """Return how long to wait after the n-th failed attempt: twice as long each time, and never the same for all."""
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - only keeps many ranks from coming back at once


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadStatus:
    """Where one upload stands. ``remote`` and ``error`` show nothing that may be secret."""

    path: Path
    remote: str
    state: UploadState
    attempt: int = 0
    attempts: int = ATTEMPTS
    error: str = ""

    def __str__(self) -> str:
        """Return the state, with the failed attempts of how many and the last reason: ``retrying (2/5, ...)``."""
        count = f"{self.attempt}/{self.attempts}" if self.attempt and self.state in ("retrying", "failed") else ""
        details = ", ".join(part for part in (count, self.error) if part)
        return f"{self.state} ({details})" if details else self.state


@dataclass(slots=True, kw_only=True)
class _Job:
    """An upload of this process; only its own thread changes it once it is queued."""

    folder: Path
    pending: Pending
    url: str
    claim: int | None
    state: UploadState = "waiting"
    error: str = ""
    due: float = 0.0

    @property
    def path(self) -> Path:
        return self.folder / self.pending.name

    def status(self, attempts: int = ATTEMPTS) -> UploadStatus:
        return UploadStatus(
            path=self.path,
            remote=destination(self.pending.remote, self.pending.name),
            state=self.state,
            attempt=self.pending.attempts,
            attempts=attempts,
            error=self.error,
        )

    def note(self) -> None:
        """Write down where the upload stands. Without room on the disk it goes on, and only this kernel knows."""
        with contextlib.suppress(OSError):
            journal.write(self.folder, self.pending)

    def drop(self) -> None:
        if self.claim is not None:
            locks.drop(journal.claim_path(self.folder, self.pending), self.claim)
            self.claim = None


class Uploads:
    """A queue of files that go to one remote folder, and the thread that sends them.

    ``options`` are for fsspec's file system. With ``delete_local`` a file here is deleted once the one there has been
    compared with it. A different file of the same name there is only replaced with ``overwrite``, or when it is a
    half-written one of an earlier attempt.
    """

    def __init__(
        self,
        remote: str | None,
        *,
        options: Mapping[str, object] | None = None,
        delete_local: bool = False,
        overwrite: bool = False,
        attempts: int = ATTEMPTS,
        pause: Callable[[int], float] = pause_seconds,
    ) -> None:
        self._remote = check_remote(remote) if remote is not None else None
        self._options = dict(options or {})
        self._secrets = secrets_of(remote or "", self._options)
        self._delete_local = delete_local
        self._overwrite = overwrite
        self._attempts = attempts
        self._pause = pause
        self._jobs: dict[tuple[str, str], _Job] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"Uploads({public_url(self._remote) if self._remote else None!r}, {len(self._jobs)} files)"

    def submit(self, path: Path) -> UploadStatus:
        """Queue a finished file and return at once. Raises ``StoreError`` when it cannot be queued."""
        if self._remote is None:
            raise StoreError("there is no --remote to upload to")
        self._refuse_in_child()
        path = path.absolute()
        pending = Pending(
            name=check_name(path.name),
            remote=public_url(self._remote),
            token=secrets.token_hex(8),
            needs_remote=bool(self._options) or public_url(self._remote) != self._remote,
            delete_local=self._delete_local,
            overwrite=self._overwrite,
        )
        with self._changed:
            claim = self._claim(path.parent, pending)
            earlier = journal.find(path.parent, pending)
            if earlier is not None:  # then a half-written file that is there is ours
                pending = replace(pending, token=earlier.token, is_started=earlier.is_started)
            job = _Job(folder=path.parent, pending=pending, url=destination(self._remote, path.name), claim=claim)
            job.note()
            return self._add(job)

    def resume(self, folder: Path) -> tuple[UploadStatus, ...]:
        """Go on with what earlier kernels left unfinished in a folder, and return where that stands."""
        self._refuse_in_child()
        with self._changed:
            return tuple(self._resumed(folder.absolute(), pending) for pending in journal.read_all(folder.absolute()))

    def retry(self) -> int:
        """Queue the failed uploads again and return how many there are."""
        self._refuse_in_child()
        with self._changed:
            failed = [job for job in self._jobs.values() if job.state == "failed"]
            for job in failed:
                job.pending = replace(job.pending, attempts=0, is_failed=False, error="")
                job.state, job.error, job.due = "waiting", "", 0.0
                job.note()
            self._wake()
        return len(failed)

    def statuses(self) -> tuple[UploadStatus, ...]:
        """Return where every upload of this kernel stands, in the order in which they were queued."""
        with self._changed:
            return tuple(job.status(self._attempts) for job in self._jobs.values())

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until nothing is under way, and return whether that is so. Failed uploads are not waited for."""
        self._refuse_in_child()
        with self._changed:
            return self._changed.wait_for(self._is_idle, timeout_seconds)

    def close(self, timeout_seconds: float | None = 0.0) -> bool:
        """Start no further attempt, and return whether everything was done in time; the rest can be resumed."""
        is_done = self.wait(timeout_seconds)
        with self._changed:
            self._is_closed = True
            for job in self._jobs.values():
                if job.state != "uploading":
                    job.drop()
            self._changed.notify_all()
        return is_done

    def _refuse_in_child(self) -> None:
        """A forked child has the queue but not the thread, and its lock may be one that nobody gives back."""
        if os.getpid() != self._pid:
            raise StoreError("uploads belong to the process that began them, and this is a child of it")

    def _claim(self, folder: Path, pending: Pending) -> int | None:
        known = self._jobs.get((str(folder), journal.key_of(pending.name, pending.remote)))
        if known is not None and known.state in ("waiting", "uploading", "retrying") and known.url:
            raise StoreError(f"{pending.name}: it is being uploaded already")
        if known is not None:
            known.drop()
        try:
            claim = locks.claim(journal.claim_path(folder, pending))
        except OSError as exc:
            raise StoreError(f"{folder}: uploads cannot be noted here ({exc.strerror or exc})") from exc
        if claim is None:
            raise StoreError(f"{pending.name}: {BUSY_ELSEWHERE}")
        return claim

    def _resumed(self, folder: Path, pending: Pending) -> UploadStatus:
        url = self._url_for(pending)
        parked = _Job(folder=folder, pending=pending, url="", claim=None, error=UNKNOWN_REMOTE)
        known = self._jobs.get((str(folder), journal.key_of(pending.name, pending.remote)))
        if known is not None and known.url:
            return known.status(self._attempts)
        if not url:
            return self._add(parked)
        try:
            claim = self._claim(folder, pending)
        except StoreError as exc:
            return replace(parked.status(), error=str(exc).partition(": ")[2])
        job = _Job(folder=folder, pending=replace(pending, attempts=0), url=url, claim=claim)
        if pending.is_failed:
            job.state, job.error = "failed", pending.error
        return self._add(job)

    def _url_for(self, pending: Pending) -> str:
        """Return the whole address of an upload of an earlier kernel, or nothing when it is not known."""
        if self._remote is not None and public_url(self._remote) == pending.remote:
            return destination(self._remote, pending.name)
        return "" if pending.needs_remote else destination(pending.remote, pending.name)

    def _add(self, job: _Job) -> UploadStatus:
        with self._changed:
            self._jobs[str(job.folder), journal.key_of(job.pending.name, job.pending.remote)] = job
            self._wake()
            return job.status(self._attempts)

    def _wake(self) -> None:
        """Start the thread, or tell it that there is something to do."""
        if self._is_closed:
            return
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="torchprof-uploads", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _is_idle(self) -> bool:
        return not any(_is_open(job) for job in self._jobs.values())

    def _run(self) -> None:
        while (job := self._next()) is not None:
            self._attempt(job)

    def _next(self) -> _Job | None:
        """Wait for the upload that is due first, and return it as one under way; without any left the thread ends."""
        with self._changed:
            while not self._is_closed and not self._is_idle():
                job = min((job for job in self._jobs.values() if _is_open(job)), key=lambda job: job.due)
                rest = job.due - time.monotonic()
                if rest <= 0:
                    job.state = "uploading"
                    return job
                self._changed.wait(rest)
            self._thread = None  # the next upload starts another
        return None

    def _attempt(self, job: _Job) -> None:
        """Try once, and note how it went. Nothing that happens here may end the thread."""
        try:
            self._deliver(job)
        except BaseException as exc:  # noqa: BLE001 - libraries raise what they like, and the others must go on
            if sys.is_finalizing():
                return
            self._end(job, exc)
        else:
            self._end(job, None)

    def _deliver(self, job: _Job) -> None:
        pending = job.pending
        if pending.digest and not os.path.lexists(job.path):
            self._check_gone(job)
            return
        delivery = Delivery(
            path=job.path,
            url=job.url,
            token=pending.token,
            overwrite=pending.overwrite,
            is_started=pending.is_started,
        )
        local = deliver(delivery, self._options, lambda local: _begin(job, local))
        if pending.delete_local:
            _begin(job, local)  # if the kernel ends now, the next one must know what is there
            if not is_untouched(job.path, local):
                raise StoreError("the local file was changed while it was uploaded")
            delete(job.path)

    def _check_gone(self, job: _Job) -> None:
        """The local file was deleted after an upload, or by somebody before it; the other side knows."""
        if not has_arrived(job.url, self._options, job.pending.size_bytes, job.pending.digest):
            raise HopelessError("the local file is gone, and it has not arrived")

    def _end(self, job: _Job, exc: BaseException | None) -> None:
        with self._changed:
            if exc is None:
                job.state, job.error = "done", ""
                with contextlib.suppress(OSError):
                    journal.remove(job.folder, job.pending)
            else:
                self._count(job, exc)
                job.note()
            if exc is None or self._is_closed:
                job.drop()
            self._changed.notify_all()

    def _count(self, job: _Job, exc: BaseException) -> None:
        """Note a failed attempt: there is another one later, or it was the last."""
        attempts = job.pending.attempts + 1
        job.error = str(exc) if isinstance(exc, StoreError) else told(exc, self._secrets)
        is_failed = isinstance(exc, HopelessError) or attempts >= self._attempts
        job.pending = replace(job.pending, attempts=attempts, is_failed=is_failed, error=job.error)
        job.state = "failed" if is_failed else "retrying"
        job.due = time.monotonic() + self._pause(attempts)


def _is_open(job: _Job) -> bool:
    return bool(job.url) and job.state in ("waiting", "uploading", "retrying")


def _begin(job: _Job, local: Fingerprint) -> None:
    """Note that the other side may from now on hold a part of this file."""
    job.pending = replace(job.pending, is_started=True, size_bytes=local.size_bytes, digest=local.sha256)
    job.note()


def resume(
    folder: Path,
    remote: str | None = None,
    *,
    options: Mapping[str, object] | None = None,
    attempts: int = ATTEMPTS,
    pause: Callable[[int], float] = pause_seconds,
) -> Uploads:
    """Return a queue that goes on with what earlier kernels left in a folder.

    ``remote`` is needed for uploads to an address with credentials, which are kept nowhere.
    """
    uploads = Uploads(remote, options=options, attempts=attempts, pause=pause)
    uploads.resume(folder)
    return uploads
