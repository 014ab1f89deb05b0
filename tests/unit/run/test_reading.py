"""A recording becomes a report even if memory is short or its files are damaged."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from made_snapshots import at, entry, segment, snapshot
from support import chrome, frame, recording, span

from torchprof_magic.model.meta import StepMark
from torchprof_magic.model.recording import Cycle, Recording
from torchprof_magic.run import reading, recorded_trace
from torchprof_magic.run.cleanup import sweep
from torchprof_magic.system.process.memory import Lack


def recording_of(folder: Path, cycles: int) -> Recording:
    made = []
    for number in range(cycles):
        path = folder / f"cycle-{number}.json"
        path.write_bytes(chrome(span(f"op{number}", 0, 10)).ljust(1000))
        marks = (StepMark(number=number, cycle=number, is_complete=True),)
        made.append(Cycle(number=number, path=path, steps=marks, start_unix_ns=None))
    return recording(folder, *made)


def test_cycles_that_do_not_fit_into_memory_stay_on_disk_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def lacks(file_bytes: int) -> Lack | None:
        asked.append(file_bytes)
        return Lack(2 * file_bytes, 5000, is_limit=False) if 2 * file_bytes > 5000 else None

    monkeypatch.setattr(reading, "lack_for_reading", lacks)
    monkeypatch.setattr(recorded_trace, "lack_for_reading", lacks)
    folder = tmp_path / "torchprof-run"
    folder.mkdir()
    report = reading.read_recording(recording_of(folder, 3))
    assert asked == [0, 1000, 2000, 3000]
    assert report.ops["name"].sort().to_list() == ["op0", "op1"]
    (problem,) = report.problems
    assert (problem.code, problem.severity) == ("run.too_large", "data_loss")
    assert problem.message == (
        "cycle-2.json was saved, but is too large to analyse here: that takes about 6 kB of memory, and 5 kB are free."
    )
    assert str(folder / "cycle-2.json") in problem.fix
    del report
    sweep()
    assert (folder / "cycle-2.json").exists()


def test_the_files_stay_when_memory_runs_out_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = recorded_trace.read_chrome

    def read(files: list[Path | bytes], *rest: object, **more: object) -> object:
        if isinstance(files[0], bytes):  # the report of nothing
            return real(files, *rest, **more)  # type: ignore[arg-type]
        raise MemoryError

    monkeypatch.setattr(recorded_trace, "read_chrome", read)
    folder = tmp_path / "torchprof-run"
    folder.mkdir()
    report = reading.read_recording(recording_of(folder, 2))
    assert [problem.code for problem in report.problems] == ["run.too_large", "run.too_large"]
    assert report.events.height == 0
    del report
    sweep()
    assert sorted(path.name for path in folder.iterdir()) == ["cycle-0.json", "cycle-1.json"]


def test_only_labels_of_cells_in_the_recording_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "cycle-0.json"
    path.write_bytes(
        chrome(frame("/cells/7.py(1): <module>", 0, 50), frame("lib.py(8): forward", 2, 20), span("mm", 3, 9))
    )
    labels = (("/cells/6.py", "In [6]"), ("/cells/7.py", "In [7]"), ("mm", "no file"))
    report = reading.read_recording(
        recording(tmp_path, Cycle(number=0, path=path, steps=(), start_unix_ns=None)), cell_labels=labels
    )
    assert report.trace.meta.cell_labels == (("/cells/7.py", "In [7]"),)


def snapshot_file(folder: Path, data: bytes) -> Recording:
    path = folder / "snapshot.pickle"
    path.write_bytes(data)
    return replace(recording_of(folder, 1), snapshot=path)


def test_the_snapshot_of_a_run_is_in_its_report(tmp_path: Path) -> None:
    value = snapshot([entry("alloc", 0, 5)], segments=(segment(9, at(4096, 5)),))
    report = reading.read_recording(snapshot_file(tmp_path, pickle.dumps(value, 4)))
    assert report.snapshot.peak["size_bytes"].to_list() == [5]
    assert report.ops["name"].to_list() == ["op0"]
    assert [problem.code for problem in report.problems] == ["snapshot.in_use"]


@pytest.mark.parametrize(("data", "reason"), [(b"\x80\x04", "cut off"), (bytes(100), "with 100 B it would delay it")])
def test_a_snapshot_that_cannot_be_read_with_the_report_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, reason: str
) -> None:
    monkeypatch.setattr(recorded_trace, "MAX_SNAPSHOT_BYTES", 50)
    report = reading.read_recording(snapshot_file(tmp_path, data))
    (problem,) = report.problems
    assert problem.code == "capture.snapshot_not_read"
    assert reason in problem.message
    assert str(tmp_path / "snapshot.pickle") in problem.fix
    assert report.ops["name"].to_list() == ["op0"]
