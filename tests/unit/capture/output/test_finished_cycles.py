"""Finished cycles are saved, checked, and passed to the user's handler; then torch's copy is released."""

from __future__ import annotations

import signal
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from capturing import codes, names_in, work
from torch.profiler.profiler import _KinetoProfile

from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture.output import export
from torchprof_magic.capture.torch_api import features
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions, ScheduleOptions
from torchprof_magic.system.process import memory

if TYPE_CHECKING:
    from collections.abc import Callable

needs_python_export = pytest.mark.skipif(
    not features.HAS_PYTHON_EXPORT, reason="this torch has no export that can be repeated"
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


def test_torch_releases_a_cycle_as_soon_as_it_is_on_disk(
    session: CaptureSession, cycles: list[weakref.ref[Any]]
) -> None:
    session.start()
    step(session, 3)
    assert alive(cycles) == [False]
    step(session, 9)
    recording = session.stop()
    assert alive(cycles) == [False, False]
    assert [cycle.number for cycle in recording.cycles] == [0, 1]


def test_what_torch_holds_of_the_last_cycle_stays_while_it_is_read_and_goes_when_the_loop_goes_on(
    session: CaptureSession, cycles: list[weakref.ref[Any]]
) -> None:
    session.start()
    step(session, 6)
    assert alive(cycles) == [False, True]
    step(session, 1)
    assert alive(cycles) == [False, False]
    session.stop()


def test_what_torch_holds_of_the_last_cycle_is_freed_when_nobody_waits(
    session: CaptureSession, cycles: list[weakref.ref[Any]]
) -> None:
    session.start()
    step(session, 6)
    session.stop()
    assert alive(cycles) == [False, True]
    session.free_events()
    assert alive(cycles) == [False, False]


def test_torch_releases_every_cycle_at_once_where_memory_is_short(
    session: CaptureSession, cycles: list[weakref.ref[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 0)
    session.start()
    step(session, 6)
    assert alive(cycles) == [False, False]
    session.stop()


@pytest.mark.parametrize("end", [CaptureSession.discard, CaptureSession.reclaim])
def test_torch_releases_everything_of_a_discarded_run(
    session: CaptureSession, cycles: list[weakref.ref[Any]], end: Callable[[CaptureSession], None]
) -> None:
    session.start()
    step(session, 3)
    end(session)
    assert alive(cycles) == [False]


def record(folder: Path, *names: str) -> CaptureSession:
    """Return a session that has recorded these annotations, and still runs."""
    session = CaptureSession(ProfileOptions(activities=("cpu",)), stepping=Stepping(how="cell"), folder=folder)
    session.start()
    for name in names:
        work(name)
    return session


@needs_python_export
def test_interrupts_during_the_second_export_keep_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = _KinetoProfile.export_chrome_trace

    def export_slowly(profiler: _KinetoProfile, path: str, *, use_python_export: bool = False) -> None:
        if not use_python_export:
            real(profiler, path)
            return
        for _ in range(export.SAVE_PATIENCE + 1):
            signal.raise_signal(signal.SIGINT)
        pytest.fail("the last one did not end it")

    monkeypatch.setattr(_KinetoProfile, "export_chrome_trace", export_slowly)
    session = record(tmp_path, "é", "plain")
    with pytest.raises(KeyboardInterrupt):
        session.stop()
    recording = session.recording
    assert recording is not None
    assert codes(recording) == ["capture.invalid_trace"]
    assert "plain" in names_in(recording.cycles[0].path)
    assert list(tmp_path.iterdir()) == [recording.cycles[0].path]


@needs_python_export
def test_the_second_export_is_dropped_when_it_is_no_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = _KinetoProfile.export_chrome_trace

    def export_badly(profiler: _KinetoProfile, path: str, *, use_python_export: bool = False) -> None:
        if use_python_export:
            Path(path).write_text('{"name": "q"uote"}')
        else:
            real(profiler, path)

    monkeypatch.setattr(_KinetoProfile, "export_chrome_trace", export_badly)
    recording = record(tmp_path, "é", "plain").stop()
    assert codes(recording) == ["capture.invalid_trace"]
    assert "torch replaced names with 'unknown'" in recording.problems[0].message
    assert "plain" in names_in(recording.cycles[0].path)
    assert list(tmp_path.iterdir()) == [recording.cycles[0].path]


@needs_python_export
def test_a_file_is_verified_before_the_users_handler_is_called(tmp_path: Path) -> None:
    handed: list[list[str]] = []
    options = ProfileOptions(
        activities=("cpu",), on_trace_ready=lambda _: handed.append(names_in(tmp_path / "cycle-0.pt.trace.json"))
    )
    session = CaptureSession(options, stepping=Stepping(how="cell"), folder=tmp_path)
    session.start()
    work("é")
    session.stop()
    assert "é" in handed[0]
