"""The work at each step boundary: starting, stopping and saving cycles along the schedule.

Signals and threads are not handled here: the session calls the recorder only on the right thread, with interrupts held
back.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from torchprof_magic.capture.budget import Budget
from torchprof_magic.capture.details import MOST_BYTES, MOST_CALLS, DetailsCost, TimesReadings
from torchprof_magic.capture.output.export import discard_execution_trace
from torchprof_magic.capture.output.finished_cycles import Finished, FinishedCycles, options_of_cycle
from torchprof_magic.capture.parts import (
    CUDA_GRAPHS,
    DEVICE_STATE,
    FREED_EVENTS,
    IMPORTS,
    LIMITS,
    MODULES,
    OTHER_PROFILERS,
    OTHER_THREADS,
    PYTHON_CALLS,
    PYTHON_PROFILER,
    RANGES,
    WAITS,
    WATCH,
)
from torchprof_magic.capture.rests import Rests
from torchprof_magic.capture.schedule import Action, Schedule, TimesThenDetails, WatchSchedule
from torchprof_magic.capture.torch_api import compat, features
from torchprof_magic.capture.torch_api.cuda_graphs import note_capture
from torchprof_magic.capture.torch_api.cycle_profile import torch_state
from torchprof_magic.capture.torch_api.engine import Engine, Stage
from torchprof_magic.capture.torch_api.python_tracer import end_own_tracer
from torchprof_magic.capture.watch.open_ranges import OpenRanges
from torchprof_magic.capture.watch.pauses import Pauses
from torchprof_magic.capture.watch.program import NO_IMPORTS
from torchprof_magic.capture.watch.python_calls import CallLimit
from torchprof_magic.capture.watch.python_profiler import PythonProfiler
from torchprof_magic.capture.watch.slow_steps import SlowStepLooks
from torchprof_magic.capture.watch.threads import OtherThreads
from torchprof_magic.model.meta import STACKS_END_KEY, StepMark, TwoPass
from torchprof_magic.model.units import counted
from torchprof_magic.options import BUDGET_CALLS, DETAIL_WORDS, OPTIONS
from torchprof_magic.system.process.python_warnings import warnings_to

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from torchprof_magic.capture.interrupts.guard import InterruptGuard
    from torchprof_magic.capture.output.fallback_folders import FallbackFolders
    from torchprof_magic.capture.parts import Parts
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.capture.schedule import AnySchedule
    from torchprof_magic.capture.torch_api.cycle_profile import CycleProfile, TorchState
    from torchprof_magic.capture.torch_api.stderr_filter import StderrFilter
    from torchprof_magic.capture.watch.pauses import Pause
    from torchprof_magic.capture.watch.program import ProgramWatch
    from torchprof_magic.capture.watched_run import RunWatch
    from torchprof_magic.model.meta import WatchedRun
    from torchprof_magic.model.recording import Cycle
    from torchprof_magic.options import ProfileOptions

# Enough for a stable median. A loop of a million steps must not keep a million numbers.
MAX_PLAIN_STEPS = 1000
# Back-to-back cycles (no idle or warm-up step between them) are saved during a recorded step only beyond this many.
MAX_UNSAVED = 8
# torch takes 0.3 s to end a recording of so many Python calls.
MANY_CALLS = 50_000
STACKS_ENDED = "stacks have ended"
# torch marks steps only while it records these.
_MARKED_BY = {"cpu"}


class Recorder:
    """Runs one engine per cycle along the schedule, and saves each cycle as soon as nothing is being recorded.

    ``passes`` holds the options of each cycle; the last one also applies to all later cycles. ``length`` is the number
    of steps in the loop, if known. ``tell``, if it is set, is called with a phase, a note, and whether it will take
    long: when stacks have ended, and what is done when the last cycle is over.
    """

    def __init__(
        self,
        passes: tuple[ProfileOptions, ...],
        schedule: AnySchedule,
        folder: Path,
        problems: ProblemLog,
        quiet: StderrFilter,
        fallbacks: FallbackFolders,
        program: ProgramWatch,
        parts: Parts,
        length: int | None = None,
        watch: RunWatch | None = None,
    ) -> None:
        self.schedule = schedule
        self.plain_step_ns: list[int] = []
        self.step = 0
        self.pauses = Pauses()
        self.rests = Rests()
        self.is_over = False
        self.ended_in = ""
        self._passes = passes
        self._folder = folder
        self._problems = problems
        self._quiet = quiet
        self._finished = FinishedCycles(passes, folder, problems, quiet, fallbacks, self._tell_stage, program)
        self._action = Action.NONE
        self._next_action = Action.NONE
        self._engine: Engine | None = None
        self._marks: list[StepMark] = []
        self._absorbed_cycle = -1
        self._step_start_ns = 0
        self._fetch_ns: int | None = None
        self._cpu_ns: int | None = None
        self._imports = NO_IMPORTS
        self._epoch = self._epoch_start = 0
        self._run_start_ns = self._epoch_start_ns = 0
        self._ranges = OpenRanges()
        self._others = OtherThreads(parts)
        self._python_profiler = PythonProfiler(problems)
        self._parts = parts
        self.tell: Callable[[str, str, bool], None] | None = None
        details = options_of_cycle(passes, 1)
        is_auto = len(passes) > 1 and details.is_auto
        calls = MOST_CALLS if is_auto and details.budget_calls == BUDGET_CALLS else details.budget_calls
        self._calls = CallLimit(calls, parts, problems)
        self._program = program
        self._budget = Budget(details, problems)
        self._cost = DetailsCost(problems, limit_s=details.budget_s, length=length) if is_auto else None
        self._asked = [*details.details, *(["lines"] if len(passes) > 2 else [])]  # noqa: PLR2004 - the third has lines
        self._times = TimesReadings()
        self._most_details: int | None = None
        self._left_ns: int | None = None
        self._later_steps = 0
        self._is_full = False
        self._watch = watch
        self._looks = parts.ask(WATCH, SlowStepLooks, parts, default=None) if watch is not None else None

    @property
    def cycles(self) -> list[Cycle]:
        """The cycles that are on disk."""
        return self._finished.cycles

    @property
    def two_pass(self) -> TwoPass | None:
        """Which cycle holds times, which holds details and which lines, if two passes were requested."""
        if len(self._passes) < 2 or self._watch is not None:  # noqa: PLR2004
            return None
        has_lines = isinstance(self.schedule, TimesThenDetails) and self.schedule.lines > 0
        passes = TwoPass(times_cycle=0, details_cycle=1, lines_cycle=2 if has_lines else None)
        if self._cost is None:
            return passes
        cost_ns = self._cost.total_ns(self.plain_step_ns)
        asked = tuple((DETAIL_WORDS[name], OPTIONS[name].dashed) for name in self._asked)
        return replace(passes, cost_ns=cost_ns, steps_seen=self.step + self._later_steps, asked=asked)

    @property
    def watched(self) -> WatchedRun | None:
        """What is known of the whole run, if it is watched."""
        return None if self._watch is None else self._parts.ask(WATCH, self._watch.so_far, default=None)

    @property
    def phase(self) -> str:
        """``wait``, ``warmup``, ``active`` or ``done``."""
        return self.ended_in or ("done" if self.schedule.is_over(self.step) else self._action.phase)

    @property
    def next_phase(self) -> str:
        """The planned phase of the next step: ``wait``, ``warmup`` or ``active``."""
        return self._next_action.phase

    @property
    def is_recording(self) -> bool:
        """True while the phase is ``active``."""
        return self._action.is_recording and not self.ended_in

    def typical_step_ns(self) -> float:
        """Return the median time of a step that ran without the profiler, else of a recorded one; 0 without any."""
        recorded = [mark.step_ns for cycle in self.cycles for mark in cycle.steps if mark.step_ns]
        return median(self.plain_step_ns or recorded or [0])

    @property
    def torch_profiler(self) -> CycleProfile | None:
        """The profiler of torch for the cycle that is being recorded or warms up, if one is."""
        return None if self._engine is None else self._engine.profiler

    def torch_state(self) -> TorchState:
        """Return where the run is, as torch's profiler keeps it."""
        return torch_state(self.step, self._action, self.schedule)

    def change(self, **changes: Any) -> None:
        """Change these options of all cycles that have not begun."""
        self._passes = tuple(replace(options, **changes) for options in self._passes)

    def add_metadata(self, metadata: Mapping[str, str]) -> None:
        """Add metadata to the cycle that is being recorded, and to all later ones."""
        self.change(metadata=tuple({**dict(self._passes[-1].metadata), **metadata}.items()))
        if self._engine is not None and not self.is_over:
            with self._torch_call():
                self._engine.add_metadata(metadata)

    def begin(self, guard: InterruptGuard, *, done: int = 0) -> None:
        """Enter step 0, or the one after ``done`` idle ones."""
        self._run_start_ns = self._epoch_start_ns = perf_counter_ns()
        self.step = done
        self._enter(self.schedule.action(done), guard)

    def begin_epoch(self) -> None:
        """Count one more epoch, unless the current one has no steps yet."""
        self._epoch += self.step > self._epoch_start
        self._epoch_start = self.step
        self._epoch_start_ns = perf_counter_ns()

    def watch(self) -> Callable[[], None]:
        """Watch for threads and ranges that begin in a recorded step; return a function that ends this."""
        with ExitStack() as watches:
            self._parts.set_up(OTHER_THREADS, partial(self._others.watch, lambda: self.is_recording), watches)
            self._parts.set_up(RANGES, self._ranges.watch, watches)
            watches.callback(self._program.watch())
            return watches.pop_all().close

    def will_transit(self) -> bool:
        """Return whether ``advance`` will start, stop or save anything; decide here whether a limit is reached."""
        if self._action.is_recording:
            if self._engine is not None and self._engine.is_torn:
                return True  # another profiler ended it: finished cycles are saved, and the run is over
            if self._parts.ask(LIMITS, self._budget.is_reached, default=False):
                self._parts.run(LIMITS, self._end_early)
            self._parts.run(DEVICE_STATE, self._end_with_device)
            self._parts.run(LIMITS, self._end_dear_times)
            self._parts.run(LIMITS, self._end_dear_details)
        following = self._next_action
        goes_on = following.is_recording if self._action is Action.RECORD else following is self._action
        return self._is_full or self._action is Action.RECORD_AND_SAVE or not goes_on

    def advance(
        self,
        guard: InterruptGuard,
        *,
        is_complete: bool = True,
        fetched_ns: int | None = None,
        ended_ns: int | None = None,
        rests: bool = False,
    ) -> None:
        """End the current step, whose loop had its item at ``fetched_ns``, and enter the next.

        ``ended_ns`` is when the user's code ended it; now, if it is None. With ``rests``, the next step is entered only
        by ``go_to_work``: what runs until then is in no step.
        """
        now_ns = self._left_ns = perf_counter_ns() if ended_ns is None else ended_ns
        self._count_cost(now_ns)
        self._fetch_ns = None if fetched_ns is None else max(fetched_ns - self._step_start_ns, 0)
        self._end_program_step(now_ns, is_recorded=self.is_recording)
        if self._cost is not None and self._action is Action.WARMUP and self.step > 0:  # as in _count_cost
            self._times.note_warmup(self._cpu_ns)
            self._cost.note_warmup(now_ns - self._step_start_ns)
        self._toggle(self.pauses.left_out & _MARKED_BY, is_on=True)
        self._leave(now_ns, is_complete=is_complete)
        if self._watch is not None:
            self._parts.run(WATCH, self._note_watched, now_ns)
        if self._parts.ask(PYTHON_CALLS, self._calls.has_news, default=False) and self._engine is not None:
            self._tell(self.phase, STACKS_ENDED)
        self.step += 1
        if rests:
            self._begin_rest()
        else:
            self._enter(self._next_action, guard)

    def pass_idle(self, *, fetched_ns: int | None, ended_ns: int) -> bool:
        """End an idle step of a watched run, and begin another one; return whether that was all there is to do.

        A long run has hardly any other steps, so only what is kept of them is done here.
        """
        is_idle = self._action is Action.NONE and self._next_action is Action.NONE
        if self._watch is None or not is_idle or self.is_over or self._finished.waiting or self.rests.is_open:
            return False
        self._fetch_ns = None if fetched_ns is None else max(fetched_ns - self._step_start_ns, 0)
        self._add_plain(ended_ns)
        self._parts.run(WATCH, self._note_watched, ended_ns)
        self._left_ns = ended_ns
        self.step += 1
        self._next_action = self._action_at(self.step + 1)
        if self._next_action is not Action.NONE:
            self._program.begin_step(is_watched=False)
        return True

    def _note_watched(self, now_ns: int) -> None:
        watch = self._watch
        if watch is not None:
            watch.end_step(
                self.step,
                self._step_start_ns,
                now_ns,
                fetch_ns=self._fetch_ns,
                is_recorded=self._action.is_recording,
                lines=() if self._looks is None else self._looks.end_step(),
            )

    def _look_at_step(self, between_ns: int) -> None:
        """Begin to look at a step that is not recorded."""
        watch, looks = self._watch, self._looks
        if watch is None:
            return
        is_idle = self._action is Action.NONE and self._next_action is Action.NONE
        watch.add_between(between_ns, is_of_cycle=not is_idle)
        if looks is not None and watch.is_worth_looking and not (self.is_recording or self.is_over):
            looks.begin_step(watch.usual_ns)

    def go_to_work(self, guard: InterruptGuard) -> None:
        """Enter the step after a rest; does nothing in a step."""
        if self.rests.is_open:
            with self._torch_call():
                self.rests.end(self._engine, self.pauses.left_out)
            self._enter(self._next_action, guard)

    def _begin_rest(self) -> None:
        with self._torch_call():
            recorded = set(compat.recorded_activities(self._passes[-1]))
            self.rests.begin(self._engine, recorded - self.pauses.left_out)

    def _end_program_step(self, ended_ns: int, *, is_recorded: bool) -> None:
        self._cpu_ns = self._program.end_step(ended_ns, is_recorded=is_recorded)
        imports = partial(self._program.imports_of_step, is_recorded=is_recorded)
        self._imports = self._parts.ask(IMPORTS, imports, default=NO_IMPORTS)

    def be_one_step(self) -> None:
        """Treat the whole run as one step, although more were scheduled; only while step 0 is being recorded."""
        schedule = self.schedule.times if isinstance(self.schedule, TimesThenDetails) else self.schedule
        if self._is_in_first() and isinstance(schedule, Schedule):
            self.schedule = replace(schedule, active=1, repeat=1)

    def complete_whole(self, guard: InterruptGuard) -> None:
        """End a run of one step as complete; only while step 0 is being recorded."""
        if self._is_in_first():
            self._parts.run(DEVICE_STATE, self._end_with_device)
            self._action, self._next_action = Action.RECORD_AND_SAVE, Action.NONE
            self.advance(guard)

    def _is_in_first(self) -> bool:
        return self.step == 0 and self._action.is_recording and not self.is_over

    @property
    def current_step(self) -> int:
        """The number of the step that runs, also after the last cycle."""
        return self.step + self._later_steps

    def elapsed_ns(self, now_ns: int) -> int:
        """Return how long the current step has taken until ``now_ns``."""
        return max(now_ns - self._step_start_ns, 0)

    def note_plain(self, ended_ns: int) -> None:
        """Time a step after the last cycle, which ran without the profiler, until ``ended_ns``."""
        self._add_plain(ended_ns)
        self._later_steps += 1
        self.free_events()  # the loop goes on, perhaps for hours

    def go_on(self) -> None:
        """Time the current step from here, where the user's code goes on: what was done before is not its work."""
        self._step_start_ns = perf_counter_ns()
        left_ns, self._left_ns = self._left_ns, None
        if self._watch is not None:
            between_ns = 0 if left_ns is None else self._step_start_ns - left_ns
            self._parts.run(WATCH, self._look_at_step, between_ns)
        if self._cost is not None and left_ns is not None:
            self._cost.add_between(self._step_start_ns - left_ns, cycle=self._cycle_of_cost(self.step - 1))

    def _count_cost(self, now_ns: int) -> None:
        if self._cost is not None and self.step > 0:  # the first one also sets up caches, threads and optimizer state
            cycle = self.schedule.cycle(self.step) if self.is_recording else None
            self._cost.add_step(now_ns - self._step_start_ns, cycle=cycle)

    def _cycle_of_cost(self, step: int) -> int:
        return 0 if self.schedule.cycle(step) == 0 else 1

    def finish(self, *, is_between: bool = False) -> None:
        """End the recording here. ``is_between``: no step has begun since the last one ended, so none is listed."""
        if self.is_over:
            return
        is_between = is_between or self.rests.is_open
        self._close()
        engine = self._engine
        if engine is not None and engine.is_torn:
            self._lose_engine()
        elif engine is not None and engine.stage is Stage.RUNNING:
            self._end_program_step(perf_counter_ns(), is_recorded=not is_between)
            self._fetch_ns = None
            if not is_between:
                self._add_mark(perf_counter_ns(), is_complete=False)
            self._end_cycle(self.torch_state())
        elif engine is not None:
            self.abandon()

    def abandon(self) -> None:
        """Switch the engine off, whatever its stage; data that it has becomes a cycle."""
        self._close()
        engine, self._engine = self._engine, None
        if engine is None:
            return
        was_recording = engine.stage in (Stage.RUNNING, Stage.STOPPING) or bool(self._marks)
        self._parts.run(RANGES, self._ranges.end)
        self._end_calls(engine)
        with self._torch_call():
            engine.abandon()
        self._parts.undo(PYTHON_PROFILER, self._python_profiler.restore)
        if was_recording and engine.has_data:
            marks = self._marks or [self._mark(perf_counter_ns(), is_complete=False)]
            self._finished.put(Finished(self.schedule.cycle(self.step), engine, tuple(marks), self.torch_state()))
        else:
            self._throw_away(engine)

    def drop(self) -> None:
        """Switch the engine off, and delete what was recorded."""
        self.abandon()
        self._finished.drop()

    def save_finished(self, guard: InterruptGuard) -> None:
        """Write every finished cycle to disk; a failure becomes a problem and does not affect the others."""
        self._finished.save(guard)
        if self._watch is not None:
            self._parts.run(WATCH, self._finished.keep, self._watch.kept_of)
            self._program.keep({cycle.number for cycle in self.cycles})
        self._budget.file_bytes = self._finished.file_bytes

    def free_events(self) -> None:
        """Free torch's events of the last saved cycle."""
        self._parts.undo(FREED_EVENTS, self._finished.free)

    def pause(self, pause: Pause) -> None:
        """Stop recording some activities until ``resume``, now or in the cycles that begin before that.

        torch cannot pause a recording of all threads: the recording would be lost. Old versions cannot pause any.
        """
        if (lack := features.lack_of("toggle_collection_dynamic")) is not None:
            self._problems.note("capture.torch_lacks", version=features.VERSION, what=lack.name, instead=lack.instead)
            return
        engine = self._engine
        if engine is not None and engine.is_of_all_threads:
            self._problems.note("capture.not_paused")
            return
        pause.kinds &= set(compat.recorded_activities(self._passes[-1]))
        is_recording = engine is not None and self.is_recording
        self._toggle(self.pauses.begin(pause, is_recording=is_recording), is_on=False)

    def resume(self, pause: Pause) -> None:
        """End a pause; does nothing if it never began or is over."""
        self._toggle(self.pauses.end(pause), is_on=True)

    def _begin_pauses(self, engine: Engine) -> None:
        """Apply the pauses in which a cycle begins."""
        if not engine.is_of_all_threads:
            self.pauses.begin_cycle()
        elif self.pauses.open_kinds:
            self._problems.note("capture.not_paused")

    def _toggle(self, kinds: set[str], *, is_on: bool) -> None:
        if self._engine is not None and not self.is_over and kinds:
            with self._torch_call():
                self._engine.toggle(kinds, is_on=is_on)

    def _options(self, cycle: int) -> ProfileOptions:
        schedule = self.schedule
        number = int(schedule.is_detailed(cycle)) if isinstance(schedule, WatchSchedule) else cycle
        return options_of_cycle(self._passes, number)

    def _new_engine(self) -> Engine:
        cycle = self.schedule.cycle(self.step)
        options = self._options(cycle)
        has_graph = bool(options.execution_trace)
        return Engine(options, self._folder / f"cycle-{cycle}.execution.json" if has_graph else None)

    def _leave(self, now_ns: int, *, is_complete: bool) -> None:
        if self._engine is None:
            if self._action is Action.NONE and is_complete:
                self._add_plain(now_ns)
            return
        if not self._action.is_recording:
            return
        if self._engine.is_torn:
            self._lose_engine()
            return
        mark = self._add_mark(now_ns, is_complete=is_complete)
        self._engine.close_step()
        if self._parts.ask(OTHER_THREADS, self._others.may_have_begun, default=False):
            self._note_others()
        if self._action is Action.RECORD_AND_SAVE or self._absorbed_cycle == mark.cycle or self._is_full:
            self._end_cycle(torch_state(self.step + 1, self._next_action, self.schedule))

    def _end_early(self) -> None:
        """End this cycle with this step, because a limit is reached. Later cycles record less or nothing."""
        cycle = self.schedule.cycle(self.step)
        may_follow = self.schedule.may_follow(cycle)
        if self._action is Action.RECORD_AND_SAVE and not may_follow:
            return  # it ends here anyway
        if self._watch is not None and self._budget.is_of_memory():
            left_out = [*self._passes[-1].details.values()] if self._watch.has_details else []
            self._watch.has_details = False
            self._budget.note_cycle(cycle, self.step, left_out)
            self._absorb(cycle)
            return
        if self._cost is not None and cycle > 0 and self._budget.is_of_memory():
            self._cost.note_memory(self._budget.growth_text(), self._budget.limit_text(), self.step)
            self._absorb(cycle)
            return
        # Two passes stay comparable: the first has nothing to leave out, and no cycle follows the second.
        lighter = self._budget.lighter(self._options(cycle), cycle, self.step) if may_follow else None
        if lighter is None:
            self._is_full = True
            self._budget.note_cut(self.step)
        else:
            self._passes = (lighter,)
            self._absorb(cycle)

    def _end_with_device(self) -> None:
        """End this cycle with this step if the device stopped recording: later steps would have no device events."""
        engine = self._engine
        if engine is None or not engine.has_device or engine.is_torn or not compat.is_device_stopped():
            return
        self._problems.note("capture.device_stopped", step=self.step)
        self._absorb(self.schedule.cycle(self.step))

    def _end_dear_times(self) -> None:
        """End the cycle of times with this step if its steps cost so much that no other one is paid for."""
        cost = self._cost
        if cost is None or self._action is not Action.RECORD or self.schedule.cycle(self.step) != 0:
            return
        more = self._times.add_step(self._program.busy_ns())
        if more is not None and not cost.may_time_another(*more, self.plain_step_ns, self.step):
            self._absorb(0)

    def _end_dear_details(self) -> None:
        """End the cycle of details with this step if they have cost enough."""
        cost, cycle = self._cost, self.schedule.cycle(self.step)
        if cost is None or cycle != 1 or self._action is not Action.RECORD:
            return
        is_last = self._most_details is not None and len(self._marks) + 1 >= self._most_details
        running_ns, calls = perf_counter_ns() - self._step_start_ns, self._calls.so_far()
        if is_last or cost.is_reached(running_ns, self.plain_step_ns, self.step, self._options(cycle), calls):
            self._absorb(cycle)

    def _may_record_details(self) -> bool:
        """Return whether the cycle of details or lines, which would begin with this step, is worth what it costs."""
        cost, schedule, cycle = self._cost, self.schedule, self.schedule.cycle(self.step)
        if cost is None or not isinstance(schedule, TimesThenDetails) or cycle == 0:
            return True
        if cycle > 1:
            return cost.may_record_lines(self.plain_step_ns)
        if self._most_details is None:
            between_ns = 0 if self._left_ns is None else perf_counter_ns() - self._left_ns
            self._most_details = self._plan_details(cost, schedule.details, self._options(cycle), between_ns)
        return self._most_details > 0

    def _plan_details(self, cost: DetailsCost, active: int, options: ProfileOptions, between_ns: int) -> int:
        """Return in how many steps details are recorded, and leave out of them what would cost too much."""
        plain_ns = self.plain_step_ns
        cost.note_times_file(self._finished.file_bytes)
        steps = cost.most_steps(active, options, plain_ns, between_ns)
        if steps:
            self.change(**cost.left_out(options, plain_ns, between_ns))
            if options.budget_calls == BUDGET_CALLS:  # nobody set another limit
                self._calls.limit = min(self._calls.limit, cost.most_calls(steps, options, plain_ns, between_ns))
        return steps

    def _absorb(self, cycle: int) -> None:
        """Skip the rest of a cycle."""
        self._absorbed_cycle = cycle
        self._next_action = self._action_at(self.step + 1)

    def _action_at(self, step: int) -> Action:
        """Return the action of a step; the rest of a cycle that ended early is idle."""
        action = self.schedule.action(step)
        return Action.NONE if self.schedule.cycle(step) == self._absorbed_cycle else action

    def _note_others(self, at_work: Collection[int] = ()) -> None:
        if self._engine is not None and not self._engine.is_of_all_threads:
            self._parts.run(OTHER_THREADS, self._others.note_threads, self._problems, at_work)

    def _enter(self, action: Action, guard: InterruptGuard) -> None:
        if self._is_full or self.is_over:
            self._close()
            self.save_finished(guard)
        else:
            self._begin_step(action, guard)
        is_watched = self._action is not Action.NONE and not self.is_over
        options = self._options(self.schedule.cycle(self.step))
        self._program.begin_step(
            is_watched=is_watched,
            is_recorded=is_watched and self.is_recording,
            has_memory=is_watched and options.profile_memory,
            has_functions=is_watched and bool(options.lines),
        )
        self.go_on()

    def _begin_step(self, action: Action, guard: InterruptGuard) -> None:
        self._action = action
        following = self.step + 1
        self._next_action = self.schedule.action(following) if self._absorbed_cycle < 0 else self._action_at(following)
        if not action.is_recording or self._finished.cannot_wait or self._finished.waiting > MAX_UNSAVED:
            self.save_finished(guard)
        if self.schedule.is_over(self.step):
            self.is_over = True
            return
        self.free_events()  # the cell goes on for many steps
        if self._parts.ask(LIMITS, self._budget.is_disk_full, default=False):
            self._is_full = True
            self._parts.run(LIMITS, self._budget.note_files, self.step - 1)
            self._close()
        elif action is not Action.NONE and self._parts.ask(LIMITS, self._may_record_details, default=True):
            self._bring_up(action)
        elif action is not Action.NONE:
            self._action = Action.NONE
            self._absorb(self.schedule.cycle(self.step))

    def _bring_up(self, action: Action) -> None:
        if self._looks is not None:  # torch would record the thread that looks
            self._parts.undo(WATCH, self._looks.end)
        engine = self._engine
        paused = self.pauses.left_out & _MARKED_BY
        if engine is None or (action.is_recording and engine.stage is not Stage.RUNNING):
            if self._is_taken_over():
                return
            self._parts.run(CUDA_GRAPHS, note_capture, self._problems, self.step)
            with self._torch_call():
                engine = self._engine = engine or self._new_engine()
                if action is Action.WARMUP:
                    engine.prepare()
                else:
                    self._start(engine)
                    paused = self.pauses.left_out
        if action.is_recording:
            before_ns = perf_counter_ns()
            engine.open_step(self.step)
            self._program.note_clock(self.step, before_ns, perf_counter_ns())
            self._toggle(paused, is_on=False)

    def _start(self, engine: Engine) -> None:
        if engine.stage is Stage.NEW:
            engine.prepare()  # the time and memory for setting up a device do not belong to the first step
        # With stacks, every call after the start is in the trace.
        options = self._options(self.schedule.cycle(self.step))
        most_bytes = MOST_BYTES if self._cost is not None and self.schedule.cycle(self.step) > 0 else None
        self._parts.run(LIMITS, partial(self._budget.begin, most_bytes))
        self._program.begin_cycle(has_memory=options.profile_memory)
        self._parts.run(RANGES, self._ranges.begin)
        self._parts.run(PYTHON_PROFILER, self._python_profiler.look)
        if self._cost is not None:
            self._parts.run(LIMITS, self._times.begin)
        engine.start()
        self._parts.run(PYTHON_PROFILER, self._python_profiler.note)
        self._parts.run(PYTHON_CALLS, self._begin_calls)
        self._begin_pauses(engine)

    def _end_cycle(self, state: TorchState) -> None:
        engine, marks = self._engine, tuple(self._marks)
        if engine is None:
            return
        self._parts.run(LIMITS, self._budget.end, marks[-1].number if marks else self.step)
        at_work: Collection[int] = self._parts.ask(MODULES, lambda: self._program.modules.threads, default=())
        self._note_others(at_work)  # now, because torch may take seconds to stop, and other threads may end meanwhile
        self._parts.run(RANGES, self._ranges.end)
        self._end_calls(engine)
        self._parts.undo(WAITS, self._program.end_waits)
        self._program.end_functions()
        self._tell_end()
        with self._quiet.held():
            engine.stop()
        self._parts.undo(PYTHON_PROFILER, self._python_profiler.restore)
        self.pauses.end_cycle()
        self._parts.run(OTHER_THREADS, self._others.note_processes, self._problems)
        self._program.end_cycle(self.schedule.cycle(marks[-1].number if marks else self.step))
        self._engine = None
        self._marks = []
        cycle = marks[0].cycle if marks else self.schedule.cycle(self.step)
        if engine.has_data and (marks or self._options(cycle).on_trace_ready is not None):
            self._finished.put(Finished(cycle, engine, marks, state))
        else:
            self._throw_away(engine)

    def _end_calls(self, engine: Engine) -> None:
        """Stop counting Python calls; if there are too many, later cycles record none."""
        calls = self._calls
        self._parts.undo(PYTHON_CALLS, calls.end)
        if calls.ended_ns is not None and engine.stage is Stage.RUNNING:
            self._parts.run(PYTHON_CALLS, engine.add_metadata, {STACKS_END_KEY: str(calls.ended_ns)})
        if self._watch is not None and calls.ended_ns is None:
            calls.calls = 0  # a run of hours may record stacks again and again
        if calls.is_reached:
            self.change(with_stack=False, with_modules=False)
            may_follow = self.schedule.may_follow(self.schedule.cycle(self.step))
            self._parts.run(PYTHON_CALLS, partial(calls.note, self.step, may_follow=may_follow))

    def _begin_calls(self) -> None:
        options = self._options(self.schedule.cycle(self.step))
        is_of_host = "cpu" in compat.recorded_activities(options) and "trace_only" not in options.experimental_flags
        self._calls.begin(lambda: self.step, has_stacks=options.with_stack and is_of_host)

    def _tell_end(self) -> None:
        calls = self._calls
        self._tell_stage("ending", calls.text_of_cycle(), is_long=calls.calls_of_cycle >= MANY_CALLS)

    def _tell_stage(self, stage: str, note: str = "", *, is_long: bool = False) -> None:
        """Tell what is being done, if nothing will be recorded after it: the user waits for this."""
        if self.tell is not None and (self.is_over or self._is_full or self.schedule.is_over(self.step + 1)):
            # Showing it must not be in the recording, which ends now.
            self._parts.run(PYTHON_CALLS, end_own_tracer)
            self._tell(stage, note, is_long=is_long)

    def _tell(self, phase: str, note: str, *, is_long: bool = False) -> None:
        if self.tell is not None:
            self.tell(phase, note, is_long)

    def stack_note(self, step: int) -> str:
        """Return what to say of stacks before a step is recorded, empty if it has none."""
        has_stacks = self._options(self.schedule.cycle(step)).with_stack
        return f"stacks end after {counted(self._calls.limit, 'Python call')}" if has_stacks else ""

    @staticmethod
    def _throw_away(engine: Engine) -> None:
        """Delete what a cycle without data has written."""
        engine.end_observer()
        if engine.execution_path is not None:
            discard_execution_trace(engine.execution_path)

    def _drop_engine(self) -> None:
        """Drop the engine without stopping it, which would end the other profiler's session."""
        engine, self._engine = self._engine, None
        self._parts.undo(PYTHON_CALLS, self._calls.end)
        if engine is not None:
            self._throw_away(engine)

    def _lose_engine(self) -> None:
        self._drop_engine()
        self._ranges.forget()
        self._marks = []
        self._note_takeover("the current cycle is lost")

    def _is_taken_over(self) -> bool:
        busy = self._parts.ask(OTHER_PROFILERS, compat.busy_profiler, default=None)
        if busy is None:
            return False
        self._drop_engine()
        self._note_takeover(busy)
        return True

    def _note_takeover(self, detail: str) -> None:
        self._close()
        self._problems.note("capture.taken_over", step=self.step, detail=detail)

    def yield_to_other(self, guard: InterruptGuard) -> None:
        """Stop just before another profiler starts, so that both keep their data."""
        if self.is_over or self._engine is None or self._engine.stage in (Stage.NEW, Stage.OFF):
            return
        self.finish()
        self._note_takeover("what was recorded before is kept")
        if self._finished.cannot_wait:
            self.save_finished(guard)

    def _close(self) -> None:
        """Let no more steps begin, and remember the phase in which the run ended."""
        if self._looks is not None:
            self._parts.undo(WATCH, self._looks.end)
        self.ended_in = self.phase
        self.is_over = True
        self.pauses.end_cycle()

    def _add_plain(self, now_ns: int) -> None:
        is_first = self.step == 0  # it also sets up caches, threads and optimizer state
        if not is_first and len(self.plain_step_ns) < MAX_PLAIN_STEPS:
            self.plain_step_ns.append(now_ns - self._step_start_ns)

    def _add_mark(self, now_ns: int, *, is_complete: bool) -> StepMark:
        mark = self._mark(now_ns, is_complete=is_complete)
        self._marks.append(mark)
        self._program.note_step(self.step, self._step_start_ns, now_ns)
        return mark

    def _mark(self, now_ns: int, *, is_complete: bool) -> StepMark:
        return StepMark(
            number=self.step,
            cycle=self.schedule.cycle(self.step),
            is_complete=is_complete,
            epoch=self._epoch,
            batch=self.step - self._epoch_start,
            paused_ns=self.pauses.take_host_ns(),
            cpu_ns=self._cpu_ns,
            run_ns=now_ns - self._run_start_ns,
            epoch_ns=now_ns - self._epoch_start_ns,
            step_ns=now_ns - self._step_start_ns,
            imported=self._imports.modules,
            imports=self._imports.packages,
            import_ns=self._imports.ns,
            fetch_ns=self._fetch_ns,
            has_details=isinstance(self.schedule, WatchSchedule)
            and self.schedule.is_detailed(self.schedule.cycle(self.step)),
        )

    @contextmanager
    def _torch_call(self) -> Iterator[None]:
        """Drop torch's log lines and turn its warnings into problems, whatever the user's warning filters are."""
        caught: list[str] = []
        with self._quiet.held(), warnings_to(caught.append):
            yield
        for text in filter(compat.is_news, caught):
            self._problems.note("capture.torch_warning", text=text)
