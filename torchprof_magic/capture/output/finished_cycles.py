"""What becomes of a recorded cycle? It waits for the disk, is saved, listed, and handed to the user's code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchprof_magic.capture.output.crash_marker import TRACE_SUFFIX
from torchprof_magic.capture.output.export import (
    discard,
    flaw_of,
    note_elsewhere,
    save_again,
    save_cycle,
    save_execution_trace,
)
from torchprof_magic.capture.output.rank_names import name_of_rank
from torchprof_magic.capture.output.validate import has_ops
from torchprof_magic.capture.recording import Cycle

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture.interrupts.guard import InterruptGuard
    from torchprof_magic.capture.output.fallback_folders import Elsewhere
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.capture.torch_api.engine import Engine
    from torchprof_magic.capture.torch_api.stderr_filter import StderrFilter
    from torchprof_magic.model.meta import StepMark
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


@dataclass(slots=True)
class _Kept:
    """What torch holds of the last cycle that is saved."""

    engine: Engine
    is_checked: bool


class Shelf:
    """The recorded cycles of one run: those that wait, and ``cycles``, those that are on disk with ``file_bytes``.

    What torch holds of the last one that was saved stays until ``settle``, unless it is large. Freed at once, it would
    leave holes in the heap, and the median step of a training of small ops takes 1 to 2 % longer in them. Its file is
    checked then, unless somebody who has read it says ``skip_check`` before.
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
        self._kept: _Kept | None = None
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

    @property
    def is_keeping(self) -> bool:
        """Whether torch still holds a cycle that is saved."""
        return self._kept is not None

    def skip_check(self) -> None:
        """Let the last file be as it is: its reader has found it right, or nobody wants it."""
        if self._kept is not None:
            self._kept.is_checked = True

    def settle(self, guard: InterruptGuard) -> bool:
        """Free what torch still holds of a cycle that is saved, as torch's own profiler does before the next one.

        Its file is checked before, if that was not done, and mended; returns whether something was wrong with it.
        """
        kept, self._kept = self._kept, None
        return kept is not None and not kept.is_checked and self._mend(kept.engine, guard)

    def _mend(self, engine: Engine, guard: InterruptGuard) -> bool:
        """Write the last file anew if something is wrong with it, and return whether that was so."""
        cycle = self.cycles[-1]
        flaw = flaw_of(cycle.path, engine)
        if flaw is None:
            return False
        before_bytes = _size_bytes(cycle.path)
        with self._quiet.held(), guard.slow_work():
            saved = save_again(engine, cycle.path, flaw, guard, self._problems, self._elsewhere)
        if saved is None:
            del self.cycles[-1]
        else:
            self.cycles[-1] = replace(cycle, path=saved.path)
            self.file_bytes += _size_bytes(saved.path) - before_bytes
            note_elsewhere(saved, cycle.path, self._problems)
        return True

    def save(self, guard: InterruptGuard) -> None:
        """Write every cycle that waits to disk; a failure becomes a problem and does not touch the others."""
        while self._waiting:
            finished = self._waiting.pop(0)
            self.settle(guard)
            path = self._folder / f"cycle-{finished.number}{TRACE_SUFFIX}"
            with self._quiet.held():
                saved = save_cycle(
                    finished.engine,
                    path,
                    guard,
                    self._problems,
                    self._elsewhere,
                    may_wait=self._may_wait(finished),
                )
            if saved is not None:
                file_bytes = _size_bytes(saved.path)
                self.file_bytes += file_bytes
                is_listed = self._list(finished, saved.path)
                if is_listed:
                    note_elsewhere(saved, path, self._problems)
                self._hand_over(finished, saved.path, guard)
                self._kept = _Kept(finished.engine, saved.is_checked or not is_listed)
                if file_bytes > KEPT_FILE_BYTES:
                    self.settle(guard)
            if finished.engine.execution_path is not None:
                save_execution_trace(finished.engine.execution_path, self._execution_target(finished), self._problems)

    def _may_wait(self, finished: Finished) -> bool:
        """Return whether a reader would see by himself what is wrong with the file, and nobody else has it before."""
        has_backslash = any("\\" in text for _, text in finished.engine.metadata)
        return self._handler(finished) is None and not has_backslash

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
        handler = self._handler(finished)
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

    def _handler(self, finished: Finished) -> Callable[[Any], object] | None:
        return options_of_cycle(self._passes, finished.number).on_trace_ready

    def _execution_target(self, finished: Finished) -> Path:
        """Return where the user wants it; each further cycle, and each of several ranks, has its number in the name."""
        target = Path(options_of_cycle(self._passes, finished.number).execution_trace).expanduser()
        number = finished.number + 1 - len(self._passes)  # of two passes only the second has one
        own = name_of_rank(target)
        return own.with_stem(f"{own.stem}-{number}") if number else own


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
