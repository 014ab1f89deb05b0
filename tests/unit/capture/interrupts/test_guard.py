"""A Ctrl-C waits in protected code, and is raised at once everywhere else."""

from __future__ import annotations

import signal
import sys
import weakref
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
import torch
from capturing import codes, names_in, run_four_steps, shielded_steps, work

from torchprof_magic.capture import CaptureSession, busy_profiler, protected
from torchprof_magic.capture.interrupts.guard import _OPEN, InterruptGuard, is_protected, open_to_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    Make = Callable[..., CaptureSession]


def interrupt() -> None:
    """Send one Ctrl-C to this process, handled before the next line."""
    signal.raise_signal(signal.SIGINT)


@protected
def interrupted_inside() -> str:
    interrupt()
    return "finished"


@pytest.fixture
def guard() -> Iterator[InterruptGuard]:
    installed = InterruptGuard()
    installed.install()
    yield installed
    installed.uninstall()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("guard")
def test_interrupt_outside_protected_code_arrives_at_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_interrupt_inside_protected_code_waits(guard: InterruptGuard) -> None:
    assert interrupted_inside() == "finished"
    assert guard.pending == 1
    with pytest.raises(KeyboardInterrupt):
        guard.raise_pending()
    guard.raise_pending()  # once is enough


def test_no_callback_runs_when_the_users_code_is_deleted() -> None:
    """Python drops a KeyboardInterrupt that is raised in a weak reference's callback."""
    code = compile("1", "cell", "exec")
    open_to_interrupts(code)
    (known,) = weakref.getweakrefs(code)
    assert known.__callback__ is None
    del code
    open_to_interrupts(following := compile("2", "cell", "exec"))
    assert all(reference() is not None for reference in _OPEN.values())
    assert _OPEN[id(following)]() is following


def test_only_opened_code_can_be_interrupted() -> None:
    def users() -> bool:
        return is_protected(sys._getframe(0))

    @protected
    def ours() -> bool:
        return users()

    assert ours()
    open_to_interrupts(users.__code__)
    assert not ours()
    # The code that was opened is gone, and this one has its place.
    _OPEN[id(users.__code__)] = weakref.ref(compile("1", "cell", "exec"))
    assert ours()


def test_patience_raises_a_repeated_interrupt(guard: InterruptGuard) -> None:
    with guard.patience(1):
        assert interrupted_inside() == "finished"
        with pytest.raises(KeyboardInterrupt):
            interrupted_inside()


def test_handler_that_the_user_sets_meanwhile_stays_and_gets_the_interrupt(guard: InterruptGuard) -> None:
    received: list[int] = []

    def users(signum: int, _frame: FrameType | None) -> None:
        received.append(signum)

    signal.signal(signal.SIGINT, users)
    with guard.shield():
        interrupted_inside()
    assert received == []
    guard.raise_pending()
    assert received == [signal.SIGINT]
    guard.uninstall()
    assert signal.getsignal(signal.SIGINT) is users
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("moment", ["start_trace", "stop_trace", "prepare_trace"])
def test_interrupt_inside_torch_is_raised_after_the_transition(
    make_session: Make, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    original = getattr(torch.profiler.profiler._KinetoProfile, moment)

    def interrupted(self: object) -> None:
        interrupt()
        original(self)

    monkeypatch.setattr(torch.profiler.profiler._KinetoProfile, moment, interrupted)
    session = make_session(schedule=(1, 1, 1, 1))
    with pytest.raises(KeyboardInterrupt):
        run_four_steps(session)
    monkeypatch.undo()
    assert busy_profiler() is None
    assert session.recording is not None


def test_interrupt_while_starting_leaves_nothing_running(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchprof_magic.capture.checks.preflight.check_folder", lambda _folder: interrupt())
    session = make_session("cell")
    with pytest.raises(KeyboardInterrupt):
        session.start()
    assert not session.is_active
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupt_that_the_user_ignores_does_not_end_the_recording(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    monkeypatch.setattr("torchprof_magic.capture.checks.preflight.check_folder", _interrupt_and_make)
    session = make_session("cell")
    session.start()
    work("kept")
    recording = session.stop()
    signal.signal(signal.SIGINT, before)
    assert "kept" in names_in(recording.cycles[0].path)


def _interrupt_and_make(folder: Path) -> None:
    interrupt()
    folder.mkdir()


def test_interrupt_during_stop_does_not_lose_the_recording(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    session = make_session("cell")
    session.start()
    work("kept")
    original = session._make_recording

    def interrupted() -> object:
        interrupt()
        return original()

    monkeypatch.setattr(session, "_make_recording", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.stop()
    assert session.recording is not None
    assert "kept" in names_in(session.recording.cycles[0].path)
    assert session.stop() is session.recording


def test_the_users_exception_wins_over_an_interrupt_during_stop(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session("cell")
    session.start()
    original = session._make_recording

    def interrupted() -> object:
        interrupt()
        return original()

    monkeypatch.setattr(session, "_make_recording", interrupted)
    with pytest.raises(ValueError, match="theirs"):
        _raise_then_stop(session)
    assert session.recording is not None


def _raise_then_stop(session: CaptureSession) -> None:
    try:
        raise ValueError("theirs")
    finally:
        session.stop()


def test_signal_handlers_are_read_only_in_steps_that_start_or_stop_torch(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session(schedule=(1, 1, 3, 1))
    session.start()
    shielded = shielded_steps(monkeypatch, session, lambda: step)
    for step in range(6):  # noqa: B007 - read where the handler is looked after
        work()
        session.step()
    # Step 0 is idle and 1 warms up; 2, 3 and 4 are recorded, and the end of the last one saves them.
    assert shielded == [0, 1, 4]
    monkeypatch.undo()
    assert [mark.number for mark in session.stop().cycles[0].steps] == [2, 3, 4]


def test_the_old_handler_is_back_after_stop(make_session: Make) -> None:
    before = signal.getsignal(signal.SIGINT)
    session = make_session("cell")
    session.start()
    assert signal.getsignal(signal.SIGINT) is session.guard
    session.stop()
    assert signal.getsignal(signal.SIGINT) is before


class _Impatient:
    """Sends the interrupts that are asked for in the midst of torch's own work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **moments: int) -> None:
        for name, count in moments.items():
            original = getattr(torch.profiler.profiler._KinetoProfile, name)
            monkeypatch.setattr(torch.profiler.profiler._KinetoProfile, name, self._interrupted(original, count))

    @staticmethod
    def _interrupted(original: Callable[..., object], count: int) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            for _ in range(count):
                interrupt()
            return original(*arguments, **named)

        return call


@pytest.mark.parametrize(
    ("moments", "told", "is_unwanted"),
    [({}, [], False), ({"stop_trace": 1}, [1], False), ({"stop_trace": 1, "export_chrome_trace": 1}, [1, 2], True)],
)
def test_each_interrupt_while_the_recording_is_saved_is_answered_and_loses_nothing(
    make_session: Make, monkeypatch: pytest.MonkeyPatch, moments: dict[str, int], told: list[int], *, is_unwanted: bool
) -> None:
    heard: list[int] = []
    session = make_session("cell", on_wait=heard.append)
    session.start()
    work("kept")
    _Impatient(monkeypatch, **moments)
    recording = session.stop(is_held=True)
    assert (heard, session.is_unwanted) == (told, is_unwanted)
    assert "kept" in names_in(recording.cycles[0].path)
    with pytest.raises(KeyboardInterrupt) if told else nullcontext():
        session.release()


def test_the_third_interrupt_discards_the_recording(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    session = make_session("cell")
    session.start()
    work()
    _Impatient(monkeypatch, stop_trace=2, export_chrome_trace=1)
    recording = session.stop(is_held=True)
    assert (recording.cycles, codes(recording)) == ((), ["capture.given_up"])
    assert [path.name for path in recording.folder.glob("*cycle*")] == []
    with pytest.raises(KeyboardInterrupt):
        session.release()


def test_three_interrupts_before_saving_begins_discard_the_recording_too(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session("cell")
    session.start()
    work()
    _Impatient(monkeypatch, stop_trace=3)
    assert codes(session.stop(is_held=True)) == ["capture.given_up"]
    with pytest.raises(KeyboardInterrupt):
        session.release()


def test_the_interrupt_that_ended_the_cell_counts_as_the_first(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []
    session = make_session("cell", on_wait=heard.append)
    session.start()
    work()
    _Impatient(monkeypatch, stop_trace=1)
    with pytest.raises(KeyboardInterrupt):
        _interrupt_then_stop(session)
    assert (heard, session.is_unwanted) == ([2], True)
    assert session.recording is not None
    assert len(session.recording.cycles) == 1


def _interrupt_then_stop(session: CaptureSession) -> None:
    try:
        interrupt()
    finally:
        session.stop()


def test_an_interrupt_at_the_start_of_a_step_is_not_answered(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []
    session = make_session(schedule=(1, 1, 1, 1), on_wait=heard.append)
    _Impatient(monkeypatch, prepare_trace=1)
    with pytest.raises(KeyboardInterrupt):
        run_four_steps(session)
    assert heard == []


def test_an_answer_that_cannot_be_printed_does_not_interrupt_torch(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(_interrupts: int) -> None:
        raise ValueError("I/O operation on closed file")

    session = make_session("cell", on_wait=closed)
    session.start()
    work("kept")
    _Impatient(monkeypatch, stop_trace=1)
    recording = session.stop(is_held=True)
    assert "kept" in names_in(recording.cycles[0].path)
    with pytest.raises(KeyboardInterrupt):
        session.release()
