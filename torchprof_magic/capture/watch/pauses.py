"""The pauses that the user's code makes with ``paused()`` and ``toggle_collection_dynamic()``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING

from torchprof_magic.model.units import counted, format_ns

if TYPE_CHECKING:
    from torchprof_magic.capture.problems import ProblemLog


@dataclass(slots=True, eq=False)
class Pause:
    """One pause: the kinds of events that it leaves out until it is resumed.

    One ``is_of_cycle`` begins only while a cycle is recorded, and ends with it at the latest, as torch's do.
    """

    kinds: frozenset[str]
    is_of_cycle: bool = False


class Pauses:
    """Open and past pauses; several of one kind may overlap in any order.

    Kinds are left out while a cycle is being recorded, between ``begin_cycle`` and ``end_cycle``.
    """

    def __init__(self) -> None:
        self._open: list[Pause] = []
        self._since_ns: dict[str, int] = {}
        self._count: Counter[str] = Counter()
        self._lasted_ns: Counter[str] = Counter()
        self._host_ns = 0

    @property
    def open_kinds(self) -> set[str]:
        """The kinds of all open pauses."""
        return {kind for pause in self._open for kind in pause.kinds}

    @property
    def left_out(self) -> set[str]:
        """The kinds that are being left out now."""
        return set(self._since_ns)

    def begin(self, pause: Pause, *, is_recording: bool) -> set[str]:
        """Begin a pause, and return the kinds to switch off now."""
        if pause.is_of_cycle and not is_recording:
            return set()
        self._open.append(pause)
        return self._leave_out(set(pause.kinds)) if is_recording else set()

    def end(self, pause: Pause) -> set[str]:
        """End a pause, and return the kinds to switch on again; none if it never began or is over."""
        if pause not in self._open:
            return set()
        self._open.remove(pause)
        changed = self.left_out - self.open_kinds
        self._take_up(changed)
        return changed

    def begin_cycle(self) -> set[str]:
        """Return the kinds to switch off in a cycle that begins within pauses."""
        return self._leave_out(self.open_kinds)

    def end_cycle(self) -> None:
        """Leave nothing out until the next cycle begins."""
        self._take_up(self.left_out)
        self._open = [pause for pause in self._open if not pause.is_of_cycle]

    def take_host_ns(self) -> int:
        """Return for how long ops were left out since the last call."""
        if "cpu" in self._since_ns:
            now_ns = self._take_up({"cpu"})
            self._since_ns["cpu"] = now_ns
        host_ns, self._host_ns = self._host_ns, 0
        return host_ns

    def note(self, problems: ProblemLog) -> None:
        """Note how often and for how long recording was paused, because the steps do not show it."""
        for kind, count in sorted(self._count.items()):
            duration = format_ns(self._lasted_ns[kind])
            problems.note("capture.paused", kind=kind, times=counted(count, "time"), duration=duration)

    def _leave_out(self, kinds: set[str]) -> set[str]:
        changed = kinds - self.left_out
        self._count.update(changed)
        if changed:
            self._since_ns.update(dict.fromkeys(changed, perf_counter_ns()))
        return changed

    def _take_up(self, kinds: set[str]) -> int:
        """Add the time of these kinds, and return the time now."""
        now_ns = perf_counter_ns() if kinds else 0
        for kind in kinds:
            lasted_ns = now_ns - self._since_ns.pop(kind)
            self._lasted_ns[kind] += lasted_ns
            if kind == "cpu":
                self._host_ns += lasted_ns
        return now_ns
