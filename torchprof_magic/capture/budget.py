"""Limits on the memory, disk space and time that a recording uses.

torch does not report how many events it holds while it records, so they are limited by the memory that they use.
"""

from __future__ import annotations

import math
from dataclasses import replace
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from torchprof_magic.model.units import enumerated, format_file_size, format_ns, format_ratio
from torchprof_magic.system.process.memory import FREE_PART, Growth, free_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.options import ProfileOptions

# What is left out when memory runs short, the largest first, with the flags that ask for it.
_DEGREES = (
    ("Python calls", {"with_stack": "--stack", "with_modules": "--modules"}),
    ("shapes", {"record_shapes": "--shapes", "with_flops": "--flops"}),
)
# A recording that used more than this share of its budget is reported, before the next one is made longer.
_NOTED_RATIO = 0.5
_NS_PER_S = 1e9
# Asking the system for the memory of this process takes 10 to 20 us, too much for each of many short steps.
MEMORY_INTERVAL_NS = 2_000_000


# While torch ends and exports a recording, the process grows to a multiple of what it grew while recording: 7.0 to 7.5
# times for ops, also with stacks, and 10 to 11.3 times with memory (benchmarks/ending.py).
ENDING_FACTORS = {"ops": 8.0, "memory": 12.0}


def ending_factor(options: ProfileOptions) -> float:
    """Return how many times the growth of a recording its end needs at most."""
    return ENDING_FACTORS["memory" if options.profile_memory else "ops"]


class Budget:
    """Compares what a recording uses with its limits, and notes when a limit is reached.

    Memory is counted per cycle, because a cycle frees it when it ends; files and time of all cycles are summed. What
    counts is the memory that ending the cycle will need, which is several times what recording it took.
    ``file_bytes`` is the size of the files that were saved.
    """

    def __init__(self, options: ProfileOptions, problems: ProblemLog) -> None:
        self.file_bytes = 0
        self._growth: Growth | None = None
        self._factor = ending_factor(options)
        self._problems = problems
        self._file_limit_bytes = options.budget_file_bytes
        self._limit_bytes = options.budget_bytes  # None: from the free memory, when recording begins
        self._is_given = options.budget_bytes is not None
        self._limit_ns = math.inf if options.budget_s is None else options.budget_s * _NS_PER_S
        self._ended_ns = 0
        self._begin_ns = 0
        self._asked_ns = 0
        self._deadline_ns = math.inf
        self._left_out: list[str] = []
        self._is_reached = False
        self._is_noted = False

    def begin(self, most_bytes: int | None = None) -> None:
        """Start counting memory and time, just before the first recorded step of a cycle.

        ``most_bytes`` is the limit of this cycle and all later ones if the user has set none.
        """
        if self._growth is None:
            self._growth = Growth()
        if self._limit_bytes is None:
            self._limit_bytes = free_bytes() // FREE_PART
        if most_bytes is not None and not self._is_given:
            self._limit_bytes = min(self._limit_bytes, most_bytes)
        self._growth.begin()
        self._begin_ns = perf_counter_ns()
        self._deadline_ns = self._begin_ns + self._limit_ns - self._ended_ns
        self._is_reached = False

    def end(self, step: int) -> None:
        """Stop counting, before torch uses more memory to end the cycle. Note how much of the budget was used.

        ``step`` is the last recorded one.
        """
        self._ended_ns += perf_counter_ns() - self._begin_ns
        self._deadline_ns = math.inf
        if not self._is_reached and not self._is_noted:
            self._note_part(step)
        if self._growth is not None:
            self._growth.end()

    def is_reached(self) -> bool:
        """Return whether the limit of memory or time is reached; called at the end of each recorded step."""
        now_ns = perf_counter_ns()
        if now_ns > self._deadline_ns:
            return True
        if now_ns - self._asked_ns < MEMORY_INTERVAL_NS:
            return False
        self._asked_ns = now_ns
        return self._limit_bytes is not None and self._peak_bytes() > self._limit_bytes

    def is_of_memory(self) -> bool:
        """Return whether it is the limit of memory that is reached, and not that of time."""
        return perf_counter_ns() <= self._deadline_ns

    def is_disk_full(self) -> bool:
        """Return whether the files of all cycles together are larger than the limit."""
        return self._file_limit_bytes is not None and self.file_bytes > self._file_limit_bytes

    def lighter(self, options: ProfileOptions, cycle: int, step: int) -> ProfileOptions | None:
        """Return options with which later cycles record less, because this cycle reached its memory limit, and note it.

        ``None`` if nothing can be left out, or if the time limit is reached: recording less does not help then.
        """
        if perf_counter_ns() > self._deadline_ns:
            return None
        for what, flags in _DEGREES:
            asked = [name for name in flags if getattr(options, name)]
            if asked:
                self._left_out.append(f"{what} ({', '.join(flags[name] for name in asked)})")
                self._note_lighter(cycle, step, " and ".join(self._left_out))
                without: dict[str, Any] = dict.fromkeys(asked, False)
                return replace(options, **without)
        return None

    def note_cut(self, step: int) -> None:
        """Note that recording stops after this step, because the limit of memory or time is reached."""
        self._is_reached = True
        now_ns = perf_counter_ns()
        if now_ns > self._deadline_ns:
            lasted = format_ns(self._ended_ns + now_ns - self._begin_ns)
            self._note_stop(step, f"recording took {lasted}", format_ns(self._limit_ns))
        else:
            self._note_stop(step, self.growth_text(), self.limit_text())

    def note_cycle(self, cycle: int, step: int, left_out: Sequence[str]) -> None:
        """Note that this cycle of a run that is watched ends with this step, and which details later ones leave out.

        If there are none to leave out, only the first such cycle is noted: a run of hours may have very many.
        """
        self._is_reached = True
        if left_out or not self._problems.has("capture.watch_budget"):
            rest = f" Later cycles leave out {enumerated(left_out)}." if left_out else ""
            grown, limit = self.growth_text(), self.limit_text()
            self._problems.note("capture.watch_budget", cycle=cycle, step=step, reason=grown, limit=limit, rest=rest)

    def note_files(self, step: int) -> None:
        """Note that recording stops after this step, because of the size of the files so far."""
        size, limit = format_file_size(self.file_bytes), format_file_size(self._file_limit_bytes or 0)
        self._problems.note("capture.budget_files", step=step, size=size, limit=limit)

    def _grown_bytes(self) -> int:
        return 0 if self._growth is None else self._growth.grown_bytes()

    def _peak_bytes(self) -> int:
        return int(self._grown_bytes() * self._factor)

    def growth_text(self) -> str:
        """Return how much memory the recording took, and about how much ending it will take."""
        grown, peak = format_file_size(self._grown_bytes()), format_file_size(self._peak_bytes())
        return f"memory use grew by {grown}, and ending the recording takes about {peak}"

    def limit_text(self) -> str:
        """Return how much memory it may take."""
        return format_file_size(self._limit_bytes or 0)

    def _note_stop(self, step: int, reason: str, limit: str) -> None:
        self._problems.note("capture.budget", step=step, reason=reason, limit=limit)

    def _note_lighter(self, cycle: int, step: int, left_out: str) -> None:
        self._is_reached = True
        self._problems.note(
            "capture.degraded",
            cycle=cycle,
            step=step,
            reason=self.growth_text(),
            limit=self.limit_text(),
            left_out=left_out,
        )

    def _note_part(self, step: int) -> None:
        peak_bytes = self._peak_bytes()
        limit_bytes = self._limit_bytes
        if limit_bytes is None or peak_bytes <= limit_bytes * _NOTED_RATIO:
            return
        self._is_noted = True
        self._problems.note(
            "capture.budget_half",
            step=step,
            share=format_ratio(peak_bytes / limit_bytes),
            reason=self.growth_text(),
            limit=self.limit_text(),
        )
