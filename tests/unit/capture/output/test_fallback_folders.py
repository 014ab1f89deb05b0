"""A recording that does not fit on its own disk is written to another one, and the report says where."""

from __future__ import annotations

import errno
import gc
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from capturing import codes, names_in, record, work
from forking import forked_python
from torch.profiler.profiler import _KinetoProfile

import torchprof_magic as tp
from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture.output import export
from torchprof_magic.capture.output.crash_marker import Mark, take_unfinished
from torchprof_magic.capture.torch_api import features
from torchprof_magic.model.meta import STORE_KEY
from torchprof_magic.run.cleanup import sweep
from torchprof_magic.runs import this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Make = Callable[..., CaptureSession]

FILE = "cycle-0.pt.trace.json"
needs_python_export = pytest.mark.skipif(
    not features.HAS_PYTHON_EXPORT, reason="this torch has no export that can be repeated"
)


class Exports:
    """Which files torch was asked to write, and by which of its two exports; those under ``full`` find no room.

    No room is real: within such a call no file can be made longer than 2 kB.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full: list[Path] = []
        self.calls: list[tuple[str, Path]] = []
        real = _KinetoProfile.export_chrome_trace

        def export(profiler: _KinetoProfile, path: str, *, use_python_export: bool = False) -> None:
            self.calls.append(("python" if use_python_export else "fast", Path(path).parent))
            flags = {"use_python_export": True} if use_python_export else {}
            if not any(folder in Path(path).parents for folder in self.full):
                real(profiler, path, **flags)
                return
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))
            try:
                real(profiler, path, **flags)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)

        monkeypatch.setattr(_KinetoProfile, "export_chrome_trace", export)

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.calls]


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exports]:
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield Exports(monkeypatch)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture
def place(tmp_path: Path, other_places: list[Path]) -> Path:
    """Return a folder that traces may go to when their own is full."""
    folder = tmp_path / "place"
    folder.mkdir()
    other_places.append(folder)
    return folder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a disk of 256 kB that sessions of ``make_session`` write to."""
    folder = tmp_path / "run"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)],  # noqa: S607 - wherever the system has it
        check=False,
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("this user may not make disks")
    yield folder
    # A process of another test that was forked meanwhile may have a file of it open.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607 - the same


def only_file(place: Path) -> Path:
    """Return the trace in a place: it is alone in a folder that only its user may read."""
    (folder,) = place.iterdir()
    assert folder.name.startswith("torchprof-")
    assert folder.stat().st_mode & 0o777 == 0o700
    (path,) = folder.iterdir()
    assert path.name == FILE
    return path


def names(count: int) -> list[str]:
    return [f"work {number}" for number in range(count)]


def test_a_disk_with_too_little_space_is_not_tried(
    make_session: Make, small_disk: Path, place: Path, exports: Exports
) -> None:
    # Each name is an annotation around five operations: 2,400 events, more than 280 bytes each.
    recording = record(make_session, *names(400))
    path = only_file(place)
    assert [cycle.path for cycle in recording.cycles] == [path]
    assert names_in(path).count("aten::ones") == 400
    assert exports.calls == [("fast", path.parent)]
    (problem,) = recording.problems
    assert (problem.code, problem.severity) == ("capture.saved_elsewhere", "warning")
    assert problem.message.startswith(f"{FILE} could not be written to {small_disk} (not enough space; the file takes ")
    assert f" free in {small_disk}). It was saved to {path.parent} instead." in problem.message
    assert problem.fix.startswith("The file stays there until you delete it.")
    assert list(small_disk.iterdir()) == []


def test_a_small_recording_stays_on_a_small_disk(make_session: Make, small_disk: Path, place: Path) -> None:
    recording = record(make_session, "plain")
    assert codes(recording) == []
    assert [cycle.path for cycle in recording.cycles] == [small_disk / FILE]
    assert list(place.iterdir()) == []


@needs_python_export
def test_when_a_disk_turns_out_to_be_full_another_gets_the_slow_export(
    make_session: Make, small_disk: Path, place: Path, exports: Exports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "SCARCE_BYTES", 0)
    recording = record(make_session, *names(400))
    path = only_file(place)
    assert [cycle.path for cycle in recording.cycles] == [path]
    assert names_in(path).count("aten::ones") == 400
    assert exports.kinds == ["fast", "python", "python"]
    assert (
        f"could not be written to {small_disk} (No space left on device; the file takes "
        in recording.problems[0].message
    )
    assert list(small_disk.iterdir()) == []


def test_a_torch_that_exports_once_writes_to_the_other_disk_at_once(
    make_session: Make, small_disk: Path, place: Path, exports: Exports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "HAS_PYTHON_EXPORT", False)
    recording = record(make_session, *names(400))
    assert [cycle.path for cycle in recording.cycles] == [only_file(place)]
    assert exports.kinds == ["fast"]
    assert list(small_disk.iterdir()) == []


def test_a_torch_that_exports_once_cannot_write_to_another_disk(
    make_session: Make, tmp_path: Path, place: Path, exports: Exports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "HAS_PYTHON_EXPORT", False)
    exports.full.append(tmp_path / "run")
    recording = record(make_session, *names(20))
    assert (recording.cycles, codes(recording)) == ((), ["capture.not_saved"])
    assert f"Also tried: {place} (torch wrote no file)." in recording.problems[0].message
    assert list(place.iterdir()) == []


@needs_python_export
def test_folders_are_tried_in_order_and_listed_when_none_has_space(
    make_session: Make, tmp_path: Path, other_places: list[Path], exports: Exports
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        other_places.append(tmp_path / name)
    exports.full.append(tmp_path)
    recording = record(make_session, *names(20))
    assert recording.cycles == ()
    assert exports.kinds == ["fast", "python", "python", "python"]
    assert [folder.parent for _, folder in exports.calls[2:]] == [tmp_path / "a", tmp_path / "b"]
    (problem,) = recording.problems
    assert (problem.code, problem.severity) == ("capture.not_saved", "data_loss")
    assert f"{FILE} was not saved: File too large; it needs about " in problem.message
    assert f"free in {tmp_path / 'run'})" in problem.message
    tried = f"{tmp_path / 'a'} (File too large), {tmp_path / 'b'} (File too large)."
    assert problem.message.endswith(f" Also tried: {tried}")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "run"]
    assert [*(tmp_path / "a").iterdir(), *(tmp_path / "b").iterdir()] == []


@needs_python_export
def test_a_fallback_folder_that_is_full_is_skipped(
    make_session: Make, tmp_path: Path, place: Path, other_places: list[Path], exports: Exports
) -> None:
    (tmp_path / "second").mkdir()
    other_places.append(tmp_path / "second")
    exports.full += [tmp_path / "run", place]
    recording = record(make_session, *names(20))
    assert [cycle.path for cycle in recording.cycles] == [only_file(tmp_path / "second")]
    assert codes(recording) == ["capture.saved_elsewhere"]
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("has_python_export", [True, False])
def test_a_file_that_cannot_be_synced_is_copied_and_not_exported_again(
    make_session: Make,
    tmp_path: Path,
    place: Path,
    exports: Exports,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_python_export: bool,
) -> None:
    monkeypatch.setattr(features, "HAS_PYTHON_EXPORT", has_python_export)
    real = os.fsync

    def fsync(handle: int) -> None:
        if os.fstat(handle).st_ino == (tmp_path / "run" / f".{FILE}.part").stat().st_ino:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    recording = record(make_session, "plain")
    path = only_file(place)
    assert [cycle.path for cycle in recording.cycles] == [path]
    assert "plain" in names_in(path)
    assert exports.kinds == ["fast"]
    assert "(Disk quota exceeded; the file takes " in recording.problems[0].message
    assert list((tmp_path / "run").iterdir()) == []


def test_a_file_that_the_disk_confirms_only_when_asked_twice_is_kept_with_a_warning(
    make_session: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.fsync, []

    def fsync(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    recording = record(make_session, "plain")
    assert codes(recording) == ["capture.not_confirmed"]
    path = tmp_path / "run" / FILE
    assert f"{path} was saved, but the disk reported an error first: " in recording.problems[0].message
    assert "plain" in names_in(path)


def test_a_folder_that_was_deleted_does_not_lose_the_recording(
    make_session: Make, place: Path, exports: Exports
) -> None:
    session = make_session("cell")
    session.start()
    work("plain")
    shutil.rmtree(session._existing_folder())
    recording = session.stop()
    path = only_file(place)
    assert [cycle.path for cycle in recording.cycles] == [path]
    assert "plain" in names_in(path)
    assert exports.calls == [("fast", path.parent)]
    message = recording.problems[0].message
    assert f"could not be written to {recording.folder} (the folder does not exist; the file takes " in message
    assert f"{recording.folder} is not available). It was saved to {path.parent} instead." in message


@needs_python_export
def test_names_are_correct_where_only_the_first_export_had_space(
    make_session: Make, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _KinetoProfile.export_chrome_trace

    def export(profiler: _KinetoProfile, path: str, *, use_python_export: bool = False) -> None:
        if use_python_export and tmp_path / "run" in Path(path).parents:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(profiler, path, **({"use_python_export": True} if use_python_export else {}))

    monkeypatch.setattr(_KinetoProfile, "export_chrome_trace", export)
    recording = record(make_session, "é")
    assert codes(recording) == ["capture.saved_elsewhere"]
    assert "é" in names_in(only_file(place))
    assert list((tmp_path / "run").iterdir()) == []


def unwritable(_tmp_path: Path) -> Path:
    return Path("/proc")


def a_file(tmp_path: Path) -> Path:
    (tmp_path / "file").touch()
    return tmp_path / "file"


def not_there(tmp_path: Path) -> Path:
    return tmp_path / "nowhere"


@needs_python_export
@pytest.mark.parametrize("make_place", [unwritable, a_file, not_there])
def test_a_fallback_folder_that_is_not_writable_is_skipped(
    make_session: Make,
    tmp_path: Path,
    other_places: list[Path],
    exports: Exports,
    make_place: Callable[[Path], Path],
) -> None:
    (tmp_path / "second").mkdir()
    other_places += [make_place(tmp_path), tmp_path / "second"]
    exports.full.append(tmp_path / "run")
    recording = record(make_session, *names(20))
    assert [cycle.path for cycle in recording.cycles] == [only_file(tmp_path / "second")]


@needs_python_export
def test_cycles_of_one_run_share_a_fallback_folder_and_an_idle_last_one_leaves_none(
    make_session: Make, tmp_path: Path, place: Path, exports: Exports
) -> None:
    exports.full.append(tmp_path / "run")
    session = make_session(schedule=(1, 0, 1, 0))
    session.start()
    for _ in range(5):  # steps 1 and 3 are recorded; step 5 has just begun when the run ends
        for name in names(20):
            work(name)
        session.step()
    recording = session.stop()
    (folder,) = place.iterdir()
    paths = [folder / FILE, folder / "cycle-1.pt.trace.json"]
    assert [cycle.path for cycle in recording.cycles] == paths
    assert sorted(folder.iterdir()) == paths
    assert codes(recording) == ["capture.saved_elsewhere"] * 2


@needs_python_export
def test_a_discarded_run_leaves_no_fallback_folder(
    make_session: Make, tmp_path: Path, place: Path, exports: Exports
) -> None:
    exports.full.append(tmp_path / "run")
    session = make_session("cell")
    session.start()
    for name in names(20):
        work(name)
    session.discard()
    assert exports.kinds == ["fast", "python", "python"]
    assert list(place.iterdir()) == []


@needs_python_export
def test_repeated_interrupts_discard_a_recording_that_is_being_saved_to_a_fallback_folder(
    make_session: Make, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _KinetoProfile.export_chrome_trace

    def export(profiler: _KinetoProfile, path: str, *, use_python_export: bool = False) -> None:
        if tmp_path / "run" in Path(path).parents:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        Path(path).write_text("half of it")
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        real(profiler, path, use_python_export=use_python_export)

    monkeypatch.setattr(_KinetoProfile, "export_chrome_trace", export)
    session = make_session("cell")
    session.start()
    work()
    with pytest.raises(KeyboardInterrupt):
        session.stop()
    assert session.recording is not None
    assert (session.recording.cycles, codes(session.recording)) == ((), ["capture.given_up"])
    assert list(place.iterdir()) == []
    assert list((tmp_path / "run").iterdir()) == []


@pytest.fixture
def full_temporary_folder(tmp_path: Path, exports: Exports, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    exports.full.append(folder)
    return folder


@needs_python_export
def test_the_report_is_made_from_the_fallback_file_which_outlives_it(full_temporary_folder: Path, place: Path) -> None:
    handed: list[Path] = []

    def handler(profiler: object) -> None:
        handed.append(place / "copy.json")
        profiler.export_chrome_trace(str(handed[0]))  # type: ignore[attr-defined]

    with tp.profile(on_trace_ready=handler) as p:
        for name in names(20):
            work(name)
    (folder,) = [path for path in place.iterdir() if path.is_dir()]
    path = folder / FILE
    assert [problem.code for problem in p.report.problems] == ["capture.saved_elsewhere"]
    assert p.report.trace_paths == (path,)
    assert p.report.ops.filter(name="aten::ones")["calls"].to_list() == [20]
    assert handed[0].read_bytes() == path.read_bytes()
    assert len(list(full_temporary_folder.iterdir())) == 1
    this_process._reports.clear()
    del p
    gc.collect()
    sweep()
    assert list(full_temporary_folder.iterdir()) == []
    assert path.exists()


@needs_python_export
@pytest.mark.usefixtures("full_temporary_folder")
def test_kept_traces_are_copied_from_the_fallback_file_and_their_folder_is_tried_first(
    tmp_path: Path, place: Path
) -> None:
    kept = tmp_path / "kept"
    with tp.profile(trace_dir=kept, filename="run.json") as p:
        for name in names(20):
            work(name)
    (folder,) = [path for path in kept.iterdir() if path.is_dir()]
    assert [path.name for path in folder.iterdir()] == [FILE]
    copy = json.loads((kept / "run.json").read_bytes())
    assert copy.pop(STORE_KEY)
    assert copy == json.loads((folder / FILE).read_bytes())
    assert p.report.trace_paths == (kept / "run.json",)
    assert list(place.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks of this kind")
def test_a_killed_run_is_reported_with_its_fallback_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary, there, foreign = tmp_path / "temporary", tmp_path / "torchprof-there", tmp_path / "foreign"
    for folder in (temporary, there, foreign):
        folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    script = """
    import os, signal, sys
    from pathlib import Path
    from torchprof_magic.capture.output.crash_marker import Mark
    run = Path(sys.argv[1]) / "torchprof-run"
    run.mkdir()
    mark = Mark(run, "In [5]")
    for folder in sys.argv[2:]:
        mark.add(Path(folder))
    os.kill(os.getpid(), signal.SIGKILL)
    """
    gone = tmp_path / "torchprof-gone"
    (there / "cycle-1.pt.trace.json").write_text("{}")
    (there / ".cycle-2.pt.trace.json.part").write_text("half of it")
    (foreign / ".cycle-0.pt.trace.json.part").write_text("not ours")
    arguments = ("-c", textwrap.dedent(script), *map(str, (temporary, there, gone, foreign)))
    subprocess.run(forked_python(*arguments), check=False)
    (run,) = take_unfinished()
    assert (run.title, run.paths) == ("In [5]", (there / "cycle-1.pt.trace.json",))
    assert [path.name for path in there.iterdir()] == ["cycle-1.pt.trace.json"]
    assert [path.name for path in foreign.iterdir()] == [".cycle-0.pt.trace.json.part"]
    assert list(temporary.iterdir()) == []
    assert take_unfinished() == []


@needs_python_export
@pytest.mark.usefixtures("place")
def test_the_marker_of_a_run_lists_the_fallback_folder_while_it_is_empty(
    make_session: Make, tmp_path: Path, exports: Exports, monkeypatch: pytest.MonkeyPatch
) -> None:
    exports.full.append(tmp_path / "run")
    marked: list[tuple[Path, int]] = []
    monkeypatch.setattr(Mark, "add", lambda _self, folder: marked.append((folder, len(list(folder.iterdir())))))
    recording = record(make_session, *names(20))
    assert marked == [(recording.cycles[0].path.parent, 0)]
