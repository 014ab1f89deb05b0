"""A run whose process was killed is found once, with its files, and a run in progress is not touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from torchprof_magic.capture.output.crash_marker import Mark, Unfinished, take_unfinished

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks of this kind")

MARKED = """
import sys, tempfile
from pathlib import Path
tempfile.tempdir = sys.argv[1]
from torchprof_magic.capture.output.crash_marker import Mark, take_unfinished
folder = Path(tempfile.mkdtemp(prefix="torchprof-"))
mark = Mark(folder, "In [5]")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def started(folder: Path, code: str) -> subprocess.Popen[str]:
    """Return a process that has marked a run, done ``code``, and waits to be killed."""
    whole = MARKED + textwrap.dedent(code) + "\nprint(folder, flush=True)\nsys.stdin.read()\n"
    return subprocess.Popen(
        [sys.executable, "-c", whole, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def run_folder(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


def kill(process: subprocess.Popen[str]) -> None:
    with process:
        process.kill()


def kill_alone(process: subprocess.Popen[str]) -> None:
    """End a process whose child goes on, and with it holds its pipes open."""
    process.kill()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()
    process.wait()


@pytest.fixture
def alive(folder: Path) -> Iterator[subprocess.Popen[str]]:
    process = started(folder, "(folder / 'cycle-0.pt.trace.json').write_text('{}')")
    yield process
    kill(process)


def test_a_run_in_progress_is_not_touched(alive: subprocess.Popen[str]) -> None:
    where = run_folder(alive)
    before = sorted(where.iterdir())
    assert take_unfinished() == []
    assert sorted(where.iterdir()) == before
    assert len(before) == 2


def test_a_run_whose_process_was_killed_is_reported_once_and_its_trace_stays(alive: subprocess.Popen[str]) -> None:
    where = run_folder(alive)
    (where / ".cycle-1.pt.trace.json.part").write_text("half of it")
    kill(alive)
    (found,) = take_unfinished()
    assert (found.title, found.paths) == ("In [5]", (where / "cycle-0.pt.trace.json",))
    assert list(where.iterdir()) == [where / "cycle-0.pt.trace.json"]
    assert take_unfinished() == []


def test_a_run_that_saved_nothing_leaves_no_folder(folder: Path) -> None:
    process = started(folder, "")
    where = run_folder(process)
    kill(process)
    assert [run.paths for run in take_unfinished()] == [()]
    assert not where.exists()


def test_a_child_that_outlives_its_parent_does_not_hold_the_lock(folder: Path) -> None:
    process = started(folder, "import os, time\nchild = os.fork()\nif not child: time.sleep(600)\nprint(child)")
    assert process.stdout is not None
    child = int(process.stdout.readline())
    run_folder(process)
    kill_alone(process)
    try:
        assert [run.title for run in take_unfinished()] == ["In [5]"]
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_run_that_ended_has_no_marker(folder: Path) -> None:
    run = folder / "torchprof-ours"
    run.mkdir()
    mark = Mark(run, "In [6]")
    assert [path.name for path in run.iterdir()] == [f".torchprof-running-{os.getpid()}"]
    assert take_unfinished() == []
    mark.remove()
    mark.remove()
    assert list(run.iterdir()) == []


def test_a_child_does_not_remove_the_marker_of_its_parent(folder: Path) -> None:
    run = folder / "torchprof-ours"
    run.mkdir()
    mark = Mark(run, "In [7]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads, Python 3.12
        child = os.fork()
    if not child:
        mark.remove()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(run.iterdir())) == 1
    mark.remove()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"title": 1}', "\x00", '{"title": "a", "began_unix_s": "x"}'])
def test_a_marker_that_cannot_be_parsed_is_not_touched(folder: Path, text: str) -> None:
    run = folder / "torchprof-odd"
    run.mkdir()
    (run / ".torchprof-running-1").write_text(text)
    assert take_unfinished() == []
    assert len(list(run.iterdir())) == 1


def test_a_link_is_never_followed(folder: Path) -> None:
    target = folder / "target"
    target.write_text(json.dumps({"title": "theirs", "began_unix_s": 1.0}))
    run = folder / "torchprof-trap"
    run.mkdir()
    (run / ".torchprof-running-1").symlink_to(target)
    (folder / "torchprof-linked").symlink_to(run)
    assert take_unfinished() == []
    assert target.exists()


def test_killed_runs_are_listed_with_the_oldest_first(folder: Path) -> None:
    for number, began in (("2", 20.0), ("1", 10.0)):
        run = folder / f"torchprof-{number}"
        run.mkdir()
        (run / ".torchprof-running-1").write_text(json.dumps({"title": number, "began_unix_s": began}))
    assert take_unfinished() == [
        Unfinished(title="1", began_unix_s=10.0, paths=()),
        Unfinished(title="2", began_unix_s=20.0, paths=()),
    ]


def test_a_folder_that_is_not_writable_has_no_marker_and_raises_no_error(folder: Path) -> None:
    Mark(folder / "nowhere", "In [8]").remove()
