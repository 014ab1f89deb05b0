"""The pauses that the user's code makes in recorded steps with ``paused()``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING

from torchprof_magic.units import counted, format_ns

if TYPE_CHECKING:
    from torchprof_magic.capture.problems import ProblemLog


@dataclass(slots=True)
class Pause:
    """One pause: the kinds of events that it leaves out, and its step once it has begun. It ends with that step."""

    kinds: frozenset[str]
    step: int | None = None


class Pauses:
    """Open and past pauses; several of one kind may overlap in any order."""

    def __init__(self) -> None:
        self._step = 0
        self._open: Counter[str] = Counter()
        self._began_ns: dict[str, int] = {}
        self._count: Counter[str] = Counter()
        self._lasted_ns: Counter[str] = Counter()
        self._host_ns = 0

    def begin(self, pause: Pause) -> set[str]:
        """Begin a pause, and return the kinds to switch off."""
        pause.step = self._step
        changed = {kind for kind in pause.kinds if not self._open[kind]}
        self._open.update(pause.kinds)
        self._count.update(changed)
        if changed:
            self._began_ns.update(dict.fromkeys(changed, perf_counter_ns()))
        return changed

    def end(self, pause: Pause) -> set[str]:
        """End a pause, and return the kinds to switch on again; none if it never began, or ended with its step."""
        if pause.step != self._step:
            return set()
        self._open.subtract(pause.kinds)
        changed = {kind for kind in pause.kinds if not self._open[kind]}
        self._add_time(changed)
        return changed

    def end_step(self) -> set[str]:
        """End every pause at the end of a step, and return the kinds to switch on again."""
        self._step += 1
        if not self._open:
            return set()
        changed = {kind for kind, depth in self._open.items() if depth}
        self._add_time(changed)
        self._open.clear()
        return changed

    def take_host_ns(self) -> int:
        """Return for how long ops were left out since the last call; open pauses do not count."""
        host_ns, self._host_ns = self._host_ns, 0
        return host_ns

    def note(self, problems: ProblemLog) -> None:
        """Note how often and for how long recording was paused, because the steps do not show it."""
        for kind, count in sorted(self._count.items()):
            duration = format_ns(self._lasted_ns[kind])
            problems.note("capture.paused", kind=kind, times=counted(count, "time"), duration=duration)

    def _add_time(self, kinds: set[str]) -> None:
        now_ns = perf_counter_ns() if kinds else 0
        for kind in kinds:
            lasted_ns = now_ns - self._began_ns.pop(kind, now_ns)
            self._lasted_ns[kind] += lasted_ns
            if kind == "cpu":
                self._host_ns += lasted_ns
