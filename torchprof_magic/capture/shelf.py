"""What becomes of a recorded cycle? It waits for the disk, is saved, listed, and handed to the user's code."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.capture.flaws import has_ops
from torchprof_magic.capture.ranks import name_of_rank
from torchprof_magic.capture.recording import Cycle
from torchprof_magic.capture.save import discard, note_elsewhere, save_cycle, save_execution_trace
from torchprof_magic.capture.unfinished import TRACE_SUFFIX

if TYPE_CHECKING:
    from torchprof_magic.capture.elsewhere import Elsewhere
    from torchprof_magic.capture.engine import Engine
    from torchprof_magic.capture.guard import InterruptGuard
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.capture.quiet import StderrFilter
    from torchprof_magic.meta import StepMark
    from torchprof_magic.options import ProfileOptions

# A handler of the user's is the user's code: an interrupt ends it at once.
HANDLER_PATIENCE = 0
# Up to this size of its file, what torch holds of a cycle that is saved stays: some 8 times as much, up to 130 MB.
KEPT_FILE_BYTES = 16_000_000


def options_of_cycle(passes: tuple[ProfileOptions, ...], cycle: int) -> ProfileOptions:
    """Return what a cycle records: the last pass stands for all that follow."""
    return passes[min(cycle, len(passes) - 1)]


@dataclass(slots=True)
class Finished:
    """A cycle that is recorded but not on disk yet."""

    number: int
    engine: Engine
    steps: tuple[StepMark, ...]


class Shelf:
    """The recorded cycles of one run: those that wait, and ``cycles``, those that are on disk with ``file_bytes``.

    What torch holds of the last one that was saved stays until ``let_go``, unless it is large. Freed at once, it would
    leave holes in the heap, and the median step of a training of small ops takes 1 to 2 % longer in them.
    """

    def __init__(
        self,
        passes: tuple[ProfileOptions, ...],
        folder: Path,
        problems: ProblemLog,
        quiet: StderrFilter,
        elsewhere: Elsewhere,
    ) -> None:
        self.cycles: list[Cycle] = []
        self.file_bytes = 0
        self._waiting: list[Finished] = []
        self._kept: Engine | None = None
        self._passes = passes
        self._folder = folder
        self._problems = problems
        self._quiet = quiet
        self._elsewhere = elsewhere

    @property
    def waiting(self) -> int:
        """How many cycles are not on disk yet."""
        return len(self._waiting)

    def put(self, finished: Finished) -> None:
        """Let a cycle wait until nothing is being recorded."""
        self._waiting.append(finished)

    def let_go(self) -> None:
        """Free what torch still holds of a cycle that is saved, as torch's own profiler does before the next one."""
        self._kept = None

    def save(self, guard: InterruptGuard) -> None:
        """Write every cycle that waits to disk; a failure becomes a problem and does not touch the others."""
        while self._waiting:
            finished = self._waiting.pop(0)
            self.let_go()
            path = self._folder / f"cycle-{finished.number}{TRACE_SUFFIX}"
            with self._quiet.held():
                saved = save_cycle(finished.engine, path, guard, self._problems, self._elsewhere)
            if saved is not None:
                with suppress(OSError):
                    file_bytes = saved.path.stat().st_size
                    self.file_bytes += file_bytes
                    self._kept = finished.engine if file_bytes <= KEPT_FILE_BYTES else None
                if self._list(finished, saved.path):
                    note_elsewhere(saved, path, self._problems)
                self._hand_over(finished, saved.path, guard)
            if finished.engine.execution_path is not None:
                save_execution_trace(finished.engine.execution_path, self._execution_target(finished), self._problems)

    def _list(self, finished: Finished, path: Path) -> bool:
        """Add the cycle to the list, unless nothing happened in it, and return whether it is there."""
        start_unix_ns = finished.engine.start_unix_ns
        is_idle = not has_ops(path)
        if is_idle and self.cycles and not any(mark.is_complete for mark in finished.steps):
            discard(path)  # an endless schedule always ends in a step that has only just begun
            self._elsewhere.remove_empty()
            return False
        self.cycles.append(Cycle(number=finished.number, path=path, steps=finished.steps, start_unix_ns=start_unix_ns))
        if is_idle:
            self._problems.note(
                "capture.no_ops",
                "info",
                "No torch operation ran in the recorded steps.",
                "If another loop should be stepped, name it with --step line:N, or use --step optimizer.",
            )
        return True

    def _hand_over(self, finished: Finished, path: Path, guard: InterruptGuard) -> None:
        """Call the user's own handler; what it raises must reach neither torch nor the user's code."""
        handler = options_of_cycle(self._passes, finished.number).on_trace_ready
        if handler is None or not path.exists():
            return
        try:
            with guard.patience(HANDLER_PATIENCE):
                handler(finished.engine.finished_profiler(path, finished.steps[-1].number + 1))
        except KeyboardInterrupt:
            guard.pending += 1  # it goes on to the user's code as soon as torch is between two states no more
        except BaseException as exc:  # noqa: BLE001 - the same
            self._problems.note(
                "capture.handler_failed",
                "warning",
                f"on_trace_ready failed: {type(exc).__name__}: {exc}",
                "The recording itself is whole.",
            )

    def _execution_target(self, finished: Finished) -> Path:
        """Return where the user wants it; each further cycle, and each of several ranks, has its number in the name."""
        target = Path(options_of_cycle(self._passes, finished.number).execution_trace).expanduser()
        number = finished.number + 1 - len(self._passes)  # of two passes only the second has one
        own = name_of_rank(target)
        return own.with_stem(f"{own.stem}-{number}") if number else own
