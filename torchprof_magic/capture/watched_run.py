"""A whole run that is watched: which steps to record, how long all of them took, and what ran in slow ones.

A loop that takes hours is recorded for a few steps from time to time, as often as that costs next to nothing. Details
are recorded when steps change, as far as they are affordable. Every step is timed, and kept as part of a strip of the
whole run. A step that takes far longer than those before it is looked at while it runs, because nobody knows of it
beforehand, and it may never come again.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import TYPE_CHECKING, Final

from torchprof_magic.model.meta import SlowStep, Stretch, WatchedRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture.schedule import WatchSchedule
    from torchprof_magic.model.meta import SlowLine

# What all recordings of times may cost of the time that the loop has taken.
MOST_SHARE: Final = 0.01
# Details may cost so much in any case.
MOST_DETAILS_NS: Final = 2_000_000_000
FIRST_ACTIVE, LATER_ACTIVE, DETAILS_ACTIVE = 3, 2, 2
# Recording details costs so many times what recording times does, until it is known.
DETAILS_RATIO: Final = 4.0
# What is usual: the median of so many steps, known from so few on.
_RECENT, _LEAST_KNOWN = 64, 8
# A slow step takes so many times as long as usual, and so much longer; a step counts as an outlier elsewhere from the
# same ratio on.
SLOW_RATIO: Final = 1.5
_LEAST_MORE_NS: Final = 2_000_000
_SLOW: Final = SLOW_RATIO, _LEAST_MORE_NS
# Recording details makes a step slower, too.
_SLOW_WITH_DETAILS: Final = 3.0
_LEAST_MORE_WITH_DETAILS_NS: Final = 20_000_000
# The trend has turned if the last steps take so much longer or shorter than those before.
TURN_RATIO: Final = 1.2
_TURN_STEPS: Final = 16
MAX_STRETCHES: Final = 1_000
MAX_SLOW: Final = 50
# So many recordings of either kind are kept: the newest, and the first with times; and those of so many slow steps.
KEPT_TIMES, KEPT_DETAILS, KEPT_SLOW = 5, 3, 3
_MEMORY_EVERY_NS: Final = 100_000_000


class Strip:
    """How long all steps of a run took, in stretches of as many steps as make at most ``MAX_STRETCHES`` of them."""

    def __init__(self) -> None:
        self._steps_each = 1
        self._stretches: list[Stretch] = []

    def add(self, step: Stretch) -> None:
        """Add one step."""
        last = self._stretches[-1] if self._stretches else None
        if last is not None and last.steps < self._steps_each:
            self._stretches[-1] = joined(last, step)
            return
        if len(self._stretches) >= MAX_STRETCHES:
            self._steps_each *= 2
            pairs = zip(self._stretches[::2], self._stretches[1::2], strict=True)
            self._stretches = [joined(one, other) for one, other in pairs]
        self._stretches.append(step)

    def so_far(self) -> tuple[Stretch, ...]:
        """Return the stretches, in order."""
        return tuple(self._stretches)


def joined(one: Stretch, other: Stretch) -> Stretch:
    """Return two stretches, of which ``other`` follows ``one``, as one."""
    return Stretch(
        step=one.step,
        steps=one.steps + other.steps,
        start_ns=one.start_ns,
        sum_ns=one.sum_ns + other.sum_ns,
        longest_ns=max(one.longest_ns, other.longest_ns),
        data_ns=None if one.data_ns is None or other.data_ns is None else one.data_ns + other.data_ns,
        memory_bytes=other.memory_bytes if one.memory_bytes is None else max(one.memory_bytes, other.memory_bytes or 0),
        recorded=one.recorded + other.recorded,
    )


class RunWatch:
    """Decides which steps of a run are recorded, and keeps what is known of all of them.

    It makes ``schedule`` while the run goes on. ``interval_s`` is the least time between two recordings of times.
    ``memory`` returns the memory in use, in bytes. Without ``has_warmup`` recordings begin without a step that warms
    the profiler up, and without ``has_details`` none has details.
    """

    def __init__(
        self,
        schedule: WatchSchedule,
        interval_s: float,
        memory: Callable[[], int | None],
        *,
        done: int = 0,
        has_warmup: bool = True,
        has_details: bool = True,
    ) -> None:
        self.schedule = schedule
        self.has_details = has_details
        self.usual_ns = 0.0
        self._interval_ns = int(interval_s * 1e9)
        self._memory = memory
        self._has_warmup = has_warmup
        self._strip = Strip()
        self._slow: list[SlowStep] = []
        self._recent: deque[int] = deque(maxlen=_RECENT)
        self._before: float | None = None  # what was usual at first, or when the trend last turned
        self._known_bytes: int | None = None
        self._asked_ns = 0
        self._began_ns: int | None = None
        self._cost_ns = self._cycle_cost_ns = 0
        self._last_cost_ns = {False: 0, True: 0}
        self._ended_ns = 0
        self._is_detailed = False
        self._wants_details = True
        self._steps = self._recorded = 0
        first = done if not has_warmup else done + 2  # the first step sets up what later ones use
        self.schedule.plan(first, FIRST_ACTIVE, is_detailed=False, has_warmup=has_warmup)

    @property
    def is_worth_looking(self) -> bool:
        """Whether it is known what a slow step is."""
        return len(self._recent) >= _LEAST_KNOWN

    def end_step(
        self,
        step: int,
        began_ns: int,
        ended_ns: int,
        *,
        fetch_ns: int | None,
        is_recorded: bool,
        lines: tuple[SlowLine, ...] = (),
    ) -> None:
        """Note a step that has ended, and plan what is recorded next. ``lines`` were seen to run in it."""
        if self._began_ns is None:
            self._began_ns = began_ns
        dur_ns = ended_ns - began_ns
        self._steps += 1
        self._recorded += is_recorded
        stretch = Stretch(
            step=step,
            steps=1,
            start_ns=began_ns - self._began_ns,
            sum_ns=dur_ns,
            longest_ns=dur_ns,
            data_ns=fetch_ns,
            memory_bytes=self._memory_at(ended_ns),
            recorded=int(is_recorded),
        )
        self._strip.add(stretch)
        if is_recorded:
            self._ended_ns = ended_ns
            limits = (_SLOW_WITH_DETAILS, _LEAST_MORE_WITH_DETAILS_NS) if self._is_detailed else _SLOW
            is_slow = self._note_if_slow(step, dur_ns, lines, *limits)
            if self.usual_ns and not is_slow:  # what makes a step so slow is not that it is recorded
                self.add_between(round(max(dur_ns - self.usual_ns, 0.0)), is_of_cycle=True)
        elif self._steps > 1:  # the first one also sets up caches, threads and optimizer state
            self._note_plain(step, dur_ns, lines)
        self._plan(step, ended_ns)

    def add_between(self, ns: int, *, is_of_cycle: bool) -> None:
        """Count what was done between two steps; ``is_of_cycle``: one of them is recorded, or warms the profiler up."""
        self._cost_ns += ns
        if is_of_cycle:
            self._cycle_cost_ns += ns

    def so_far(self) -> WatchedRun:
        """Return what is known of the run."""
        return WatchedRun(
            stretches=self._strip.so_far(),
            slow=tuple(sorted(self._slow, key=lambda slow: slow.step)),
            steps=self._steps,
            recorded=self._recorded,
            cost_ns=self._cost_ns,
        )

    def kept_of(self, cycles: list[int]) -> set[int]:
        """Return which recorded cycles are worth their room.

        These are the first, the newest of either kind, and those with the slowest of the recorded steps.
        """
        detailed = [cycle for cycle in cycles if self.schedule.is_detailed(cycle)]
        others = [cycle for cycle in cycles if cycle not in detailed]
        slowest = sorted(self._slow, key=lambda slow: -slow.step_ns)
        recorded = [slow.step for slow in slowest if self.schedule.action(slow.step).is_recording]
        with_slow = {self.schedule.cycle(step) for step in recorded[:KEPT_SLOW]}
        return {*others[:1], *others[-KEPT_TIMES:], *detailed[-KEPT_DETAILS:], *with_slow.intersection(cycles)}

    def _note_if_slow(
        self, step: int, dur_ns: int, lines: tuple[SlowLine, ...], ratio: float, least_more_ns: int
    ) -> bool:
        """Return whether the step took far longer than usual, and keep it if so."""
        if not self.is_worth_looking or dur_ns <= max(ratio * self.usual_ns, self.usual_ns + least_more_ns):
            return False
        self._wants_details = True
        self._keep_slow(SlowStep(step=step, step_ns=dur_ns, usual_ns=round(self.usual_ns), lines=lines))
        return True

    def _note_plain(self, step: int, dur_ns: int, lines: tuple[SlowLine, ...]) -> None:
        self._note_if_slow(step, dur_ns, lines, *_SLOW)
        self._recent.append(dur_ns)
        if len(self._recent) < _TURN_STEPS or self._steps % 4 == 0:
            self.usual_ns = median(self._recent)
        if len(self._recent) < 2 * _TURN_STEPS or self._steps % 4:
            return
        now = median(list(self._recent)[-_TURN_STEPS:])
        if self._before is None:
            self._before = self.usual_ns
        elif not self._before / TURN_RATIO < now < self._before * TURN_RATIO:
            self._wants_details = True
            self._before = now

    def _keep_slow(self, slow: SlowStep) -> None:
        self._slow.append(slow)
        if len(self._slow) > MAX_SLOW:
            self._slow.remove(min(self._slow, key=lambda each: each.step_ns))

    def _plan(self, step: int, now_ns: int) -> None:
        """Plan the next recording, if none is planned and it is time for one."""
        if self.schedule.is_planned_after(step):
            return
        if self._cycle_cost_ns:
            self._last_cost_ns[self._is_detailed] = self._cycle_cost_ns
            self._cycle_cost_ns = 0
        elapsed_ns = now_ns - (self._began_ns or 0)
        wait_ns = max(self._interval_ns, self._last_cost_ns[False] / MOST_SHARE)
        if self._wants_details and self._may_have_details(elapsed_ns):
            self._wants_details = False
            self._begin_cycle(step, DETAILS_ACTIVE, is_detailed=True)
        elif now_ns - self._ended_ns >= wait_ns and self._cost_ns <= MOST_SHARE * elapsed_ns:
            self._begin_cycle(step, LATER_ACTIVE, is_detailed=False)

    def _begin_cycle(self, step: int, active: int, *, is_detailed: bool) -> None:
        """Plan a recording; what the next step does is decided already."""
        self._is_detailed = is_detailed
        first = step + 2 + self._has_warmup
        self.schedule.plan(first, active, is_detailed=is_detailed, has_warmup=self._has_warmup)

    def _may_have_details(self, elapsed_ns: int) -> bool:
        cost = self._last_cost_ns[True] or DETAILS_RATIO * self._last_cost_ns[False]
        most_ns = max(MOST_DETAILS_NS, MOST_SHARE * elapsed_ns)
        return self.has_details and self.is_worth_looking and self._cost_ns + cost <= most_ns

    def _memory_at(self, now_ns: int) -> int | None:
        if now_ns - self._asked_ns >= _MEMORY_EVERY_NS:
            self._asked_ns = now_ns
            self._known_bytes = self._memory()
        return self._known_bytes
