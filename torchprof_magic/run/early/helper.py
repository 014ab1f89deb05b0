"""The process that makes early reports, as the kernel sees it."""

from __future__ import annotations

import atexit
import contextvars
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from torchprof_magic.run.early.wire import GIVE_WAY, Asked, Made, made_of, read, write
from torchprof_magic.system.process.cores import usable_cores
from torchprof_magic.system.process.memory import free_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

# What the process takes, beside what it reads.
_LEAST_FREE_BYTES = 1 << 30
_LEAST_CORES = 2
# Whether the process works only while a core has nothing else to do.
gives_way = True
_QUIET = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def is_possible() -> bool:
    """Return whether this machine has a core and the memory for another process."""
    return bool(sys.executable) and usable_cores() >= _LEAST_CORES and free_bytes() >= _LEAST_FREE_BYTES


def has_process() -> bool:
    """Return whether the process is there already."""
    return _spare is not None and _spare.poll() is None and _owner_pid == os.getpid()


class Helper:
    """Makes early reports in another process, and calls ``show`` with each on a thread of its own.

    The process is started with the first ``Helper``, and the next ones use it again. A request that comes while another
    one is worked on waits, and only the newest one does. After ``end`` nothing is shown. ``failure`` says what went
    wrong.
    """

    def __init__(self, show: Callable[[Made], object]) -> None:
        self.failure = ""
        self._show = show
        self._process = _spare_process()
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._waiting: Asked | None = None
        self._is_busy = False
        self._is_ended = False
        self._thread: threading.Thread | None = None
        # What is shown belongs to the cell that runs now, which the kernel knows by the context.
        self._context = contextvars.copy_context()

    def ask(self, request: Asked) -> None:
        """Have the report of a recording made."""
        with self._news:
            if self._is_ended:
                return
            self._waiting = request
            self._news.notify()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._context.run, args=(self._work,), name="torchprof-early", daemon=True
            )
            self._thread.start()

    def end(self) -> None:
        """Show nothing any more; what the process still works on is not needed."""
        with self._news:
            self._is_ended = True
            self._news.notify()
            if self._is_busy:  # its thread then waits until it is gone
                _forget(self._process)
                self._process.kill()

    def _work(self) -> None:
        try:
            while (request := self._next()) is not None and (made := self._made(request)) is not None:
                with self._lock:
                    self._is_busy = False
                    self.failure = made.error
                    if not (self._is_ended or made.error):
                        self._show(made)
        except Exception as exc:  # noqa: BLE001 - nobody else would hear of it
            self.failure = f"{type(exc).__name__}: {exc}"
        finally:
            if self._is_busy or self._process.poll() is not None:
                _forget(self._process)
                _reap(self._process)

    def _made(self, request: Asked) -> Made | None:
        """Return what the process makes of a request; ``None`` if it has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            write(self._process.stdin, request)
            packed = read(self._process.stdout)
            sys.setprofile(None)  # with stacks, torch would record what follows
        except OSError:
            return None
        return None if packed is None else made_of(packed)

    def _next(self) -> Asked | None:
        with self._news:
            self._news.wait_for(lambda: self._is_ended or self._waiting is not None)
            request, self._waiting = self._waiting, None
            self._is_busy = request is not None and not self._is_ended
            return request if self._is_busy else None


_spare: subprocess.Popen[bytes] | None = None
_owner_pid = 0


def _spare_process() -> subprocess.Popen[bytes]:
    """Return the process of this kernel, started now if there is none."""
    global _spare, _owner_pid  # noqa: PLW0603 - one per process
    if _spare is None or not has_process():
        _spare = subprocess.Popen(  # noqa: S603 - this interpreter, with a module of ours
            [sys.executable, "-m", "torchprof_magic.run.early.worker", *([GIVE_WAY] if gives_way else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_QUIET, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        _owner_pid = os.getpid()
    return _spare


def _forget(process: subprocess.Popen[bytes]) -> None:
    """Have the next helper start another process."""
    global _spare  # noqa: PLW0603 - the same
    if process is _spare:
        _spare = None


def _reap(process: subprocess.Popen[bytes]) -> None:
    """End a process, and wait until it is gone."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):  # what was not sent cannot be any more
                stream.close()


@atexit.register
def end_process() -> None:
    """End the process of this kernel."""
    if _spare is not None and _owner_pid == os.getpid():
        process = _spare
        _forget(process)
        _reap(process)
