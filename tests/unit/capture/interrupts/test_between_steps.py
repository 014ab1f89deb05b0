"""A Ctrl-C that arrives while a session works between two steps is raised in the user's code at once.

A trace function sends SIGINT at each line that one call into the session runs, one line a time; a sample takes
every eleventh.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from amount import sampled
from capturing import work

import torchprof_magic.capture
from torchprof_magic.capture import CaptureSession, Pause, busy_profiler

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    Make = Callable[..., CaptureSession]

FOLDER = str(Path(torchprof_magic.capture.__file__).parent)
MOST_LINES = 2000


class Interrupter:
    """Sends one SIGINT at the n-th line of the package that is run."""

    def __init__(self, number: int) -> None:
        self.place = ""
        self._left = number

    def __call__(self, frame: FrameType, _event: str, _argument: object) -> Any:
        return self._line if frame.f_code.co_filename.startswith(FOLDER) else None

    def _line(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            self._left -= 1
            if self._left == 0:
                sys.settrace(None)
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                signal.raise_signal(signal.SIGINT)
        return self._line


def steps(count: int) -> Callable[[CaptureSession], None]:
    """Return what ends that many steps."""

    def run(session: CaptureSession) -> None:
        for _ in range(count):
            work()
            session.step()

    return run


def end_a_step(session: CaptureSession) -> None:
    session.step()


def step_a_second_optimizer(session: CaptureSession) -> None:
    first, second = (torch.optim.SGD([torch.ones(1, requires_grad=True)]) for _ in range(2))
    session._optimizer_step(first)
    session._optimizer_step(second)


def pause_and_resume(session: CaptureSession) -> None:
    pause = Pause(frozenset({"cpu"}))
    session.pause(pause)
    session.resume(pause)


# The schedule waits for step 0, warms up in step 1 and records steps 2 and 3.
CALLS = {
    "a step before the recording": (0, end_a_step),
    "the step before the first recorded one": (1, end_a_step),
    "a step between recorded ones": (2, end_a_step),
    "the last recorded step": (3, end_a_step),
    "a step after the recording": (4, end_a_step),
    "a step that is left early": (2, CaptureSession.cut),
    "a step left early after the recording": (4, CaptureSession.cut),
    "the next epoch": (2, CaptureSession.start),
    "an epoch after the recording": (4, CaptureSession.start),
    "collection that is stopped": (2, lambda session: session.pause(Pause(frozenset({"cpu"})))),
    "collection that goes on": (2, pause_and_resume),
    "collection that is stopped after the recording": (4, lambda session: session.pause(Pause(frozenset({"cpu"})))),
    "the end of the loop": (2, CaptureSession.finish),
    "the end of a loop after the recording": (4, CaptureSession.finish),
    "a profiler of the user's own that begins": (2, CaptureSession._yield_to_other),
    "the optimizers' hook": (0, step_a_second_optimizer),
}


@pytest.mark.parametrize("kind", CALLS)
def test_an_interrupt_at_any_line_between_two_steps_is_raised_by_the_call_itself(make_session: Make, kind: str) -> None:
    before, call = CALLS[kind]
    for number in sampled(range(1, MOST_LINES), 23):
        session, interrupter = make_session(schedule=(1, 1, 2, 1)), Interrupter(number)
        session.start()
        steps(before)(session)
        raised = interrupted(lambda session=session: call(session), interrupter)
        with suppress(KeyboardInterrupt):  # one that still waits
            session.stop()
        if not interrupter.place:
            break
        assert raised, interrupter.place
        assert (session.guard.pending, busy_profiler()) == (0, None), interrupter.place
    assert number > 5


def test_an_interrupt_at_any_line_of_the_start_leaves_no_session_behind(make_session: Make) -> None:
    for number in sampled(range(1, MOST_LINES), 23):
        session, interrupter = make_session("cell"), Interrupter(number)
        raised = interrupted(session.start, interrupter)
        if not interrupter.place:
            break
        assert (raised, session.is_active, busy_profiler()) == (True, False, None), interrupter.place
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    session.stop()
    assert number > 100


def interrupted(call: Callable[[], object], interrupter: Interrupter) -> bool:
    """Return whether the call, or the first thing after it, was ended by a KeyboardInterrupt."""
    traced = sys.gettrace()
    try:
        sys.settrace(interrupter)
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(traced)
    return False
