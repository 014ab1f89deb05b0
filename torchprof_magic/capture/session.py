"""How does one run stay safe from start to stop?

Interrupts wait while torch is between two states; steps from another thread or a forked child are refused; whatever
happens, ``stop`` leaves the profiler off and the recording on disk.
"""

from __future__ import annotations

import sys
import weakref
from contextlib import nullcontext, suppress
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from torchprof_magic.capture import preflight, registry
from torchprof_magic.capture.interrupts.guard import InterruptGuard, protected, raised_by_handler
from torchprof_magic.capture.missing_steps import note_ending
from torchprof_magic.capture.output.crash_marker import Mark
from torchprof_magic.capture.output.export import discard
from torchprof_magic.capture.output.fallback_folders import FallbackFolders
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.capture.recorder import Recorder
from torchprof_magic.capture.recording import Progress, Recording
from torchprof_magic.capture.schedule import AnySchedule, FunctionSchedule, resolve_schedule, resolve_two_passes
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.capture.torch_api.allocator_history import AllocatorHistory, begin_history, note_out_of_memory
from torchprof_magic.capture.torch_api.engine import Engine
from torchprof_magic.capture.torch_api.stderr_filter import StderrFilter
from torchprof_magic.capture.watch.compiled_steps import Callers
from torchprof_magic.capture.watch.tasks import OtherTasks
from torchprof_magic.errors import CaptureError
from torchprof_magic.model.meta import Stepping
from torchprof_magic.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture.watch.pauses import Pause
    from torchprof_magic.options import ProfileOptions


class State(Enum):
    """Where a session is. ``OVER``: every cycle is done or the recording was ended, but ``stop`` has not come yet."""

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
    finished: it is on disk, but nobody wants to wait for what comes of it. ``on_wait`` is told of each such interrupt.
    ``spare`` is where traces may go first when the disk of their folder is full.
    """

    def __init__(
        self,
        options: ProfileOptions,
        *,
        stepping: Stepping,
        folder: Path | None = None,
        spare: Path | None = None,
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
        self._fallbacks = FallbackFolders(spare, self._mark_too)
        self._on_progress = on_progress
        self._state = State.NEW
        self._recorder: Recorder | None = None
        self._problems = ProblemLog()
        self._quiet = StderrFilter()
        self._undo: list[Callable[[], None]] = []
        self._optimizer: weakref.ref[object] | None = None
        self._tasks: OtherTasks | None = None
        self._callers = Callers(self._problems)
        self._history: AllocatorHistory | None = None
        self._snapshot: Path | None = None

    @property
    def is_active(self) -> bool:
        """True between ``open`` (or ``start``) and ``stop``."""
        return self._state in (State.OPEN, State.RUNNING, State.OVER)

    @property
    def is_forked(self) -> bool:
        """True in a child process forked while the session was active: it must not write or show anything."""
        return self.owner is not None and self.owner.is_child()

    @protected
    def open(self) -> None:
        """Check the folder and that no other profiler runs, and become the one live session of this process.

        Raises ProfilerBusyError or CaptureError; nothing was started then.
        """
        if self._state is not State.NEW:
            raise CaptureError("a session can be started only once; make a new one")
        is_named = self._folder is not None
        try:
            self.owner = registry.Owner()
            registry.claim(self)
            self._folder = preflight.check(self._options, self._folder)
            self._mark = Mark(self._folder, self._title)
            self.guard.install()  # after another session's is gone; an interrupt until here ends in the lines below
            compat.keep_out_of_graphs()
            self._history = begin_history(self._options, self._folder, self._problems)
            self._undo = [compat.on_takeover(self._yield_to_other, is_ours=lambda: Engine.preparing)]
        except BaseException:
            self._drop_history()
            registry.release(self)
            self._unmark()
            if self._folder is not None and not is_named:
                with suppress(OSError):
                    self._folder.rmdir()  # nothing is in it yet
            self.guard.uninstall()
            raise
        self._state = State.OPEN

    @protected
    def start(self, length: int | None = None) -> None:
        """Begin step 0; ``length`` is the number of steps that are coming, if known, and shapes the schedule.

        Opens the session if that was not done; errors are then raised as by ``open``. In a session that was opened
        before, the user's code is already running, so errors become problems instead. Called again while running, it
        says that the loop is entered again: the next epoch.
        """
        is_early = self._state is State.NEW
        if is_early:
            self.open()
        try:
            self._start(length, is_early=is_early)
            self.let_interrupts_in()
        except BaseException:
            if is_early:
                self.stop()  # a with-block that was never entered is never left
            raise

    @protected
    def step(self) -> None:
        """End the current step. Does nothing before ``start``, after ``stop``, on another thread or in a child."""
        self._callers.look(sys._getframe(1))  # noqa: SLF001 - the documented way to the caller
        self._advance(is_complete=True)
        self.let_interrupts_in()

    @protected
    def cut(self) -> None:
        """End the current step as one that was left early; it is listed as incomplete."""
        self._advance(is_complete=False)
        self.let_interrupts_in()

    @protected
    def pause(self, pause: Pause) -> None:
        """Collect no records of some activities until ``resume``; does nothing where no step is being recorded."""
        self._while_running(lambda recorder: recorder.pause(pause))
        self.let_interrupts_in()

    @protected
    def resume(self, pause: Pause) -> None:
        """Go on after a pause; does nothing if it never began, or its step is over."""
        self._while_running(lambda recorder: recorder.resume(pause))
        self.let_interrupts_in()

    @protected
    def finish(self, *, is_between: bool = False) -> None:
        """End the recording here, so that what follows costs nothing and is not in the trace.

        ``is_between`` says that the last step has ended and no next one has begun.
        """
        recorder = self._recorder
        if self._state is State.RUNNING and recorder is not None and self._is_here():
            with self.guard.shield(), self.guard.slow_work():
                self._transit(lambda _guard: recorder.finish(is_between=is_between))
                recorder.save_finished(self.guard)
            self._state = State.OVER
            self._keep_history()
            self._report_progress(recorder.phase, recorder.step)
        self.let_interrupts_in()

    @protected
    def stop(self, *, is_held: bool = False) -> Recording:
        """End the run, save what is not saved, leave the profiler off, and return the recording; can be repeated.

        Never raises for reasons of torch or the disk: those are problems in the recording. An interrupt that arrived
        meanwhile is raised at the end, unless the user's own exception is already on its way. ``is_held``: it waits
        for ``release``, because the caller still has to store the recording.
        """
        __tracebackhide__ = True
        if self.recording is None:
            self._refuse_other_thread()
            failure = sys.exc_info()[1]
            try:
                with self.guard.shield(), self.guard.slow_work(is_interrupted=isinstance(failure, KeyboardInterrupt)):
                    self.recording = self._stop(failure, is_cut=failure is not None)
            except BaseException:  # of the user's own signal handler, which had to wait
                if not is_held:
                    self.release()
                raise
            self.is_unwanted = self.guard.pending > 1
            if failure is not None:
                self.guard.drop_pending()
        if not is_held:
            self.release()
        return self.recording

    def release(self) -> None:
        """Let interrupts through again, and raise one that waited; the run is over, for later kernels too."""
        __tracebackhide__ = True
        self._unmark()
        self.guard.uninstall()  # last: until here an interrupt would lose the recording
        self.guard.raise_pending()

    def let_interrupts_in(self) -> None:
        """Raise an interrupt that had to wait: the last act of all that the user's code calls while it runs."""
        __tracebackhide__ = True
        if self.guard.pending and self._is_here():  # another thread must not get what was meant for this one
            self.guard.raise_pending()

    @protected
    def discard(self) -> None:
        """Stop without keeping anything: what was recorded so far is not wanted."""
        if not self._is_here():
            return
        self._drop_history()
        recording = self.stop(is_held=True)
        self.release()
        for cycle in recording.cycles:
            discard(cycle.path)
        self._fallbacks.remove_empty()
        if self._folder is not None:
            with suppress(OSError):  # it is gone, or what the user has in it stays
                self._folder.rmdir()

    @protected
    def reclaim(self) -> None:
        """Stop a session that was left behind; its recording is thrown away."""
        self._problems.note(
            "capture.reclaimed",
            "data_loss",
            "The recording was ended from outside, by a later one or by %torchprof off.",
        )
        try:
            with self.guard.shield():
                self.guard.drop_pending()
                self._drop_history()
                if self._is_here():
                    self.recording = self._stop(None, is_cut=True)
                else:  # its thread is gone, and only that thread could have stopped torch
                    self._state = State.STOPPED
                    self._let_go()
                    compat.switch_off()
                self._unmark()
        finally:
            self.guard.uninstall()

    def _start(self, length: int | None, *, is_early: bool) -> None:
        if self._state is State.RUNNING and self._recorder is not None and self._is_here():
            self._recorder.begin_epoch()
        if self._state is not State.OPEN or not self._is_here():
            return
        if not is_early and compat.busy_profiler():
            self._give_up("Another profiler was already running when the loop began, so nothing was recorded.")
            return
        schedule, passes = self._planned(length)
        self._recorder = Recorder(
            passes, schedule, self._existing_folder(), self._problems, self._quiet, self._fallbacks
        )
        self._undo.append(self._recorder.watch())
        self._state = State.RUNNING
        self._begin(self._recorder, is_early=is_early)

    def _planned(self, length: int | None) -> tuple[AnySchedule, tuple[ProfileOptions, ...]]:
        """Return the schedule, and what its cycles record; a loop too short for two passes gets one with everything."""
        options, how = self._options, self._stepping.how
        if options.schedule_function is not None:
            return FunctionSchedule(options.schedule_function, self._note_schedule), (options,)
        if options.two_pass:
            schedule = resolve_two_passes(options.schedule, how=how, length=length)
            if schedule is not None:
                return schedule, options.passes
            room = "there are no steps to repeat" if how == "cell" else f"the loop has {counted(length or 0, 'step')}"
            self._problems.note(
                "capture.one_pass",
                "warning",
                f"Two passes had no room, for {room}: times and details are of the same pass.",
                "The details make the times longer; give it more steps, or record times without --two-pass.",
            )
        return resolve_schedule(options.schedule, how=how, length=length), options.passes[-1:]

    def _note_schedule(self, text: str) -> None:
        fix = "Mend the schedule: it takes the number of a step, and returns a torch.profiler.ProfilerAction."
        self._problems.note("capture.schedule_failed", "warning", text, fix)

    def _begin(self, recorder: Recorder, *, is_early: bool) -> None:
        # A recorded step must not hold our own drawing, and making a bar takes milliseconds: so before the step begins.
        self._report_progress(recorder.schedule.action(0).phase, 0)
        self._tasks = OtherTasks()
        with self.guard.shield():
            failure = self._transit(recorder.begin)
        if failure is not None and is_early:
            raise CaptureError(f"torch's profiler could not be started: {failure}") from failure
        if self._stepping.how == "optimizer":
            self._undo.append(compat.on_optimizer_step(self._optimizer_step))

    def _advance(self, *, is_complete: bool) -> None:
        recorder = self._recorder
        if self._state is State.OVER and recorder is not None:
            recorder.note_plain()
            return
        if self._state is not State.RUNNING or recorder is None:
            self._problems.note("capture.step_outside", "info", "step() was called while no recording was running.")
            return
        if not self._is_here():
            self._note_elsewhere()
            return
        if compat.is_in_backward():
            self._problems.note(
                "capture.in_backward",
                "warning",
                "A step would have ended inside backward(), where torch cannot stop or start a recording; it went on.",
                "Call step() after backward() has returned, or step a loop with --step line:N.",
            )
            return
        # For the same reason the coming phase is announced at the end of an idle or warm-up step, or after the last.
        was_recording = recorder.is_recording
        if not was_recording:
            self._report_progress(recorder.next_phase, recorder.step + 1)
        advance = partial(recorder.advance, is_complete=is_complete)
        if recorder.will_transit():
            # Asking for the handlers costs 30 us in Python 3.11, so it is done only where torch is called.
            with self.guard.shield(), self.guard.slow_work() if was_recording else nullcontext():
                self._transit(advance)
        else:
            self._transit(advance)
        if was_recording and not recorder.is_recording:
            self._report_progress(recorder.phase, recorder.step)

    def _while_running(self, act: Callable[[Recorder], None]) -> None:
        """Act on the recording if it runs, on this thread, with interrupts held back."""
        recorder = self._recorder
        if self._state is State.RUNNING and recorder is not None and self._is_here():
            with self.guard.shield():
                self._transit(lambda _guard: act(recorder))

    def _transit(self, transition: Callable[[InterruptGuard], None]) -> Exception | None:
        """Run one transition; if torch fails, switch the profiler off and let the user's code go on."""
        recorder = self._recorder
        try:
            transition(self.guard)
        except BaseException as exc:  # the user's cell must not fail because of its profiler
            fix = "Record fewer steps with --active." if isinstance(exc, MemoryError) else ""
            self._give_up(f"torch's profiler failed: {type(exc).__name__}: {exc}", fix)
            if not isinstance(exc, Exception) or raised_by_handler(exc):
                raise  # a timeout, say, that could have come at any other moment
            return exc
        if recorder is not None and recorder.is_over:
            self._state = State.OVER
            self._keep_history()
            self._note_tasks()
        return None

    def _keep_history(self) -> None:
        if self._history is not None:
            self._history.keep()
            if self._recorder is not None:
                self._recorder.begin_plain()

    def _drop_history(self) -> None:
        history, self._history = self._history, None
        if history is not None:
            history.drop()

    def _place(self) -> str:
        """Return where in the run this is."""
        if self._recorder is None:
            return "before the first step"
        return "after the recorded steps" if self._recorder.is_over else f"at step {self._recorder.step}"

    def _end_history(self, failure: BaseException | None, where: str) -> None:
        history, self._history = self._history, None
        if history is not None:
            self._snapshot = history.end(failure, self.guard)
        note_out_of_memory(self._problems, failure, where, self._snapshot)

    def _note_tasks(self) -> None:
        """Note, once, which tasks of the event loop ran between the beginning and the end of the recording."""
        tasks, self._tasks = self._tasks, None
        if tasks is not None:
            tasks.note_moved(self._problems)

    def _give_up(self, message: str, fix: str = "") -> None:
        self._problems.note("capture.gave_up", "data_loss", message, fix)
        self._state = State.OVER
        if self._recorder is not None:
            self._switch_off(self._recorder)

    def _switch_off(self, recorder: Recorder) -> None:
        try:
            recorder.abandon()
        except Exception as exc:  # noqa: BLE001 - off is what matters; the reason is kept
            self._problems.note("capture.rescue_failed", "data_loss", f"{type(exc).__name__}: {exc}")
            compat.switch_off()

    def _stop(self, failure: BaseException | None, *, is_cut: bool) -> Recording:
        is_here, where = self._is_here(), self._place()
        if self._recorder is not None and is_here:
            self._end(self._recorder, has_exception=is_cut)
        if is_here:
            self._end_history(failure, where)
        self._state = State.STOPPED
        if is_here:
            self._let_go()
        note_ending(self._problems, self._recorder, self._stepping, is_cut=is_cut)
        return self._make_recording()

    def _let_go(self) -> None:
        """Give back hooks, buffer file and the place as the live session. Events and signal handler are still used."""
        for undo in reversed(self._undo):
            undo()
        self._undo = []
        self._quiet.close()
        registry.release(self)
        self.owner = None

    def _mark_too(self, folder: Path) -> None:
        """Let later kernels know of a further folder of this run."""
        if self._mark is not None:
            self._mark.add(folder)

    def _unmark(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.remove()

    def _end(self, recorder: Recorder, *, has_exception: bool) -> None:
        if recorder.step == 0 and self._stepping.how in ("cell", "optimizer"):
            self._stepping = Stepping(how="cell")  # no optimizer stepped after all: the cell itself is the step
            recorder.be_one_step()
            if not has_exception:
                self._transit(recorder.complete_whole)
        # What follows the last call of an optimizer is no step of its own.
        is_between = self._stepping.how == "optimizer" and recorder.step > 0 and not has_exception
        self._transit(lambda _guard: recorder.finish(is_between=is_between))
        recorder.save_finished(self.guard)

    def _make_recording(self) -> Recording:
        recorder = self._recorder
        return Recording(
            cycles=tuple(recorder.cycles) if recorder else (),
            folder=self._folder or Path(),
            problems=self._problems.as_tuple(),
            ended_in=recorder.phase if recorder else "never started",
            steps_seen=recorder.step if recorder else 0,
            torch_version=torch.__version__,
            device_names=compat.device_names(self._options),
            stepping=self._stepping,
            schedule=recorder.schedule if recorder else None,
            plain_step_ns=tuple(recorder.plain_step_ns) if recorder else (),
            snapshot=self._snapshot,
            two_pass=recorder.two_pass if recorder else None,
        )

    def _report_progress(self, phase: str, step: int) -> None:
        recorder = self._recorder
        if self._on_progress is None or recorder is None:
            return
        try:
            self._on_progress(Progress(phase=phase, step=step, total=recorder.schedule.total))
        except Exception as exc:  # noqa: BLE001 - a progress bar must not end a training run
            self._on_progress = None
            self._problems.note("capture.progress_failed", "info", f"The progress bar failed: {exc}")

    @protected
    def _optimizer_step(self, optimizer: object) -> None:
        """Step with the first optimizer that steps; a second one (a GAN's) would count each step twice."""
        if self._optimizer is None or self._optimizer() is None:
            self._optimizer = weakref.ref(optimizer)
        if self._optimizer() is optimizer:
            self.step()
        self.let_interrupts_in()

    @protected
    def _yield_to_other(self) -> None:
        recorder = self._recorder
        if self._state is State.RUNNING and recorder is not None and self._is_here():
            self._transit(lambda _guard: recorder.yield_to_other())
        self.let_interrupts_in()

    def _refuse_other_thread(self) -> None:
        if self.owner is not None and not self.owner.is_here() and not self.is_forked:
            raise CaptureError(
                "stop() must be called on the thread that started the recording: torch would leave the profiler on"
            )

    def _is_here(self) -> bool:
        return self.owner is not None and self.owner.is_here()

    def _note_elsewhere(self) -> None:
        self._problems.note(
            "capture.other_thread",
            "warning",
            "step() or stop() was called from another thread or a forked child and was ignored there.",
            "Call them on the thread that started the recording.",
        )

    def _existing_folder(self) -> Path:
        if self._folder is None:
            raise CaptureError("the session was not opened")
        return self._folder


def live_session() -> CaptureSession | None:
    """Return the session that is recording on this thread, if one is."""
    session = registry.live()
    return session if isinstance(session, CaptureSession) else None
