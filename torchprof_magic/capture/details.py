"""What cycles with shapes, memory, stacks and lines may cost, and what they did, measured while the loop runs."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from torchprof_magic.model.units import counted, enumerated, format_ns
from torchprof_magic.options import DETAILS, asked_for

if TYPE_CHECKING:
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.options import ProfileOptions

# At most so much of the loop, or so long, whichever is more; and so much memory while torch ends the cycle.
MOST_SHARE = 0.1
MOST_NS = 2_000_000_000
MOST_BYTES = 1_000_000_000
# So many Python calls take torch 0.3 to 0.5 s.
MOST_CALLS = 100_000
# Ending a cycle with details takes torch about so many times as long as ending one of the same steps without.
ENDING_RATIO = 3


# What is left out, in this order, and how many times as long as the times the rest takes. For a transformer on the CPU
# it was 2.7 without stacks and 2.2 with shapes alone, where all details took 3.5.
_LEFT_OUT = (
    ("stacks", "--stack", ("with_stack", "with_modules"), 2.5),
    ("memory", "--memory", ("profile_memory",), 2.0),
)


class DetailsCost:
    """How much longer a loop takes because it is recorded: its recorded steps, and what is done between steps.

    ``limit_s`` is what details may cost in all; None means a part of the loop, which has ``length`` steps if that is
    known. Only steps after the first cycle are limited: their ``most_steps`` follows from what ending that one cost.
    """

    def __init__(self, problems: ProblemLog, *, limit_s: float | None, length: int | None) -> None:
        self._problems = problems
        self._limit_ns = None if limit_s is None else limit_s * 1e9
        self._length = length
        self._times_ns: list[int] = []
        self._details_ns: list[int] = []
        self._between_ns = [0, 0]
        self._ending_ns = 0
        self._loop_ns = 0

    def add_step(self, dur_ns: int, *, cycle: int | None) -> None:
        """Count a step of the user's; ``cycle`` is that which recorded it, if one did."""
        self._loop_ns += dur_ns
        if cycle is not None:
            (self._details_ns if cycle else self._times_ns).append(dur_ns)

    def add_between(self, dur_ns: int, *, cycle: int) -> None:
        """Count what was done between two steps, in or after a cycle."""
        self._between_ns[min(cycle, 1)] += dur_ns
        if cycle == 0 and self._times_ns:
            self._ending_ns = dur_ns  # the last one; setting the profiler up, before the first step, is done only once

    def total_ns(self, plain_ns: list[int]) -> int:
        """Return how much longer the loop took in all, beside steps of which some ran without the profiler."""
        usual = self._usual_ns(plain_ns)
        longer = sum(dur_ns - usual for dur_ns in (*self._times_ns, *self._details_ns)) if plain_ns else 0.0
        return max(round(longer), 0) + sum(self._between_ns)

    def most_steps(self, active: int, options: ProfileOptions, plain_ns: list[int], between_ns: int = 0) -> int:
        """Return in how many steps the details of ``options`` can be recorded within the limit, at most ``active``.

        Note it if in none. One step is recorded as long as it is not sure to take more than the limit. ``between_ns``
        is what was done since the last step.
        """
        usual = self._usual_ns(plain_ns)
        if not self._times_ns:
            return active
        per_step = self._per_step_ns(usual, between_ns)
        limit = self._most_ns(usual)
        if per_step > limit:
            cost = format_ns(per_step * ENDING_RATIO)
            flags = asked_for(options.details)["flags"]
            self._problems.note("capture.details_left_out", cost=cost, limit=format_ns(limit), flags=flags)
            return 0
        affordable = math.floor(limit / (per_step * ENDING_RATIO)) if per_step > 0 else active
        return min(max(affordable, 1), active)

    def left_out(self, options: ProfileOptions, plain_ns: list[int], between_ns: int = 0) -> dict[str, bool]:
        """Return changes that leave details out of ``options`` if a single step with all of them would pass the limit.

        As few are left out as are enough, and never the last; note them. ``between_ns`` is as for ``most_steps``.
        """
        usual = self._usual_ns(plain_ns)
        per_step, limit = self._per_step_ns(usual, between_ns), self._most_ns(usual)
        ratio: float = ENDING_RATIO
        changes: dict[str, bool] = {}
        what: list[str] = []
        flags: list[str] = []
        for word, flag, names, ratio_without in _LEFT_OUT:
            rest = [name for name in DETAILS if name not in (*changes, *names) and getattr(options, name)]
            if per_step * ratio <= limit or not rest:
                break
            if getattr(options, names[0]):
                what.append(word)
                flags.append(flag)
                changes.update(dict.fromkeys(names, False))
            ratio = ratio_without
        if what:
            cost = format_ns(per_step * ENDING_RATIO)
            self._problems.note(
                "capture.details_dropped",
                what=enumerated(what).capitalize(),
                were="was" if what == ["memory"] else "were",
                flags=enumerated(flags, "or"),
                cost=cost,
                limit=format_ns(limit),
            )
        return changes

    def is_reached(self, running_ns: int, plain_ns: list[int], step: int) -> bool:
        """Return whether the details cost more than the limit, with ``running_ns`` of a step; note it."""
        usual = self._usual_ns(plain_ns)
        longer = sum(dur_ns - usual for dur_ns in self._details_ns) + running_ns - usual + self._between_ns[1]
        limit = self._most_ns(usual)
        if longer <= limit:
            return False
        steps = counted(len(self._details_ns) + 1, "step")
        cost = format_ns(longer)
        self._problems.note("capture.details_ended", cost=cost, limit=format_ns(limit), step=step, steps=steps)
        return True

    def may_record_lines(self, plain_ns: list[int]) -> bool:
        """Return whether a step in which lines are timed is within the limit, after the details; note if it is not.

        What timing the lines takes is known only afterwards: it is the last cycle, and ends with its first step.
        """
        usual = self._usual_ns(plain_ns)
        spent = sum(dur_ns - usual for dur_ns in self._details_ns) + self._between_ns[1]
        cost = max(spent, 0.0) + self._per_step_ns(usual)
        limit = self._most_ns(usual)
        if cost <= limit:
            return True
        self._problems.note("capture.lines_left_out", cost=format_ns(cost), limit=format_ns(limit))
        return False

    def note_memory(self, reason: str, limit: str, step: int) -> None:
        """Note that the details end with this step, because of the memory that ending them will take."""
        self._problems.note("capture.details_ended_by_memory", reason=reason, limit=limit, step=step)

    def _per_step_ns(self, usual: float, between_ns: int = 0) -> float:
        """Return how much longer the loop took for each recorded step of the times; 0 without any."""
        recorded = len(self._times_ns)
        longer = max(sum(self._times_ns) - recorded * usual, 0.0)
        return (self._ending_ns + between_ns + longer) / recorded if recorded else 0.0

    def _usual_ns(self, plain_ns: list[int]) -> float:
        known = plain_ns or self._times_ns
        return float(median(known)) if known else 0.0

    def _most_ns(self, usual: float) -> float:
        if self._limit_ns is not None:
            return self._limit_ns
        loop = self._loop_ns if self._length is None else max(self._loop_ns, self._length * usual)
        return max(MOST_NS, MOST_SHARE * loop)
