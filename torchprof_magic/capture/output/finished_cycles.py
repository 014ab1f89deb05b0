"""The recorded cycles of one run: saved while nothing is recorded, listed, and passed to the user's handler."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.capture.output.crash_marker import TRACE_SUFFIX
from torchprof_magic.capture.output.export import (
    discard,
    discard_execution_trace,
    note_fallback,
    save_cycle,
    save_execution_trace,
)
from torchprof_magic.capture.output.rank_names import name_of_rank, with_ending
from torchprof_magic.capture.output.validate import has_ops
from torchprof_magic.model.recording import Cycle
from torchprof_magic.system.process.memory import lack_for_reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture.interrupts.guard import InterruptGuard
    from torchprof_magic.capture.output.fallback_folders import FallbackFolders
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.capture.torch_api.cycle_profile import CycleProfile, TorchState
    from torchprof_magic.capture.torch_api.engine import Engine
    from torchprof_magic.capture.torch_api.stderr_filter import StderrFilter
    from torchprof_magic.capture.watch.program import ProgramWatch
    from torchprof_magic.model.meta import StepMark
    from torchprof_magic.options import ProfileOptions

# torch's events stay in memory while a report is made only if a trace so many times as large could be read beside them.
_FILES_BESIDE_EVENTS = 4
# The handler is the user's code: an interrupt ends it at once.
HANDLER_PATIENCE = 0


def options_of_cycle(passes: tuple[ProfileOptions, ...], cycle: int) -> ProfileOptions:
    """Return the options of a cycle; those of the last pass apply to all later cycles."""
    return passes[min(cycle, len(passes) - 1)]


@dataclass(slots=True)
class Finished:
    """A cycle that is recorded but not on disk yet; ``state`` is what torch would say of the step after it.

    Without ``steps`` it is one that had only just begun, which torch hands to the user's handler.
    """

    number: int
    engine: Engine
    steps: tuple[StepMark, ...]
    state: TorchState


class FinishedCycles:
    """The recorded cycles of one run; ``cycles`` are those on disk, with ``file_bytes`` in total.

    torch's events of the last saved cycle stay in memory until ``free`` or until the next one is saved, unless memory
    is short, or they may hold memory of the program: freeing them takes a fifth of the time in which torch ends and
    exports a recording, and Python waits for it. Otherwise it is done when nobody waits.
    """

    def __init__(
        self,
        passes: tuple[ProfileOptions, ...],
        folder: Path,
        problems: ProblemLog,
        quiet: StderrFilter,
        fallbacks: FallbackFolders,
        tell: Callable[[str], None],
        program: ProgramWatch,
    ) -> None:
        self.cycles: list[Cycle] = []
        self.file_bytes = 0
        self._waiting: list[Finished] = []
        self._passes = passes
        self._folder = folder
        self._problems = problems
        self._quiet = quiet
        self._fallbacks = fallbacks
        self._tell = tell
        self._earlier: CycleProfile | None = None
        self._program = program
        self._spent: Finished | None = None

    @property
    def waiting(self) -> int:
        """The number of cycles that are not on disk yet."""
        return len(self._waiting)

    @property
    def cannot_wait(self) -> bool:
        """Whether a waiting cycle must be saved before another recording begins.

        Kineto converts the times of a device when it exports them, with a clock that the next recording sets anew:
        exported later, they are all 0.
        """
        return any(finished.engine.has_device for finished in self._waiting)

    def put(self, finished: Finished) -> None:
        """Add a cycle, to be saved when nothing is being recorded."""
        self._waiting.append(finished)

    def drop(self) -> None:
        """Delete all cycles, those on disk and those that wait."""
        self._waiting.clear()
        for cycle in self.cycles:
            discard(cycle.path)
        self.cycles.clear()

    def save(self, guard: InterruptGuard) -> None:
        """Write every waiting cycle to disk; a failure becomes a problem and does not affect the others."""
        while self._waiting:
            self.free()
            finished = self._waiting.pop(0)
            path = self._folder / f"cycle-{finished.number}{TRACE_SUFFIX}"
            with self._quiet.held():
                saved = save_cycle(finished.engine, path, guard, self._problems, self._fallbacks, self._tell)
            if saved is not None:
                self.file_bytes += _size_bytes(saved.path)
                is_kept = self._list(finished, saved.path)
                if is_kept:
                    note_fallback(saved, path, self._problems)
                self._hand_over(finished, saved.path, guard, is_kept=is_kept)
                if not is_kept:
                    discard(saved.path)
                    self._fallbacks.remove_empty()
            if finished.engine.execution_path is not None:
                self._save_execution_trace(finished, finished.engine.execution_path)
            # After an export that failed, torch's events hold its file open.
            is_as_planned = saved is not None and saved.path == path
            is_short = lack_for_reading(_FILES_BESIDE_EVENTS * self.file_bytes) is not None
            self._spent = finished
            is_wanted = is_as_planned and not is_short and not self._program.may_be_held(finished.number)
            del finished  # nothing else keeps the events
            if not is_wanted:
                self.free()

    def keep(self, chosen: Callable[[list[int]], set[int]]) -> None:
        """Delete the cycles on disk whose numbers ``chosen`` does not return of those that there are."""
        kept = chosen([cycle.number for cycle in self.cycles])
        for cycle in self.cycles:
            if cycle.number not in kept:
                self.file_bytes -= _size_bytes(cycle.path)
                discard(cycle.path)
        self.cycles[:] = [cycle for cycle in self.cycles if cycle.number in kept]

    def free(self) -> None:
        """Free torch's events of the last saved cycle."""
        if self._spent is not None:
            self._program.note_freed(self._spent.number, self._let_go)

    def _let_go(self) -> None:
        self._spent = None

    def _save_execution_trace(self, finished: Finished, written: Path) -> None:
        if not finished.steps:
            discard_execution_trace(written)
            return
        has_resources = options_of_cycle(self._passes, finished.number).execution_trace_resources
        save_execution_trace(written, self._execution_target(finished), self._problems, has_resources=has_resources)

    def _list(self, finished: Finished, path: Path) -> bool:
        """Add the cycle to the list, unless it is empty, and return whether it was added.

        An endless schedule always ends in a step that has only just begun, which torch's handlers get nevertheless.
        """
        start_unix_ns = finished.engine.start_unix_ns
        is_idle = not has_ops(path)
        if not finished.steps:
            return False
        if is_idle and self.cycles and not any(mark.is_complete for mark in finished.steps):
            return False
        self.cycles.append(Cycle(number=finished.number, path=path, steps=finished.steps, start_unix_ns=start_unix_ns))
        if is_idle:
            self._problems.note("capture.no_ops")
        return True

    def _hand_over(self, finished: Finished, path: Path, guard: InterruptGuard, *, is_kept: bool) -> None:
        """Call the user's handler; its exceptions must reach neither torch nor the user's code."""
        handler = options_of_cycle(self._passes, finished.number).on_trace_ready
        if handler is None or not path.exists():
            return
        try:
            with guard.patience(HANDLER_PATIENCE):
                saved = path if is_kept else path.read_bytes()
                profiler = finished.engine.finished_profiler(saved, _size_bytes(path))
                profiler.mark(finished.state)
                if profiler.acc_events:
                    self._accumulate(profiler)
                handler(profiler)
        except KeyboardInterrupt:
            guard.pending += 1  # raised in the user's code as soon as torch has changed its state
        except BaseException as exc:  # noqa: BLE001 - the same
            self._problems.note("capture.handler_failed", error=f"{type(exc).__name__}: {exc}")

    def _accumulate(self, profiler: CycleProfile) -> None:
        """Add the events of all earlier cycles to those of this one."""
        earlier, self._earlier = self._earlier, profiler
        if earlier is not None:
            profiler.add_events_of(earlier)

    def _execution_target(self, finished: Finished) -> Path:
        """Return the user's file, with a number for each further cycle, and with the rank if there are several."""
        target = Path(options_of_cycle(self._passes, finished.number).execution_trace).expanduser()
        first = next((place for place, passed in enumerate(self._passes) if passed.execution_trace), 0)
        number = finished.number - first  # with two passes only the second has one
        own = name_of_rank(target)
        return with_ending(own, f"-{number}") if number else own


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
