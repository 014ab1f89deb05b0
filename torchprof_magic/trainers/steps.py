"""The steps that a trainer's callback makes: of the recording that runs already, or of a ``profile()`` of its own."""

from __future__ import annotations

import atexit
import sys
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod, WeakSet

from torchprof_magic.capture import CaptureSession, live_session, protected
from torchprof_magic.capture.interrupts.guard import raised_by_handler
from torchprof_magic.capture.registry import OWN_PACKAGE, Owner
from torchprof_magic.model.errors import CaptureError, TorchProfError
from torchprof_magic.model.meta import Stepping
from torchprof_magic.profiling import (
    begin_for_trainer,
    hand_over,
    leave_block,
    place_of,
    profile,
    recording_block,
    session_of,
)
from torchprof_magic.run.messages import say
from torchprof_magic.run.stepping.signs import is_of_library
from torchprof_magic.system.process.imports import import_whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


# Those whose training may have been left by an exception when the process ends.
_all: WeakSet[TrainerSteps] = WeakSet()


class TrainerSteps:
    """What a callback tells of a training: its beginning, its steps and rests, and its end.

    ``name`` is that of the function that makes the callback. Nothing here raises into the training but interrupts: what
    fails is said once, and the training goes on without a recording.
    """

    def __init__(self, name: str, options: Any) -> None:
        self.name = name
        self._options = options
        self._profile: profile = profile(**options)
        self._session: CaptureSession | None = None
        self._joined: profile | CaptureSession | None = None
        self._failure = ""
        self._rests = False
        self._owner: Owner | None = None
        self._forget_cell: Callable[[], object] | None = None
        _all.add(self)

    def __reduce__(self) -> tuple[type[TrainerSteps], tuple[str, Any]]:
        return TrainerSteps, (self.name, self._options)  # workers and copies have recordings of their own

    def run(self, act: Callable[..., object], *arguments: object) -> None:
        """Call ``act(*arguments)``, whose failure ends what is recorded, and not the training."""
        __tracebackhide__ = True
        try:
            act(*arguments)
        except Exception as exc:
            if raised_by_handler(exc):
                raise
            self._fail(exc)

    @property
    def is_active(self) -> bool:
        """True from the beginning of a training to its end, if it is recorded."""
        return self._session is not None

    @protected
    def begin(self, length: int | None) -> None:
        """Begin step 0 of a training of so many steps, if that is known. A trainer may try again, which starts over."""
        if not self.is_running():
            self.leave()
        self._rests, self._failure = False, ""
        stepping = Stepping(how="manual", code=f"callbacks.{self.name}")
        if not self._has_own():
            self._joined = recording_block() or live_session()
        trainers, users = _frames()
        if self._joined is None and not self._has_own():
            begin_for_trainer(self._profile, place_of(users) if users is not None else "", stepping)
        self._session = self._handed_over(stepping, length)
        self._belong_to(trainers)
        if self._session is not None and self._joined is not None and self._options:
            recording = "profile()" if isinstance(self._joined, profile) else "%%torchprof"
            self._session.note("capture.callback_options", callback=f"callbacks.{self.name}()", recording=recording)

    def _belong_to(self, trainers: FrameType | None) -> None:
        """Let the training last as long as a function of the trainer, and at most as long as the cell."""
        owner = self._owner = Owner()
        session = session_of(self._profile) if self._has_own() else None
        if trainers is not None:
            owner.belong_to(trainers)
        if session is not None:
            session.owner, session.on_leave = owner, _weakly(self.leave)
        if "IPython" in sys.modules and self._forget_cell is None:
            cell_end = import_whole("torchprof_magic.ipython.cell_end")
            self._forget_cell = cell_end.at_cell_end(_weakly(self.leave_if_over))

    def _handed_over(self, stepping: Stepping, length: int | None) -> CaptureSession | None:
        """Return the session whose steps are those of the training from here on, or ``None`` if it has others."""
        if isinstance(self._joined, CaptureSession):
            return self._joined if self._joined.hand_over(self, stepping, length) else None
        block = self._joined or self._profile
        return session_of(block) if hand_over(block, self, stepping, length) else None

    def begin_epoch(self) -> None:
        """Begin an epoch of the training, and its first step."""
        if self._session is not None:
            self.go_to_work()
            self._session.start(by=self)

    def step(self, *, rests: bool = False) -> None:
        """End the current step. With ``rests``, none begins before ``go_to_work``."""
        if self._session is not None:
            self.go_to_work()
            self._rests = rests
            self._session.step(by=self, rests=rests)

    def rest(self) -> None:
        """End the current step early, because something has begun that is in no step; does nothing in a rest."""
        if self._session is not None and not self._rests:
            self._rests = True
            self._session.cut(by=self, rests=True)

    def go_to_work(self) -> None:
        """Begin the step after a rest; does nothing in a step."""
        if self._session is not None and self._rests:
            self._rests = False
            self._session.go_to_work()

    @protected
    def end(self) -> None:
        """End the training; its last step is over. What follows is not recorded."""
        session, self._session = self._session, None
        if session is not None:
            session.finish(is_between=True, by=self)
        if self._has_own():
            self._profile.stop()
        self._forget()

    @protected
    def leave(self, *_: object) -> None:
        """End a training that has failed, in the middle of a step."""
        self._session = None
        if self._has_own():
            leave_block(self._profile)
        self._forget()

    @protected
    def leave_if_over(self, *_: object) -> None:
        """End the training if its trainer has been left by an exception, without a word."""
        if self._owner is not None and not self._owner.is_running():
            self.run(self.leave)

    def own_profile(self) -> profile:
        """Return the ``profile()`` with which the training is recorded where nothing else records."""
        return self._profile

    def report(self) -> Any:
        """Return the report. Raises ``CaptureError`` before the end of the training, or if there is none."""
        self.leave_if_over()
        if self._failure:
            raise CaptureError(self._failure)
        if isinstance(self._joined, profile):
            return self._joined.report
        if self._joined is None:
            session = session_of(self._profile)
            if session is None or session.is_active:
                raise CaptureError(
                    "the report is not available before the end of the training; of one that ran in other processes, "
                    "trace_dir keeps the traces"
                )
            return self._profile.report
        report = None if self._joined.report is None else self._joined.report()
        if report is None:
            raise CaptureError(
                "the report is that of the cell: it is there when the cell has ended, and as long as it is kept, as by "
                "torchprof_magic.last until the next run"
            )
        return report

    def _has_own(self) -> bool:
        """Return whether the recording of this callback is still open."""
        session = session_of(self._profile)
        return session is not None and session.is_active and session.owner is not None and session.owner.is_here()

    def is_running(self) -> bool:
        """Return whether the trainer's function runs that has begun the training, and has not ended it."""
        return self._owner is not None and self._owner.is_running()

    def _forget(self) -> None:
        forget, self._forget_cell, self._owner = self._forget_cell, None, None
        if forget is not None:
            forget()

    def _fail(self, error: Exception) -> None:
        self._session = None
        text = str(error) if isinstance(error, TorchProfError) else f"{type(error).__name__}: {error}"
        if not self._failure:
            say(f"The training goes on without a recording: {text}")
        self._failure = self._failure or f"the training was not recorded: {text}"
        try:
            if self._has_own():
                leave_block(self._profile)
            self._forget()
        except Exception as exc:
            if raised_by_handler(exc):
                raise


def _weakly(method: Callable[[], object]) -> Callable[..., object]:
    """Return a function that calls a method as long as its object is there."""
    known = WeakMethod(method)

    def call(*_: object) -> None:
        found = known()
        if found is not None:
            found()

    return call


def _frames() -> tuple[FrameType | None, FrameType | None]:
    """Return the frame of the trainer's function that the user's code has called, and that of this code."""
    inner: FrameType | None = None
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way
    while frame is not None:
        is_own = str(frame.f_globals.get("__name__", "")).partition(".")[0] == OWN_PACKAGE
        if not is_own and not is_of_library(frame.f_code):
            return inner, frame
        inner = None if is_own else frame
        frame = frame.f_back
    return None, None


@atexit.register
def _leave_all() -> None:
    for steps in list(_all):
        steps.run(steps.leave)
