"""Files that a system calls regular and that are none."""

from __future__ import annotations

import io
import itertools
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from torchprof_magic.ingest import regular
from torchprof_magic.loading import load
from torchprof_magic.model.errors import IngestError, NotATraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

EVENT = b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1},\n'


class Endless(io.RawIOBase):
    """A file of which there is always more, as programs can make up; a system tells any size for it."""

    def __init__(self, told: IO[bytes]) -> None:
        self._told = told
        self._at = 0

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._told.fileno()

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, at: int, whence: int = os.SEEK_SET) -> int:
        self._at = at if whence == os.SEEK_SET else 0
        return self._at

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        text = (b'{"traceEvents": [\n' if self._at == 0 else b"") + EVENT * (len(buffer) // len(EVENT) + 1)
        buffer[:] = text[: len(buffer)]
        self._at += len(buffer)
        return len(buffer)


@pytest.fixture
def endless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    file, real = tmp_path / "trace.json", Path.open
    file.write_bytes(b"")
    with file.open("rb") as told:
        monkeypatch.setattr(
            Path,
            "open",
            lambda path, *args, **more: io.BufferedReader(Endless(told)) if path == file else real(path, *args, **more),
        )
        yield file


def test_a_file_without_an_end_is_given_up_by_its_size(endless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular, "MOST_UNTOLD_BYTES", 1 << 20)
    with pytest.raises(IngestError, match=r"trace\.json: the file goes on beyond the size that its system tells"):
        load(endless)


def test_a_file_without_an_end_is_given_up_when_it_takes_too_long(
    endless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = itertools.count(0, 25)
    monkeypatch.setattr(regular.time, "monotonic", lambda: next(moments))
    with pytest.raises(IngestError, match="so it is a stream and not a recording"):
        load(endless)


def test_a_file_that_waits_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As a file of the kernel that is read until something happens; a pipe that is open for writing waits like it.
    pipe = tmp_path / "trace_pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    monkeypatch.setattr(regular.stat, "S_ISREG", lambda _mode: True)
    try:
        with pytest.raises(IngestError, match="the file waits for something to be written"):
            load(pipe)
    finally:
        os.close(writer)


def test_a_file_that_grows_while_it_is_read_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "trace.json"
    file.write_bytes(b'{"traceEvents": [' + EVENT * 50 + EVENT.rstrip(b",\n") + b"]}")
    monkeypatch.setattr(regular.os, "fstat", lambda _: os.stat_result((0,) * 10))  # of a size of 0, as in /proc
    assert load(file).events.height == 51


@pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="a system without such files")
@pytest.mark.parametrize("name", ["status", "pagemap", "mem", "environ"])
def test_files_of_the_kernel_are_refused(name: str) -> None:
    with pytest.raises((IngestError, NotATraceError)):
        load(f"/proc/self/{name}")
