"""What runs between two steps and belongs to neither, such as the evaluation inside a training."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

from torchprof_magic.capture.torch_api import features
from torchprof_magic.capture.torch_api.engine import Stage
from torchprof_magic.model.units import counted, format_ns

if TYPE_CHECKING:
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.capture.torch_api.engine import Engine


class Rests:
    """The rests of a run, and the one that lasts. In a rest no ops are recorded, where torch can leave them out."""

    def __init__(self) -> None:
        self.is_open = False
        self._left_out: set[str] = set()
        self._began_ns: int | None = None
        self._lasted_ns: list[int] = []

    def begin(self, engine: Engine | None, kinds: set[str]) -> None:
        """Begin a rest, in which these kinds of events are not recorded; ``engine`` is that of the cycle."""
        self.is_open = True
        self._left_out, self._began_ns = set(), None
        if engine is None or engine.stage is not Stage.RUNNING:
            return
        self._began_ns = perf_counter_ns()
        if not engine.is_of_all_threads and features.lack_of("toggle_collection_dynamic") is None:
            self._left_out = kinds
            engine.toggle(kinds, is_on=False)

    def end(self, engine: Engine | None, paused: set[str]) -> None:
        """End the rest; ``paused`` are the kinds that the user leaves out anyway."""
        self.is_open = False
        if self._began_ns is not None:
            self._lasted_ns.append(perf_counter_ns() - self._began_ns)
        if engine is not None and (kinds := self._left_out - paused):
            engine.toggle(kinds, is_on=True)

    def note(self, problems: ProblemLog) -> None:
        """Note how often and for how long the recorded steps were interrupted by what is in none of them."""
        if self._lasted_ns:
            times, duration = counted(len(self._lasted_ns), "time"), format_ns(sum(self._lasted_ns))
            problems.note("capture.evaluation", times=times, duration=duration)
