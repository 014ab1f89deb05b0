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
if sys.argv[1] == "before":
    import polars
    polars.DataFrame({"a": [2, 1]}).sort("a")
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
import torchprof_magic as tp
from torchprof_magic.model.errors import TorchProfError

def work():
    with tp.profile(wait=0, warmup=0, active=1) as p:
        torch.ones(3).sum()
        p.step()
    return p.report

if sys.argv[1] == "late":
    work().summary()
child = 0 if sys.argv[1] == "before" else os.fork()
if child == 0:
    for act in (work, lambda: tp.load(os.devnull)):
        try:
            print("made", act().ops.height > 0, flush=True)
        except TorchProfError as exc:
            print(type(exc).__name__, exc, flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def told_by_child(when: str) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-c", CODE, when]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("when", ["late", pytest.param("before", marks=thorough)])
def test_a_fork_of_a_process_that_has_used_polars_is_refused_before_anything_runs(when: str) -> None:
    recording, loading = told_by_child(when)
    assert recording.startswith("CaptureError this process was forked from one that had already used polars")
    assert recording.endswith("Nothing was run.")
    assert loading.startswith("IngestError this process was forked")
    assert 'multiprocessing.get_context("spawn")' in loading


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_of_a_process_that_has_not_used_polars_works() -> None:
    recording, loading = told_by_child("early")
    assert recording == "made True"
    assert loading.startswith(("NotATraceError", "IngestError"))
    assert "forked" not in loading


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
def test_a_fork_within_a_first_recorded_block_can_use_polars() -> None:
    done = subprocess.run([sys.executable, "-c", IN_A_BLOCK], capture_output=True, text=True, timeout=60, check=True)
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
