"""What a recording may take of memory, disk and time, and what is left out when it has taken that.

torch reports no count of events while it records, so events are bounded by the memory that they take.
"""

from __future__ import annotations

import math
from dataclasses import replace
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from torchprof_magic.capture.memory import FREE_PART, Growth, free_bytes
from torchprof_magic.units import format_bytes, format_ns, format_ratio

if TYPE_CHECKING:
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.options import ProfileOptions

# What gives way, in this order: what takes the most memory first; with the flags that ask for it.
_DEGREES = (
    ("Python calls", {"with_stack": "--stack", "with_modules": "--modules"}),
    ("shapes", {"record_shapes": "--shapes", "with_flops": "--flops"}),
)
# A recording that took more than this part of its budget is worth a word before the next one is made longer.
_NOTED_RATIO = 0.5
_NS_PER_S = 1e9


class Budget:
    """Watches what a recording takes, cycle by cycle, and notes what it took and what gives way.

    Memory is counted for each cycle alone, because an ended one frees it; files and time of all cycles are summed.
    ``file_bytes`` is the size of the files that were saved.
    """

    def __init__(self, options: ProfileOptions, problems: ProblemLog) -> None:
        self.file_bytes = 0
        self._growth = Growth()
        self._problems = problems
        self._file_limit_bytes = options.budget_bytes
        self._limit_bytes = free_bytes() // FREE_PART if options.budget_bytes is None else options.budget_bytes
        self._limit_ns = math.inf if options.budget_s is None else options.budget_s * _NS_PER_S
        self._ended_ns = 0
        self._begin_ns = 0
        self._deadline_ns = math.inf
        self._left_out: list[str] = []
        self._is_reached = False
        self._is_noted = False

    def begin(self) -> None:
        """Count memory and time from here, just before a cycle's first recorded step, until ``end``."""
        self._growth.begin()
        self._begin_ns = perf_counter_ns()
        self._deadline_ns = self._begin_ns + self._limit_ns - self._ended_ns
        self._is_reached = False

    def end(self, step: int) -> None:
        """Count no more, and note what a cycle took that stayed within the budget; before torch takes more to end it.

        ``step`` is the last recorded one.
        """
        self._ended_ns += perf_counter_ns() - self._begin_ns
        self._deadline_ns = math.inf
        if not self._is_reached and not self._is_noted:
            self._note_part(step)
        self._growth.end()

    def is_reached(self) -> bool:
        """Return whether memory or time are used up; called at the end of each recorded step."""
        return self._growth.grown_bytes() > self._limit_bytes or perf_counter_ns() > self._deadline_ns

    def is_disk_full(self) -> bool:
        """Return whether the files together are larger than the limit."""
        return self._file_limit_bytes is not None and self.file_bytes > self._file_limit_bytes

    def lighter(self, options: ProfileOptions, cycle: int, step: int) -> ProfileOptions | None:
        """Return what later cycles record because this one has taken all the memory it may, and note it.

        ``None`` when nothing is left to leave out, or the time is spent: that does not become more by recording less.
        """
        if perf_counter_ns() > self._deadline_ns:
            return None
        for what, flags in _DEGREES:
            asked = [name for name in flags if getattr(options, name)]
            if asked:
                self._left_out.append(f"{what} ({', '.join(flags[name] for name in asked)})")
                self._note_lighter(cycle, step)
                without: dict[str, Any] = dict.fromkeys(asked, False)
                return replace(options, **without)
        return None

    def note_cut(self, step: int) -> None:
        """Note that nothing is recorded after this step, because memory or time are spent."""
        self._is_reached = True
        now_ns = perf_counter_ns()
        if now_ns > self._deadline_ns:
            lasted = format_ns(self._ended_ns + now_ns - self._begin_ns)
            self._note_stop(step, f"recording has lasted {lasted}", format_ns(self._limit_ns))
        else:
            self._note_stop(step, self._growth_text(), format_bytes(self._limit_bytes))

    def note_files(self, step: int) -> None:
        """Note that nothing is recorded after this step, because of the files of the cycles so far."""
        files = f"its files have {format_bytes(self.file_bytes)}"
        self._note_stop(step, files, format_bytes(self._file_limit_bytes or 0))

    def _growth_text(self) -> str:
        return f"the process grew by {format_bytes(self._growth.grown_bytes())} meanwhile"

    def _note_stop(self, step: int, how: str, limit: str) -> None:
        self._problems.note(
            "capture.budget",
            "warning",
            f"Recording stopped after step {step}: {how} (budget {limit}).",
            "Record fewer steps with --active, or less of each, or raise --budget.",
        )

    def _note_lighter(self, cycle: int, step: int) -> None:
        self._is_reached = True
        limit = format_bytes(self._limit_bytes)
        self._problems.note(
            "capture.degraded",
            "warning",
            f"Cycle {cycle} was ended after step {step}: {self._growth_text()} (budget {limit}). "
            f"The cycles after it leave out {' and '.join(self._left_out)}.",
            "To have all of it in every cycle, record fewer steps with --active, or raise --budget.",
        )

    def _note_part(self, step: int) -> None:
        grown_bytes = self._growth.grown_bytes()
        if grown_bytes <= self._limit_bytes * _NOTED_RATIO:
            return
        self._is_noted = True
        part = format_ratio(grown_bytes / self._limit_bytes)
        self._problems.note(
            "capture.budget_half",
            "info",
            f"Recording until step {step} took {part} of the memory that it may: "
            f"the process grew by {format_bytes(grown_bytes)} meanwhile (budget {format_bytes(self._limit_bytes)}).",
            "Before recording more steps, or more of each, raise --budget.",
        )
