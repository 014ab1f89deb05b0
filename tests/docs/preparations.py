"""What the examples of each page need: a model and data, recordings, and stand-ins for what a test has none of."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from made_ranks import write_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

GPU = Path(__file__).parents[1] / "data" / "gpu"
TRAINING = """
import polars as pl
import torch
import torchprof_magic as tp

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = opt = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = batches = [torch.randn(16, 64) for _ in range(12)]
torch.set_num_threads(1)


def train(batch):
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
TRAINER = """
from made_trainers import as_library


class Trainer:
    def __init__(self, model, args, train_dataset, callbacks):
        self.train = as_library("transformers.trainer").MadeTrainer(*callbacks).train


args = data = None
"""
A_REPORT = """
with tp.profile(active=2) as recorded:
    for batch in tp.steps(loader):
        train(batch)
report = recorded.report
"""
# No recording has all that the page asks about; that an argument is none would be a TypeError.
ASKED = """
def asked(**changes):
    try:
        return report.what_if(**changes)
    except tp.OptionsError as error:
        assert "recorded" in str(error) or "recording" in str(error), error
"""


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What runs before the examples of a page, and what is written otherwise in them, because a test has no such thing.

    Attributes:
        codes: Run before the first example.
        instead: Texts of the examples, and what stands in their place.
        files: Writes files into the current folder.
        modules: Makes stand-ins for libraries that are not installed.
        elsewhere: How examples begin that need a cluster, and the tests that run the same.
    """

    codes: tuple[str, ...] = (TRAINING,)
    instead: Mapping[str, str] = field(default_factory=dict)
    files: Callable[[], object] = lambda: None
    modules: Callable[[pytest.MonkeyPatch], object] = lambda _patch: None
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def runs(self, code: str) -> bool:
        """Return whether an example is run here."""
        return not code.startswith(tuple(self.elsewhere))

    def changed(self, code: str) -> str:
        """Return the code of an example as it runs here."""
        for text, other in self.instead.items():
            code = code.replace(text, other)
        return code


def _job() -> None:
    Path("runs").mkdir()
    for path in write_job(Path("runs"), {2: 150.0}):
        packed = gzip.compress(path.read_bytes())
        fsspec.filesystem("memory").pipe(f"/bucket/runs/{path.name}.gz", packed)
        path.unlink()
        Path("runs", f"step12-{path.name}.gz").write_bytes(packed)
        Path(f"{path.name}.gz").write_bytes(packed)


def _one_late() -> None:
    Path("runs").mkdir()
    write_job(Path("runs"), {2: 150.0})


def _graphs() -> None:
    Path("captures").mkdir()
    shutil.copy(GPU / "graph_replay.json.gz", "replay.json.gz")
    for name in ("capture", "batch1", "batch32", "captures/one"):
        shutil.copy(GPU / "graph_capture.json.gz", f"{name}.json.gz")


def _engines(patch: pytest.MonkeyPatch) -> None:
    """Stand in for MPI and Ray with threads: their interfaces as the page uses them."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - beside its stand-ins

    pool = ThreadPoolExecutor(1)

    class Reference:
        def __init__(self, future: Any) -> None:
            self.future = lambda: future

    class Remote:
        def __init__(self, function: Callable[..., Any]) -> None:
            self.function = function

        def remote(self, *args: Any, **kwargs: Any) -> Reference:
            return Reference(pool.submit(self.function, *args, **kwargs))

    _module(patch, "ray", remote=Remote, init=lambda: None)
    _module(patch, "mpi4py")
    _module(patch, "mpi4py.futures", MPIPoolExecutor=ThreadPoolExecutor)


def _transformers(patch: pytest.MonkeyPatch) -> None:
    from made_trainers import TrainerCallback, install  # noqa: PLC0415 - it imports torch, which other pages do without

    install(patch, "transformers", TrainerCallback=TrainerCallback)


def _module(patch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    module = ModuleType(name)
    vars(module).update(members)
    patch.setitem(sys.modules, name, module)


PREPARATIONS = {
    "docs/advice.md": Preparation(codes=(TRAINING, A_REPORT), instead={"report.try_advice(1)": "report.advice[:1]"}),
    "docs/agents.md": Preparation(
        codes=("import os",), instead={'"mcp", "traces"])': '"mcp", "traces"], env=dict(os.environ))'}
    ),
    "docs/comparing.md": Preparation(
        codes=(TRAINING, A_REPORT, "report.save('baseline.torchprof')"), instead={"step_ms=50": "step_ms=5000"}
    ),
    "docs/ranks.md": Preparation(
        files=_job,
        elsewhere={
            "import ipyparallel": "tests/unit/jobs/test_executors.py",
            "%%px": "tests/notebook/test_ranks_live.py",
            "tp.ranks(view)": "tests/notebook/test_ranks_live.py",
        },
        modules=_engines,
        instead={
            "s3://bucket/runs/": "memory://bucket/runs/",
            "/shared/runs": "runs",
            'Client("tcp://scheduler:8786")': "Client(processes=False, dashboard_address=None)",
            "    ...\np.report": "    for batch in tp.steps(loader):\n        train(batch)\nrank = 0\np.report",
            "    ...\n": "    for batch in tp.steps(loader):\n        train(batch)\n",
        },
    ),
    "docs/recording.md": Preparation(codes=(TRAINING, A_REPORT, TRAINER), files=_graphs, modules=_transformers),
    "docs/traces.md": Preparation(instead={"~/traces": "traces"}),
    "docs/what_if.md": Preparation(codes=(TRAINING, A_REPORT, ASKED), instead={"report.what_if(": "asked("}),
    "docs/questions/does-it-stay-fast.md": Preparation(
        codes=(TRAINING, "def batches():\n    return loader"),
        instead={"from train import batches, train\n": "", "sys.argv[1]": "'new.torchprof'"},
    ),
    "docs/questions/one-rank-is-late.md": Preparation(files=_one_late),
}


@contextmanager
def prepared(page: str) -> Iterator[Preparation]:
    """Prepare the current folder and the libraries for a page, for as long as its examples run."""
    preparation = PREPARATIONS.get(page, Preparation())
    preparation.files()
    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        patch.setenv("PATH", path)
        patch.setenv("TZ", "UTC")
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        patch.setenv("TORCHPROF_RUNS", str(Path.cwd() / "kept"))
        preparation.modules(patch)
        yield preparation
