"""What the cycles of times and of details may cost, and what they did, measured while the loop runs."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from torchprof_magic.model.units import counted, enumerated, format_ns
from torchprof_magic.options import DETAILS, asked_for
from torchprof_magic.system.process.memory import heap_bytes

if TYPE_CHECKING:
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.options import ProfileOptions

# At most so much of the loop, or so long, whichever is more; and so much memory while torch ends the cycle.
MOST_SHARE = 0.1
MOST_NS = 2_000_000_000
MOST_BYTES = 1_000_000_000
# So many Python calls take torch 0.3 to 0.5 s.
MOST_CALLS = 100_000
# Stacks of fewer calls than these tell too little.
LEAST_CALLS = 10_000
# A limit of calls is a multiple of so many.
_CALLS_ROUND = 1_000
# How many times as long as the times a step with details takes, its end included: for a transformer on the CPU it was
# 2.2 with shapes alone, and 2.7 with memory. Python calls come on top, one by one.
SHAPES_RATIO = 2.2
MEMORY_RATIO = 2.7
# An event takes so many bytes in the file of a trace. Ending a Python call takes as long as ending an event, which is
# 3 us on a quiet machine and up to 60 us where others want its cores.
_EVENT_BYTES = 270
_CALL_NS = (3_000.0, 60_000.0)
# While it records, torch allocates so many bytes for an event: 204 to 226 in eight programs.
RECORDED_BYTES = 215
# Ending a recording takes torch so many times as long as recording it made the steps longer: 5.6 to 7.2 times for five
# programs of 7,000 to 70,000 events in a step. Steps also differ by themselves, so an event costs in all between so
# much and so much; and if it made a step longer by less than the last, other things were allocated than events.
ENDING_RATIO = 6.0
_EVENT_NS = (5_000.0, 20_000.0)
_LEAST_RECORDED_NS = 300.0
# What is left out, in this order.
_LEFT_OUT = (
    ("stacks", "--stack", ("with_stack", "with_modules")),
    ("memory", "--memory", ("profile_memory",)),
)


class TimesReadings:
    """How much longer the thread was busy in the steps of the times than in the one before, and what was allocated."""

    def __init__(self) -> None:
        self._usual_ns: int | None = None
        self._longer_ns = 0
        self._began_bytes: int | None = None

    def note_warmup(self, busy_ns: int | None) -> None:
        """Note how long the thread was busy in a step without the profiler; None if that is not known."""
        self._usual_ns = busy_ns

    def begin(self) -> None:
        """Read what is allocated before a recording begins."""
        self._began_bytes = heap_bytes()

    def add_step(self, busy_ns: int | None) -> tuple[int, int] | None:
        """Count a recorded step; return how much longer all were, in ns, and by how many bytes what is allocated grew.

        None where either is not known.
        """
        now_bytes = heap_bytes()
        if self._usual_ns is None or busy_ns is None or self._began_bytes is None or now_bytes is None:
            return None
        self._longer_ns += busy_ns - self._usual_ns
        return self._longer_ns, now_bytes - self._began_bytes


class DetailsCost:
    """How much longer a loop takes because it is recorded: its recorded steps, and what is done between steps.

    ``limit_s`` is what all that is recorded may cost; None means a part of the loop, which has ``length`` steps if that
    is known. The first cycle, of times, is always recorded, in fewer steps if it must, and details get what it left.
    What they will cost follows from what ending that cycle cost, which took so many bytes in its file
    (``note_times_file``).
    """

    def __init__(self, problems: ProblemLog, *, limit_s: float | None, length: int | None) -> None:
        self._problems = problems
        self._limit_ns = None if limit_s is None else limit_s * 1e9
        self._length = length
        self._times_ns: list[int] = []
        self._details_ns: list[int] = []
        self._between_ns = [0, 0]
        self._ending_ns = self._ended = 0
        self._loop_ns = 0
        self._call_ns = _CALL_NS[0]
        self._warmup_ns: list[int] = []

    def add_step(self, dur_ns: int, *, cycle: int | None) -> None:
        """Count a step of the user's; ``cycle`` is that which recorded it, if one did."""
        self._loop_ns += dur_ns
        if cycle is not None:
            (self._details_ns if cycle else self._times_ns).append(dur_ns)

    def add_between(self, dur_ns: int, *, cycle: int) -> None:
        """Count what was done between two steps, in or after a cycle."""
        self._between_ns[min(cycle, 1)] += dur_ns
        # The last recorded step ends the cycle, and idle ones may follow in it. Setting the profiler up, before the
        # first step, is done only once.
        if cycle == 0 and len(self._times_ns) > self._ended:
            self._ending_ns, self._ended = dur_ns, len(self._times_ns)

    def note_warmup(self, dur_ns: int) -> None:
        """Note how long the step before the times took, which is what a step takes until others are known."""
        self._warmup_ns.append(dur_ns)

    def may_time_another(self, longer_ns: int, grown_bytes: int, plain_ns: list[int], step: int) -> bool:
        """Return whether the times stay within the limit with one more step than this one; note if they do not.

        So far their steps took ``longer_ns`` more than as many without the profiler, and ``grown_bytes`` were
        allocated.
        """
        steps, cost = len(self._times_ns) + 1, _cost_of_events(longer_ns, grown_bytes)
        most = self._most_ns(self._usual_ns(plain_ns))
        if cost * (steps + 1) / steps <= most:
            return True
        told = counted(steps, "step")
        self._problems.note("capture.times_ended", cost=format_ns(cost), step=step, steps=told, limit=format_ns(most))
        return False

    def total_ns(self, plain_ns: list[int]) -> int:
        """Return how much longer the loop took in all, beside steps of which some ran without the profiler."""
        usual = self._usual_ns(plain_ns)
        longer = sum(dur_ns - usual for dur_ns in (*self._times_ns, *self._details_ns)) if plain_ns else 0.0
        return max(round(longer), 0) + sum(self._between_ns)

    def note_times_file(self, size_bytes: int) -> None:
        """Note the size of the file of the times, from which the cost of a Python call follows."""
        least, most = _CALL_NS
        events = size_bytes / _EVENT_BYTES
        self._call_ns = min(max(self._ending_ns / events, least), most) if events else least

    def most_steps(self, active: int, options: ProfileOptions, plain_ns: list[int], between_ns: int = 0) -> int:
        """Return in how many steps the details of ``options`` can be recorded within the limit, at most ``active``.

        Note it if in none, because a single step with shapes alone would pass it. ``between_ns`` is what was done since
        the last step.
        """
        usual = self._usual_ns(plain_ns)
        if not self._times_ns:
            return active
        per_step = self._per_step_ns(usual, between_ns)
        left = self._left_ns(usual, between_ns)
        least = per_step * SHAPES_RATIO
        if least > left:
            flags = asked_for(options.details)["flags"]
            self._problems.note("capture.details_left_out", cost=format_ns(least), flags=flags, **self._shares(usual))
            return 0
        affordable = math.floor(left / (per_step * _ratio(options))) if per_step > 0 else active
        return min(max(affordable, 1), active)

    def most_calls(self, steps: int, options: ProfileOptions, plain_ns: list[int], between_ns: int = 0) -> int:
        """Return of how many Python calls the stacks may be in so many steps with the details of ``options``."""
        usual = self._usual_ns(plain_ns)
        rest = self._per_step_ns(usual, between_ns) * _ratio(options) * steps
        calls = math.floor((self._left_ns(usual, between_ns) - rest) / self._call_ns)
        return min(max(calls // _CALLS_ROUND * _CALLS_ROUND, LEAST_CALLS), MOST_CALLS)

    def left_out(self, options: ProfileOptions, plain_ns: list[int], between_ns: int = 0) -> dict[str, bool]:
        """Return changes that leave details out of ``options`` if a single step with all of them would pass the limit.

        As few are left out as are enough, and never the last; note them. ``between_ns`` is as for ``most_steps``.
        """
        usual = self._usual_ns(plain_ns)
        per_step, left = self._per_step_ns(usual, between_ns), self._left_ns(usual, between_ns)
        changes: dict[str, Any] = {}
        dropped: list[tuple[str, str]] = []
        most = cost = self._cost_of_step(per_step, options)
        for word, flag, names in _LEFT_OUT:
            rest = [name for name in DETAILS if name not in (*changes, *names) and getattr(options, name)]
            if cost <= left or not rest:
                break
            if getattr(options, names[0]):
                dropped.append((word, flag))
                changes.update(dict.fromkeys(names, False))
            cost = self._cost_of_step(per_step, replace(options, **changes))
        if dropped:
            words, flags = zip(*dropped, strict=True)
            self._problems.note(
                "capture.details_dropped",
                what=enumerated(words).capitalize(),
                were="was" if words == ("memory",) else "were",
                flags=enumerated(flags, "or"),
                cost=format_ns(most),
                **self._shares(usual),
            )
        return changes

    def is_reached(
        self, running_ns: int, plain_ns: list[int], step: int, options: ProfileOptions, calls: int = 0
    ) -> bool:
        """Return whether details would pass the limit with one more step than this one; note it.

        This step takes ``running_ns`` so far. What ending the cycle will take counts, too, also for so many ``calls``
        of Python.
        """
        usual = self._usual_ns(plain_ns)
        steps = len(self._details_ns) + 1
        longer = sum(dur_ns - usual for dur_ns in self._details_ns) + running_ns - usual + self._between_ns[1]
        cost = longer + steps * self._ending_of_step_ns() * _ratio(options) + calls * self._call_ns
        if cost * (steps + 1) / steps <= self._left_ns(usual):
            return False
        told = counted(steps, "step")
        self._problems.note("capture.details_ended", cost=format_ns(cost), step=step, steps=told, **self._shares(usual))
        return True

    def may_record_lines(self, plain_ns: list[int]) -> bool:
        """Return whether a step in which lines are timed is within the limit, after the details; note if it is not.

        What timing the lines takes is known only afterwards: it is the last cycle, and ends with its first step.
        """
        usual = self._usual_ns(plain_ns)
        spent = sum(dur_ns - usual for dur_ns in self._details_ns) + self._between_ns[1]
        cost = max(spent, 0.0) + self._per_step_ns(usual)
        if cost <= self._left_ns(usual):
            return True
        self._problems.note("capture.lines_left_out", cost=format_ns(cost), **self._shares(usual))
        return False

    def note_memory(self, reason: str, limit: str, step: int) -> None:
        """Note that the details end with this step, because of the memory that ending them will take."""
        self._problems.note("capture.details_ended_by_memory", reason=reason, limit=limit, step=step)

    def _cost_of_step(self, per_step: float, options: ProfileOptions) -> float:
        """Return what one step costs with the details of ``options``; stacks are of a few calls at least."""
        return per_step * _ratio(options) + (LEAST_CALLS * self._call_ns if options.with_stack else 0)

    def _ending_of_step_ns(self) -> float:
        return self._ending_ns / len(self._times_ns) if self._times_ns else 0.0

    def _per_step_ns(self, usual: float, between_ns: int = 0) -> float:
        """Return how much longer the loop took for each recorded step of the times; 0 without any."""
        recorded = len(self._times_ns)
        longer = max(sum(self._times_ns) - recorded * usual, 0.0)
        return (self._ending_ns + between_ns + longer) / recorded if recorded else 0.0

    def _usual_ns(self, plain_ns: list[int]) -> float:
        known = plain_ns or self._warmup_ns or self._times_ns
        return float(median(known)) if known else 0.0

    def _left_ns(self, usual: float, between_ns: int = 0) -> float:
        """Return what the times have left of the limit."""
        return self._most_ns(usual) - self._spent_ns(usual, between_ns)

    def _spent_ns(self, usual: float, between_ns: int = 0) -> float:
        """Return what the times cost, without setting the profiler up, which is done once in a process."""
        return self._per_step_ns(usual, between_ns) * len(self._times_ns)

    def _shares(self, usual: float) -> dict[str, str]:
        return {"limit": format_ns(self._most_ns(usual)), "spent": format_ns(self._spent_ns(usual))}

    def _most_ns(self, usual: float) -> float:
        if self._limit_ns is not None:
            return self._limit_ns
        loop = self._loop_ns if self._length is None else max(self._loop_ns, self._length * usual)
        return max(MOST_NS, MOST_SHARE * loop)


def _cost_of_events(longer_ns: int, grown_bytes: int) -> float:
    """Return what the events cost for which torch allocated so much, and which made the steps so much longer."""
    events = max(grown_bytes, 0) / RECORDED_BYTES
    if longer_ns < events * _LEAST_RECORDED_NS:
        return 0.0
    least, most = _EVENT_NS
    return min(max(longer_ns * (1 + ENDING_RATIO), events * least), events * most)


def _ratio(options: ProfileOptions) -> float:
    return MEMORY_RATIO if options.profile_memory else SHAPES_RATIO
