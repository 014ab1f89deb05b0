"""The early reports of one run: whether they are worth it, and what they are asked for."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from torchprof_magic.run.early.helper import Helper, has_process, is_possible
from torchprof_magic.run.early.wire import Asked
from torchprof_magic.runs import this_process

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.model.meta import CellSource
    from torchprof_magic.model.recording import Recording
    from torchprof_magic.run.early.wire import Made

# A loop that ends sooner has its whole report by then.
LEAST_LEFT_S = 0.3
# A step of so long tells that the loop takes long enough for a process to be started meanwhile.
_LONG_STEP_S = 0.02


class View(Protocol):
    """What shows early reports."""

    def watch(self) -> None:
        """Notice when what is shown is lost."""

    def unwatch(self) -> None:
        """Notice nothing more."""

    def show(self, made: Made) -> None:
        """Show an early report, or a later one in its place; called on another thread."""


class EarlyReports:
    """Has reports made of what is recorded while the loop still runs, and has ``view`` show them.

    ``labels`` returns the file names and labels of the notebook's cells.
    """

    def __init__(self, view: View, labels: Callable[[], tuple[tuple[str, str], ...]]) -> None:
        self._view = view
        self._labels = labels
        self._helper: Helper | None = None
        self._began_s = perf_counter()
        self._is_ended = False

    def begin(self) -> None:
        """The cell begins. A process that an earlier cell has started is used again."""
        self._began_s = perf_counter()
        self._view.watch()
        if has_process():
            self._start()

    def look(self, steps_left: int | None) -> None:
        """Start the process now if the steps that are left, ``None`` if unknown, take long enough for it."""
        passed_s = perf_counter() - self._began_s
        goes_on = steps_left is None or steps_left * passed_s >= LEAST_LEFT_S
        if self._helper is None and passed_s >= _LONG_STEP_S and goes_on:
            self._start()

    def offer(
        self, recording: Recording, left_s: float | None, *, title: str, cell: CellSource | None, run_id: str
    ) -> None:
        """Have the report made of what is recorded so far, if the loop goes on for long enough."""
        if left_s is not None and left_s < LEAST_LEFT_S:
            return
        self._start()
        if self._helper is not None:
            asked = Asked(
                recording=recording,
                title=title,
                cell=cell,
                cell_labels=self._labels(),
                known_ops=this_process.known_ops(),
                run_id=run_id,
            )
            self._helper.ask(asked)

    def end(self) -> None:
        """Show nothing any more; can be called twice. Raises ``RuntimeError`` for what went wrong."""
        if self._is_ended:
            return
        self._is_ended = True
        self._view.unwatch()
        if self._helper is not None:
            self._helper.end()
            if self._helper.failure:
                raise RuntimeError(self._helper.failure)

    def _start(self) -> None:
        if self._helper is None and not self._is_ended and is_possible():
            self._helper = Helper(self._view.show)
