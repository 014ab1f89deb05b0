"""Every cycle becomes a valid file with correct names; one that cannot be written is reported."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import textwrap
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from capturing import codes, names_in, record, work
from forking import forked_python

from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture.interrupts.guard import InterruptGuard
from torchprof_magic.capture.output import export
from torchprof_magic.capture.output.validate import find_flaw
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.capture.torch_api import features
from torchprof_magic.model.errors import CaptureError
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions
from torchprof_magic.system.files.atomic import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Make = Callable[..., CaptureSession]

HOSTILE = ['q"uote', "back\\slash", "é", "日本語", "tab\there", "\x01", "</script>", "path/like", "emoji 😀", "unknown"]


@pytest.mark.skipif(not features.HAS_PYTHON_EXPORT, reason="this torch has no export that escapes names")
@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_in_the_trace_as_they_were_recorded(make_session: Make, name: str) -> None:
    recording = record(make_session, name)
    assert name in names_in(recording.cycles[0].path)
    assert recording.problems == ()


def test_ascii_names_use_the_fast_export_only(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export._Writer, "_export_again", lambda *_: pytest.fail("exported twice"))
    found = names_in(record(make_session, "layer1/relu", "plain", "it's").cycles[0].path)
    assert {"layer1/relu", "plain", "it's"} <= set(found)


@pytest.mark.parametrize(
    ("written", "recorded", "flaw"),
    [
        ("q'uote", 'q"uote', "torch changed quotes in names"),
        ("it's", "it's", None),
        ("plain", "plain", None),
        ("a/b's", "a/b's", None),
        ("'a' 'b'", "'a' \"b'", "torch changed quotes in names"),
    ],
)
@pytest.mark.parametrize("layout", ['{"name": "%s"}', '{\n"cat": "python_function",\n"name": "%s", "ts": 1\n}\n'])
def test_a_name_with_quotes_in_a_valid_file_is_compared_with_the_one_that_was_recorded(
    tmp_path: Path, layout: str, written: str, recorded: str, flaw: str | None
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(layout % written)
    engine: Any = SimpleNamespace(metadata=(), recorded_names=lambda: {recorded})
    assert find_flaw(path, engine) == flaw
    path.write_text(f'[{layout % "plain"}, {{"traceName": "/tmp/it\'s.json"}}]')
    assert find_flaw(path, engine) is None


def test_without_the_python_export_an_invalid_file_is_kept_and_reported(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "HAS_PYTHON_EXPORT", False)
    recording = record(make_session, 'q"uote')
    assert codes(recording) == ["capture.invalid_trace"]
    assert re.search(rb"""q["']uote""", recording.cycles[0].path.read_bytes())  # torch 2.15 writes another name


def test_only_the_trace_is_left_in_the_folder(make_session: Make) -> None:
    recording = record(make_session, 'q"uote')
    assert [path.name for path in recording.folder.iterdir()] == ["cycle-0.pt.trace.json"]


def test_a_cycle_that_cannot_be_saved_does_not_lose_the_others(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = torch.profiler.profiler._KinetoProfile.export_chrome_trace
    calls: list[str] = []

    def fail_once(self: object, path: str, **flags: bool) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise RuntimeError("Trace is already saved.")
        original(self, path, **flags)

    monkeypatch.setattr(torch.profiler.profiler._KinetoProfile, "export_chrome_trace", fail_once)
    session = make_session(schedule=(0, 1, 1, 3))
    session.start()
    for _ in range(6):
        work()
        session.step()
    recording = session.stop()
    assert [cycle.number for cycle in recording.cycles] == [0, 2]
    assert codes(recording) == ["capture.not_saved"]


@contextmanager
def small_files() -> Iterator[None]:
    """Make every write beyond 2 kB fail, as on a full disk. pytest's own log may be a longer file, so not for long."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_reported_and_leaves_no_files_behind(make_session: Make) -> None:
    with small_files():
        recording = record(make_session, *"abcdefgh")
    assert codes(recording) == ["capture.not_saved"]
    assert "free in" in recording.problems[0].message
    assert recording.problems[0].message.endswith(" No other folder has space.")
    assert list(recording.folder.iterdir()) == []
    assert recording.cycles == ()


def test_unwritable_folder_is_an_error_before_anything_runs() -> None:
    session = CaptureSession(ProfileOptions(), stepping=Stepping(how="cell"), folder=Path("/proc/torchprof"))
    with pytest.raises(CaptureError, match="cannot write traces to"):
        session.start()
    assert not session.is_active


def test_folder_that_is_a_file_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    session = CaptureSession(ProfileOptions(), stepping=Stepping(how="cell"), folder=tmp_path / "run")
    with pytest.raises(CaptureError, match="cannot write traces to"):
        session.start()


def test_folder_that_vanishes_during_the_run_is_a_problem(make_session: Make) -> None:
    session = make_session("cell")
    session.start()
    work()
    shutil.rmtree(session._existing_folder())
    recording = session.stop()
    assert codes(recording) == ["capture.not_saved"]
    assert recording.cycles == ()


def test_flags_reach_the_trace(make_session: Make) -> None:
    session = make_session("cell", record_shapes=True, profile_memory=True)
    session.start()
    work()
    trace = json.loads(session.stop().cycles[0].path.read_bytes())
    assert trace["record_shapes"] == 1
    assert any(event["name"] == "[memory]" for event in trace["traceEvents"])


def test_trace_start_is_a_wall_clock(make_session: Make) -> None:
    cycle = record(make_session, "plain").cycles[0]
    assert cycle.start_unix_ns is not None
    assert abs(cycle.start_unix_ns - cycle.path.stat().st_mtime_ns) < 60 * 10**9


SCRIPT = """
import os, sys
CLOSE
import torch
from torchprof_magic.capture import CaptureSession
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions
session = CaptureSession(ProfileOptions(), stepping=Stepping(how="cell"))
session.start()
os.write(1, b"cell ")
MESSAGE
torch.ones(3).sum()
recording = session.stop()
os.write(1, recording.cycles[0].path.read_bytes()[:1].strip() + str(len(recording.problems)).encode())
"""


def run_script(close: str, message: str) -> tuple[str, str]:
    script = textwrap.dedent(SCRIPT).replace("CLOSE", close).replace("MESSAGE", message)
    done = subprocess.run(forked_python("-W", "ignore", "-c", script), capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_stderr_has_the_users_lines_and_none_of_kineto() -> None:
    assert run_script("", 'os.write(2, b"mine\\n")') == ("cell 0", "mine\n")


def test_closed_stderr_changes_nothing() -> None:
    assert run_script("os.close(2)", "")[0] == "cell 0"


@pytest.mark.parametrize("has_python_export", [True, False])
def test_an_empty_file_is_not_saved_and_leaves_nothing_behind(
    make_session: Make, monkeypatch: pytest.MonkeyPatch, *, has_python_export: bool
) -> None:
    monkeypatch.setattr(features, "HAS_PYTHON_EXPORT", has_python_export)
    monkeypatch.setattr(
        "torch.profiler.profiler._KinetoProfile.export_chrome_trace", lambda _self, path, **_: Path(path).touch()
    )
    recording = record(make_session, "plain")
    assert codes(recording) == ["capture.not_saved"]
    assert "torch wrote no file" in recording.problems[0].message
    assert list(recording.folder.iterdir()) == []


def test_the_file_of_an_earlier_run_is_not_mistaken_for_the_current_one(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = record(make_session, "earlier").cycles[0].path
    monkeypatch.setattr("torch.profiler.profiler._KinetoProfile.export_chrome_trace", lambda *_, **__: None)
    recording = record(make_session, "later")
    assert recording.folder == before.parent
    assert (recording.cycles, codes(recording)) == ((), ["capture.not_saved"])
    assert "earlier" in names_in(before)


def broken_text(*_arguments: object, **_named: object) -> None:
    raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


@pytest.mark.skipif(not features.HAS_PYTHON_EXPORT, reason="this torch has no export that escapes names")
def test_a_name_that_is_not_text_does_not_lose_the_first_export(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiler = torch.profiler.profiler._KinetoProfile
    original = profiler.export_chrome_trace

    def export(self: object, path: str, *, use_python_export: bool = False) -> None:
        if use_python_export:
            broken_text()
        original(self, path)

    monkeypatch.setattr(profiler, "export_chrome_trace", export)
    recording = record(make_session, "plain", "日本語")
    assert codes(recording) == ["capture.invalid_trace"]
    assert "plain" in names_in(recording.cycles[0].path)


@pytest.mark.skipif(not features.HAS_PYTHON_EXPORT, reason="this torch has no export that escapes names")
def test_names_that_cannot_be_compared_are_exported_again(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchprof_magic.capture.torch_api.engine.Engine.recorded_names", broken_text)
    recording = record(make_session, "a/b")
    assert codes(recording) == []
    assert "a/b" in names_in(recording.cycles[0].path)


def save_graph(target: Path, folder: Path) -> ProblemLog:
    """Save an execution trace that torch wrote to ``folder``, as at the end of a cycle."""
    problems = ProblemLog()
    written = folder / "written.json"
    written.write_text(GRAPH)
    export.save_execution_trace(written, target, problems)
    assert not written.exists()
    return problems


def save_snapshot(target: Path, _folder: Path) -> ProblemLog:
    problems = ProblemLog()
    export.save_snapshot({"segments": []}, target, InterruptGuard(), problems)
    return problems


GRAPH = '{"schema": "1.1.1", "nodes": []}'
writers = pytest.mark.parametrize("save", [save_graph, save_snapshot])


@writers
def test_links_under_names_that_a_writer_could_use_are_not_followed(
    tmp_path: Path, save: Callable[[Path, Path], ProblemLog]
) -> None:
    shared, mine = tmp_path / "shared", tmp_path / "mine"
    shared.mkdir(mode=0o1777)
    mine.write_text("mine")
    for name in (".graph.json.part", "graph.json.part", "graph.json.tmp", ".graph.json.part.tmp"):
        (shared / name).symlink_to(mine)
    planted = set(shared.iterdir())
    assert not save(shared / "graph.json", tmp_path).as_tuple()
    assert mine.read_text() == "mine"
    assert set(shared.iterdir()) == {*planted, shared / "graph.json"}


@writers
def test_a_link_as_target_is_replaced_and_what_it_points_to_stays(
    tmp_path: Path, save: Callable[[Path, Path], ProblemLog]
) -> None:
    target, mine = tmp_path / "graph.json", tmp_path / "mine"
    mine.write_text("mine")
    target.symlink_to(mine)
    assert not save(target, tmp_path).as_tuple()
    assert mine.read_text() == "mine"
    assert target.is_file()
    assert not target.is_symlink()


@writers
def test_a_file_is_private_under_a_random_name_until_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[[Path, Path], ProblemLog]
) -> None:
    created: list[tuple[str, int]] = []
    modes: list[int] = []

    def open_noting(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            created.append((Path(path).name, flags))
        return real_open(path, flags, mode)

    def finish_noting(part: Part) -> None:
        modes.append(part.path.lstat().st_mode & 0o777)
        real_finish(part)

    real_open, real_finish = os.open, Part.finish
    monkeypatch.setattr(os, "open", open_noting)
    monkeypatch.setattr(Part, "finish", finish_noting)
    for _ in range(2):
        assert not save(tmp_path / "graph.json", tmp_path).as_tuple()
    parts = [(name, flags) for name, flags in created if "torchprof" in name]
    assert len({name for name, _ in parts}) == 2
    assert all(re.fullmatch(r"\.torchprof-[0-9a-f]{16}\.part", name) for name, _ in parts)
    assert all(flags & os.O_EXCL and flags & os.O_NOFOLLOW for _, flags in parts)
    assert modes == [0o600, 0o600]
