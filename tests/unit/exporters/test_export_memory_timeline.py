"""Exported memory timelines equal those that torch exports of the same run."""

from __future__ import annotations

import gc
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from support import allocation, make_trace, span

import torchprof_magic as tp
from torchprof_magic.model.memory_categories import TORCH_ACTIONS, TORCH_ORDER
from torchprof_magic.report.trace_report import Report

memory_profiler = pytest.importorskip("torch.profiler._memory_profiler")
PREEXISTING, CREATE, DESTROY = (TORCH_ACTIONS.index(name) + 1 for name in ("preexisting", "create", "destroy"))


class Run:
    """A short training, exported by torch at its end, and its report."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
        optimizer = torch.optim.Adam(model.parameters())
        images, labels = torch.randn(32, 64), torch.randint(0, 10, (32,))

        def step() -> None:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()

        step()
        gc.collect()  # so that nothing of other tests is freed during the recording
        with tp.profile(
            record_shapes=True, profile_memory=True, with_stack=True, activities=("cpu",),
            on_trace_ready=self._export, wait=0, warmup=0, active=2, repeat=1,
        ) as recording:  # fmt: skip
            for _ in range(2):
                step()
                recording.step()
        assert recording.report is not None
        self.report: Report = recording.report

    def _export(self, profiler: Any) -> None:
        for ending in (".json", ".raw.json.gz"):
            profiler.export_memory_timeline(str(self.folder / f"torch{ending}"), device="cpu")

    def both(self, ending: str) -> tuple[Any, Any]:
        """Return torch's content of a file and ours."""
        ours = self.report.export_memory_timeline(self.folder / f"ours{ending}", "cpu")
        return read(self.folder / f"torch{ending}"), read(ours)


def read(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("timeline"))


@pytest.mark.filterwarnings("ignore:.*export_memory_timeline.*")
def test_the_numbers_of_categories_and_actions_are_those_of_the_installed_torch() -> None:
    names = [category.name.lower() if category else "unknown" for category in memory_profiler._CATEGORY_TO_INDEX]
    assert [name.removesuffix("_detail") for name in names] == list(TORCH_ORDER)
    assert [action.name.lower() for action in memory_profiler.Action] == list(TORCH_ACTIONS)
    assert [action.value for action in memory_profiler.Action] == [1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore:.*export_memory_timeline.*")
def test_everything_that_torch_sees_created_or_destroyed_is_there_and_what_it_does_not_see_released(run: Run) -> None:
    torchs, ours = run.both(".raw.json.gz")
    torchs, ours = (Counter(tuple(row[:3]) for row in rows if row[1] in (CREATE, DESTROY)) for rows in (torchs, ours))
    assert len(ours) > 50
    gradients = Counter(-4 * size for size in (64 * 128, 128 * 10, 128, 10))
    # Threads of other tests in this process may release tensors of other sizes.
    sizes = {size for _, action, size in ours if action == CREATE} | {-size for size in gradients}
    more = [(action, size) for _, action, size in (torchs - ours).elements() if abs(size) in sizes]
    # The gradients from before the recording, which the first zero_grad() releases. torch sees the release of
    # one whose address a tensor of a later op has by chance, and may see it at that of the later tensor.
    assert Counter(size for _, _, size in ours - torchs) <= gradients
    assert {action for action, _ in more} <= {DESTROY}
    assert Counter(size for _, size in more) <= gradients
    first = min(time for time, action, _ in ours if action == CREATE)
    assert Counter(size for time, action, size in ours if action == DESTROY and time < first) == gradients


@pytest.mark.filterwarnings("ignore:.*export_memory_timeline.*")
def test_the_totals_differ_from_those_of_torch_by_the_same_bytes_once_older_gradients_are_gone(run: Run) -> None:
    torchs, ours = run.both(".json")
    level = {time: sum(row) for time, row in zip(*torchs, strict=True)}
    shared = [(level[time], sum(row)) for time, row in list(zip(*ours, strict=True))[1:] if time in level]
    compared = [theirs - own for theirs, own in shared]
    assert len(compared) > 50
    gradients = 4 * (64 * 128 + 128 + 128 * 10 + 10)
    assert set(compared[compared.index(compared[-1]) :]) == {compared[-1]}
    assert min(compared) >= compared[-1] - gradients


@pytest.mark.filterwarnings("ignore:.*export_memory_timeline.*")
def test_parameters_state_and_gradients_are_those_of_torch_at_the_end(run: Run) -> None:
    torchs, ours = run.both(".json")
    for name in ("parameter", "optimizer_state", "gradient", "activation", "temporary"):
        number = TORCH_ORDER.index(name) + 1
        assert ours[1][-1][number] == torchs[1][-1][number], name


@pytest.mark.parametrize("ending", [".json", ".json.gz", ".raw.json.gz", ".html"])
def test_an_exported_timeline_opens_again_with_the_same_memory(run: Run, tmp_path: Path, ending: str) -> None:
    again = tp.load(run.report.export_memory_timeline(tmp_path / f"a{ending}"))
    bands = [name for name in again.memory.columns if name.endswith("_bytes") and name != "buffer_bytes"]
    assert again.memory.select(bands).row(-1) == run.report.memory.select(bands).row(-1)
    assert again.memory["total_bytes"].max() == run.report.memory["total_bytes"].max()


def test_another_ending_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    report = Report(make_trace(allocation(1, 5), span("a", 0, 9)))
    with pytest.raises(ValueError, match=r"must end in \.json, \.json\.gz, \.raw\.json\.gz or \.html"):
        report.export_memory_timeline(tmp_path / "a.txt")
    assert list(tmp_path.iterdir()) == []


def test_the_real_traces_export_timelines_that_end_as_their_memory_does(traces: Path, tmp_path: Path) -> None:
    for name in ("03_h100_qwen_stacks_memory.json.gz", "05_v100_resnet50_old_schema.json.gz"):
        report = tp.load(traces / name)
        for device in report.memory["device"].unique().to_list():
            curve = read(report.export_memory_timeline(tmp_path / "a.json", device))
            mine = report.memory.filter(report.memory["device"] == device)["total_bytes"]
            assert max(sum(row) for row in curve[1]) <= (mine.max() or 0)  # within one µs, only the last change counts
            assert sum(curve[1][-1]) == mine[-1]
