"""Are the traces of a run kept where that was asked for, and does what goes wrong there leave the run alone?"""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import torchprof_magic as tp
from torchprof_magic import keeping
from torchprof_magic.errors import OptionsError, TorchProfError
from torchprof_magic.options import KeepOptions


def run(folder: Path, cycles: int = 1, **options: Any) -> tp.Report:
    """Record one step in each of some cycles."""
    with tp.profile(wait=0, warmup=0, active=1, repeat=cycles, trace_dir=folder, **options) as p:
        for _ in range(cycles):
            torch.ones(3).sum()
            p.step()
    return p.report


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".torchprof"))


def codes(report: tp.Report) -> list[str]:
    return [problem.code for problem in report.problems if problem.code.startswith("store.")]


def test_every_cycle_is_kept_under_a_name_of_its_own_and_outlives_the_report(tmp_path: Path) -> None:
    report = run(tmp_path, 3, run_name="net", filename="{run_name}-{cycle}-{step:03d}.json")
    expected = ["net-0-000.json", "net-1-001.json", "net-2-002.json"]
    assert names(tmp_path) == expected
    assert [path.name for path in report.trace_paths] == expected
    del report
    assert [tp.load(tmp_path / name).steps["number"].to_list() for name in expected] == [[0], [1], [2]]


def test_a_name_can_tell_the_epoch_and_the_batch_of_its_last_step(tmp_path: Path) -> None:
    with tp.profile(wait=0, warmup=0, active=2, repeat=3, trace_dir=tmp_path, filename="{epoch}-{batch}.json") as p:
        for _ in range(2):
            for _ in p.steps(range(3)):
                torch.ones(3).sum()
    # Steps 0 and 1, 2 and 3, 4 and 5; three to an epoch.
    assert names(tmp_path) == ["0-1.json", "1-0.json", "1-2.json"]
    assert [(mark.epoch, mark.batch) for mark in p.report.trace.meta.recorded_steps] == [
        (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2),
    ]  # fmt: skip


def test_a_name_without_cycle_gets_one_and_without_a_name_there_is_the_time(tmp_path: Path) -> None:
    run(tmp_path / "a", 2, filename="run.pt.trace.json")
    assert names(tmp_path / "a") == ["run-cycle0.pt.trace.json", "run-cycle1.pt.trace.json"]
    run(tmp_path / "b")
    (name,) = names(tmp_path / "b")
    assert re.fullmatch(r"run-\d{8}-\d{6}\.pt\.trace\.json", name)


def test_packed_copies_are_the_raw_traces(tmp_path: Path) -> None:
    report = run(tmp_path, filename="run.json", gzip=True)
    (path,) = report.trace_paths
    assert path == tmp_path / "run.json.gz"
    assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def test_a_name_that_is_taken_gets_a_number_unless_it_may_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("mine")
    for _ in range(2):
        run(tmp_path, filename="run.json")
    assert names(tmp_path) == ["run-2.json", "run-3.json", "run.json"]
    assert (tmp_path / "run.json").read_text() == "mine"
    run(tmp_path, filename="run.json", overwrite=True)
    assert json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert len(names(tmp_path)) == 3


def test_only_the_newest_copies_stay(tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text("mine")
    for number in range(1, 5):
        run(tmp_path, filename=f"{number}.json", keep=2)
    assert names(tmp_path) == ["0.json", "3.json", "4.json"]
    assert [trace.state for trace in keeping.kept_traces(str(tmp_path))] == ["deleted", "deleted", "kept", "kept"]


def test_tensorboards_own_names_are_those_of_torchs_handler(tmp_path: Path) -> None:
    run(tmp_path, 2, tensorboard=True)
    pattern = rf".+_{os.getpid()}\.\d{{19}}\.pt\.trace\.json"
    assert len([name for name in names(tmp_path) if re.fullmatch(pattern, name)]) == 2


def test_ranks_do_not_share_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        run(tmp_path, filename="run.json")
    assert names(tmp_path) == ["run-rank0.json", "run-rank1.json"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"filename": "../run.json"}, "folders belong into --trace-dir"),
        ({"filename": "{nothing}.json"}, "there is no field {nothing}; choose from run_name, rank"),
        ({"filename": "{run_name.__class__}"}, "attributes and indexes are not allowed"),
        ({"filename": "{step:>999999999}"}, "can only be padded with zeros"),
        ({"run_name": "../../etc"}, "contains a slash"),
        ({"keep": 0}, "--keep must be at least 1"),
        ({"filename": "a.json", "tensorboard": True}, "exclude each other"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_runs(
    tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    ran = []
    with pytest.raises(OptionsError, match=re.escape(says)), tp.profile(trace_dir=tmp_path, **options):
        ran.append(1)
    assert ran == []
    assert names(tmp_path) == []


@pytest.mark.parametrize("option", [{"keep": 3}, {"gzip": True}, {"remote": "s3://a"}, {"filename": "a.json"}])
def test_words_about_kept_traces_need_a_folder(option: dict[str, Any]) -> None:
    with pytest.raises(OptionsError, match="needs --trace-dir"):
        KeepOptions(**option)


def test_a_folder_that_cannot_be_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    ran = []
    with (
        pytest.raises(TorchProfError, match="traces cannot be stored here"),
        tp.profile(trace_dir=tmp_path / "file" / "x"),
    ):
        ran.append(1)
    assert ran == []
    with tp.profile() as p:  # nothing was left on
        torch.ones(3)
    assert p.report.ops.height > 0


def test_a_trace_that_cannot_be_stored_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with tp.profile(trace_dir=tmp_path) as p:
        torch.ones(3).sum()
        monkeypatch.setattr("torchprof_magic.store.files.write_verified", fail)
    assert codes(p.report) == ["store.not_stored"]
    (problem,) = (problem for problem in p.report.problems if problem.code == "store.not_stored")
    (raw,) = p.report.trace_paths
    assert "No space left on device" in problem.message
    assert str(raw) in problem.message
    assert "aten::sum" in p.report.ops["name"].to_list()
    assert names(tmp_path) == []
    del p
    assert raw.exists()
    raw.unlink()
    raw.parent.rmdir()


def test_copies_go_to_another_place_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_uploads", {})
    here, there = tmp_path / "here", tmp_path / "there"
    there.mkdir()
    report = run(here, filename="run.json", remote=there.as_uri())
    assert codes(report) == []
    for uploads in keeping._uploads.values():
        assert uploads.wait(30)
    assert [status.state for status in keeping.upload_statuses()] == ["done"]
    assert (there / "run.json").read_bytes() == (here / "run.json").read_bytes()
    assert keeping.retry_uploads() == 0
