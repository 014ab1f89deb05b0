"""A forked process raises an error instead of hanging when it cannot make reports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from amount import thorough

from torchprof_magic.ingest import fork_check

CODE = """
import os, sys
import torch

def in_a_fork(do):
    child = os.fork()
    if child == 0:
        do()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

def try_both():
    for act in (record, lambda: tp.load(os.devnull)):
        try:
            print("made", act().ops.height > 0, flush=True)
        except TorchProfError as exc:
            print(type(exc).__name__, exc, flush=True)

def record():
    with tp.profile(wait=0, warmup=0, active=1) as p:
        torch.ones(3).sum()
        p.step()
    return p.report

def use_polars_before_the_package_is_imported():
    import polars
    polars.DataFrame({"a": [2, 1]}).sort("a")

def import_the_package():
    global tp, TorchProfError
    import torchprof_magic as tp
    from torchprof_magic.model.errors import TorchProfError

"""
EARLY_AND_LATE = """
import_the_package()
in_a_fork(try_both)
record().summary()
in_a_fork(try_both)
"""
BEFORE = """
use_polars_before_the_package_is_imported()
in_a_fork(lambda: (import_the_package(), try_both()))
"""


def told_by_children(code: str) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-c", CODE + code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout.splitlines()


def check_refused(recording: str, loading: str) -> None:
    assert recording.startswith("CaptureError this process was forked from one that had already used polars")
    assert recording.endswith("Nothing was run.")
    assert loading.startswith("IngestError this process was forked")
    assert 'multiprocessing.get_context("spawn")' in loading


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_works_until_the_process_has_used_polars_and_is_then_refused_before_anything_runs() -> None:
    early, loading_early, late, loading_late = told_by_children(EARLY_AND_LATE)
    assert early == "made True"
    assert loading_early.startswith(("NotATraceError", "IngestError"))
    assert "forked" not in loading_early
    check_refused(late, loading_late)


@thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_of_a_process_that_has_used_polars_itself_is_refused() -> None:
    check_refused(*told_by_children(BEFORE))


IN_A_BLOCK = """
import os, sys
import polars, torch
import torchprof_magic as tp

with tp.profile() as p:
    torch.ones(3).sum()
    child = os.fork()
    if child == 0:
        print(polars.DataFrame({"a": [2, 1]}).sort("a")["a"].to_list(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print("aten::sum" in p.report.ops["name"].to_list())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells which processes are forks")
@thorough
def test_a_fork_within_a_first_recorded_block_can_use_polars() -> None:
    done = subprocess.run([sys.executable, "-c", IN_A_BLOCK], capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout == "[1, 2]\nTrue\n"


@pytest.mark.parametrize("status", [None, b"", b"1 (a) S 1", b"1 (a) S 1 1 1 1 1 many"])
def test_a_process_counts_as_a_possible_fork_if_it_cannot_be_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: bytes | None
) -> None:
    file = tmp_path / "stat"
    if status is not None:
        file.write_bytes(status)
    monkeypatch.setattr(fork_check, "_STATUS", file)
    assert fork_check._may_be_fork()


@pytest.mark.parametrize(("flags", "is_fork"), [(0x400140, True), (0x400100, False)])
def test_a_fork_is_recognised_on_linux_whatever_its_process_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, flags: int, is_fork: bool
) -> None:
    file = tmp_path / "stat"
    file.write_bytes(b"71 (a ) S\xff 9) S 1 71 71 0 -1 %d 0 0" % flags)
    monkeypatch.setattr(fork_check, "_STATUS", file)
    assert fork_check._may_be_fork() is is_fork
