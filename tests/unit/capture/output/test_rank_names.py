"""Each process of a distributed job writes a file of its own, with its rank in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from amount import thorough
from forking import forked_python

import torchprof_magic as tp
from torchprof_magic.capture.output.rank_names import name_of_rank

JOB = """
import os, sys
import torch
import torch.distributed as dist
import torchprof_magic as tp

rank, world_size = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
dist.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=world_size)
with tp.profile(trace_dir=sys.argv[1], filename="{run_name}-{cycle}.json", run_name="job", active=1, wait=0,
                warmup=0, repeat=2, execution_trace=sys.argv[1] + "/graph.json") as p:
    for _ in range(2):
        each = torch.full((4,), float(dist.get_rank() + 1))
        dist.all_reduce(each)
        assert each.tolist() == [3.0] * 4
        p.step()
lost = [problem for problem in p.report.problems if problem.severity == "data_loss"]
assert not lost, lost
dist.destroy_process_group()
"""


def two_ranks(script: Path, folder: Path) -> None:
    """Run both processes of a job, with what a launcher tells them."""
    command = forked_python(str(script), str(folder), f"file://{script.with_name('meeting')}")
    ranks = [
        subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "RANK": rank, "WORLD_SIZE": "2"}
        )
        for rank in "01"
    ]
    errors = [rank.communicate(timeout=240)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "".join(errors)[-3000:]


def torchrun(script: Path, folder: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*launcher, str(script), str(folder), "env://"], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("launch", [two_ranks, pytest.param(torchrun, marks=thorough)])
def test_two_processes_of_a_job_write_one_file_a_cycle_each_with_their_rank(
    tmp_path: Path, launch: Callable[[Path, Path], None]
) -> None:
    script, folder = tmp_path / "job.py", tmp_path / "traces"
    script.write_text(JOB)
    launch(script, folder)
    files = sorted(path.name for path in folder.iterdir() if path.suffix == ".json" and not path.name.startswith("."))
    graphs = [f"graph-rank{rank}{cycle}.json" for rank in (0, 1) for cycle in ("-1", "")]
    assert files == [*graphs, *(f"job-{cycle}-rank{rank}.json" for cycle in (0, 1) for rank in (0, 1))]
    pids = [json.loads((folder / name).read_bytes())["pid"] for name in graphs]
    assert pids[0] == pids[1] != pids[2] == pids[3]
    for name in files[len(graphs) :]:
        report = tp.load(folder / name)
        rank = int(name.removesuffix(".json")[-1])
        assert (report.trace.meta.rank, report.trace.meta.world_size) == (rank, 2)
        assert json.loads((folder / name).read_bytes())["distributedInfo"]["backend"] == "gloo"
        assert report.ops.filter(report.ops["name"] == "c10d::allreduce_")["calls"].to_list() == [1]


@pytest.mark.parametrize(
    ("environ", "name", "expected"),
    [
        ({}, "graph.json", "graph.json"),
        ({"RANK": "3", "WORLD_SIZE": "4"}, "graph.json.gz", "graph-rank3.json.gz"),
        ({"WORLD_SIZE": "1", "RANK": "0"}, "graph.json", "graph.json"),
        ({"WORLD_SIZE": "16", "RANK": "3"}, "graph.json", "graph-rank3.json"),
        ({"WORLD_SIZE": "16", "RANK": "3"}, "graph-03.json", "graph-03.json"),
        ({"WORLD_SIZE": "16", "RANK": "3"}, "graph3-of-16.json", "graph3-of-16-rank3.json"),
        ({"WORLD_SIZE": "16", "RANK": "x"}, "graph.json", "graph-pid{pid}.json"),
        ({"WORLD_SIZE": "x", "RANK": "3"}, "graph.json", "graph.json"),
        ({"WORLD_SIZE": "9" * 5000, "RANK": "3"}, "graph.json", "graph.json"),
        ({"WORLD_SIZE": "2", "RANK": "0"}, "graph-00.json", "graph-00.json"),
        ({"WORLD_SIZE": "2", "RANK": "0"}, "graph-10.json", "graph-10-rank0.json"),
    ],
)
def test_a_file_that_every_rank_names_alike_gets_the_rank(environ: dict[str, str], name: str, expected: str) -> None:
    assert name_of_rank(Path("folder-3") / name, environ) == Path("folder-3") / expected.format(pid=os.getpid())
