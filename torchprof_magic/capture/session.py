"""One guarded run of torch's profiler, from open to stop.

Interrupts wait while torch changes its state; steps from another thread or a forked child are refused; whatever
happens, ``stop`` leaves the profiler off and the recording on disk.
"""

from __future__ import annotations

import sys
import weakref
from contextlib import ExitStack, suppress
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

import torch

from torchprof_magic.capture import registry
from torchprof_magic.capture.checks import preflight
from torchprof_magic.capture.checks.missing_steps import note_ending
from torchprof_magic.capture.interrupts.guard import InterruptGuard, protected, raised_by_handler
from torchprof_magic.capture.lengths import count_ahead
from torchprof_magic.capture.news import News
from torchprof_magic.capture.output.crash_marker import Mark
from torchprof_magic.capture.output.export import discard
from torchprof_magic.capture.output.fallback_folders import FallbackFolders
from torchprof_magic.capture.parts import (
    BACKWARD,
    CHECKS,
    CLEANUP,
    COMPILATIONS,
    COMPILED_CODE,
    COMPILED_STEPS,
    CRASH_MARKER,
    CUDA_GRAPHS,
    DESCRIPTORS,
    FACTS,
    FREED_EVENTS,
    FUNCTIONS,
    FX_NAMES,
    GRAPH_NOTES,
    HAND_OVER,
    HISTORY,
    INTERRUPTS,
    LENGTHS,
    LINES,
    MODEL_CALLS,
    OBSERVER,
    OPTIMIZER,
    OPTIMIZER_WATCH,
    OTHER_PROFILERS,
    OTHER_PROGRAMS,
    OTHER_TASKS,
    START_OVER,
    STDERR,
    SUMMARY,
    Parts,
)
from torchprof_magic.capture.plan import Planner
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.capture.recorder import Recorder
from torchprof_magic.capture.schedule import (
    AnySchedule,
    WatchSchedule,
    may_begin_late,
)
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.capture.torch_api.allocator_history import AllocatorHistory, begin_history, note_out_of_memory
from torchprof_magic.capture.torch_api.compilations import Compilations
from torchprof_magic.capture.torch_api.compiled_frames import compiled_frames
from torchprof_magic.capture.torch_api.compiling import watch_optimizers
from torchprof_magic.capture.torch_api.cuda_graphs import watch_cupti
from torchprof_magic.capture.torch_api.engine import Engine
from torchprof_magic.capture.torch_api.fx_names import NAMES
from torchprof_magic.capture.torch_api.graph_notes import known_graph_notes
from torchprof_magic.capture.torch_api.stderr_filter import StderrFilter
from torchprof_magic.capture.watch.compiled_steps import Callers
from torchprof_magic.capture.watch.model_calls import ModelCalls
from torchprof_magic.capture.watch.program import ProgramWatch
from torchprof_magic.capture.watch.tasks import OtherTasks
from torchprof_magic.capture.watch.trainers import caller_in_cell
from torchprof_magic.capture.watch.users_code import UsersCode
from torchprof_magic.capture.watched_run import RunWatch
from torchprof_magic.model.errors import CaptureError, TorchProfError
from torchprof_magic.model.meta import Stepping
from torchprof_magic.model.recording import READ_FILES, Recording
from torchprof_magic.options import DETAILS, EVERY_S
from torchprof_magic.system.process.other_programs import OtherPrograms
from torchprof_magic.system.process.python_warnings import warnings_to
from torchprof_magic.system.process.spare_descriptors import SPARE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchprof_magic.capture.progress import Progress
    from torchprof_magic.capture.torch_api.cycle_profile import CycleProfile, TorchState
    from torchprof_magic.capture.watch.pauses import Pause
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.recording import ProgramMarks
    from torchprof_magic.options import ProfileOptions


# After these, a recording does not start over: torch or the machine is not fit for it.
_ENDINGS = ("capture.gave_up", "capture.failed", "capture.taken_over", "capture.budget", "capture.budget_files")
# These are noted again if they are true of the next one.
_OF_ONE_RECORDING = (
    "capture.no_ops",
    "capture.one_pass",
    "capture.only_times",
    "capture.no_lines",
    "capture.lines_left_out",
    "capture.details_left_out",
    "capture.details_dropped",
    "capture.details_ended",
    "capture.details_ended_by_memory",
    "capture.times_ended",
    "capture.stacks_ended",
    "capture.degraded",
    "capture.budget_half",
    "capture.device_stopped",
    "capture.other_threads",
    "capture.other_processes",
    "capture.other_tasks",
    "capture.later_loop",
    "capture.by_optimizer",
)


class StepMaker(Protocol):
    """What the steps of a session are handed over to."""

    def is_running(self) -> bool:
        """Return whether it still makes steps, and was not left by an exception."""


class State(Enum):
    """The state of a session. ``OVER``: the recording has ended, but ``stop`` has not been called yet."""

    NEW = "new"
    OPEN = "open"
    RUNNING = "running"
    OVER = "over"
    STOPPED = "stopped"


class CaptureSession:
    """One guarded run of torch's profiler.

    ``open`` checks everything that can be checked before the user's code runs; ``start`` begins step 0; ``step`` ends
    a step; ``finish`` ends the recording while the code goes on; ``stop`` returns the recording, also kept on
    ``self.recording``. ``is_unwanted`` is true afterwards when the user interrupted again while the recording was being
    finished: it is on disk, but its report is not wanted. ``on_wait`` is called with the number of such interrupts.
    ``fallback`` is the first folder to try when the disk of the trace folder is full.

    ``news`` tells how far it is. ``may_hand_over`` is false where the user has said what ends a step. ``by_model`` says
    whether steps begin with the calls of a model where no optimizer ends them; None where that depends on what is seen.
    ``on_leave`` ends a run that is left without a stop. ``report`` is what was made of the recording, as long as it is
    there.
    """

    def __init__(
        self,
        options: ProfileOptions,
        *,
        stepping: Stepping,
        folder: Path | None = None,
        fallback: Path | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_wait: Callable[[int], None] | None = None,
        title: str = "",
    ) -> None:
        self.recording: Recording | None = None
        self.owner: registry.Owner | None = None
        self.guard = InterruptGuard(on_wait)
        self.is_unwanted = False
        self._title = title
        self._mark: Mark | None = None
        self._options = options
        self._stepping = stepping
        self._folder = folder
        self._fallbacks = FallbackFolders(fallback, self._mark_too)
        self._state = State.NEW
        self._recorder: Recorder | None = None
        self._problems = ProblemLog()
        self.parts = Parts(self._problems)
        self.news = News(self.parts, on_progress, self._so_far)
        self._quiet = StderrFilter(self.parts)
        self._watches = ExitStack()
        self._optimizer: weakref.ref[object] | None = None
        self._stepped_by: StepMaker | None = None
        self.may_hand_over = True
        self.by_model: bool | None = False
        self.on_leave: Callable[[], object] | None = None
        self.report: weakref.ref[Any] | None = None
        self._tasks: OtherTasks | None = None
        self._callers = Callers(self._problems)
        self._compilations = Compilations(self._problems, self.parts)
        self._history: AllocatorHistory | None = None
        self.program = ProgramWatch(
            self._problems,
            self.parts,
            modules=options.watch_modules,
            functions=any(passed.lines for passed in options.passes),
            memory=any(passed.profile_memory for passed in options.passes),
            names_at_return=bool(options.lines),
        )
        if any(passed.with_stack or passed.with_modules for passed in options.passes):
            self.program.lines.be_unseen()
        self._early_pauses: list[Pause] = []
        self._has_own_observer = False
        self._added: dict[str, str] = {}
        self._first_loop: str | None = None
        self._snapshot: Path | None = None
        self._others: OtherPrograms | None = None
        self._others_share: float | None = None
        self._endings: list[Callable[[], None]] = []
        self._end_recorder_watch: Callable[[], None] | None = None

    @property
    def is_active(self) -> bool:
        """True between ``open`` (or ``start``) and ``stop``."""
        return self._state in (State.OPEN, State.RUNNING, State.OVER)

    @property
    def is_stepping(self) -> bool:
        """True from step 0 to the end of the schedule."""
        return self._state is State.RUNNING

    def is_stepped_by(self, maker: object) -> bool:
        """Return whether the steps were handed over to ``maker``."""
        return self._stepped_by is maker

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is known by now to be missing or doubtful."""
        return self._problems.as_tuple()

    @property
    def is_forked(self) -> bool:
        """True in a child process that was forked while the session was active; it must not write or show anything."""
        return self.owner is not None and self.owner.is_child()

    @protected
    def open(self) -> None:
        """Check that this run can be recorded, and become the one live session of this process.

        Raises ``ProfilerBusyError`` or ``CaptureError``; nothing has been started then. After any other failure, the
        user's code runs without a recording.
        """
        if self._state is not State.NEW:
            raise CaptureError("a session can be started only once. Create a new one.")
        is_named = self._folder is not None
        try:
            self._contained(self._open, raises=TorchProfError)
        except BaseException:
            self._drop_history()
            self._unwatch()
            SPARE.release()
            registry.release(self)
            self._unmark()
            if self._folder is not None and not is_named:
                with suppress(OSError):
                    self._folder.rmdir()  # nothing is in it yet
            self.guard.uninstall()
            raise

    def _open(self) -> None:
        parts, options = self.parts, self._options
        self.owner = registry.Owner()
        registry.claim(self)
        parts.check(CHECKS, preflight.check, options)
        folder = self._folder = preflight.usable_folder(self._folder)
        self._mark = parts.ask(CRASH_MARKER, Mark, folder, self._title, default=None)
        # After another session's is gone; an interrupt until here ends the session in ``open``.
        parts.run(INTERRUPTS, self.guard.install)
        parts.run(COMPILED_STEPS, compat.keep_out_of_graphs)
        self._history = begin_history(options, folder, self._problems)
        parts.run(OBSERVER, self._observe)
        watch_others = partial(compat.on_takeover, self._yield_to_other, is_ours=lambda: Engine.preparing)
        parts.set_up(OTHER_PROFILERS, watch_others, self._watches)
        parts.set_up(CUDA_GRAPHS, partial(watch_cupti, self._problems), self._watches)
        parts.set_up(COMPILATIONS, self._compilations.watch, self._watches)
        parts.set_up(FX_NAMES, NAMES.switch_on, self._watches)
        parts.run(DESCRIPTORS, SPARE.hold)
        self._state = State.OPEN

    @protected
    def start(self, length: int | None = None, done: int = 0, by: StepMaker | None = None) -> None:
        """Begin step 0, or the one after ``done`` steps that the session did not see; these count as idle ones.

        ``length`` is the number of steps in the loop, if known, and shapes the schedule. ``by`` is as for ``step``.

        Opens the session if it is not open; errors are then raised as by ``open``. In a session that was opened before,
        the user's code is already running, so errors become problems instead. Calling it again while running begins the
        next epoch.
        """
        if by is not self._stepped_by:
            return
        is_early = self._state is State.NEW
        if is_early:
            self.open()
        try:
            self._contained(self._start, length, done, is_early, raises=TorchProfError if is_early else ())
            self.let_interrupts_in()
        except BaseException:
            if is_early:
                self.stop()  # __exit__ is not called if __enter__ raises
            raise

    def count(self, iterable: object) -> int | None:
        """Return how many items a loop over ``iterable`` will get, if that is known without asking the user's code."""
        return self.parts.ask(LENGTHS, count_ahead, iterable, default=None)

    @property
    def may_start_late(self) -> bool:
        """True if the schedule leaves the first step out, so that the recording can begin after it."""
        return self._options.schedule_function is None and may_begin_late(self._options.schedule)

    def replan(self, stepping: Stepping) -> None:
        """Say what makes the steps; does nothing once they have begun, or were handed over."""
        if self._recorder is None and self._stepped_by is None:
            self._stepping = stepping

    @protected
    def start_over(self, stepping: Stepping) -> bool:
        """Drop what was recorded, so that ``start`` begins again, with other steps. Return whether that was possible.

        It is not where files or a handler of the user's have a part of it, if torch has failed, or where the steps were
        handed over.
        """
        if self._stepped_by is not None:
            return False
        found = self.parts.ask(START_OVER, self._start_over, stepping, default=False)
        self.let_interrupts_in()
        return found

    def _start_over(self, stepping: Stepping) -> bool:
        recorder, options = self._recorder, self._options
        is_given_out = options.on_trace_ready or options.execution_trace or options.execution_trace_observer
        if recorder is None or not self._is_here() or is_given_out or self._history is not None:
            return False
        if self._state not in (State.RUNNING, State.OVER) or self._problems.has(*_ENDINGS):
            return False
        with self._undisturbed(is_slow=True):
            recorder.drop()
        if self._end_recorder_watch is not None:
            self._end_recorder_watch()
        self.program.start_over()
        self.parts.run(COMPILATIONS, self._compilations.start_over)
        self._problems.forget(*_OF_ONE_RECORDING)
        self._recorder, self._tasks, self._stepping, self._state = None, None, stepping, State.OPEN
        self.news.start_over()
        return True

    def on_optimizer(self, callback: Callable[[object], None]) -> None:
        """Call ``callback`` with each optimizer that has stepped on this thread, until the session stops."""

        def tell(optimizer: object, *_: object) -> None:
            if self._is_here():
                self.parts.run(OPTIMIZER_WATCH, callback, optimizer)

        self.parts.set_up(OPTIMIZER_WATCH, partial(watch_optimizers, _ignore, tell), self._watches)

    def made_nodes(self) -> int:
        """Return a number that grows with every op on this thread whose result needs a gradient."""
        return self.parts.ask(OPTIMIZER_WATCH, compat.made_nodes, default=0)

    def note(self, code: str, **values: object) -> None:
        """Add a problem to the recording."""
        self._problems.note(code, **values)

    def at_end(self, callback: Callable[[], None]) -> None:
        """Call ``callback``, which may note problems, when the user's code has ended."""
        self._endings.append(callback)

    def enter_loop(self, place: str) -> None:
        """Note that the loop at ``place`` is not recorded, if it is another one than the first, and comes too late."""
        self._contained(self._note_loop, place)

    def _note_loop(self, place: str) -> None:
        if self._first_loop is None:
            self._first_loop = place
        recorder = self._recorder
        is_over = self._state is State.OVER or (recorder is not None and recorder.is_over)
        if place != self._first_loop and is_over and self._is_here():
            self._problems.note("capture.later_loop", place=place)

    @protected
    def step(self, fetched_ns: int | None = None, *, by: StepMaker | None = None, rests: bool = False) -> None:
        """End the current step. Does nothing before ``start``, after ``stop``, on another thread or in a child.

        ``fetched_ns`` is when, by ``perf_counter_ns``, the loop had the item of this step, if it fetched one. Once the
        steps were handed over to an object, only calls ``by`` it count. With ``rests``, no other step begins before
        ``go_to_work``.
        """
        ended_ns = perf_counter_ns()
        if by is not self._stepped_by:
            return
        self.parts.run(COMPILED_STEPS, self._callers.look, sys._getframe(1))  # noqa: SLF001 - the documented way
        self._contained(self._advance, True, ended_ns, fetched_ns, rests)  # noqa: FBT003 - it is complete
        self.let_interrupts_in()

    @protected
    def cut(self, *, by: StepMaker | None = None, rests: bool = False) -> None:
        """End the current step early; it is listed as incomplete. ``by`` and ``rests`` are as for ``step``."""
        if by is not self._stepped_by:
            return
        self._contained(self._advance, False, perf_counter_ns(), None, rests)  # noqa: FBT003 - it is not complete
        self.let_interrupts_in()

    @protected
    def go_to_work(self) -> None:
        """Begin the step after a rest; does nothing in a step."""
        self._contained(self._go_to_work)
        self.let_interrupts_in()

    def _go_to_work(self) -> None:
        recorder = self._recorder
        if recorder is None or not recorder.rests.is_open or not self._is_here():
            return
        if self._state is State.RUNNING:
            self.news.tell_phase(recorder, recorder.next_phase, recorder.step)
            with self._undisturbed(is_slow=True):
                self._transit(recorder.go_to_work)
        else:
            recorder.rests.end(None, set())
        recorder.go_on()

    @protected
    def hand_over(self, by: StepMaker, stepping: Stepping, length: int | None = None) -> bool:
        """Let ``by`` make the steps from here on, such as the callback of a trainer, and begin step 0.

        ``stepping`` says so in the report. What was recorded before is dropped, where that is possible, and steps that
        others end are ignored. Returns False where the user has said what makes the steps or has made some, or where
        another training makes them, or did.
        """
        found = self.parts.ask(HAND_OVER, self._hand_over, by, stepping, default=False)
        if found:
            self.start(length, by=by)
        self.let_interrupts_in()
        return found

    def _hand_over(self, by: StepMaker, stepping: Stepping) -> bool:
        before, recorder = self._stepped_by, self._recorder
        if not (self.is_active and self._is_here() and self.may_hand_over):
            return False
        if before is None and self._stepping.how == "manual" and recorder is not None and recorder.step > 0:
            return False
        if before is not None and (before is not by or self._state is State.OVER):
            if before is by or not before.is_running():
                self._problems.note("capture.later_training")
                self._finish(is_between=False)  # the one before may have been left by an exception
            return False
        if recorder is not None and not self._start_over(stepping) and self._state is State.OVER:
            return False
        self._stepping, self._stepped_by = stepping, by
        self._endings.clear()  # they are about the loops of the cell
        return True

    @protected
    def pause(self, pause: Pause) -> None:
        """Stop recording some activities until ``resume``, also in cycles that have not begun."""
        if self._state is State.OPEN and not pause.is_of_cycle and self._is_here():
            self._early_pauses.append(pause)
        self._contained(self._while_running, lambda recorder: recorder.pause(pause))
        self.let_interrupts_in()

    @protected
    def resume(self, pause: Pause) -> None:
        """End a pause; does nothing if it never began, or is over."""
        if pause in self._early_pauses:
            self._early_pauses.remove(pause)
        self._contained(self._while_running, lambda recorder: recorder.resume(pause))
        self.let_interrupts_in()

    @property
    def torch_profiler(self) -> CycleProfile | None:
        """The profiler of torch for the current cycle, if one is being recorded or warms up."""
        return None if self._recorder is None else self._recorder.torch_profiler

    @property
    def torch_state(self) -> TorchState | None:
        """Where the run is, as torch's profiler keeps it; ``None`` before step 0."""
        return None if self._recorder is None else self._recorder.torch_state()

    @protected
    def add_metadata(self, metadata: Mapping[str, str]) -> None:
        """Add JSON texts to the metadata of the current cycle, of all later ones, and of the recording."""
        self._added |= metadata
        if self._recorder is None:
            merged = {**dict(self._options.metadata), **metadata}
            self._options = replace(self._options, metadata=tuple(merged.items()))
        self._contained(self._while_running, lambda recorder: recorder.add_metadata(metadata))
        self.let_interrupts_in()

    @protected
    def set_trace_ids(self, callback: Callable[[], str]) -> None:
        """Set the function that names the trace of every later cycle."""
        if self._recorder is None:
            self._options = replace(self._options, custom_trace_id_callback=callback)
        self._contained(self._while_running, lambda recorder: recorder.change(custom_trace_id_callback=callback))
        self.let_interrupts_in()

    @protected
    def finish(self, *, is_between: bool = False, by: StepMaker | None = None) -> None:
        """End the recording here, so that later code runs at full speed and is not in the trace.

        ``is_between`` says that the last step has ended and no next one has begun. ``by`` is as for ``step``.
        """
        if by is not self._stepped_by:
            return
        self._contained(self._finish, is_between)
        self.let_interrupts_in()

    def _finish(self, is_between: bool) -> None:
        recorder = self._recorder
        if self._state is State.RUNNING and recorder is not None and self._is_here():
            with self._undisturbed(is_slow=True):
                self._transit(lambda _guard: recorder.finish(is_between=is_between))
                recorder.save_finished(self.guard)
            self._state = State.OVER
            self._keep_history()
            self.news.tell_phase(recorder, recorder.phase, recorder.step)
            self.news.tell_cycles(recorder)

    @protected
    def stop(self, *, is_held: bool = False, is_cut: bool = False) -> Recording:
        """End the run, save every cycle, leave the profiler off, and return the recording; can be repeated.

        Failures of torch or the disk do not raise; they are problems of the recording. An interrupt that arrived
        meanwhile is raised at the end, unless the user's own exception is already being raised. ``is_held``: it waits
        for ``release``, because the caller still has to store the recording. ``is_cut``: an exception ended the code
        earlier, which is otherwise told by one that is being raised now.
        """
        __tracebackhide__ = True
        if self.recording is None:
            self._refuse_other_thread()
            failure = sys.exc_info()[1]
            try:
                self._end_run(failure, is_cut=is_cut or failure is not None)
            except BaseException:  # of the user's own signal handler, which had to wait
                if not is_held:
                    self.release()
                raise
            self.is_unwanted = self.guard.pending > 1
            if failure is not None:
                self.guard.drop_pending()
        if not is_held:
            self.release()
        assert self.recording is not None  # _end_run has set it
        return self.recording

    def release(self) -> None:
        """Let interrupts through again, raise one that waited, and remove the crash marker: the run is over."""
        __tracebackhide__ = True
        self._unmark()
        self.parts.undo(INTERRUPTS, self.guard.uninstall)  # last: until here an interrupt would lose the recording
        self.guard.raise_pending()

    def free_events(self) -> None:
        """Free torch's events of the last cycle, which is on disk; otherwise they go with this session."""
        if self._recorder is not None:
            self.parts.undo(FREED_EVENTS, self._recorder.free_events)

    def let_interrupts_in(self) -> None:
        """Raise an interrupt that had to wait; every method that the user's code calls ends with this."""
        __tracebackhide__ = True
        if self.guard.pending and self._is_here():  # another thread must not receive it
            self.guard.raise_pending()

    @protected
    def discard(self) -> None:
        """Stop, and delete what was recorded."""
        if not self._is_here():
            return
        self._drop_history()
        if not self._has_own_observer:  # the user's goes on in the next session
            self._options = replace(self._options, execution_trace_observer=None)
        recording = self.stop(is_held=True)
        self.release()
        self.parts.undo(CLEANUP, partial(self._delete, recording))

    def _delete(self, recording: Recording) -> None:
        for cycle in recording.cycles:
            discard(cycle.path)
        self._fallbacks.remove_empty()
        if self._folder is not None:
            for read in self._folder.glob(READ_FILES.format("*")):
                discard(read)
            with suppress(OSError):  # it is gone, or contains files of the user
                self._folder.rmdir()

    def leave(self) -> None:
        """End a session that was left without being stopped, by ``on_leave`` if there is one, else by ``reclaim``."""
        end, self.on_leave = self.on_leave, None
        if end is not None and self._is_here():
            self.parts.run(HAND_OVER, end)
        if self.is_active:
            self.reclaim()

    @protected
    def reclaim(self) -> None:
        """Stop a session that was never stopped, and discard its recording."""
        self._problems.note("capture.reclaimed")
        try:
            with self._undisturbed():
                self.guard.drop_pending()
                self._drop_history()
                if self._is_here():
                    self.recording = self._stop(None, is_cut=True)
                else:  # its thread has ended, and only that thread can stop torch
                    self._state = State.STOPPED
                    self._let_go()
                    compat.switch_off()
                self._unmark()
        finally:
            self.parts.undo(INTERRUPTS, self.guard.uninstall)

    def _observe(self) -> None:
        """Use the observer of execution traces that the environment asks for, unless the user named one."""
        options = self._options
        if not options.execution_trace and options.execution_trace_observer is None:
            with warnings_to(lambda text: self._problems.note("capture.torch_warning", text=text)):
                observer = compat.observer_of_environment()
            if observer is not None:
                self._options = replace(options, execution_trace_observer=observer)
                self._has_own_observer = True
                self._problems.note("capture.execution_trace", path=observer.get_output_file_path())

    def _end_observer(self) -> None:
        """Complete the file of an observer that is not ours, as torch does when its profiler is left."""
        observer = self._options.execution_trace_observer
        if observer is None:
            return
        try:
            observer.cleanup()
        except Exception as exc:  # noqa: BLE001 - the user's code must not fail because of its observer
            self._problems.note("capture.observer_failed", error=f"{type(exc).__name__}: {exc}")

    def _start(self, length: int | None, done: int, is_early: bool) -> None:
        if self._state is State.RUNNING and self._recorder is not None and self._is_here():
            self._recorder.begin_epoch()
        if self._state is not State.OPEN or not self._is_here():
            return
        if not is_early and self.parts.ask(OTHER_PROFILERS, compat.busy_profiler, default=None):
            self._give_up("capture.busy")
            return
        may_time_lines = partial(self.parts.ask, FUNCTIONS, self._may_time_lines, default=False)
        planner = Planner(self._options, self._stepping.how, self._problems, may_time_lines)
        schedule, passes = planner.plan(length, done)
        self.news.length = length
        watch = self._watch_of(schedule, done)
        self._recorder = Recorder(
            passes,
            schedule,
            self._existing_folder(),
            self._problems,
            self._quiet,
            self._fallbacks,
            self.program,
            self.parts,
            length,
            watch,
        )
        self._recorder.tell = partial(self.news.tell_stage, self._recorder) if self.news.has_progress else None
        for pause in self._early_pauses:
            self._recorder.pause(pause)
        self._end_recorder_watch = self._recorder.watch()
        self._watches.callback(self._end_recorder_watch)
        self._others = self.parts.ask(OTHER_PROGRAMS, OtherPrograms, default=None)
        self._state = State.RUNNING
        self._begin(self._recorder, done)

    def _watch_of(self, schedule: AnySchedule, done: int) -> RunWatch | None:
        if not isinstance(schedule, WatchSchedule):
            return None
        options = self._options
        return RunWatch(
            schedule,
            options.watch_s or EVERY_S,
            compat.memory_in_use,
            done=done,
            has_warmup=self._stepping.how != "optimizer",
            has_details=any(getattr(options, name) for name in DETAILS),
        )

    def _may_time_lines(self) -> bool:
        """Return whether lines of functions are to be timed in a cycle of their own, and the user has functions.

        Without a cell that marks its lines, the block is one of them.
        """
        if self._options.lines is not None:
            return False
        names = self.program.modules.namespace
        if names and not UsersCode().is_in(names):
            return False
        if sys.gettrace() is not None:
            self._problems.note("capture.lines_refused")
            return False
        return True

    def _begin(self, recorder: Recorder, done: int) -> None:
        # Drawing the progress bar takes milliseconds. It is done before the step begins, so that it is not recorded.
        self.news.tell_phase(recorder, recorder.schedule.action(done).phase, done)
        self._tasks = self.parts.ask(OTHER_TASKS, OtherTasks, default=None)
        self.parts.run(COMPILATIONS, self._compilations.begin_steps)
        with self._undisturbed():
            self._transit(partial(recorder.begin, done=done))
        if self._stepping.how == "optimizer":
            self.parts.set_up(OPTIMIZER, partial(compat.on_optimizer_step, self._optimizer_step), self._watches)
            if self.by_model is not False:
                self.parts.set_up(MODEL_CALLS, self._watch_models, self._watches)
        recorder.go_on()

    def _advance(self, is_complete: bool, ended_ns: int, fetched_ns: int | None, rests: bool) -> None:
        recorder = self._recorder
        if self._state is State.OVER:
            if recorder is not None:
                self._note_compilations(recorder, ended_ns)
                recorder.note_plain(ended_ns)
                if rests:
                    recorder.rests.begin(None, set())
                recorder.go_on()
            return
        refusal = self._refusal()
        if refusal or recorder is None:
            self._problems.note(refusal or "capture.step_outside")
            return
        self._note_compilations(recorder, ended_ns)
        # For the same reason the next phase is shown at the end of an idle or warm-up step, or after the last step.
        was_recording = recorder.is_recording
        if not (was_recording or rests):
            self.news.tell_phase(recorder, recorder.next_phase, recorder.step + 1)
        if is_complete and not rests and recorder.pass_idle(fetched_ns=fetched_ns, ended_ns=ended_ns):
            self.news.tell_cycles(recorder)
            recorder.go_on()
            return
        advance = partial(
            recorder.advance, is_complete=is_complete, fetched_ns=fetched_ns, ended_ns=ended_ns, rests=rests
        )
        if recorder.will_transit():
            # Reading the signal handlers takes 30 us in Python 3.11, so it is done only if torch will be called.
            with self._undisturbed(is_slow=was_recording):
                self._transit(advance)
        else:
            self._transit(advance)
        if recorder.is_over or (was_recording and not recorder.is_recording):
            self.news.tell_phase(recorder, recorder.phase, recorder.step)
        self.news.tell_cycles(recorder)
        recorder.go_on()

    def _note_compilations(self, recorder: Recorder, ended_ns: int) -> None:
        """Give what was compiled since the last step to the one that ends."""

        def note() -> None:
            self._compilations.end_step(recorder.current_step, recorder.elapsed_ns(ended_ns))

        self.parts.run(COMPILATIONS, note)

    def _refusal(self) -> str:
        """Return the code of what is said where no step can end here; empty where one can."""
        if self._state is not State.RUNNING or self._recorder is None:
            return "capture.step_outside"
        if not self._is_here():
            return "capture.other_thread"
        return "capture.in_backward" if self.parts.ask(BACKWARD, compat.is_in_backward, default=False) else ""

    def _while_running(self, act: Callable[[Recorder], None]) -> None:
        """Call ``act`` with the recorder, with interrupts held back, if it is recording on this thread."""
        recorder = self._recorder
        if self._state is State.RUNNING and recorder is not None and self._is_here():
            with self._undisturbed():
                self._transit(lambda _guard: act(recorder))

    def _undisturbed(self, *, is_slow: bool = False, is_interrupted: bool = False) -> ExitStack:
        """Return the context in which torch starts and stops: interrupts wait, and file descriptors are free.

        ``is_slow`` and ``is_interrupted`` are as for ``InterruptGuard.slow_work``.
        """
        around = ExitStack()

        def hold_back() -> None:
            around.enter_context(self.guard.shield())
            if is_slow:
                around.enter_context(self.guard.slow_work(is_interrupted=is_interrupted))

        self.parts.run(DESCRIPTORS, lambda: around.enter_context(SPARE.lent()))
        self.parts.run(INTERRUPTS, hold_back)
        return around

    def _contained(
        self,
        act: Callable[..., object],
        *arguments: object,
        raises: type[Exception] | tuple[type[Exception], ...] = (),
    ) -> None:
        """Call ``act``, which the user's code waits for; an error of ours ends the recording, and not that code."""
        try:
            act(*arguments)
        except raises:
            raise
        except Exception as exc:
            if raised_by_handler(exc):
                raise
            self._give_up("capture.failed", error=f"{type(exc).__name__}: {exc}", torch=torch.__version__)

    def _transit(self, transition: Callable[[InterruptGuard], None]) -> None:
        """Run one transition; if torch fails, switch the profiler off and let the user's code continue."""
        recorder = self._recorder
        try:
            transition(self.guard)
        except BaseException as exc:  # the user's cell must not fail because of its profiler
            self._give_up("capture.gave_up", error=f"{type(exc).__name__}: {exc}")
            if not isinstance(exc, Exception) or raised_by_handler(exc):
                raise  # it came from the user's own handler, for example of a timeout
            return
        if recorder is not None and recorder.is_over:
            self._state = State.OVER
            self._keep_history()
            self._note_tasks()

    def _keep_history(self) -> None:
        if self._history is not None:
            self._history.keep()

    def _drop_history(self) -> None:
        history, self._history = self._history, None
        if history is not None:
            history.drop()

    def _place(self) -> str:
        """Return the current place in the run, in words."""
        if self._recorder is None:
            return "before the first step"
        return "after the recorded steps" if self._recorder.is_over else f"at step {self._recorder.step}"

    def _end_history(self, failure: BaseException | None, where: str) -> None:
        history, self._history = self._history, None
        if history is not None:
            self._snapshot = history.end(failure, self.guard)
        note_out_of_memory(self._problems, failure, where, self._snapshot)

    def _note_tasks(self) -> None:
        """Note, once, which other tasks of the event loop ran during the recording."""
        tasks, self._tasks = self._tasks, None
        if tasks is not None:
            self.parts.run(OTHER_TASKS, tasks.note_moved, self._problems)

    def _give_up(self, code: str, **values: object) -> None:
        self._problems.note(code, **values)
        self._state = State.OVER
        if self._recorder is not None:
            self._switch_off(self._recorder)

    def _switch_off(self, recorder: Recorder) -> None:
        try:
            recorder.abandon()
        except Exception as exc:  # noqa: BLE001 - the profiler must be switched off in any case
            self._problems.note("capture.rescue_failed", error=f"{type(exc).__name__}: {exc}")
            compat.switch_off()

    def _end_run(self, failure: BaseException | None, *, is_cut: bool) -> None:
        """End the run with interrupts held back; whatever fails, nothing of ours stays in torch or Python."""
        try:
            with self._undisturbed(is_slow=True, is_interrupted=isinstance(failure, KeyboardInterrupt)):
                self.recording = self._stop(failure, is_cut=is_cut)
        except Exception as exc:
            if raised_by_handler(exc):
                raise
            self._give_up("capture.failed", error=f"{type(exc).__name__}: {exc}", torch=torch.__version__)
            self._state = State.STOPPED
            self._let_go()
            self.recording = self._least_recording()

    def _stop(self, failure: BaseException | None, *, is_cut: bool) -> Recording:
        is_here, where, parts, recorder = self._is_here(), self._place(), self.parts, self._recorder
        if recorder is not None and is_here:
            self._contained(self._end, recorder, is_cut)
            self._contained(recorder.save_finished, self.guard)
            Engine.settle()
        self._others_share = parts.ask(OTHER_PROGRAMS, self._others.share, default=None) if self._others else None
        if is_here:
            parts.run(HISTORY, self._end_history, failure, where)
        self._state = State.STOPPED
        if is_here:
            self._let_go()
        endings, self._endings = self._endings, []
        for ending in endings:
            parts.run(OPTIMIZER_WATCH, ending)
        parts.run(SUMMARY, partial(note_ending, self._problems, recorder, self._stepping, is_cut=is_cut))
        return parts.ask(SUMMARY, self._make_recording, default=None) or self._least_recording()

    def _let_go(self) -> None:
        """Remove hooks and the buffer file, and stop being the live session. The signal handler is still used."""
        self._unwatch()
        self.parts.undo(DESCRIPTORS, SPARE.release)
        self.parts.undo(OBSERVER, self._end_observer)
        self.parts.undo(STDERR, self._quiet.close)
        registry.release(self)
        self.owner = None

    def _unwatch(self) -> None:
        self._watches.close()

    def _mark_too(self, folder: Path) -> None:
        """Add a folder of this run to the crash marker, so that later kernels find it."""
        if self._mark is not None:
            self._mark.add(folder)

    def _unmark(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            self.parts.undo(CRASH_MARKER, mark.remove)

    def _end(self, recorder: Recorder, has_exception: bool) -> None:
        if recorder.step == 0 and self._stepping.how in ("cell", "optimizer"):
            self._stepping = Stepping(how="cell")  # no optimizer stepped, so the whole cell is one step
            if isinstance(recorder.schedule, WatchSchedule):
                self._problems.note("capture.not_watched")
            recorder.be_one_step()
            self._note_compilations(recorder, perf_counter_ns())
            if not has_exception:
                self._transit(recorder.complete_whole)
        if self._stepping.how == "model" and not has_exception:
            self._advance(True, perf_counter_ns(), None, False)  # noqa: FBT003 - the last one is complete
        # Code after the last call of an optimizer is not a step.
        is_between = self._stepping.how in ("optimizer", "model") and recorder.step > 0 and not has_exception
        self._transit(lambda _guard: recorder.finish(is_between=is_between))

    def _make_recording(self) -> Recording:
        found = replace(
            self._recording_of(self._recorder, ()),
            snapshot=self._snapshot,
            others_share=self._others_share,
            compiled=self.parts.ask(COMPILED_CODE, compiled_frames, default=()),
        )
        found = self._with_compiled_code(found)
        return replace(self.parts.ask(LINES, self._with_program, found, default=found), problems=self.problems)

    def _recording_of(self, recorder: Recorder | None, marks: tuple[ProgramMarks, ...]) -> Recording:
        """Return the recording as far as it is known while the user's code runs, with the marks of its cycles."""
        ask = self.parts.ask
        found = replace(
            self._least_recording(),
            ended_in=recorder.phase if recorder else "never started",
            steps_seen=recorder.step if recorder else 0,
            device_names=ask(FACTS, compat.device_names, self._options, default=()),
            schedule=recorder.schedule if recorder else None,
            plain_step_ns=tuple(recorder.plain_step_ns) if recorder else (),
            metadata=tuple(self._added.items()),
            two_pass=recorder.two_pass if recorder else None,
            watched=recorder.watched if recorder and self._stepping.how != "cell" else None,
            cpu=ask(FACTS, compat.cpu_facts, default=None),
        )
        return self._with_marks(found, marks) if marks else found

    def _so_far(self, recorder: Recorder) -> Recording:
        """Return the recording so far, with what the program did in it."""
        found = self._with_compiled_code(self._recording_of(recorder, self.program.so_far()))
        # As long as there are no details, nothing is missing.
        return replace(found, two_pass=None) if len(found.cycles) == 1 else found

    def _with_compiled_code(self, recording: Recording) -> Recording:
        """Return the recording with what torch.compile compiled, and what the marks of that in the files mean."""
        ask = self.parts.ask
        return replace(
            recording,
            compilations=ask(COMPILATIONS, self._compilations.take, default=()),
            fx_graphs=ask(FX_NAMES, NAMES.known, default=()),
            graph_notes=ask(GRAPH_NOTES, known_graph_notes, default=()),
        )

    def _with_program(self, recording: Recording) -> Recording:
        """End the watch of the program, and return the recording with what it saw."""
        return self._with_marks(recording, self.program.finish())

    def _with_marks(self, recording: Recording, marks: tuple[ProgramMarks, ...]) -> Recording:
        """Return the recording with what the lines, modules and tensors of the program did."""
        watch = self.program
        return replace(
            recording,
            program=marks,
            modules=watch.modules.sites,
            module_aliases=watch.modules.aliases,
            function_lines=tuple(watch.functions.sites) if watch.functions else (),
            wait_sites=tuple(watch.waits.sites) if watch.waits else (),
            tagged=watch.tags.tagged if watch.tags else (),
        )

    def _least_recording(self) -> Recording:
        """Return the recording without what may be missing: the files and what went wrong."""
        return Recording(
            cycles=tuple(self._recorder.cycles) if self._recorder else (),
            folder=self._folder or Path(),
            problems=self._problems.as_tuple(),
            ended_in="done",
            steps_seen=0,
            torch_version=torch.__version__,
            device_names=(),
            stepping=self._stepping,
            schedule=None,
            plain_step_ns=(),
        )

    @protected
    def _optimizer_step(self, optimizer: object) -> None:
        """End a step when the first optimizer steps; a second one (as in a GAN) would count each step twice.

        Optimizers on other threads do not count: the user did not call anything there.
        """
        if not self._is_here():
            return
        if self._stepping.how == "model":
            self._problems.note("capture.model_trained", model=self._stepping.code)
            return
        if self.parts.ask(OPTIMIZER, self._is_first_optimizer, optimizer, default=False):
            self.program.modules.calls = None
            self.parts.run(OPTIMIZER, self._note_trainer)
            self.step()
        self.let_interrupts_in()

    def _watch_models(self) -> Callable[[], None]:
        """Begin to look for calls of models that begin steps, and return what ends that."""
        marks = self.program.modules
        marks.calls = ModelCalls(
            is_here=self._is_here,
            begin_step=self._model_step,
            may_train=compat.has_optimizer,
            is_sure=self.by_model is True,
            in_any_place=not self.may_hand_over,  # the user has said that each call is a step
        )

        def end() -> None:
            marks.calls = None

        return end

    @protected
    def _model_step(self, name: str) -> None:
        """End a step where a call of a model begins the next one, unless an optimizer has made steps."""
        if self._stepping.how == "optimizer" and self._optimizer is None:
            self._stepping = Stepping(how="model", code=name)
        if self._stepping.how == "model":
            self.step()

    def _note_trainer(self) -> None:
        """Say, once, in which function of a trainer or another program the optimizer of the cell steps."""
        if self._stepping.how != "optimizer" or self._recorder is None or self._recorder.step > 0:
            return
        caller = caller_in_cell(sys._getframe(1))  # noqa: SLF001 - the documented way
        self._stepping = replace(self._stepping, code=caller.name)
        if caller.callback and self.may_hand_over:
            self._problems.note("capture.by_optimizer", where=caller.name, callback=caller.callback)

    def _is_first_optimizer(self, optimizer: object) -> bool:
        if self._optimizer is None or self._optimizer() is None:
            self._optimizer = weakref.ref(optimizer)
        return self._optimizer() is optimizer

    @protected
    def _yield_to_other(self) -> None:
        self._contained(self._while_running, lambda recorder: recorder.yield_to_other(self.guard))
        self.let_interrupts_in()

    def _refuse_other_thread(self) -> None:
        if self.owner is not None and not self.owner.is_here() and not self.is_forked:
            raise CaptureError(
                "stop() must be called on the thread that started the recording, torch cannot stop it on another one"
            )

    def _is_here(self) -> bool:
        return self.owner is not None and self.owner.is_here()

    def _existing_folder(self) -> Path:
        if self._folder is None:
            raise CaptureError("the session is not open")
        return self._folder


def _ignore(*_: object) -> None:
    """Do nothing before an optimizer steps."""


def live_session() -> CaptureSession | None:
    """Return the session that is recording on this thread, if one is."""
    session = registry.live()
    return session if isinstance(session, CaptureSession) else None
