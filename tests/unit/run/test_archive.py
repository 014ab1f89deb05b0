"""Traces are kept where the user asked for them, and what fails there does no harm to the run."""

from __future__ import annotations

import contextlib
import gc
import gzip
import json
import pickle
import re
import tempfile
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import torch

import torchprof_magic as tp
from torchprof_magic.capture import recorder
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.model.errors import OptionsError, TorchProfError
from torchprof_magic.options import KeepOptions
from torchprof_magic.run import archive
from torchprof_magic.run.cleanup import sweep
from torchprof_magic.runs import this_process
from torchprof_magic.store import trace_store
from torchprof_magic.store.trace_store import TraceStore, saved_traces
from torchprof_magic.store.upload import Uploads


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


def test_a_name_can_tell_the_counts_that_composer_tells(tmp_path: Path) -> None:
    fields = "{epoch}-{batch}-{batch_in_epoch}-{sample}-{sample_in_epoch}-{token}-{token_in_epoch}.json"
    kept = {"trace_dir": tmp_path, "filename": fields, "step_samples": 8, "step_tokens": 100}
    with tp.profile(wait=0, warmup=0, active=2, repeat=3, **kept) as p:
        for _ in range(2):
            for _ in p.steps(range(3)):
                torch.ones(3).sum()
    # Steps 0 and 1, 2 and 3, 4 and 5; three to an epoch. Batches that have ended are counted, as Composer does.
    assert names(tmp_path) == ["0-2-2-16-16-200-200.json", "1-4-1-32-8-400-100.json", "1-6-3-48-24-600-300.json"]
    assert [(mark.epoch, mark.batch) for mark in p.report.trace.meta.recorded_steps] == [
        (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2),
    ]  # fmt: skip


def test_a_cycle_number_is_added_and_the_default_name_holds_the_time(tmp_path: Path) -> None:
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
        run(tmp_path, filename=f"{number}.json", keep_last=2)
    assert names(tmp_path) == ["0.json", "3.json", "4.json"]
    assert [trace.state for trace in saved_traces(tmp_path)] == ["deleted", "deleted", "kept", "kept"]


def test_the_report_names_the_copies_that_were_deleted(tmp_path: Path) -> None:
    run(tmp_path, 3, filename="{cycle}.json")
    report = run(tmp_path, filename="new.json", keep_last=2)
    assert codes(report) == ["store.deleted"]
    (problem,) = [problem for problem in report.problems if problem.code == "store.deleted"]
    assert problem.severity == "info"
    assert problem.message == f"Older traces in {tmp_path} were deleted: 0.json, 1.json."
    assert "torchprofStoreId" in (tmp_path / "new.json").read_text()
    assert report.metadata == tp.load(tmp_path / "new.json").metadata
    assert "torchprofStoreId" not in report.metadata


class Exporter:
    """Stands in for a profiler, and collects the names that torch's handler asks for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def export_chrome_trace(self, path: str, **_: object) -> None:
        self.names.append(Path(path).name)


@pytest.mark.parametrize("worker", [None, "trainer 3"])
@pytest.mark.parametrize("gzip", [False, True])
def test_tensorboard_names_are_those_of_torchs_handler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, gzip: bool, worker: str | None
) -> None:
    run(tmp_path, 2, tensorboard=True, gzip=gzip, **({"worker_name": worker} if worker else {}))
    exporter = Exporter()
    for name in names(tmp_path):
        monkeypatch.setattr(time, "time_ns", lambda name=name: int(name.split(".pt.")[0].rpartition(".")[2]))
        torch.profiler.tensorboard_trace_handler(str(tmp_path), worker, gzip)(exporter)
    assert names(tmp_path) == exporter.names
    assert len(exporter.names) == 2


def test_ranks_do_not_share_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        run(tmp_path, filename="run.json")
    assert names(tmp_path) == ["run-rank0.json", "run-rank1.json"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"filename": "../run.json"}, "--trace-dir sets the folder"),
        ({"filename": "{nothing}.json"}, "there is no field {nothing}; choose from run_name, rank"),
        ({"filename": "{run_name.__class__}"}, "there is no field {run_name.__class__}"),
        ({"filename": "{step:>999999999}"}, "or {step:04d} for leading zeros"),
        ({"run_name": "../../etc"}, "--run-name '../../etc': a file name cannot contain '/'"),
        ({"keep_last": 0}, "--keep-last 0 deletes each trace when it is uploaded: add --remote"),
        ({"filename": "{sample}.json"}, "--filename '{sample}.json': {sample} needs --step-samples"),
        ({"remote": "s3://b/{token}"}, "{token} changes during the run"),
        ({"worker_name": "a/b", "tensorboard": True}, "--worker-name 'a/b': a file name cannot contain '/'"),
        ({"filename": "a.json", "tensorboard": True}, "cannot be combined"),
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


@pytest.mark.parametrize("option", [{"keep_last": 3}, {"gzip": True}, {"remote": "s3://a"}, {"filename": "a.json"}])
def test_options_for_kept_traces_need_a_folder(option: dict[str, Any]) -> None:
    with pytest.raises(OptionsError, match="needs --trace-dir"):
        KeepOptions(**option)


def test_a_folder_that_cannot_be_created_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    ran = []
    with (
        pytest.raises(TorchProfError, match="cannot store traces in"),
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
        monkeypatch.setattr("torchprof_magic.store.trace_store.copy_verified", fail)
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


def test_copies_are_uploaded_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_uploads", {})
    here, there = tmp_path / "here", tmp_path / "there"
    there.mkdir()
    report = run(here, filename="run.json", remote=there.as_uri())
    assert codes(report) == []
    (uploads,) = archive._uploads.values()
    with uploads._changed:
        assert uploads._changed.wait_for(lambda: uploads.statuses()[0].state == "done", 30)
    assert [status.state for status in archive.upload_statuses()] == ["done"]
    assert (there / "run.json").read_bytes() == (here / "run.json").read_bytes()
    assert archive.retry_uploads() == 0


def test_a_log_folder_holds_nothing_but_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_uploads", {})
    fsspec = pytest.importorskip("fsspec")
    (tmp_path / "there").mkdir()
    log = tmp_path / "log"
    report = run(log, 2, tensorboard=True, worker_name="w", keep_last=5, remote=(tmp_path / "there").as_uri())
    kept = sorted(map(str, report.trace_paths))
    assert sorted(fsspec.filesystem("file").ls(str(log), detail=False)) == kept
    assert all(re.search(r"/w\.\d+\.pt\.trace\.json$", path) for path in kept)


def test_wall_clock_times_in_a_name_are_seconds_since_the_run_the_epoch_and_the_step_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(recorder, "perf_counter_ns", clock)
    monkeypatch.setattr("torchprof_magic.capture.session.perf_counter_ns", clock)
    fields = "{total_wct:.0f}-{epoch_wct:.0f}-{batch_wct:.0f}.json"
    with tp.profile(wait=0, warmup=0, active=4, repeat=1, trace_dir=tmp_path, filename=fields) as p:
        for _ in range(2):
            for _ in p.steps(range(2)):
                clock.now_ns += 10_000_000_000
    assert p.report.saved_traces.height == 1
    assert names(tmp_path) == ["40-20-10.json"]


class Clock:
    """Stands still, unless a test lets time pass."""

    def __init__(self) -> None:
        self.now_ns = 1_000

    def __call__(self) -> int:
        return self.now_ns


def wait_until_sent() -> None:
    (uploads,) = archive._uploads.values()
    with uploads._changed:
        assert uploads._changed.wait_for(lambda: all(each.state == "done" for each in uploads.statuses()), 30)


def test_with_none_to_keep_each_trace_is_deleted_when_it_is_uploaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_uploads", {})
    (tmp_path / "there" / "net").mkdir(parents=True)
    remote = f"{(tmp_path / 'there').as_uri()}/{{run_name}}"
    report = run(tmp_path / "here", 2, run_name="net", filename="{batch}.json", keep_last=0, remote=remote)
    wait_until_sent()
    assert list((tmp_path / "here").iterdir()) == []
    assert names(tmp_path / "there" / "net") == ["1.json", "2.json"]
    saved = report.saved_traces
    assert saved["state"].to_list() == ["deleted", "deleted"]
    assert saved["remote_state"].to_list() == ["done", "done"]
    assert saved["remote"].to_list() == [f"{(tmp_path / 'there').as_uri()}/net/{name}.json" for name in (1, 2)]
    assert all(path.exists() for path in report.trace_paths)  # the raw ones, for as long as the report lives


def test_a_trace_is_not_deleted_between_being_stored_and_waiting_for_its_upload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of the uploads deletes whatever need not stay whenever one of them has ended."""
    monkeypatch.setattr(archive, "_uploads", {})
    submit, pruning = Uploads.submit, []

    def submit_late(uploads: Uploads, path: Path, then: Any = None) -> None:
        thread = threading.Thread(target=TraceStore(folder=path.parent, keep_last=0).prune, args=[0])
        thread.start()
        thread.join(0.2)
        pruning.append(thread)
        submit(uploads, path, then)

    monkeypatch.setattr(Uploads, "submit", submit_late)
    (tmp_path / "there").mkdir()
    run(tmp_path / "here", 2, filename="{batch}.json", keep_last=0, remote=(tmp_path / "there").as_uri())
    wait_until_sent()
    for thread in pruning:
        thread.join()
    assert names(tmp_path / "there") == ["1.json", "2.json"]


def test_minus_one_keeps_every_trace(tmp_path: Path) -> None:
    run(tmp_path, 3, filename="{batch}.json", keep_last=-1)
    assert names(tmp_path) == ["1.json", "2.json", "3.json"]


def test_the_report_lists_the_traces_that_its_run_kept(tmp_path: Path) -> None:
    run(tmp_path, filename="{run_name}.json", run_name="other")
    before = datetime.now(timezone.utc)
    report = run(tmp_path, 3, filename="{cycle}.json", keep_last=2)
    saved = report.saved_traces
    assert [Path(path).name for path in saved["path"]] == ["0.json", "1.json", "2.json"]
    assert saved.select("step", "cycle", "rank", "state").rows() == [
        (0, 0, 0, "deleted"), (1, 1, 0, "kept"), (2, 2, 0, "kept"),
    ]  # fmt: skip
    times = saved["timestamp"].to_list()
    assert before <= times[0] < times[1] < times[2] <= datetime.now(timezone.utc)
    assert saved["size_bytes"].to_list()[1] == (tmp_path / "1.json").stat().st_size
    assert saved.select("remote", "remote_state", "remote_error").null_count().row(0) == (3, 3, 3)
    loaded = tp.load(tmp_path / "1.json").saved_traces
    assert (loaded.height, loaded.schema) == (0, saved.schema)


def test_the_number_of_a_deleted_trace_is_not_used_again(tmp_path: Path) -> None:
    for _ in range(4):
        run(tmp_path, filename="run.json", keep_last=1)
    assert names(tmp_path) == ["run-4.json"]
    (tmp_path / "run-4.json").unlink()
    run(tmp_path, filename="run.json", keep_last=1)
    assert names(tmp_path) == ["run-5.json"]


class Device:
    """Stands in for torch's functions for the allocator of a device, of which there is none here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_on = False
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", self.record)
        monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: {"segments": [], "device_traces": [[]]})
        monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: self.is_on, raising=False)
        monkeypatch.setattr(torch._C, "_cuda_attach_out_of_memory_observer", lambda _call: None, raising=False)
        monkeypatch.setattr(compat, "_oom_observers", [])

    def record(
        self, enabled: str | None = "all", context: str = "all", stacks: str = "all", max_entries: int = 0
    ) -> None:
        assert enabled is None or (context, stacks, max_entries) == ("all", "python", 100_000)
        self.is_on = enabled is not None


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that runs make theirs in, on a machine with a device."""
    Device(monkeypatch)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def end_reports() -> None:
    """Let go of the last report, and of the raw files of its run."""
    this_process._reports.clear()
    gc.collect()
    sweep()


def is_snapshot(path: Path) -> bool:
    return bool(pickle.loads(path.read_bytes()) == {"segments": [], "device_traces": [[]]})  # noqa: S301 - our own


def told_snapshot(report: tp.Report) -> str:
    (note,) = [problem.message for problem in report.problems if problem.code == "capture.snapshot"]
    return note


@pytest.mark.parametrize(
    ("options", "trace", "snapshot"),
    [
        ({"filename": "net.pt.trace.json"}, "net.pt.trace.json", "net.snapshot.pickle"),
        ({"filename": "net.json", "gzip": True}, "net.json.gz", "net.snapshot.pickle"),
        ({"filename": "net-1.5"}, "net-1.5", "net-1.5.snapshot.pickle"),
    ],
)
def test_a_snapshot_is_kept_beside_its_trace_and_the_note_names_it(
    tmp_path: Path, temporary: Path, options: dict[str, Any], trace: str, snapshot: str
) -> None:
    kept = tmp_path / "kept"
    report = run(kept, snapshot=True, **options)
    assert names(kept) == sorted([trace, snapshot])
    assert is_snapshot(kept / snapshot)
    assert told_snapshot(report) == f"A memory snapshot was saved to {kept / snapshot}."
    assert codes(report) == []
    assert len(list(temporary.iterdir())) == 1
    del report
    end_reports()
    assert list(temporary.iterdir()) == []
    assert is_snapshot(kept / snapshot)


@pytest.mark.usefixtures("temporary")
def test_of_several_cycles_the_first_names_the_snapshot(tmp_path: Path) -> None:
    run(tmp_path / "kept", 2, snapshot=True, filename="net.json")
    assert names(tmp_path / "kept") == ["net-cycle0.json", "net-cycle0.snapshot.pickle", "net-cycle1.json"]


@pytest.mark.usefixtures("temporary")
def test_a_snapshot_of_that_name_is_left_alone_or_replaced_when_asked(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "net.snapshot.pickle").write_text("mine")
    run(kept, snapshot=True, filename="net.json")
    assert names(kept) == ["net-2.snapshot.pickle", "net.json", "net.snapshot.pickle"]
    assert (kept / "net.snapshot.pickle").read_text() == "mine"
    assert is_snapshot(kept / "net-2.snapshot.pickle")
    run(kept, snapshot=True, filename="net.json", overwrite=True)
    assert names(kept) == ["net-2.snapshot.pickle", "net.json", "net.snapshot.pickle"]
    assert is_snapshot(kept / "net.snapshot.pickle")


@pytest.mark.usefixtures("temporary")
def test_snapshots_are_neither_counted_nor_deleted_with_the_oldest_traces(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(tmp_path / "kept", snapshot=True, filename=f"{name}.json", keep_last=1)
    assert names(tmp_path / "kept") == ["a.snapshot.pickle", "b.json", "b.snapshot.pickle"]
    states = [(trace.path.name, trace.state) for trace in saved_traces(tmp_path / "kept")]
    assert states == [("a.json", "deleted"), ("b.json", "kept")]


def test_a_file_that_was_named_for_the_snapshot_is_not_copied(tmp_path: Path, temporary: Path) -> None:
    named = tmp_path / "mine.pickle"
    report = run(tmp_path / "kept", snapshot=named, filename="net.json")
    assert names(tmp_path / "kept") == ["net.json"]
    assert told_snapshot(report) == f"A memory snapshot was saved to {named}."
    assert [path.name for path in temporary.glob("*/*")] == ["cycle-0.pt.trace.json"]


def test_a_snapshot_that_cannot_be_copied_stays_where_it_is(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = trace_store.copy_verified

    def copy(source: Path, part: Any, **options: Any) -> Any:
        if source.name == "snapshot.pickle":
            raise OSError(28, "No space left on device")
        return real(source, part, **options)

    monkeypatch.setattr(trace_store, "copy_verified", copy)
    kept = tmp_path / "kept"
    report = run(kept, snapshot=True, filename="net.json")
    (raw,) = temporary.glob("*/snapshot.pickle")
    (problem,) = [problem for problem in report.problems if problem.code == "store.snapshot_not_stored"]
    target = kept / "net.snapshot.pickle"
    assert problem.message.startswith(
        f"{target} was not stored (the original is still in {raw}): No space left on device"
    )
    assert told_snapshot(report) == f"A memory snapshot was saved to {raw}."
    assert names(kept) == ["net.json"]
    assert [path.name for path in kept.iterdir() if path.suffix == ".part"] == []
    del report
    end_reports()
    assert list(temporary.glob("*/*")) == [raw]
    assert is_snapshot(raw)


def test_a_disk_that_does_not_confirm_the_copy_leaves_both_snapshots(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_folder: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(trace_store, "sync_folder", fail)
    report = run(tmp_path / "kept", snapshot=True, filename="net.json")
    notes = [problem for problem in report.problems if problem.code in ("store.note", "store.snapshot_note")]
    assert [note.message.partition(" ")[0] for note in notes] == ["net.json", "net.snapshot.pickle"]
    (raw,) = temporary.glob("*/snapshot.pickle")
    assert told_snapshot(report) == f"A memory snapshot was saved to {raw}."
    assert is_snapshot(raw)
    assert is_snapshot(tmp_path / "kept" / "net.snapshot.pickle")


@pytest.mark.usefixtures("temporary")
def test_an_out_of_memory_note_names_the_copy_of_the_snapshot(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    block = tp.profile(trace_dir=kept, filename="net.json", snapshot=True)
    with contextlib.suppress(torch.cuda.OutOfMemoryError), block:
        torch.ones(3).sum()
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has less.")
    (note,) = [problem for problem in block.report.problems if problem.code == "capture.out_of_memory_snapshot"]
    assert note.fix == f"To see what held the memory, open {kept / 'net.snapshot.pickle'}."
    assert is_snapshot(kept / "net.snapshot.pickle")
