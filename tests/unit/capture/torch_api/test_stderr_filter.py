"""Only the log lines of torch's profiler are kept out of descriptor 2."""

from __future__ import annotations

import gc
import os
import resource
from typing import TYPE_CHECKING

import pytest

from torchprof_magic.capture.torch_api.stderr_filter import STDERR_FD, StderrFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

UNKNOWN_BLOCK = b"[W1122 10:00:00.0 CPUAllocator.cpp:249] Memory block of unknown size was allocated before\n"
STARTED = b"USDT:2026-11-22 10:00:00 1:1 SyncActivityProfilerHandler.cpp:31] profiler_start\n"


@pytest.fixture
def filter_() -> Iterator[StderrFilter]:
    made = StderrFilter()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"one\n" + UNKNOWN_BLOCK + STARTED + b"two\n", "one\ntwo\n"),
        (b"10 %\r20 %\r" + STARTED + b"no end", "10 %\r20 %\rno end"),
        (b"one\r\n" + STARTED.replace(b"\n", b"\r\n") + b"two", "one\r\ntwo"),
        (b"\n\n" + UNKNOWN_BLOCK + b"\n", "\n\n\n"),
        (STARTED.rstrip(), ""),
        (b"my collection.py\n\xff\n", "my collection.py\n\ufffd\n"),
    ],
)
def test_log_lines_of_the_profiler_are_dropped_and_all_others_passed_on(
    filter_: StderrFilter, capfd: pytest.CaptureFixture[str], written: bytes, shown: str
) -> None:
    with filter_.held():
        os.write(STDERR_FD, written)
        assert capfd.readouterr().err == ""
    assert capfd.readouterr().err == shown


@pytest.mark.parametrize(
    "source",
    [
        "SyncActivityProfilerHandler",
        "profiler_kineto",
        "output_json",
        "CPUAllocator",
        "collection",
        "execution_trace_observer",
        "DeviceProperties",
    ],
)
def test_every_source_of_log_lines_of_the_profiler_is_known(
    filter_: StderrFilter, capfd: pytest.CaptureFixture[str], source: str
) -> None:
    with filter_.held():
        os.write(STDERR_FD, f"[W1122 10:00:00.0 {source}.cpp:7] what it says\nmine\n".encode())
    assert capfd.readouterr().err == "mine\n"


def test_lines_outside_the_filter_are_not_touched(filter_: StderrFilter, capfd: pytest.CaptureFixture[str]) -> None:
    with filter_.held():
        os.write(STDERR_FD, STARTED)
    os.write(STDERR_FD, STARTED)
    with filter_.held():
        os.write(STDERR_FD, b"second\n")
    assert capfd.readouterr().err == STARTED.decode() + "second\n"


def test_without_a_free_descriptor_every_line_passes_and_descriptor_2_stays(
    filter_: StderrFilter, capfd: pytest.CaptureFixture[str]
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()  # what earlier tests left open must not be closed, and its descriptor be free, in between
    last = os.open(os.devnull, os.O_RDONLY)
    os.close(last)
    resource.setrlimit(resource.RLIMIT_NOFILE, (last, before[1]))
    try:
        with filter_.held():
            os.write(STDERR_FD, b"one\n" + STARTED)
        os.write(STDERR_FD, b"two\n")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert capfd.readouterr().err == f"one\n{STARTED.decode()}two\n"


@pytest.mark.filterwarnings("error")
def test_a_filter_that_is_dropped_without_its_end_closes_its_file() -> None:
    dropped = StderrFilter()
    with dropped.held():
        pass
    file = dropped._file
    assert file is not None
    del dropped
    gc.collect()
    assert file.closed
