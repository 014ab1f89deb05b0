"""How long does torch's own copy of a cycle live that is on disk, and when is the file checked?"""

from __future__ import annotations

import errno
import os
import resource
import signal
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from capturing import codes, names_in, work
from torch.profiler.profiler import _KinetoProfile

from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture.output import export, finished_cycles
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions, ScheduleOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchprof_magic.capture.torch_api.engine import Engine

    Run = Callable[..., CaptureSession]

needs_python_export = pytest.mark.skipif(
    not compat.HAS_PYTHON_EXPORT, reason="this torch has no export that can be repeated"
)


@pytest.fixture
def cycles() -> list[weakref.ref[Any]]:
    """What torch held of each cycle when it was saved."""
    return []


@pytest.fixture
def session(tmp_path: Path, cycles: list[weakref.ref[Any]]) -> CaptureSession:
    """A session of two cycles, with two steps between them and some after them."""
    options = ProfileOptions(
        activities=("cpu",),
        schedule=ScheduleOptions(wait=2, warmup=1, active=1, repeat=2, skip_first_wait=True),
        on_trace_ready=lambda profiler: cycles.append(weakref.ref(profiler)),
    )
    return CaptureSession(options, stepping=Stepping(how="manual"), folder=tmp_path)


def alive(cycles: list[weakref.ref[Any]]) -> list[bool]:
    """Return of each saved cycle whether torch still holds it."""
    return [cycle() is not None for cycle in cycles]


def step(session: CaptureSession, count: int) -> None:
    """Do some work in each of so many steps."""
    for _ in range(count):
        work()
        session.step()


def test_a_saved_cycle_stays_with_torch_until_the_next_one_is_prepared(
    session: CaptureSession, cycles: list[weakref.ref[Any]]
) -> None:
    session.start()
    step(session, 3)
    assert alive(cycles) == [True]
    step(session, 1)
    assert alive(cycles) == [False]
    session.stop()


def test_the_last_cycle_stays_with_torch_until_the_run_ends(
    session: CaptureSession, cycles: list[weakref.ref[Any]]
) -> None:
    session.start()
    step(session, 12)
    assert alive(cycles) == [False, True]
    recording = session.stop()
    assert alive(cycles) == [False, False]
    assert [cycle.number for cycle in recording.cycles] == [0, 1]


@pytest.mark.parametrize("end", [CaptureSession.discard, CaptureSession.reclaim])
def test_nothing_stays_with_torch_of_a_run_that_is_thrown_away(
    session: CaptureSession, cycles: list[weakref.ref[Any]], end: Callable[[CaptureSession], None]
) -> None:
    session.start()
    step(session, 3)
    end(session)
    assert alive(cycles) == [False]


def test_a_large_cycle_goes_as_soon_as_it_is_on_disk(
    session: CaptureSession, cycles: list[weakref.ref[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finished_cycles, "KEPT_FILE_BYTES", 1000)
    session.start()
    step(session, 3)
    assert alive(cycles) == [False]
    session.stop()


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that every byte was looked at of, in order."""
    names: list[str] = []

    def flaw_of(path: Path, engine: Engine) -> str | None:
        names.append(path.name)
        return real(path, engine)

    real = export.flaw_of
    for module in (export, finished_cycles):
        monkeypatch.setattr(module, "flaw_of", flaw_of)
    return names


@pytest.fixture
def run_of() -> Iterator[Callable[..., CaptureSession]]:
    """Make a session that is over but for its reader, with annotations of these names in each cycle."""
    made = []

    def run(
        folder: Path, *names: str, repeat: int = 1, handler: Callable[[Any], object] | None = None, **options: Any
    ) -> CaptureSession:
        schedule = ScheduleOptions(wait=1, warmup=0, active=1, repeat=repeat)
        options = {"activities": ("cpu",), "schedule": schedule, "on_trace_ready": handler, **options}
        session = CaptureSession(ProfileOptions(**options), stepping=Stepping(how="manual"), folder=folder)
        made.append(session)
        session.start()
        for _ in range(2 * repeat + 1):
            for name in names:
                work(name)
            session.step()
        session.stop(is_held=True)
        return session

    yield run
    for session in made:
        session.guard.drop_pending()
        session.release()


def files_in(folder: Path) -> list[Path]:
    """Return all files but the mark of the run, which goes with its release."""
    return [path for path in folder.rglob("*") if path.is_file() and "running" not in path.name]


def test_the_last_file_waits_for_its_reader_and_is_checked_when_asked(
    run_of: Run, tmp_path: Path, checks: list[str]
) -> None:
    session = run_of(tmp_path, "plain")
    assert checks == []
    assert session.checked() is None
    assert checks == ["cycle-0.pt.trace.json"]
    session.release()
    assert len(checks) == 1


def test_a_file_whose_reader_found_everything_is_not_checked(
    run_of: Run, tmp_path: Path, checks: list[str], cycles: list[weakref.ref[Any]]
) -> None:
    session = run_of(tmp_path, "plain")
    recorder: Any = session._recorder
    cycles.append(weakref.ref(recorder._shelf._kept.engine.profiler))
    session.skip_check()
    assert alive(cycles) == [True]
    session.release()
    assert (checks, alive(cycles)) == ([], [False])


def test_a_file_that_nobody_has_read_is_checked_when_the_run_is_over(
    run_of: Run, tmp_path: Path, checks: list[str]
) -> None:
    run_of(tmp_path, "plain").release()
    assert checks == ["cycle-0.pt.trace.json"]


def test_a_file_is_checked_before_torch_lets_go_of_its_cycle(run_of: Run, tmp_path: Path, checks: list[str]) -> None:
    session = run_of(tmp_path, "plain", repeat=3)
    assert checks == ["cycle-0.pt.trace.json", "cycle-1.pt.trace.json"]
    session.release()
    assert checks[2:] == ["cycle-2.pt.trace.json"]


def test_a_large_file_is_checked_at_once(
    run_of: Run, tmp_path: Path, checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finished_cycles, "KEPT_FILE_BYTES", 1000)
    run_of(tmp_path, "plain").skip_check()
    assert checks == ["cycle-0.pt.trace.json"]


def test_a_file_is_checked_before_the_users_handler_has_it(run_of: Run, tmp_path: Path, checks: list[str]) -> None:
    handed: list[list[str]] = []
    run_of(tmp_path, "plain", handler=lambda _: handed.append(list(checks))).skip_check()
    assert handed == [[".cycle-0.pt.trace.json.part"]]


def test_metadata_whose_change_no_reader_would_see_is_compared_at_once(
    run_of: Run, tmp_path: Path, checks: list[str]
) -> None:
    run_of(tmp_path, "plain", metadata=(("path", r'"C:\\runs"'),)).skip_check()
    assert checks[:1] == [".cycle-0.pt.trace.json.part"]


def test_a_file_that_torch_did_not_end_is_checked_at_once(
    run_of: Run, tmp_path: Path, checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "is_whole", lambda _: False)
    run_of(tmp_path, "plain").skip_check()
    assert checks == [".cycle-0.pt.trace.json.part"]


def test_what_is_thrown_away_is_not_checked(session: CaptureSession, checks: list[str], tmp_path: Path) -> None:
    session._options = ProfileOptions(activities=("cpu",), schedule=session._options.schedule)
    session.start()
    step(session, 3)
    session.discard()
    assert checks == []
    assert not tmp_path.exists()


@pytest.mark.parametrize("end", [CaptureSession.stop, CaptureSession.discard, CaptureSession.reclaim])
def test_a_forked_child_leaves_the_file_of_its_parent_alone(
    tmp_path: Path, checks: list[str], end: Callable[[CaptureSession], object]
) -> None:
    options = ProfileOptions(activities=("cpu",), schedule=ScheduleOptions(wait=1, warmup=0, active=1, repeat=1))
    session = CaptureSession(options, stepping=Stepping(how="manual"), folder=tmp_path)
    session.start()
    step(session, 3)
    child = os.fork()
    if not child:
        end(session)
        os._exit(len(checks))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    session.stop()
    assert checks == ["cycle-0.pt.trace.json"]


@needs_python_export
def test_a_flawed_file_is_written_anew_and_the_recording_says_where(
    run_of: Run, tmp_path: Path, checks: list[str]
) -> None:
    session = run_of(tmp_path, "é")
    before = session.recording
    assert before is not None
    assert "é" not in names_in(before.cycles[0].path)
    after = session.checked()
    assert after is not None
    assert after is session.recording
    assert "é" in names_in(after.cycles[0].path)
    assert (after.cycles[0].path, after.problems) == (before.cycles[0].path, ())
    assert files_in(tmp_path) == [after.cycles[0].path]
    session.release()
    assert len(checks) == 1


def test_a_flaw_that_nothing_can_be_done_about_is_noted(
    run_of: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compat, "HAS_PYTHON_EXPORT", False)
    session = run_of(tmp_path, 'q"uote')
    recording = session.checked()
    assert recording is not None
    assert codes(recording) == ["capture.invalid_trace"]
    assert b'q"uote' in recording.cycles[0].path.read_bytes()


def test_interrupts_that_give_a_recording_up_leave_the_file_that_is_there(run_of: Run, tmp_path: Path) -> None:
    session = run_of(tmp_path, 'q"uote')
    session.guard.pending = export.SAVE_PATIENCE + 1
    assert session.settle()
    recording = session.recording
    assert recording is not None
    assert codes(recording) == ["capture.invalid_trace"]
    assert b'q"uote' in recording.cycles[0].path.read_bytes()


@needs_python_export
def test_interrupts_during_the_second_writing_leave_what_was_written_first(
    run_of: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = run_of(tmp_path, "é", "plain")
    is_begun: list[bool] = []

    def export(*_: object, **__: object) -> None:
        is_begun.append(True)
        for _ in range(export.SAVE_PATIENCE + 1):
            signal.raise_signal(signal.SIGINT)
        pytest.fail("the last one did not end it")

    monkeypatch.setattr(_KinetoProfile, "export_chrome_trace", export)
    assert session.settle()
    assert (is_begun, session.guard.pending) == ([True], export.SAVE_PATIENCE)
    recording = session.recording
    assert recording is not None
    assert codes(recording) == ["capture.invalid_trace"]
    assert "plain" in names_in(recording.cycles[0].path)
    assert files_in(tmp_path) == [recording.cycles[0].path]
    with pytest.raises(KeyboardInterrupt):
        session.release()


@needs_python_export
def test_an_interrupt_during_the_check_waits_for_the_release_although_the_analysis_is_open_to_them(
    run_of: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = run_of(tmp_path, "é")
    session.guard.uninstall()
    before = signal.getsignal(signal.SIGINT)
    real = _KinetoProfile.export_chrome_trace

    def export(profiler: _KinetoProfile, path: str, **flags: bool) -> None:
        signal.raise_signal(signal.SIGINT)
        real(profiler, path, **flags)

    monkeypatch.setattr(_KinetoProfile, "export_chrome_trace", export)
    recording = session.checked()
    assert recording is not None
    assert "é" in names_in(recording.cycles[0].path)
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        session.release()


@needs_python_export
def test_two_interrupts_during_the_check_end_the_reading_and_are_told_as_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[int] = []
    options = ProfileOptions(activities=("cpu",), schedule=ScheduleOptions(wait=0, warmup=0, active=1, repeat=1))
    session = CaptureSession(options, stepping=Stepping(how="manual"), folder=tmp_path, on_wait=said.append)
    session.start()
    work("é")
    session.step()
    session.stop(is_held=True)
    real = _KinetoProfile.export_chrome_trace

    def export(profiler: _KinetoProfile, path: str, **flags: bool) -> None:
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        real(profiler, path, **flags)

    monkeypatch.setattr(_KinetoProfile, "export_chrome_trace", export)
    with pytest.raises(KeyboardInterrupt):
        session.checked()
    assert said == [1, 2]
    assert session.recording is not None
    assert "é" in names_in(session.recording.cycles[0].path)
    session.release()  # raises nothing: they were one


@needs_python_export
def test_an_interrupt_during_the_check_before_the_next_cycle_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[int] = []
    options = ProfileOptions(activities=("cpu",), schedule=ScheduleOptions(wait=1, warmup=0, active=1, repeat=2))
    session = CaptureSession(options, stepping=Stepping(how="manual"), folder=tmp_path, on_wait=said.append)
    session.start()
    real = _KinetoProfile.export_chrome_trace

    def export(profiler: _KinetoProfile, path: str, *, use_python_export: bool = False) -> None:
        if use_python_export:
            signal.raise_signal(signal.SIGINT)
        real(profiler, path, use_python_export=use_python_export)

    monkeypatch.setattr(_KinetoProfile, "export_chrome_trace", export)
    for _ in range(2):
        work("é")
        session.step()
    assert said == []
    with pytest.raises(KeyboardInterrupt):
        step(session, 1)
    assert said == [1]
    assert "é" in names_in(session.stop().cycles[0].path)


@needs_python_export
def test_where_no_descriptor_is_left_the_file_stays_and_the_flaw_is_noted(run_of: Run, tmp_path: Path) -> None:
    session = run_of(tmp_path, "é", "plain")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (tmp_path / "cycle-0.pt.trace.json").open("rb") as file:
        resource.setrlimit(resource.RLIMIT_NOFILE, (file.fileno(), before[1]))
        try:
            recording = session.checked()
            os.fstat(2)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert recording is not None
    assert codes(recording) == ["capture.invalid_trace"]
    assert "plain" in names_in(recording.cycles[0].path)


@needs_python_export
def test_a_flawed_file_whose_disk_is_full_is_written_anew_elsewhere(
    run_of: Run, tmp_path: Path, other_places: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    other_places.append(tmp_path / "place")
    other_places[0].mkdir()
    session = run_of(tmp_path / "run", "é")
    real = _KinetoProfile.export_chrome_trace

    def export(profiler: _KinetoProfile, path: str, **flags: bool) -> None:
        if tmp_path / "run" in Path(path).parents:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(profiler, path, **flags)

    monkeypatch.setattr(_KinetoProfile, "export_chrome_trace", export)
    recording = session.checked()
    assert recording is not None
    assert codes(recording) == ["capture.saved_elsewhere"]
    assert "é" in names_in(recording.cycles[0].path)
    assert files_in(tmp_path) == [recording.cycles[0].path]


@needs_python_export
def test_what_torch_writes_anew_takes_no_place_when_it_is_no_better(
    run_of: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = run_of(tmp_path, "é", "plain")
    monkeypatch.setattr(
        _KinetoProfile, "export_chrome_trace", lambda _self, path, **_: Path(path).write_text('{"name": "q"uote"}')
    )
    recording = session.checked()
    assert recording is not None
    assert codes(recording) == ["capture.invalid_trace"]
    assert "torch replaced names with 'unknown'" in recording.problems[0].message
    assert "plain" in names_in(recording.cycles[0].path)
    assert files_in(tmp_path) == [recording.cycles[0].path]


@needs_python_export
def test_a_file_that_is_gone_is_written_anew(run_of: Run, tmp_path: Path) -> None:
    session = run_of(tmp_path, "plain")
    assert session.recording is not None
    session.recording.cycles[0].path.unlink()
    recording = session.checked()
    assert recording is not None
    assert "plain" in names_in(recording.cycles[0].path)


@needs_python_export
def test_a_flawed_file_that_no_disk_takes_anew_stays(
    run_of: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = run_of(tmp_path, "é", "plain")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(_KinetoProfile, "export_chrome_trace", refuse)
    monkeypatch.setattr(Path, "replace", refuse)
    recording = session.checked()
    assert recording is not None
    assert codes(recording) == ["capture.invalid_trace"]
    assert "plain" in names_in(recording.cycles[0].path)
