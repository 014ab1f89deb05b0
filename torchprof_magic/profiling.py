"""How is a recording made outside the magic? ``profile()`` around any code, ``step()`` or ``steps()`` within."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from torchprof_magic.capture import CaptureSession, Pause, live_session, protected
from torchprof_magic.errors import CaptureError
from torchprof_magic.ingest.fork_check import NO_REPORTS, can_report
from torchprof_magic.model.meta import Problem, Stepping
from torchprof_magic.options import (
    EVERY_STEP,
    KeepOptions,
    ProfileOptions,
    ScheduleOptions,
    activities_of,
    budget_of,
    detail_switches,
    metadata_of,
    preset_switches,
)
from torchprof_magic.run import history
from torchprof_magic.run.archive import Keeper
from torchprof_magic.run.cleanup import keep_raw, sweep
from torchprof_magic.run.messages import say_unread, say_waiting
from torchprof_magic.run.reading import read_recording
from torchprof_magic.run.stepping import Stepper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import FrameType, TracebackType

    from torchprof_magic.capture import Recording
    from torchprof_magic.report import Report

T = TypeVar("T")

# Without a schedule torch records until it is told to stop.
_EVERYTHING = ScheduleOptions(wait=0, warmup=0, active=EVERY_STEP, repeat=0)

_ONE_PASS = Problem(
    code="capture.one_pass",
    severity="warning",
    count=1,
    message="Everything in the block was recorded in one pass: times and details are of the same steps.",
    fix="For two passes, step the loop with p.steps(iterable), or give schedule arguments and call p.step().",
)


class profile:  # noqa: N801 - named as torch.profiler.profile, which it stands in for
    """Record the code of a ``with`` block, and analyse it.

    Without schedule arguments everything in the block is recorded, unless a loop inside is stepped by
    ``p.steps(iterable)`` (or ``tp.steps``): then the schedule follows the length of that loop, as in the magic. With
    schedule arguments, call ``p.step()`` after every step. ``p.report`` is there after the block, also when the block
    raised; the exception goes on unchanged.

    Args:
        schedule: What happens in each step, as ``torch.profiler.schedule(...)`` returns it, or any function from step
            number to ``ProfilerAction``; takes the place of the six arguments below.
        wait: Steps to leave out at the start of each cycle.
        warmup: Steps with the profiler on whose events are thrown away.
        active: Steps to record in each cycle.
        repeat: Cycles to record; 0 means until the block ends.
        skip_first: Steps to leave out before the first cycle.
        skip_first_wait: Leave the idle steps of the first cycle out.
        activities: Any of ``cpu``, ``cuda``, ``xpu``, ``mtia``, ``hpu``, ``privateuse1``, or torch's own
            ``ProfilerActivity``, or dicts from one of them to the types of its records; empty means all there are.
        preset: ``quick``, ``memory`` or ``full``: switches that go together; each can be given as well and then wins.
        record_shapes: Record the shapes and types of op inputs.
        profile_memory: Record every allocation and release.
        with_stack: Record Python calls; costs the most.
        with_flops: Let torch count the operations of matrix products and convolutions.
        with_modules: Record the modules of TorchScript models.
        all_threads: Record every thread of this process, and no memory.
        sync_events: Record when CUDA streams and events wait for each other.
        trace_only: Skip torch's event tree. Stopping takes half the time; names that torch cannot export are lost.
        two_pass: Record times in a pass of their own, then shapes, memory and stacks (or what the switches ask for) of
            as many steps again. Needs ``steps()`` or schedule arguments; without, one pass records everything.
        budget: What recording may take, checked at the end of each step: a size (``"2GB"``, or bytes) bounds how much
            the process grows in a cycle, and all files together; a time (``"30s"``, ``"5min"``) bounds the recorded
            steps together; ``"2GB,5min"`` both. Half of the free memory by default, and any time. A cycle that takes
            more memory ends, and later ones leave out Python calls, then shapes; otherwise all recording ends.
        execution_trace: File for torch's execution trace of the same steps; each further cycle, and each of
            several ranks, has its number in it.
        snapshot: True, or a file: record the history of the GPU's allocator, for ``load`` and torch's memory_viz.
        metadata: What else to write into the trace, by key; any value that JSON can hold.
        experimental_config: torch's ``_ExperimentalConfig``, passed on as it is.
        custom_trace_id_callback: Returns the id of each cycle's trace, passed on as it is.
        post_processing_timeout_s: Passed on as it is.
        on_trace_ready: Called with torch's profiler after each cycle, as ``torch.profiler.profile`` does, when the
            cycle is saved. Its ``export_chrome_trace`` copies the saved file. What it raises becomes a note.
        folder: Where raw traces go; they are then kept. By default they live as long as the report.
        trace_dir: Folder where a copy of every trace is kept; see docs/traces.md for this and what follows.
        filename: Template of the copy's name, such as ``{run_name}-{cycle}.pt.trace.json``.
        run_name: What ``{run_name}`` stands for.
        gzip: Pack the copies.
        overwrite: Replace a copy of the same name; otherwise the new one gets a number.
        keep_last: How many copies of each rank stay.
        remote: Address that the copies go to in the background, any that fsspec knows.
        tensorboard: Name the copies as TensorBoard's profiler plugin wants.

    Raises:
        ProfilerBusyError: Another profiler is running; nothing was started.
        CaptureError: The recording could not be started or its folder cannot be written.
        OptionsError: A value is out of range.

    """

    def __init__(
        self,
        *,
        schedule: Callable[[int], Any] | None = None,
        wait: int | None = None,
        warmup: int | None = None,
        active: int | None = None,
        repeat: int | None = None,
        skip_first: int | None = None,
        skip_first_wait: bool = False,
        activities: Iterable[object] = (),
        preset: str = "quick",
        record_shapes: bool | None = None,
        profile_memory: bool | None = None,
        with_stack: bool | None = None,
        with_flops: bool | None = None,
        with_modules: bool = False,
        all_threads: bool = False,
        sync_events: bool = False,
        trace_only: bool = False,
        two_pass: bool = False,
        budget: str | int | None = None,
        execution_trace: str | os.PathLike[str] = "",
        snapshot: bool | str | os.PathLike[str] = False,
        metadata: Mapping[str, object] | None = None,
        experimental_config: object = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        on_trace_ready: Callable[[Any], object] | None = None,
        folder: str | os.PathLike[str] | None = None,
        trace_dir: str | os.PathLike[str] = "",
        filename: str = "",
        run_name: str = "",
        gzip: bool = False,
        overwrite: bool = False,
        keep_last: int | None = None,
        remote: str = "",
        tensorboard: bool = False,
    ) -> None:
        budget_bytes, budget_s = budget_of(budget)
        counts = ScheduleOptions(
            wait=wait,
            warmup=warmup,
            active=active,
            repeat=repeat,
            skip_first=skip_first,
            skip_first_wait=skip_first_wait,
        )
        names, types = activities_of(activities)
        switches = {
            "record_shapes": record_shapes,
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "with_flops": with_flops,
        }
        details = _details(preset, switches, with_modules=with_modules)
        if two_pass:
            details |= detail_switches(details, all_threads=all_threads, trace_only=trace_only)
        self._options = ProfileOptions(
            schedule=counts,
            schedule_function=schedule,
            activities=names,
            activity_types=types or None,
            all_threads=all_threads,
            sync_events=sync_events,
            trace_only=trace_only,
            two_pass=two_pass,
            budget_bytes=budget_bytes,
            budget_s=budget_s,
            execution_trace=os.fspath(execution_trace),
            snapshot=os.fspath(snapshot) if isinstance(snapshot, os.PathLike) else snapshot,
            metadata=metadata_of(metadata or {}),
            experimental_config=experimental_config,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
            on_trace_ready=on_trace_ready,
            **{name: bool(is_on) for name, is_on in details.items()},
        )
        kept = KeepOptions(
            trace_dir=os.fspath(trace_dir),
            filename=filename,
            run_name=run_name,
            gzip=gzip,
            overwrite=overwrite,
            keep_last=keep_last,
            remote=remote,
            tensorboard=tensorboard,
        )
        self._keeper = Keeper(kept, cycles=self._options.cycles) if kept.trace_dir else None
        self._folder = Path(folder) if folder is not None else None
        self._title = ""
        self._session: CaptureSession | None = None
        self._report: Report | None = None
        self._has_stepped = False
        self._is_everything = False

    @protected
    def __enter__(self) -> profile:  # noqa: PYI034 - Self needs Python 3.11
        """Start the recording. Raises ``CaptureError`` where that cannot be, and nothing was run then."""
        if self._session is not None:
            raise CaptureError("a profile() can be used once; make a new one for the next block")
        if not can_report():
            raise CaptureError(f"{NO_REPORTS}; nothing was run")
        self._title = _place(sys._getframe(1))  # noqa: SLF001 - the documented way to the caller
        sweep()  # what is not needed any more must not fill the disk that this recording needs
        if self._keeper is not None:
            self._keeper.prepare()
        # Without a schedule the whole block is recorded, and it is one step unless step() is called.
        schedule = _EVERYTHING if self._options.is_adaptive else self._options.schedule
        how = "cell" if self._options.is_adaptive else "manual"
        self._is_everything = self._options.is_adaptive
        has_passes = self._options.two_pass and not self._is_everything
        self._session = self._new_session(replace(self._options, schedule=schedule, two_pass=has_passes), how)
        _open.append(self)
        try:
            self._session.start()
        except BaseException:
            _open.remove(self)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the recording and read it; the block's exception goes on."""
        session = self._session
        if session is None:
            return
        has_exception = value is not None
        try:
            self._end(session, has_exception=has_exception)
        finally:
            if session.recording is not None:
                self._finish(session, session.recording, has_exception=has_exception)

    @protected
    def _end(self, session: CaptureSession, *, has_exception: bool) -> None:
        """Stop recording; no interrupt comes in here, one that waited is raised when the report was made."""
        try:
            if not has_exception and self._has_stepped:
                session.finish(is_between=True)
        finally:
            session.stop(is_held=True)
            if self in _open:
                _open.remove(self)

    @protected
    def step(self) -> None:
        """End the current step. Call it at the end of each iteration."""
        if self._session is not None:
            self._has_stepped = True
            self._session.step()

    def steps(self, iterable: Iterable[T]) -> Iterator[T]:
        """Return an iterator over ``iterable`` that ends a step whenever the next item is asked for.

        Without schedule arguments the recording begins anew here, and its schedule follows the length of the loop.
        """
        if self._session is not None and self._session.is_forked:
            return iter(iterable)  # a child's steps are not those of the recording
        if self._session is None or self not in _recording():
            raise CaptureError("steps() needs a running recording: use it inside `with tp.profile() as p:`")
        if self._options.is_adaptive and not self._has_stepped:
            self._begin_anew(self._session)
        self._has_stepped = True
        return Stepper(self._session).steps(iterable)

    @property
    def report(self) -> Report:
        """The result, once the block has ended. Raises ``CaptureError`` before that."""
        if self._report is None:
            raise CaptureError("the report is ready when the `with` block has ended")
        return self._report

    @protected
    def _begin_anew(self, session: CaptureSession) -> None:
        """Throw away what ran before the loop, and let the schedule follow the loop's length."""
        session.discard()
        fresh = self._new_session(self._options, "manual")
        fresh.open()
        self._session = fresh
        self._is_everything = False

    def _new_session(self, options: ProfileOptions, how: str) -> CaptureSession:
        return CaptureSession(
            options,
            stepping=Stepping(how=how),
            folder=self._folder,
            spare=self._keeper.folder if self._keeper is not None else None,
            on_wait=say_waiting,
            title=self._title,
        )

    def _finish(self, session: CaptureSession, recording: Recording, *, has_exception: bool) -> None:
        """Read the recording, and let through what had to wait until then."""
        try:
            session.guard.uninstall()  # an interrupt that comes from here on ends the analysis
            if session.is_unwanted:
                self._say_unread(session)
            elif not session.is_forked:
                self._report = self._read(session, recording)
                sweep()  # the report that this one takes the place of has gone
        except KeyboardInterrupt:
            has_exception = True  # one is enough
            self._say_unread(session)
            raise
        finally:
            if has_exception:
                session.guard.drop_pending()
            session.release()

    def _say_unread(self, session: CaptureSession) -> None:
        session.settle()
        assert session.recording is not None
        recording = session.recording
        is_remembered = self._report is not None
        if not is_remembered:
            keep_raw(recording)
        say_unread(recording, is_remembered=is_remembered, is_magic=False)

    def _read(self, session: CaptureSession, recording: Recording) -> Report:
        if self._keeper is not None:
            recording = self._keeper.keep(session.checked() or recording)
        if self._options.two_pass and self._is_everything:
            recording = replace(recording, problems=(*recording.problems, _ONE_PASS))
        if self._has_stepped:
            recording = replace(recording, stepping=Stepping(how="manual"))
        report = read_recording(
            recording, title=self._title, keep_files=self._folder is not None, check=session.checked
        )
        session.skip_check()
        history.remember(report)
        return report


# The with-blocks that are being recorded now, the innermost last; torch allows one, so there is at most one.
_open: list[profile] = []


def _place(caller: FrameType) -> str:
    """Return the cell where a block begins, as IPython numbers them, or the file and line."""
    cells = caller.f_globals.get("In")
    if "get_ipython" in caller.f_globals and isinstance(cells, list):
        return f"In [{len(cells) - 1}]"
    return f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"


def _details(preset: str, given: Mapping[str, bool | None], *, with_modules: bool) -> dict[str, bool | None]:
    """Return each switch as it was given, or else as the preset has it; ``None`` stands for what nobody said."""
    chosen = preset_switches(preset) | {name: is_on for name, is_on in given.items() if is_on is not None}
    return {name: chosen.get(name) for name in given} | {"with_modules": with_modules or None}


def _recording() -> list[profile]:
    """Return the blocks that are still being recorded; one whose session was ended from outside is forgotten."""
    _open[:] = [block for block in _open if block._session is not None and block._session.is_active]  # noqa: SLF001
    return _open


def step() -> None:
    """End the current step of whatever is recording now, a magic or a ``with`` block; does nothing outside of one."""
    if _recording():
        _open[-1].step()
    elif (session := live_session()) is not None:
        session.step()


def steps(iterable: Iterable[T]) -> Iterator[T]:
    """Iterate and step: each iteration is one step of whatever is recording now; plain iteration outside of one."""
    if _recording():
        return _open[-1].steps(iterable)
    session = live_session()
    return iter(iterable) if session is None else Stepper(session).steps(iterable)


@contextlib.contextmanager
def paused(*activities: str) -> Iterator[None]:
    """Leave ops out (``"cpu"``), or work of a device (``"cuda"``), within the block; the recording goes on after it.

    For what should not be in a recorded step, such as an evaluation. Python calls and memory are recorded all the
    same. A pause ends with its step at the latest, and a recording cycle that begins within the block is not paused.
    Does nothing when no step is being recorded, nor for what is not recorded. Raises ``OptionsError`` for an unknown
    activity.
    """
    names, _ = activities_of(activities or ("cpu",))
    ProfileOptions(activities=names)  # raises for what is none
    session = _open[-1]._session if _recording() else live_session()  # noqa: SLF001 - of the same module
    if session is None:
        yield
        return
    pause = Pause(frozenset(names))
    session.pause(pause)
    try:
        yield
    finally:
        session.resume(pause)
