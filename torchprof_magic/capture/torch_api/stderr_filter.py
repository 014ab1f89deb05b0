"""Keeping Kineto's log lines out of the output of the cell.

torch 2.13 writes ``USDT:... profiler_start`` and ``profiler_stop`` to file descriptor 2 for every session, which
ipykernel shows in the cell. Descriptor 2 is redirected only while torch itself runs, never around the user's code, and
all other lines are passed on.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchprof_magic.capture.parts import STDERR, Parts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

STDERR_FD = 2
# Log lines of Kineto and the profiler. What matters in them is checked and reported by this package. DeviceProperties
# says of every build for CUDA on a machine without a driver that it counts no device.
NOISE = re.compile(
    rb"(?<![^\r\n])[^\r\n]*"
    rb"(?:SyncActivityProfilerHandler|profiler_kineto|output_json|CPUAllocator|collection|execution_trace_observer"
    rb"|DeviceProperties)\.cpp"
    rb"[^\r\n]*(?:\r\n?|\n)?"
)


class StderrFilter:
    """Redirects file descriptor 2 during calls into torch's profiler."""

    def __init__(self, parts: Parts | None = None) -> None:
        self._file: IO[bytes] | None = None
        self._parts = parts or Parts()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Drop the profiler's lines written to descriptor 2 within; pass all other lines on at the end.

        If no file descriptor is left, all lines pass.
        """
        nothing: tuple[IO[bytes] | None, int] = None, -1
        sink, saved = self._parts.ask(STDERR, self._redirected, default=nothing)
        if sink is None:
            yield
            return
        try:
            yield
        finally:
            if saved < 0:
                os.close(STDERR_FD)
            else:
                os.dup2(saved, STDERR_FD)
                os.close(saved)
            self._parts.run(STDERR, self._pass_on, sink, saved >= 0)

    def _redirected(self) -> tuple[IO[bytes] | None, int]:
        """Redirect descriptor 2, and return the file it goes to, if any, and a copy of the descriptor, or -1."""
        sink, saved = self._places()
        if sink is not None:
            os.dup2(sink.fileno(), STDERR_FD)
        return sink, saved

    def _places(self) -> tuple[IO[bytes] | None, int]:
        """Return the file that replaces descriptor 2, if any, and a copy of the descriptor, or -1."""
        try:
            sink = self._sink()
            return sink, os.dup(STDERR_FD)
        except OSError as exc:
            if exc.errno != errno.EBADF or self._file is None:
                return None, -1
            return self._file, -1  # it is closed: the trace file itself could get this number, so occupy it

    def close(self) -> None:
        """Release the buffer file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _sink(self) -> IO[bytes]:
        if self._file is None:
            try:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - lives as long as the session
            except OSError:
                self._file = open(os.devnull, "r+b", buffering=0)  # noqa: SIM115, PTH123 - no disk space: lines are lost
            if self._file.fileno() == STDERR_FD:
                squatter, self._file = self._file, os.fdopen(os.dup(STDERR_FD), "r+b", buffering=0)
                squatter.close()
            weakref.finalize(self, self._file.close)  # a session can be dropped without its end
        return self._file

    @staticmethod
    def _pass_on(sink: IO[bytes], is_open: bool) -> None:
        size = sink.tell()
        if not size:
            return
        sink.seek(0)
        written = sink.read(size)
        sink.seek(0)
        sink.truncate()
        rest = NOISE.sub(b"", written)
        if rest and is_open:
            os.write(STDERR_FD, rest)
