from __future__ import annotations

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import torch
from capturing import codes, names_in, record, run_four_steps, work

from torchprof_magic.capture import CaptureSession, busy_profiler, live_session
from torchprof_magic.capture.interrupts.guard import InterruptGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    Make = Callable[..., CaptureSession]


@pytest.fixture
def guard() -> InterruptGuard:
    return InterruptGuard()


@pytest.fixture
def alarm() -> Iterator[None]:
    """Let SIGALRM raise TimeoutError, as many timeout helpers do."""

    def time_out(_signum: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, time_out)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize(
    ("moment", "kept"), [("prepare_trace", []), ("start_trace", [(1, False)]), ("stop_trace", [(1, True)])]
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_timeout_inside_torch_is_raised_when_torch_has_returned(
    make_session: Make, monkeypatch: pytest.MonkeyPatch, moment: str, kept: list[tuple[int, bool]], when: str
) -> None:
    """Raw torch dies of it with SIGSEGV."""
    original = getattr(torch.profiler.profiler._KinetoProfile, moment)

    def slow(self: object) -> None:
        monkeypatch.undo()
        if when == "before":
            signal.raise_signal(signal.SIGALRM)
        original(self)
        if when == "after":
            signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr(torch.profiler.profiler._KinetoProfile, moment, slow)
    session = make_session(schedule=(0, 1, 1, 0))
    with pytest.raises(TimeoutError):
        run_four_steps(session)
    assert busy_profiler() is None
    assert session.recording is not None
    assert "capture.gave_up" not in codes(session.recording)
    assert [(mark.number, mark.is_complete) for cycle in session.recording.cycles for mark in cycle.steps] == kept
    assert "next" in names_in(record(make_session, "next").cycles[0].path)


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("is_held", [False, True])
def test_a_timeout_while_the_recording_is_saved_is_raised_afterwards(
    make_session: Make, monkeypatch: pytest.MonkeyPatch, *, is_held: bool
) -> None:
    session = make_session("cell")
    original = session._make_recording

    def late() -> object:
        signal.raise_signal(signal.SIGALRM)
        return original()

    monkeypatch.setattr(session, "_make_recording", late)
    session.start()
    work("kept")
    with pytest.raises(TimeoutError):
        session.stop(is_held=is_held)
    assert session.guard.is_installed is is_held
    session.release()
    assert session.recording is not None
    assert "kept" in names_in(session.recording.cycles[0].path)


@pytest.mark.usefixtures("alarm")
def test_a_timeout_in_a_step_that_is_not_recorded_is_raised_at_once(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session(schedule=(9, 1, 1, 0))
    session.start()
    monkeypatch.setattr(session._recorder, "advance", lambda *_, **__: signal.raise_signal(signal.SIGALRM))
    with pytest.raises(TimeoutError):
        session.step()
    monkeypatch.undo()
    session.stop()
    assert busy_profiler() is None


@pytest.mark.usefixtures("alarm")
def test_a_timeout_while_an_old_session_is_ended_is_raised_afterwards(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session("cell")
    session.start()
    work()
    original = session._make_recording

    def late() -> object:
        signal.raise_signal(signal.SIGALRM)
        return original()

    monkeypatch.setattr(session, "_make_recording", late)
    with pytest.raises(TimeoutError):
        session.reclaim()
    assert session.recording is not None
    assert (session._mark, session.is_active, live_session(), busy_profiler()) == (None, False, None, None)
    assert not session.guard.is_installed
    record(make_session, "next")


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """Have two signals handled by noting their names."""
    names: list[str] = []
    numbers = (signal.SIGALRM, signal.SIGUSR1)
    before = [
        signal.signal(number, lambda signum, _frame: names.append(signal.Signals(signum).name)) for number in numbers
    ]
    yield names
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_signals_within_a_transition_are_handled_once_each_at_its_end(heard: list[str], guard: InterruptGuard) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGUSR1)]
    with guard.shield():
        for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGALRM):
            signal.raise_signal(number)
        assert heard == []
    assert sorted(heard) == ["SIGALRM", "SIGUSR1"]
    assert [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGUSR1)] == handlers
    signal.raise_signal(signal.SIGALRM)
    assert len(heard) == 3


def test_a_handler_that_raises_does_not_prevent_the_others(heard: list[str], guard: InterruptGuard) -> None:
    def time_out(_signum: int, frame: FrameType | None) -> None:
        assert frame is not None
        raise TimeoutError

    def both() -> None:
        with guard.shield():
            signal.raise_signal(signal.SIGALRM)
            signal.raise_signal(signal.SIGUSR1)

    for late, noted in ((signal.SIGALRM, signal.SIGUSR1), (signal.SIGUSR1, signal.SIGALRM)):
        before = signal.signal(late, time_out)
        with pytest.raises(TimeoutError):
            both()
        assert heard.pop() == noted.name
        signal.signal(late, before)


def test_an_event_loop_gets_its_signal_once(guard: InterruptGuard) -> None:
    async def handled() -> int:
        loop, count = asyncio.get_running_loop(), 0

        def add() -> None:
            nonlocal count
            count += 1

        loop.add_signal_handler(signal.SIGUSR2, add)
        with guard.shield():
            signal.raise_signal(signal.SIGUSR2)
        await asyncio.sleep(0.05)
        loop.remove_signal_handler(signal.SIGUSR2)
        return count

    assert asyncio.run(handled()) == 1


def test_a_handler_that_is_set_within_a_transition_stays_and_receives_its_signal(
    heard: list[str], guard: InterruptGuard
) -> None:
    later: list[int] = []
    with guard.shield():
        signal.raise_signal(signal.SIGALRM)
        signal.signal(signal.SIGALRM, mine := lambda signum, _frame: later.append(signum))
    assert (heard, later) == ([], [signal.SIGALRM])
    assert signal.getsignal(signal.SIGALRM) is mine


@pytest.mark.usefixtures("heard")
def test_a_signal_that_the_user_ignores_by_the_end_is_ignored(guard: InterruptGuard) -> None:
    with guard.shield():
        signal.raise_signal(signal.SIGALRM)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN


def test_signals_without_a_handler_and_interrupts_are_not_touched(guard: InterruptGuard) -> None:
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    with guard.shield():
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    signal.signal(signal.SIGUSR2, before)


def test_no_signal_is_lost_when_a_handler_could_not_be_restored(heard: list[str], guard: InterruptGuard) -> None:
    with guard.shield():
        standing_in = signal.getsignal(signal.SIGALRM)
    assert callable(standing_in)
    assert heard == []
    standing_in(signal.SIGALRM, None)
    assert heard == ["SIGALRM"]


def test_another_thread_does_not_touch_the_handlers(heard: list[str], guard: InterruptGuard) -> None:
    del heard
    handler = signal.getsignal(signal.SIGALRM)

    def seen() -> object:
        with guard.shield():
            return signal.getsignal(signal.SIGALRM)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(seen).result() is handler
