"""Cells and jobs on the engines of an ipyparallel cluster, and a torchrun job that has not finished."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from amount import thorough
from kernels import Kernel, started

import torchprof_magic as tp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLUSTER = """
import ipyparallel, os, signal, tempfile
cluster = ipyparallel.Cluster(n=4, log_level=40)
client = cluster.start_and_connect_sync()
view = client[:]
view.block = True
view.activate()
import torchprof_magic as tp
"""
SETUP = """%%px
%load_ext torchprof_magic
import time, torch, torch.distributed as dist
torch.set_num_threads(1)
"""
JOIN = """
view.push({"address": "file://" + tempfile.mktemp(), "size": len(view.targets)})
view.scatter("number", list(range(len(view.targets))), flatten=True)
view.execute("dist.is_initialized() and dist.destroy_process_group()")
view.execute("dist.init_process_group('gloo', init_method=address, rank=number, world_size=size)")
view.execute("model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))")
"""
# The sleep is on line 5 of the cell, as its first line is that of the magic.
TRAIN = """%%px
%%torchprof --display none --shapes -o run
for step in range(6):
    loss = model(torch.ones(16, 64)).sum()
    if dist.get_rank() == LATE:
        time.sleep(0.2)
    loss.backward()
    model.zero_grad()
"""
WIDGET = "application/vnd.jupyter.widget-view+json"
LOOP = "for _ in range(6):\n    (torch.ones(32, 32) @ torch.ones(32, 32)).sum()\n"
SCRIPT = """
import os, pathlib, sys, time
import torch, torch.distributed as dist
folder = pathlib.Path(sys.argv[1])
dist.init_process_group("gloo")
rank = dist.get_rank()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
    for step in range(3):
        with torch.profiler.record_function("part"):
            dist.all_reduce(torch.ones(100))
        p.step()
while rank == 1 and not (folder / "go").exists():
    time.sleep(0.02)
p.export_chrome_trace(str(folder / f"part{rank}"))
(folder / f"part{rank}").rename(folder / f"rank{rank}.json")
# On a busy machine torch may abort while it ends a process group of gloo ("terminate called without an active
# exception"), when all that matters here has been written.
os._exit(0)
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with started(CLUSTER) as found:
        found.run(SETUP)
        yield found
        found.run("cluster.stop_cluster_sync()")


def said(kernel: Kernel, what: str) -> str:
    return kernel.run(f"print(repr(({what})))").text.strip()


def use(kernel: Kernel, engines: str) -> None:
    """Let cells run on these engines."""
    kernel.run(f"view = client[{engines}]\nview.block = True\nview.activate()")


def asked(kernel: Kernel, what: str) -> str:
    """Return the output of ``what`` on every engine, and whether a profiler is on there."""
    kernel.run(f"%%px\nsaid = {what}, torch.autograd._profiler_enabled()")
    return kernel.run("print(view['said'])").text


@thorough
def test_each_engine_shows_its_report_as_text_and_tables_and_no_widget_that_could_not_ask_it(kernel: Kernel) -> None:
    use(kernel, ":2")
    cell = kernel.run(f"%%px\n%%torchprof -o report\n{LOOP}")
    assert cell.reply["status"] == "ok"
    shown = [content for content in cell.of("display_data") if "engine" in content["metadata"]]
    assert sorted(content["metadata"]["engine"] for content in shown) == [0, 1]
    for content in shown:
        # Details and lines of functions come from later steps, if there are enough.
        assert re.search(r"steps 1–3 recorded[^<]*, stepped by line 2", content["data"]["text/html"])
        assert WIDGET not in content["data"]
    told = asked(kernel, "report.steps['number'].to_list()")
    assert told.count("[1, 2, 3], False") == 2


@thorough
def test_an_error_on_an_engine_is_its_own_and_what_was_recorded_is_there(kernel: Kernel) -> None:
    use(kernel, ":2")
    cell = kernel.run(f"%%px\n%%torchprof -o report\n{LOOP}    if _ == 3: 1 / 0\n")
    assert cell.reply["status"] == "error"
    assert "ZeroDivisionError" in str(cell.messages)
    told = asked(kernel, "report.steps['complete'].to_list()")
    assert len(re.findall(r"\[(?:True, )+False\], False", told)) == 2


@thorough
def test_two_engines_are_one_report_with_the_line_of_the_late_one(kernel: Kernel) -> None:
    use(kernel, ":2")
    kernel.run(JOIN)
    assert kernel.run(TRAIN.replace("LATE", "1")).reply["status"] == "ok"
    kernel.run("report = tp.ranks(view)")
    assert said(kernel, "report.ranks['rank'].to_list(), report.world_size") == "([0, 1], 2)"
    assert said(kernel, "(v := report.verdict).kind, v.rank, v.cause, v.line") == "('straggler', 1, 'idle', 5)"
    assert said(kernel, "report.stragglers['source'][0].strip()") == "'time.sleep(0.2)'"
    assert said(kernel, "report.collectives['bytes'].to_list()") == str([(64 * 64 + 64) * 4] * 3)


@thorough
def test_four_engines_are_one_report_and_an_engine_that_dies_is_told(kernel: Kernel) -> None:
    use(kernel, ":")
    kernel.run(JOIN)
    assert kernel.run(TRAIN.replace("LATE", "2")).reply["status"] == "ok"
    shown = kernel.run("report = tp.ranks(view, 'run')\nreport")
    assert WIDGET in shown.of("display_data")[0]["data"]
    assert said(kernel, "report.ranks['rank'].to_list()") == "[0, 1, 2, 3]"
    assert said(kernel, "(v := report.verdict).kind, v.rank, v.line") == "('straggler', 2, 5)"
    assert said(kernel, "report.rank(2).steps.height, report.rank(2).trace.meta.rank") == "(3, 2)"
    assert said(kernel, "report.ranks['wait_ns'][2] < report.ranks['wait_ns'][0]") == "True"
    kernel.run("os.kill(client[1].apply_sync(os.getpid), signal.SIGKILL)\nreport = tp.ranks(view, timeout=30)")
    assert said(kernel, "report.ranks['rank'].to_list(), report.verdict.rank") == "([0, 2, 3], 2)"
    told = said(kernel, "[each.code for each in report.problems if each.code.startswith('ranks.')]")
    assert told == "['ranks.engine_lost', 'ranks.missing']"


@thorough  # reading the ranks of a folder is in the sample
def test_a_job_of_torchrun_is_opened_while_it_runs_and_again_when_it_has_ended(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    folder = tmp_path / "traces"
    folder.mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script, folder]
    said = tmp_path / "said.txt"
    with said.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as job:
        try:
            _wait_for(folder / "rank0.json", job, said)
            early = tp.load(folder)
            assert isinstance(early, tp.RanksReport)
            assert early.ranks["rank"].to_list() == [0]
            assert [each.code for each in early.problems if each.code.startswith("ranks.")] == ["ranks.missing"]
            (folder / "go").touch()
            assert job.wait(timeout=240) == 0, said.read_text()
        finally:
            job.kill()
    late = tp.load(folder)
    assert isinstance(late, tp.RanksReport)
    assert late.ranks["rank"].to_list() == [0, 1]
    assert late.collectives.height >= 3
    assert not [each for each in late.problems if each.code.startswith("ranks.")]


def _wait_for(path: Path, job: subprocess.Popen[bytes], said: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert job.poll() is None, said.read_text()
        assert time.monotonic() < end, f"the job takes too long\n{said.read_text()}"
        time.sleep(0.05)
