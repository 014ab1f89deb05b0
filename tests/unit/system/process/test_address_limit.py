"""Where the addresses of a process are limited (ulimit -v), it gets an error or a message, and is not aborted."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from amount import sampled, thorough
from support import chrome, span

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = """
import os, sys

def limit(*_):
    import resource
    pages = int(open("/proc/self/statm").read().split()[0])
    free = int(sys.argv[1]) * 1_000_000
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + free, resource.RLIM_INFINITY))

def unlimit():
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

import torchprof_magic as tp
"""
IMPORTING = """
limit()
try:
    tp.load
except ImportError as exc:
    print("refused:", exc)
else:
    print("made")
"""
LOADING = """
tp.load
limit()
try:
    print("made", tp.load(sys.argv[2]).ops["name"].to_list())
except tp.IngestError as exc:
    print("refused:", exc)
"""
LOADING_AGAIN = """
tp.load(sys.argv[2])
limit()
print("made", tp.load(sys.argv[2]).ops["name"].to_list())
"""
RECORDING = """
import torch
with tp.profile(wait=0, warmup=0, active=2, on_trace_ready=limit) as p:
    for _ in range(2):
        torch.ones(3).sum()
        p.step()
    print("whole")
unlimit()
try:
    print("made", p.report.ops["name"].to_list(), [found.code for found in p.report.problems])
except tp.CaptureError as exc:
    print(exc)
"""
COMMAND = """
import runpy
limit()
sys.argv[:] = ["torchprof_magic", sys.argv[2]]
runpy.run_module("torchprof_magic", run_name="__main__")
"""
REFUSED = "Raise the limit (ulimit -v), or set MALLOC_ARENA_MAX=1 and POLARS_MAX_THREADS=1 before Python starts"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the addresses of a process")


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "small.json"
    path.write_bytes(chrome(*(span("aten::mm", 10 * at, 5) for at in range(50))))
    return str(path)


def ended(
    code: str, free_mb: int, trace: str = "", status: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Return what the code printed that left itself so many addresses; a signal fails the test."""
    command = [sys.executable, "-W", "ignore", "-c", LIMIT + code, str(free_mb), trace]
    several = {"POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, env={**os.environ, **several, **environment}
    )
    assert done.returncode == status, done.stderr[-2000:]
    return done


@pytest.mark.parametrize("free_mb", sampled([300, 50, 150, 450, 600], 5))
def test_a_trace_is_refused_where_the_threads_of_polars_do_not_fit(trace: str, free_mb: int) -> None:
    said = ended(LOADING, free_mb, trace).stdout
    assert said.startswith("refused: ")
    assert "reading it takes about " in said
    assert said.endswith(f" MB are free. {REFUSED}\n")


def test_a_trace_is_read_where_the_threads_of_polars_fit(trace: str) -> None:
    assert ended(LOADING, 700, trace).stdout == "made ['aten::mm']\n"


def test_the_advice_makes_a_trace_fit(trace: str) -> None:
    advised = {"MALLOC_ARENA_MAX": "1", "POLARS_MAX_THREADS": "1"}
    assert ended(LOADING, 150, trace, **advised).stdout == "made ['aten::mm']\n"


def test_threads_that_run_already_are_not_counted_again(trace: str) -> None:
    assert ended(LOADING_AGAIN, 250, trace).stdout == "made ['aten::mm']\n"


@pytest.mark.parametrize("free_mb", sampled([300, 50, 150, 450], 4))
def test_polars_is_not_imported_where_it_does_not_fit(free_mb: int) -> None:
    said = ended(IMPORTING, free_mb).stdout
    assert said.startswith("refused: polars cannot be imported: it takes about ")
    assert REFUSED in said


@pytest.mark.parametrize("free_mb", sampled([300, 150, 450]))
def test_a_recording_is_kept_where_the_threads_of_polars_do_not_fit(tmp_path: Path, free_mb: int) -> None:
    said = ended(RECORDING, free_mb, TMPDIR=str(tmp_path)).stdout
    assert said.startswith("whole\ntorchprof: The report could not be made (MemoryError: it takes about ")
    assert f"{REFUSED}). The trace is kept in {tmp_path}" in said
    (path,) = tmp_path.rglob("*.pt.trace.json")
    assert f"Open it with: torchprof_magic.load('{path}')" in said
    assert "no report was made: MemoryError: it takes about " in said
    assert '"aten::sum"' in path.read_text()


@thorough  # a recording that is kept where little fits is in the sample
def test_a_report_without_the_trace_is_made_where_only_that_fits(tmp_path: Path) -> None:
    said = ended(RECORDING, 550, TMPDIR=str(tmp_path)).stdout
    assert said == "whole\nmade [] ['run.too_large']\n"
    (path,) = tmp_path.rglob("*.pt.trace.json")
    assert '"aten::sum"' in path.read_text()


@thorough
def test_a_recording_becomes_a_report_where_the_threads_of_polars_fit(tmp_path: Path) -> None:
    said = ended(RECORDING, 700, TMPDIR=str(tmp_path)).stdout
    assert said.startswith("whole\nmade [")
    assert "aten::sum" in said


def test_the_command_line_ends_with_an_error_where_polars_does_not_fit(trace: str) -> None:
    done = ended(COMMAND, 300, trace, status=1)
    assert done.stdout == ""
    assert "python -m torchprof_magic: error: polars cannot be imported: it takes about " in done.stderr
    assert "Traceback" not in done.stderr
