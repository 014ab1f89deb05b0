"""``profile()``, which records code in a notebook or a script, and ``step()``, ``steps()`` and ``paused()``."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import textwrap
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from torchprof_magic.capture import CHECKS, RESTART, LiveProfile, Pause, live_session, protected
from torchprof_magic.capture.parts import PLACE, Parts
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.capture.torch_api import features
from torchprof_magic.capture.torch_api.cycle_profile import unscheduled_state
from torchprof_magic.model.errors import CaptureError, OptionsError, TorchProfError
from torchprof_magic.model.meta import Stepping
from torchprof_magic.model.problems import problem
from torchprof_magic.options import (
    AUTO,
    EVERY_STEP,
    KEYWORDS,
    ProfileOptions,
    ScheduleOptions,
    activities_of,
    asked_for,
    closest_keyword,
    keep_options,
    meant,
    metadata_of,
    profile_options,
    resolved,
)
from torchprof_magic.run.conductor import Run
from torchprof_magic.run.messages import say
from torchprof_magic.run.stepping.signs import is_of_library
from torchprof_magic.run.stepping.stepper import Stepper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import FrameType, TracebackType

    from typing_extensions import Unpack

    from torchprof_magic.capture import CaptureSession, StepMaker
    from torchprof_magic.capture.torch_api.cycle_profile import TorchState
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.options import Keywords
    from torchprof_magic.report.trace_report import Report

T = TypeVar("T")
Function = TypeVar("Function", bound="Callable[..., Any]")

# Without a schedule, torch records until the profiler is stopped.
_EVERYTHING = ScheduleOptions(wait=0, warmup=0, active=EVERY_STEP, repeat=1)

_MANUAL = Stepping(how="manual")

_ONE_PASS = problem("capture.one_pass_block")


_SIGNATURE = inspect.Signature(
    [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=option.type)
        for name, option in KEYWORDS.items()
    ]
)


def _check_names(options: Mapping[str, object]) -> None:
    """Raise ``TypeError`` for an option that does not exist, with the one that it is nearly."""
    try:
        _SIGNATURE.bind(**options)
    except TypeError as exc:
        unknown = next((name for name in options if name not in _SIGNATURE.parameters), "")
        raise TypeError(f"{exc}{meant(closest_keyword(unknown))}") from None


def _with_options(documented: type[profile]) -> type[profile]:
    """Set the signature of the class and the documentation of its options from the table of options."""
    lines = [
        textwrap.fill(f"{name}: {option.help}", 110, initial_indent=" " * 8, subsequent_indent=" " * 12)
        for name, option in KEYWORDS.items()
    ]
    doc = documented.__doc__ or ""
    documented.__doc__ = doc.replace(_OPTIONS_LINE, "\n".join(lines))
    documented.__signature__ = _SIGNATURE  # type: ignore[attr-defined]
    return documented


_OPTIONS_LINE = "        **options: See docs/options.md, or ``help(profile)``."


@_with_options
class profile(LiveProfile):  # noqa: N801 - named like torch.profiler.profile, which it replaces
    """Record the code of a ``with`` block, each call of a function (``@tp.profile()``), or from ``start`` to ``stop``.

    Without schedule arguments, the whole block is recorded. If a loop inside it is stepped with ``p.steps(iterable)``
    (or ``tp.steps``), the schedule fits the length of that loop, as in the magic. With schedule arguments, call
    ``p.step()`` after every step. ``p.report`` is available after the block, even if it raised; the exception
    propagates unchanged. For a decorated function, ``p.report`` is the report of the last call.

    It is a ``torch.profiler.profile``: code that was written for that class runs with this one in its place. Methods
    such as ``key_averages`` and ``export_chrome_trace`` are torch's, for the last cycle.

    Args:
        use_cuda: Deprecated by torch: gives its warning, and changes nothing. Use ``activities``. Not taken if the
            installed torch does not take it any more.
        **options: See docs/options.md, or ``help(profile)``.

    Raises:
        ProfilerBusyError: Another profiler is running; nothing was started.
        CaptureError: The folder of the recording cannot be written, or this machine or torch lacks what is asked.
        OptionsError: A value is out of range.

    """

    def __init__(self, *, use_cuda: bool | None = None, **options: Unpack[Keywords]) -> None:
        _check_names(options)
        values = resolved(options)
        # What is kept in memory needs a line, and a block has no cell that marks them.
        if values["lines"] is None and values["preset"] != AUTO:
            values["lines"] = bool(values["profile_memory"])
        if use_cuda is not None:
            _warn_of_use_cuda(values, use_cuda=use_cuda)
        super().__init__(profile_options(values))
        self._kept = keep_options(values)
        self._run: Run | None = None
        self._has_stepped = False
        self._is_everything = False
        self._failure = ""
        self._steps_ended = 0
        self._stepping = _MANUAL

    def __new__(cls, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Return a profile; or, as ``@tp.profile`` without parentheses, the function as a default one records it."""
        if function is None:
            return super().__new__(cls)
        if options or not callable(function):
            raise TypeError("profile() takes keyword arguments only; as a decorator with options, write @profile(...)")
        return cls()(function)

    @protected
    def __enter__(self) -> profile:  # noqa: PYI034 - Self needs Python 3.11
        """Start the recording. Raises ``CaptureError`` before any code runs if it cannot be made as asked."""
        self._begin(sys._getframe(1))  # noqa: SLF001 - the documented way to the caller
        return self

    @protected
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the recording and make the report; an exception of the block propagates."""
        __tracebackhide__ = True
        if self._run is not None:
            try:
                self._end(self._run.session, has_exception=value is not None)
            finally:
                self._run.finish(stepping=self._stepping if self._has_stepped else None)

    @protected
    def start(self) -> None:
        """Start the recording without a ``with`` block; raises the same exceptions as entering one."""
        self._begin(sys._getframe(1))  # noqa: SLF001 - the documented way to the caller

    @protected
    def stop(self) -> None:
        """End the recording and make the report; does nothing when the recording has already ended."""
        __tracebackhide__ = True
        if self._run is None:
            if self._failure:
                return
            raise CaptureError("stop() was called before start()")
        if self in _recording():
            self.__exit__(*sys.exc_info())

    def __call__(self, function: Function) -> Function:
        """Return a wrapper of ``function`` that records each call; the report is ``tp.last`` and ``self.report``.

        The wrapper keeps the return value, exceptions and signature. A recursive call is part of the outer recording.
        Accepts functions and ``async`` functions; raises ``TypeError`` for generator functions.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            name = getattr(function, "__qualname__", function)
            raise TypeError(f"{name} is a generator function, which profile() cannot record as one call; use `with`")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def recorded_async(*args: object, **kwargs: object) -> object:
                __tracebackhide__ = True
                with self._call_of(function):
                    return await function(*args, **kwargs)

            return recorded_async  # type: ignore[return-value]

        @functools.wraps(function)
        def recorded(*args: object, **kwargs: object) -> object:
            __tracebackhide__ = True
            with self._call_of(function):
                return function(*args, **kwargs)

        return recorded  # type: ignore[return-value]

    @protected
    def step(self) -> None:
        """End the current step. Call it at the end of each iteration."""
        if self._run is not None:
            self._has_stepped = True
            self._steps_ended += 1
            self._run.session.step()

    def steps(self, iterable: Iterable[T]) -> Iterator[T]:
        """Return an iterator over ``iterable`` that ends a step before each next item.

        Without schedule arguments the recording restarts here, and its schedule fits the length of the loop.
        """
        return self._steps(iterable, sys._getframe(1))  # noqa: SLF001 - the documented way

    def _steps(self, iterable: Iterable[T], caller: FrameType) -> Iterator[T]:
        if self._failure or (self._run is not None and self._run.session.is_forked):
            return iter(iterable)  # nothing is recorded, or not the steps of a forked child
        if self._run is None or self not in _recording():
            raise CaptureError("steps() needs an active recording: use it inside `with tp.profile() as p:`")
        if self._options.is_adaptive and not self._has_stepped:
            # Drops what ran before the loop; the schedule fits the length of the loop.
            self._run.session.parts.check(RESTART, self._restart, self._run)
        self._has_stepped = True
        return _steps_of(self._run.session, iterable, caller)

    def _restart(self, run: Run) -> None:
        run.restart(self._prepared(self._options), self._stepping)
        self._is_everything = False

    def _hand_over(self, by: StepMaker, stepping: Stepping, length: int | None) -> bool:
        if self._run is None:
            return False
        session, options, before = self._run.session, self._options, self._stepping
        is_given_out = options.on_trace_ready or options.execution_trace or options.execution_trace_observer
        is_of_user = self._has_stepped and not session.is_stepped_by(by)
        if session.is_stepping and not (is_given_out or is_of_user):
            self._stepping = stepping
            session.parts.check(RESTART, self._restart, self._run)  # drops what ran before the training
        is_handed_over = self._run.session.hand_over(by, stepping, length)
        self._stepping = stepping if is_handed_over else before
        self._has_stepped = self._has_stepped or is_handed_over
        return is_handed_over

    @protected
    def _leave(self) -> None:
        """End a recording in which the code has failed before; does nothing if it has ended."""
        if self._run is not None and self in _recording():
            try:
                self._end(self._run.session, has_exception=True, is_cut=True)
            finally:
                self._run.finish(stepping=self._stepping)

    @property
    def report(self) -> Report:
        """The report, available after the block. Raises ``CaptureError`` before that, or if there is none."""
        run = self._run
        if run is not None and run.report is not None:
            return run.report
        if failure := self._failure if run is None else run.failure:
            raise CaptureError(failure)
        raise CaptureError("the report is not available before the end of the `with` block")

    def _live(self) -> CaptureSession | None:
        return None if self._run is None else self._run.session

    def _unscheduled(self) -> TorchState | None:
        has_schedule = not self._options.is_adaptive or (self._run is not None and not self._is_everything)
        return None if has_schedule else unscheduled_state(self._steps_ended)

    def _begin(self, title: str | FrameType, stepping: Stepping | None = None) -> None:
        """Begin a recording; with ``stepping`` it waits until the steps are handed over.

        ``title`` is its name, or the frame that begins it.
        """
        if self in _recording():
            raise CaptureError("this profile() is already recording; stop it before it is started again")
        self._run = None  # with its report, which stays where the user has kept it
        self._has_stepped, self._steps_ended, self._failure = False, 0, ""
        # Without a schedule, the whole block is recorded as one step unless step() is called.
        options = self._options
        self._is_everything = options.is_adaptive and stepping is None
        if self._is_everything:
            # Of two cycles, one is left: that of the details if they were asked for, else that of the times.
            options = options.passes[0] if options.is_auto or options.watch_s is not None else options
            options = replace(options, schedule=_EVERYTHING, two_pass=False, watch_s=None, has_step_rows=False)
        self._stepping = stepping or _MANUAL
        planned = Stepping(how="cell") if self._is_everything else self._stepping
        failed = ProblemLog()
        if not isinstance(title, str):
            title = Parts(failed).ask(PLACE, place_of, title, default="")
        try:
            self._run = Run(self._prepared(options), self._kept, stepping=planned, title=title)
            for found in failed.as_tuple():
                self._run.note(found)
        except TorchProfError:
            raise
        except Exception as exc:  # noqa: BLE001 - the block must not fail because of us
            self._failure = f"nothing was recorded, because torchprof failed: {type(exc).__name__}: {exc}"
            say(self._failure)
            return
        _open.append(self)
        try:
            self._run.session.parts.check(CHECKS, self._run.prepare)
            if stepping is None:
                self._run.session.start()
            else:
                self._run.session.open()
        except BaseException:
            _open.remove(self)
            raise

    @protected
    def _end(self, session: CaptureSession, *, has_exception: bool, is_cut: bool = False) -> None:
        """Stop recording. Interrupts are deferred here and raised after the report has been made."""
        try:
            if not has_exception and self._has_stepped:
                session.finish(is_between=True)
        finally:
            session.stop(is_held=True, is_cut=is_cut)
            if self._options.two_pass and self._is_everything and self._run is not None:
                self._run.note(_only_times(self._options) if self._options.is_auto else _ONE_PASS)
            if self._options.watch_s is not None and self._is_everything and self._run is not None:
                self._run.note(problem("capture.not_watched"))
            if self in _open:
                _open.remove(self)

    @contextlib.contextmanager
    def _call_of(self, function: Callable[..., Any]) -> Iterator[None]:
        """Record one call of a decorated function, unless it is a recursive call of a recorded one."""
        if self in _recording():
            yield
            return
        self._begin(function.__qualname__)
        try:
            yield
        finally:
            self.__exit__(*sys.exc_info())


def _warn_of_use_cuda(values: dict[str, Any], *, use_cuda: bool) -> None:
    """Do what torch does with this deprecated argument: warn, and refuse False if CUDA was the only activity.

    Raises ``TypeError`` if the installed torch does not have it any more.
    """
    if not features.is_known("use_cuda"):
        raise TypeError("profile.__init__() got an unexpected keyword argument 'use_cuda'")
    warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=3)
    names, _ = activities_of(values["activities"])
    if not use_cuda and set(names) == {"cuda"}:
        raise OptionsError("use_cuda=False leaves no activity to record: add ProfilerActivity.CPU to activities")


# The blocks that are being recorded; at most one, because torch allows only one profiler at a time.
_open: list[profile] = []


def place_of(caller: FrameType) -> str:
    """Return where a block begins in the user's code: the cell, as IPython numbers it, or the file and line."""
    frame: FrameType | None = caller
    while frame is not None and is_of_library(frame.f_code):
        frame = frame.f_back
    caller = frame or caller
    cells = caller.f_globals.get("In")
    if "get_ipython" in caller.f_globals and isinstance(cells, list):
        return f"In [{len(cells) - 1}]"
    return f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"


def _recording() -> list[profile]:
    """Return the blocks that are still being recorded, without those whose session was ended elsewhere."""
    _open[:] = [block for block in _open if block._run is not None and block._run.session.is_active]  # noqa: SLF001
    return _open


def recording_block() -> profile | None:
    """Return the block that is being recorded, if one is."""
    return _recording()[-1] if _recording() else None


def begin_for_trainer(block: profile, title: str, stepping: Stepping) -> None:
    """Begin a recording whose step 0 begins when the steps are handed over; raises as ``start`` does."""
    block._begin(title, stepping)  # noqa: SLF001 - of this module


def hand_over(block: profile, by: StepMaker, stepping: Stepping, length: int | None) -> bool:
    """Let the callback of a trainer make the steps of a block from here on; return whether it may."""
    return block._hand_over(by, stepping, length)  # noqa: SLF001 - of this module


def leave_block(block: profile) -> None:
    """End a recording whose code has failed before; does nothing if it has ended."""
    block._leave()  # noqa: SLF001 - of this module


def _only_times(options: ProfileOptions) -> Problem:
    """Return the note that a block without steps has no details, with what asks for them."""
    lines = ("lines",) if options.lines is None else ()
    asked = asked_for((*options.details, *lines))
    return problem("capture.only_times_block", details=asked["details"], keywords=asked["keywords"])


def session_of(block: profile) -> CaptureSession | None:
    """Return the session of the last recording of a block, if it has begun."""
    return block._live()  # noqa: SLF001 - of this module


def step() -> None:
    """End the current step of the active recording, of a magic or a ``profile()``; does nothing without one."""
    if _recording():
        _open[-1].step()
    elif (session := live_session()) is not None:
        session.step()


def add_metadata(key: str, value: object) -> None:
    """Add metadata to the active recording, of a magic or a ``profile()``: a string, or any value that JSON has.

    It is in ``report.metadata``, and in the trace files of the current and all later cycles. A later value of the same
    key replaces an earlier one. Does nothing without a recording. Raises ``OptionsError`` for an invalid key or value.
    """
    metadata = dict(metadata_of({key: value}))
    if (session := live_session()) is not None:
        session.add_metadata(metadata)


def steps(iterable: Iterable[T]) -> Iterator[T]:
    """Iterate over ``iterable``; each iteration is one step of the active recording, if there is one."""
    caller = sys._getframe(1)  # noqa: SLF001 - the documented way
    if _recording():
        return _open[-1]._steps(iterable, caller)  # noqa: SLF001 - of this module
    session = live_session()
    return iter(iterable) if session is None else _steps_of(session, iterable, caller)


def _steps_of(session: CaptureSession, iterable: Iterable[T], caller: FrameType) -> Iterator[T]:
    session.enter_loop(f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}")
    return Stepper(session).steps(iterable)


@contextlib.contextmanager
def paused(*activities: str) -> Iterator[None]:
    """Do not record ops (``"cpu"``) or device work (``"cuda"``) in the block; recording resumes after it.

    Use it for code that should not count, such as an evaluation. A pause lasts until its block ends, across steps and
    recording cycles; steps are still marked and counted. Python calls and memory are recorded in pauses, too, because
    torch cannot pause them. Does nothing when no recording is active, or when the activity is not recorded. Raises
    ``OptionsError`` for an unknown activity.
    """
    names, _ = activities_of(activities or ("cpu",))
    ProfileOptions(activities=names)  # raises for an unknown activity
    session = live_session()
    if session is None:
        yield
        return
    pause = Pause(frozenset(names))
    session.pause(pause)
    try:
        yield
    finally:
        session.resume(pause)
