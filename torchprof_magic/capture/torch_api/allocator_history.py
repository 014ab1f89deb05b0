"""The history of the device's allocator during a run (``--snapshot``).

The history is recorded from before the user's code until its end. The snapshot is taken after the last recorded step,
so that it shows those steps, or at the moment when the device runs out of memory.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchprof_magic.capture.interrupts.guard import protected
from torchprof_magic.capture.output.export import save_snapshot
from torchprof_magic.capture.output.rank_names import name_of_rank
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.model.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture.interrupts.guard import InterruptGuard
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.options import ProfileOptions

FILENAME = "snapshot.pickle"
# torch's message: "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has ..."
_ASKED = re.compile(r"[Tt]ried to allocate ([0-9.]+ \w+)")


class AllocatorHistory:
    """The history of one run, from ``begin`` to ``end`` or ``drop``; if it was on before, it stays on.

    The last ``max_entries`` are kept, with ``stacks`` as in ``ProfileOptions.snapshot_stacks``.
    """

    def __init__(self, target: Path, problems: ProblemLog, *, max_entries: int, stacks: str) -> None:
        self._target = target
        self._max_entries = max_entries
        self._stacks = stacks
        self._problems = problems
        self._is_ours = False
        self._kept: dict[str, Any] | None = None
        self._at_failure: dict[str, Any] | None = None
        self._undo: Callable[[], None] | None = None

    def begin(self) -> None:
        """Switch the history on; raises ``CaptureError`` if torch fails."""
        try:
            is_foreign = compat.is_memory_history_on()
            if not is_foreign:
                compat.start_memory_history(self._max_entries, self._stacks)
                self._is_ours = True
            self._undo = compat.on_out_of_memory(self._note_failure)
        except Exception as exc:
            self.drop()
            raise CaptureError(f"--snapshot: torch cannot record the allocator history ({exc}). Leave it out.") from exc
        if is_foreign:
            self._problems.note("capture.history_was_on")

    def keep(self) -> None:
        """Take the snapshot of the recorded steps, which have just ended; only once."""
        if self._kept is None:
            self._kept = self._taken()

    def end(self, failure: BaseException | None, guard: InterruptGuard) -> Path | None:
        """Restore the state of the history, and return the file of the snapshot, if there is one.

        ``failure`` is the exception with which the user's code ended.
        """
        wanted = self._at_failure if compat.is_out_of_memory(failure) else self._kept
        snapshot = wanted or self._taken()
        self.drop()
        if snapshot is None or not save_snapshot(snapshot, self._target, guard, self._problems):
            return None
        self._problems.note("capture.snapshot", path=self._target)
        return self._target

    def drop(self) -> None:
        """Restore the state of the history; can be repeated."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()
        was_ours, self._is_ours = self._is_ours, False
        if not was_ours:
            return
        try:
            compat.stop_memory_history()
        except Exception as exc:  # noqa: BLE001 - the user's code must not fail because of it
            self._problems.note("capture.history_stays_on", error=f"{type(exc).__name__}: {exc}")

    def _taken(self) -> dict[str, Any] | None:
        try:
            return compat.memory_snapshot()
        except Exception as exc:  # noqa: BLE001 - the same
            self._problems.note("capture.no_snapshot", error=f"{type(exc).__name__}: {exc}")
            return None

    @protected
    def _note_failure(self) -> None:
        """Take the snapshot that shows what held the memory; torch calls this inside the failing allocation.

        The user's code may catch the error and continue, so a later failure replaces this one.
        """
        self._at_failure = self._taken()


def begin_history(options: ProfileOptions, folder: Path, problems: ProblemLog) -> AllocatorHistory | None:
    """Switch the history on if a snapshot was requested. Without a file name, the snapshot goes into ``folder``."""
    if not options.snapshot:
        return None
    is_named = isinstance(options.snapshot, str)
    target = name_of_rank(Path(str(options.snapshot)).expanduser()) if is_named else folder / FILENAME
    history = AllocatorHistory(target, problems, max_entries=options.snapshot_entries, stacks=options.snapshot_stacks)
    history.begin()
    return history


def note_out_of_memory(problems: ProblemLog, failure: BaseException | None, where: str, snapshot: Path | None) -> None:
    """Note where the device ran out of memory, if that ended the user's code, and how to see why."""
    if not compat.is_out_of_memory(failure):
        return
    found = _ASKED.search(str(failure))
    request = f", allocating {found[1]}" if found else ""
    if snapshot is None:
        problems.note("capture.out_of_memory", place=where, request=request)
    else:
        problems.note("capture.out_of_memory_snapshot", place=where, request=request, path=snapshot)
