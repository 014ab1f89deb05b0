"""Sends every file to a worker of an engine, and collects what comes back."""

from __future__ import annotations

import importlib.metadata
from concurrent.futures import FIRST_COMPLETED, Executor, wait
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING

from torchprof_magic.jobs.wire import Sent, failed
from torchprof_magic.jobs.work import frames_of
from torchprof_magic.jobs.workers import Workers, worth_workers
from torchprof_magic.model.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from torchprof_magic.system.files.place import Place

    Progress = Callable[[int, int], None]

PACKAGE = "torchprof-magic"
# Some engines never answer for a module that their workers lack, so they are asked for it first, with Python's own.
PROBE_S = 120.0
_LOOK_S = 0.2
_REMOTE_BYTES = 1 << 20


def gather(files: Sequence[Place], executor: Executor | None, progress: Progress | None) -> list[Sent]:
    """Return what the worker of each file sent, in their order.

    ``progress`` is called with the number of files that are done, and of all. An exception in it, or an interrupt, ends
    the work: what has not begun is cancelled.
    """
    if executor is not None:
        _probe(executor)
        return _on(executor, files, progress)
    count = worth_workers([_size(file) for file in files])
    if count == 1:
        return _one_by_one(files, progress)
    workers = Workers(count)
    is_done = False
    try:
        found = _on(workers, files, progress)
        is_done = True
    finally:
        workers.shutdown(cancel_futures=not is_done)
    return found


def _size(file: Place) -> int:
    return _REMOTE_BYTES if file.path is None else file.size_bytes or 0


def _one_by_one(files: Sequence[Place], progress: Progress | None) -> list[Sent]:
    found = []
    for file in files:
        found.append(frames_of(file.text))
        if progress is not None:
            progress(len(found), len(files))
    return found


def _on(executor: Executor, files: Sequence[Place], progress: Progress | None) -> list[Sent]:
    futures: dict[Future[Sent], int] = {}
    found: dict[int, Sent] = {}
    try:
        for number, file in enumerate(files):
            futures[executor.submit(frames_of, file.text)] = number
        pending = set(futures)
        while pending:
            done, pending = wait(pending, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
            for future in done:
                found[futures[future]] = _result(future, files[futures[future]])
            if done and progress is not None:
                progress(len(found), len(files))
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return [found[number] for number in range(len(files))]


def _result(future: Future[Sent], file: Place) -> Sent:
    try:
        return future.result()
    except Exception as exc:  # noqa: BLE001 - engines wrap what fails on a worker each in their own way
        text = f"{file.shown}: the worker that read it failed ({type(exc).__name__}: {exc})"
        return failed(file.text, file.shown, text)


def _probe(executor: Executor) -> None:
    """Raise ``IngestError`` if the workers cannot import this package, or have another version of it."""
    try:
        own = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return  # it is not installed here, but only on the path
    future = executor.submit(importlib.metadata.version, PACKAGE)
    try:
        theirs = future.result(PROBE_S)
    except (FutureTimeout, TimeoutError):
        future.cancel()
        raise IngestError(f"no worker of this executor answered within {PROBE_S:.0f} s") from None
    except Exception as exc:
        raise IngestError(
            f"the workers of this executor cannot use {PACKAGE} ({type(exc).__name__}: {exc}). Install it where they "
            "run, in their Python"
        ) from exc
    if not isinstance(theirs, str):  # a DirectView of ipyparallel
        raise IngestError(
            "this executor runs each task on all of its workers. Use one that shares the tasks out, such as "
            "client.load_balanced_view().executor"
        )
    if theirs != own:
        raise IngestError(f"the workers of this executor have {PACKAGE} {theirs}, and this process has {own}")
