"""The raw files of a run are deleted after its report, where no Ctrl-C is lost, and never earlier."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from forking import forked_python
from support import chrome, recording, span

import torchprof_magic
from torchprof_magic.ingest import read_chrome
from torchprof_magic.report.trace_report import Report
from torchprof_magic.run import cleanup
from torchprof_magic.run.cleanup import delete_with, keep_raw, sweep

if TYPE_CHECKING:
    from types import FrameType

PACKAGE = str(Path(torchprof_magic.__file__).parent)


def made() -> Report:
    return Report(read_chrome([chrome(span("op", 0, 10))]))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # the empty path means here, and here is nothing that matters
    folder = tmp_path / "torchprof-run"
    folder.mkdir()
    (folder / "cycle-0.json").write_text("{}")
    (folder / "memory.pickle").write_text("")
    return folder


def test_files_are_deleted_after_their_report(folder: Path) -> None:
    report = made()
    delete_with(report, recording(folder))
    sweep()
    assert folder.exists()
    del report
    assert folder.exists()
    sweep()
    assert not folder.exists()


def test_no_python_code_runs_in_the_callback_of_a_deleted_report(folder: Path) -> None:
    report = made()
    ran: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            ran.append(frame.f_code.co_name)

    delete_with(report, recording(folder))
    sys.setprofile(note)
    try:
        del report
        sweep()
    finally:
        sys.setprofile(None)
    assert ran == ["sweep", "delete"]


def test_an_interrupted_sweep_is_completed_by_the_next(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = made()
    delete_with(report, recording(folder))
    del report
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda *_args, **_named: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            sweep()
    sweep()
    assert not folder.exists()
    assert not [files for files in cleanup._known.values() if files.folder == folder]


def test_two_threads_that_sweep_delete_each_folder_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = tmp_path / "torchprof-second"
    second.mkdir()
    reports = [made(), made()]
    delete_with(reports[0], recording(folder))
    delete_with(reports[1], recording(second))
    del reports[:]
    real = shutil.rmtree

    def slow(path: Path, **named: bool) -> None:
        if path == folder:
            other = threading.Thread(target=sweep)
            other.start()
            other.join()
            assert not second.exists()
        real(path, **named)

    monkeypatch.setattr(shutil, "rmtree", slow)
    sweep()
    assert not folder.exists()


def test_the_snapshot_is_not_deleted(folder: Path) -> None:
    report = made()
    delete_with(report, recording(folder, snapshot=folder / "memory.pickle"))
    del report
    sweep()
    assert [path.name for path in folder.iterdir()] == ["memory.pickle"]


def test_files_named_in_messages_and_folders_of_the_users_stay(folder: Path, tmp_path: Path) -> None:
    report = made()
    own = tmp_path / "own"
    own.mkdir()
    for run in (recording(folder), recording(own), recording(Path())):
        delete_with(report, run)
    keep_raw(recording(folder))
    del report
    sweep()
    assert folder.exists()
    assert own.exists()
    assert tmp_path.exists()


def test_forked_child_deletes_nothing(folder: Path) -> None:
    report = made()
    delete_with(report, recording(folder))
    if (child := os.fork()) == 0:
        status = 1
        try:
            del report
            sweep()
            cleanup._delete_all()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0) == (child, 0)
    assert (folder / "cycle-0.json").exists()


def test_files_are_deleted_at_the_end_of_the_process() -> None:
    script = (
        "import torch, torchprof_magic as tp\n"
        "with tp.profile() as p: torch.ones(3).sum()\n"
        "print(p._run.session.recording.folder, p._run.session.recording.folder.exists())"
    )
    done = subprocess.run(forked_python("-c", script), capture_output=True, text=True, check=True)
    folder, is_there = done.stdout.split()
    assert is_there == "True"
    assert not Path(folder).exists()
