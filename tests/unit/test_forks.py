"""Does a forked process say that it cannot make reports, where it would wait for ever?"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
from torchprof_magic.errors import TorchProfError

def work():
    with tp.profile(wait=0, warmup=0, active=1) as p:
        torch.ones(3).sum()
        p.step()
    return p.report

if sys.argv[1] == "late":
    work().to_html(sys.argv[2])
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


def told_by_child(when: str, folder: object) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-c", CODE, when, f"{folder}/report.html"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("when", ["late", "before"])
def test_a_fork_of_a_process_in_which_polars_was_at_work_says_so_and_runs_nothing(tmp_path: object, when: str) -> None:
    recording, loading = told_by_child(when, tmp_path)
    assert recording.startswith("CaptureError this process was forked from one in which polars was at work")
    assert recording.endswith("nothing was run")
    assert loading.startswith("IngestError this process was forked")
    assert 'multiprocessing.get_context("spawn")' in loading


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_of_a_process_that_made_none_yet_works(tmp_path: object) -> None:
    recording, loading = told_by_child("early", tmp_path)
    assert recording == "made True"
    assert loading.startswith(("NotATraceError", "IngestError"))
    assert "forked" not in loading
