"""Does each process of a job write its own file, with its rank in it?"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import torchprof_magic as tp

if TYPE_CHECKING:
    from pathlib import Path

JOB = """
import sys
import torch
import torch.distributed as dist
import torchprof_magic as tp

dist.init_process_group("gloo")
with tp.profile(trace_dir=sys.argv[1], filename="{run_name}-{cycle}.json", run_name="job", active=1, wait=0,
                warmup=0, repeat=2) as p:
    for _ in range(2):
        each = torch.full((4,), float(dist.get_rank() + 1))
        dist.all_reduce(each)
        assert each.tolist() == [3.0] * 4
        p.step()
lost = [problem for problem in p.report.problems if problem.severity == "data_loss"]
assert not lost, lost
dist.destroy_process_group()
"""


def test_two_processes_of_a_job_write_one_file_a_cycle_each_with_their_rank(tmp_path: Path) -> None:
    script, folder = tmp_path / "job.py", tmp_path / "traces"
    script.write_text(JOB)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*launcher, str(script), str(folder)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    files = sorted(path.name for path in folder.iterdir() if path.suffix == ".json" and not path.name.startswith("."))
    assert files == [f"job-{cycle}-rank{rank}.json" for cycle in (0, 1) for rank in (0, 1)]
    for name in files:
        report = tp.load(folder / name)
        rank = int(name.removesuffix(".json")[-1])
        assert (report.trace.meta.rank, report.trace.meta.world_size) == (rank, 2)
        assert json.loads((folder / name).read_bytes())["distributedInfo"]["backend"] == "gloo"
        assert report.ops.filter(report.ops["name"] == "c10d::allreduce_")["calls"].to_list() == [1]
