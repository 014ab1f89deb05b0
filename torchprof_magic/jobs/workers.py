"""Processes of our own that read files, for when the user names no engine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import msgspec

from torchprof_magic.jobs.wire import Sent
from torchprof_magic.jobs.worker import LENGTH_BYTES
from torchprof_magic.system.process.cores import usable_cores
from torchprof_magic.system.process.memory import free_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")
# What a worker takes before it reads, and how many times the size of its packed file it takes to read that.
_BASE_BYTES, _TIMES_FILE = 250 << 20, 40
# Reading takes about this long for a file, and for each of its bytes, on one core; starting workers takes longer than
# the least.
_FILE_S, _BYTE_S, LEAST_S = 0.06, 2.5e-7, 3.0


def worth_workers(sizes: list[int]) -> int:
    """Return how many workers files of these sizes are worth, by their time, the cores and the free memory."""
    seconds = sum(_FILE_S + _BYTE_S * size for size in sizes)
    cores = usable_cores()
    fitting = free_bytes() // (_BASE_BYTES + _TIMES_FILE * max(sizes, default=0))
    count = min(cores, len(sizes), max(int(fitting), 1))
    return count if seconds >= LEAST_S and count > 1 and sys.executable else 1


class Workers(Executor):
    """Runs ``frames_of`` in processes that import nothing of the user's program.

    ``ProcessPoolExecutor`` would run the user's script again in each of its processes, unless that is guarded, and a
    fork of a process that has used polars hangs.
    """

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="torchprof-worker")
        self._local = threading.local()
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._is_ended = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a worker read one file; ``fn`` must be ``frames_of``, with the source as its only argument."""
        source = str(args[0])
        del fn, kwargs
        return self._pool.submit(self._ask, source)  # type: ignore[arg-type]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the workers, at once with ``cancel_futures``."""
        if cancel_futures:
            self._end()
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)
        self._end()

    def _end(self) -> None:
        with self._lock:
            self._is_ended = True
            processes = list(self._processes)
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):  # what was not sent cannot be any more
                        stream.close()
        self._processes.clear()

    def _ask(self, source: str) -> Sent:
        process = self._worker()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(source) + b"\n")
            process.stdin.flush()
            length = int.from_bytes(process.stdout.read(LENGTH_BYTES), "little")
            return msgspec.msgpack.decode(process.stdout.read(length), type=Sent)
        except (OSError, ValueError):  # it has ended, and its answer is cut off
            self._local.process = None
            raise RuntimeError("the process that read it has ended; there may be too little memory") from None

    def _worker(self) -> subprocess.Popen[bytes]:
        """Return the process of this thread, started with its first file."""
        process: subprocess.Popen[bytes] | None = getattr(self._local, "process", None)
        if process is not None:
            return process
        with self._lock:
            if self._is_ended:
                raise RuntimeError("the workers have ended")
            process = subprocess.Popen(
                [sys.executable, "-m", "torchprof_magic.jobs.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            self._processes.append(process)
        self._local.process = process
        return process
