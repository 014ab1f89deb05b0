"""What did the device's allocator do during the run, and what held the memory when there was none left?

The history is on from before the user's code until its end. The snapshot is taken when the last step is recorded, so
that it shows those steps; when the device runs out of memory, at that moment.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchprof_magic.capture.interrupts.guard import protected
from torchprof_magic.capture.output.export import save_snapshot
from torchprof_magic.capture.output.rank_names import name_of_rank
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture.interrupts.guard import InterruptGuard
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.options import ProfileOptions

FILENAME = "snapshot.pickle"
# torch keeps every entry ever made unless it is told a number. Entries share their stacks: 100,000 are about 20 MB.
MAX_ENTRIES = 100_000
# What torch's message says: "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has ..."
_ASKED = re.compile(r"[Tt]ried to allocate ([\d.]+ \w+)")


class AllocatorHistory:
    """The history of one run, from ``begin`` to ``end`` or ``drop``; one that was on before stays on."""

    def __init__(self, target: Path, problems: ProblemLog) -> None:
        self._target = target
        self._problems = problems
        self._is_ours = False
        self._kept: dict[str, Any] | None = None
        self._at_failure: dict[str, Any] | None = None
        self._undo: Callable[[], None] | None = None

    def begin(self) -> None:
        """Switch the history on; raises ``CaptureError`` where torch refuses."""
        try:
            is_foreign = compat.is_memory_history_on()
            if not is_foreign:
                compat.start_memory_history(MAX_ENTRIES)
                self._is_ours = True
            self._undo = compat.on_out_of_memory(self._note_failure)
        except Exception as exc:
            self.drop()
            raise CaptureError(f"--snapshot: torch refuses to record the allocator here ({exc}); leave it out") from exc
        if is_foreign:
            self._problems.note(
                "capture.history_was_on",
                "info",
                "The allocator's history was being recorded before: the snapshot has that too, and it goes on.",
                "torch.cuda.memory._record_memory_history(enabled=None) ends it.",
            )

    def keep(self) -> None:
        """Take the snapshot of the recorded steps, which have just ended; once."""
        if self._kept is None:
            self._kept = self._taken()

    def end(self, failure: BaseException | None, guard: InterruptGuard) -> Path | None:
        """Leave the history as it was found, and return the file of the snapshot, if there is one.

        ``failure`` is the exception that the user's code ends with.
        """
        wanted = self._at_failure if compat.is_out_of_memory(failure) else self._kept
        snapshot = wanted or self._taken()
        self.drop()
        if snapshot is None or not save_snapshot(snapshot, self._target, guard, self._problems):
            return None
        self._problems.note(
            "capture.snapshot",
            "info",
            f"A snapshot of the device's allocator is in {self._target}.",
            "Open it with torchprof_magic.load(...), or drop it on https://pytorch.org/memory_viz.",
        )
        return self._target

    def drop(self) -> None:
        """Leave the history as it was found; can be repeated."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()
        was_ours, self._is_ours = self._is_ours, False
        if not was_ours:
            return
        try:
            compat.stop_memory_history()
        except Exception as exc:  # noqa: BLE001 - the user's code must not fail because of it
            self._problems.note(
                "capture.history_stays_on",
                "warning",
                f"The allocator's history could not be switched off: {type(exc).__name__}: {exc}",
                "torch.cuda.memory._record_memory_history(enabled=None) ends it.",
            )

    def _taken(self) -> dict[str, Any] | None:
        try:
            return compat.memory_snapshot()
        except Exception as exc:  # noqa: BLE001 - the same
            self._problems.note(
                "capture.no_snapshot",
                "data_loss",
                f"No snapshot could be taken of the device's allocator: {type(exc).__name__}: {exc}",
            )
            return None

    @protected
    def _note_failure(self) -> None:
        """Take the snapshot that shows what held the memory; torch calls this inside the allocation that fails.

        The user's code may catch the error and go on, so a later failure takes the place of this one.
        """
        self._at_failure = self._taken()


def begin_history(options: ProfileOptions, folder: Path, problems: ProblemLog) -> AllocatorHistory | None:
    """Switch the history on if a snapshot is wanted; the file is the one that was named, or lies in ``folder``."""
    if not options.snapshot:
        return None
    is_named = isinstance(options.snapshot, str)
    target = name_of_rank(Path(str(options.snapshot)).expanduser()) if is_named else folder / FILENAME
    history = AllocatorHistory(target, problems)
    history.begin()
    return history


def note_out_of_memory(problems: ProblemLog, failure: BaseException | None, where: str, snapshot: Path | None) -> None:
    """Note where the device ran out of memory, if that is what ended the user's code, and how to see why."""
    if not compat.is_out_of_memory(failure):
        return
    found = _ASKED.search(str(failure))
    asked = f"; {found[1]} were asked for" if found else ""
    fix = ""
    if snapshot is not None:
        fix = f"What held the memory is in {snapshot}."
    elif compat.has_memory_history():
        fix = "Run again with --snapshot (snapshot=True) to see what held the memory."
    problems.note("capture.out_of_memory", "warning", f"The device ran out of memory {where}{asked}.", fix)
