"""Schedules: which steps are idle, which warm up, and which are recorded."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from torchprof_magic.options import EVERY_STEP

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.options import ScheduleOptions


class Action(Enum):
    """The state of the profiler during a step; names and values are those of ``torch.profiler.ProfilerAction``.

    ``is_recording`` is true if the events of the step are kept.
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3

    def __init__(self, value: int) -> None:
        self.is_recording = value >= 2  # noqa: PLR2004 - not a property: its calls would be in traces with stacks

    @property
    def phase(self) -> str:
        """The name of the phase for the user: ``wait``, ``warmup`` or ``active``."""
        return {Action.NONE: "wait", Action.WARMUP: "warmup"}.get(self, "active")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Skip ``skip_first`` steps, then ``repeat`` cycles of ``wait``, ``warmup`` and ``active`` steps; 0 = endless.

    ``skip_first_wait`` skips the idle steps of the first cycle. ``period`` is the number of steps in one cycle.
    ``total`` is the number of steps until the last cycle is complete, ``None`` if cycles never end; ``least`` is the
    number until the first one is, ``None`` if that never ends.
    """

    wait: int = 0
    warmup: int = 0
    active: int = 1
    repeat: int = 1
    skip_first: int = 0
    skip_first_wait: bool = False

    period: int = field(init=False)
    total: int | None = field(init=False)
    least: int | None = field(init=False)
    _begin: int = field(init=False, repr=False)
    """The step at which the first cycle begins, including skipped idle steps; can be negative."""

    def __post_init__(self) -> None:
        """Compute what ``action`` needs in every step."""
        period = self.wait + self.warmup + self.active
        begin = self.skip_first - (self.wait if self.skip_first_wait else 0)
        object.__setattr__(self, "period", period)
        object.__setattr__(self, "_begin", begin)
        is_finite = self.active < EVERY_STEP
        object.__setattr__(self, "total", begin + period * self.repeat if is_finite and self.repeat else None)
        object.__setattr__(self, "least", begin + period if is_finite else None)

    def action(self, step: int) -> Action:
        """Return the action for ``step``, counted from 0, as ``torch.profiler.schedule`` does."""
        if step < self.skip_first or self.is_over(step):
            return Action.NONE
        place = (step - self._begin) % self.period
        if place < self.wait:
            return Action.NONE
        if place < self.wait + self.warmup:
            return Action.WARMUP
        return Action.RECORD if place < self.period - 1 else Action.RECORD_AND_SAVE

    def cycle(self, step: int) -> int:
        """Return the number of the cycle that ``step`` belongs to, counted from 0."""
        return max(step - self._begin, 0) // self.period

    def is_over(self, step: int) -> bool:
        """Return whether every cycle is complete when ``step`` begins."""
        return self.total is not None and step >= self.total

    def may_follow(self, cycle: int) -> bool:
        """Return whether another cycle may follow ``cycle``."""
        return self.active < EVERY_STEP and (self.repeat == 0 or cycle + 1 < self.repeat)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimesThenDetails:
    """One cycle as ``times`` has it, then ``gap`` steps, and a cycle of ``details`` steps.

    ``has_warmup``: the last step of the gap warms the profiler up. With ``lines``, an idle step follows, and a cycle of
    so many steps in which lines of functions are timed. ``total`` and ``least`` are as for ``Schedule``.
    """

    times: Schedule
    gap: int
    details: int
    has_warmup: bool = True
    lines: int = 0

    total: int | None = field(init=False)
    least: int | None = field(init=False)
    _first: int = field(init=False, repr=False)
    _first_of_lines: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compute what ``action`` needs in every step."""
        ended = self.times.total
        assert ended is not None, "the cycle of times ends"
        first = ended + self.gap
        end = first + self.details
        object.__setattr__(self, "least", ended)
        object.__setattr__(self, "_first", first)
        object.__setattr__(self, "_first_of_lines", end + _IDLE_BEFORE_LINES)
        object.__setattr__(self, "total", end + _IDLE_BEFORE_LINES + self.lines if self.lines else end)

    def action(self, step: int) -> Action:
        """Return the action for ``step``, counted from 0."""
        if not self.times.is_over(step):
            return self.times.action(step)
        is_of_details = self.cycle(step) == 1
        place = step - (self._first if is_of_details else self._first_of_lines)
        steps = self.details if is_of_details else self.lines
        if place < 0:
            is_warmup = is_of_details and place == -1 and self.has_warmup
            return Action.WARMUP if is_warmup else Action.NONE
        if place >= steps:
            return Action.NONE
        return Action.RECORD if place < steps - 1 else Action.RECORD_AND_SAVE

    def cycle(self, step: int) -> int:
        """Return the number of the cycle that ``step`` belongs to, counted from 0."""
        return int(self.times.is_over(step)) + (bool(self.lines) and step >= self._first + self.details)

    def is_over(self, step: int) -> bool:
        """Return whether all cycles are complete when ``step`` begins."""
        return step >= (self.total or 0)

    def may_follow(self, cycle: int) -> bool:
        """Return whether another cycle may follow ``cycle``."""
        return cycle == 0 or (cycle == 1 and self.lines > 0)


class FunctionSchedule:
    """A schedule that the user gives as a function from step number to ``ProfilerAction``, as torch accepts it.

    The function is called once per step, in order, two steps ahead. If it raises, or returns something else, the
    recording ends, and ``on_failure`` is called with the step and the reason. A recorded step is saved with its cycle
    even if the function never returns ``RECORD_AND_SAVE``.
    """

    total: int | None = None
    least: int | None = None
    """The number of steps that a function will record is unknown."""

    def __init__(self, function: Callable[[int], object], on_failure: Callable[[int, str], None]) -> None:
        self._function = function
        self._on_failure = on_failure
        self._asked: list[Action] = []
        self._cycles: list[int] = [0]  # before each step
        self._end: int | None = None

    def action(self, step: int) -> Action:
        """Return the action for ``step``, counted from 0."""
        while len(self._asked) < step + 2:
            self._ask(len(self._asked))
        action, following = self._asked[step : step + 2]
        return Action.RECORD_AND_SAVE if action is Action.RECORD and not following.is_recording else action

    def cycle(self, step: int) -> int:
        """Return the number of the cycle that ``step`` belongs to, counted from 0."""
        while len(self._cycles) <= step:
            last = len(self._cycles) - 1
            self._cycles.append(self._cycles[last] + (self.action(last) is Action.RECORD_AND_SAVE))
        return self._cycles[step]

    def is_over(self, step: int) -> bool:
        """Return whether the function has failed before ``step``; otherwise it never ends."""
        return self._end is not None and step >= self._end

    def may_follow(self, cycle: int) -> bool:
        """Return whether another cycle may follow, which is always possible until the function fails."""
        del cycle
        return self._end is None

    def _ask(self, step: int) -> None:
        action = Action.NONE
        if self._end is None:
            try:
                answer = self._function(step)
            except Exception as exc:  # noqa: BLE001 - the user's cell must not fail because of its schedule
                self._fail(step, f"{type(exc).__name__}: {exc}")
            else:
                # torch's actions, by their names: they are of another class.
                known = Action.__members__.get(getattr(answer, "name", ""))
                action = known or self._fail(step, f"it returned {answer!r} instead of a ProfilerAction")
        self._asked.append(action)

    def _fail(self, step: int, reason: str) -> Action:
        self._end = step
        self._on_failure(step, reason)
        return Action.NONE


@dataclass(frozen=True, slots=True)
class _Planned:
    """A recording of ``steps`` steps, after one that warms the profiler up if ``has_warmup``."""

    first: int
    steps: int
    is_detailed: bool
    has_warmup: bool

    @property
    def last(self) -> int:
        return self.first + self.steps - 1


class WatchSchedule:
    """A schedule that is made while the loop runs; ``total`` and ``least`` are as for ``Schedule``.

    The number of a cycle is that of the recordings planned before it. ``plan`` must name a step whose action nobody
    has asked for.
    """

    total: int | None = None

    def __init__(self) -> None:
        self._planned: list[_Planned] = []
        self._lasts: list[int] = []

    @property
    def least(self) -> int | None:
        """The number of steps until the first recording is complete."""
        return self._lasts[0] + 1 if self._lasts else None

    def plan(self, first: int, steps: int, *, is_detailed: bool, has_warmup: bool = True) -> None:
        """Record ``steps`` steps from step ``first`` on."""
        planned = _Planned(first, steps, is_detailed, has_warmup)
        self._planned.append(planned)
        self._lasts.append(planned.last)

    def action(self, step: int) -> Action:
        """Return the action for ``step``, counted from 0."""
        cycle = self.cycle(step)
        if cycle == len(self._planned):
            return Action.NONE
        planned = self._planned[cycle]
        if step < planned.first:
            return Action.WARMUP if planned.has_warmup and step == planned.first - 1 else Action.NONE
        return Action.RECORD if step < planned.last else Action.RECORD_AND_SAVE

    def cycle(self, step: int) -> int:
        """Return the number of the cycle that ``step`` belongs to, counted from 0."""
        return bisect_left(self._lasts, step)

    def is_detailed(self, cycle: int) -> bool:
        """Return whether details are recorded in a cycle."""
        return cycle < len(self._planned) and self._planned[cycle].is_detailed

    def is_planned_after(self, step: int) -> bool:
        """Return whether a cycle ends after ``step``."""
        return self.cycle(step + 1) < len(self._planned)

    def is_over(self, step: int) -> bool:
        """Return False: it goes on as long as the loop."""
        del step
        return False

    def may_follow(self, cycle: int) -> bool:
        """Return True: another cycle may always follow."""
        del cycle
        return True


AnySchedule = Schedule | TimesThenDetails | FunctionSchedule | WatchSchedule
# A loop with at least this many steps gets one idle and one warm-up step before three recorded ones.
ROOMY_LENGTH = 5
DEFAULT_ACTIVE = 3
# Lines of functions are timed in so many steps, after one in which nothing is recorded: the profiler is set up by then.
LINES_STEPS = 1
_IDLE_BEFORE_LINES = 1
# The optimizer may step once or a thousand times, so recording begins with the first step, and has at most this many.
OPTIMIZER_ACTIVE = 4


# Loops often do something in every second, fourth or eighth step only, such as the step of an optimizer that gradients
# are accumulated for. So details begin as many steps after the times, as far as the loop goes; then both have the same.
_PERIODS = (8, 4)
# A loop whose length is unknown may end soon.
_PERIOD_IF_UNKNOWN = 4
# Numbers of steps of a loop in which details need a step that the times alone would leave idle, or record.
_TIGHT = (5, 6)
# The schedule of two passes for a loop with at least this many steps. The first step also sets up what later ones use,
# so it is skipped if there are enough steps. A shorter loop has too few for a warm-up in both passes.
_TWO_PASSES = (
    (13, Schedule(skip_first=1, wait=4, warmup=1, active=DEFAULT_ACTIVE, repeat=2, skip_first_wait=True)),
    (9, Schedule(skip_first=1, warmup=1, active=DEFAULT_ACTIVE, repeat=2)),
    (7, Schedule(skip_first=1, warmup=1, active=2, repeat=2)),
    (6, Schedule(warmup=1, active=2, repeat=2)),
    (5, Schedule(skip_first=1, warmup=1, active=1, repeat=2)),
    (4, Schedule(warmup=1, active=1, repeat=2)),
)


def resolve_two_passes(options: ScheduleOptions, *, how: str, length: int | None, done: int = 0) -> Schedule | None:
    """Return a schedule of two equal cycles, or ``None`` if the loop is known to be too short for them.

    Options that were not set follow the length of the loop, as in ``resolve_schedule``. The number of optimizer steps
    is not known in advance, so the first ones are recorded, without a warm-up. There is always a step between the
    passes. ``done`` is as for ``resolve_schedule``.
    """
    if how == "cell":
        return None
    if not options.is_adaptive:
        schedule = _after(_apart(_completed(replace(options, repeat=2), how, length)), done)
        return schedule if length is None or (schedule.total or 0) <= length else None
    if how == "optimizer":
        return _apart(Schedule(active=OPTIMIZER_ACTIVE - 1, repeat=2))
    fitting = (
        after
        for least, schedule in _TWO_PASSES
        if (after := _after(schedule, done))
        and _has_room(length, least + after.skip_first - schedule.skip_first, schedule.period)
    )
    return next(fitting, None)


def _has_room(length: int | None, steps: int, period: int) -> bool:
    """Return whether a loop has so many steps; one of unknown length may end before those of a long ``period``."""
    return period <= _PERIOD_IF_UNKNOWN if length is None else length >= steps


def resolve_auto(
    options: ScheduleOptions, *, how: str, length: int | None, done: int = 0, has_lines: bool = False
) -> TimesThenDetails | None:
    """Return a schedule of one cycle of times and one of details, or ``None`` if the loop is too short for both.

    The times are those of ``resolve_schedule``, but for a loop of five or six steps, which gives up idle ones and, if
    it must, one that is recorded. With ``has_lines``, one of lines follows if there are enough steps; details then have
    fewer if they must. ``done`` is as for ``resolve_schedule``.
    """
    if how == "cell":
        return None
    once = options if options.is_adaptive else replace(options, repeat=1)
    times = resolve_schedule(once, how=how, length=length, done=done)
    if options.is_adaptive and how != "optimizer" and not done and length in _TIGHT:
        times = Schedule(warmup=1, active=length - 3)
    if times.total is None:
        return None
    left = None if length is None else length - times.total
    most = min(times.active, DEFAULT_ACTIVE)
    lines = LINES_STEPS if has_lines else 0
    if how == "optimizer":
        return TimesThenDetails(times=times, gap=1, details=most, has_warmup=False, lines=lines)
    for_lines = _IDLE_BEFORE_LINES + LINES_STEPS
    if has_lines and left is not None:
        if left < 1 + 1 + for_lines:  # a step between, and one with details
            lines = 0
        else:
            left -= for_lines
    if left is not None and left <= 1:
        return None
    gap = _steps_between(times.active, most, left)
    return TimesThenDetails(times=times, gap=gap, details=most if left is None else min(most, left - gap), lines=lines)


def _steps_between(times: int, details: int, left: int | None) -> int:
    """Return the number of steps between so many steps of times and of details, at least one.

    ``left`` is the number of steps of the loop after those of the times, if known.
    """
    periods = _PERIODS if left is not None else (_PERIOD_IF_UNKNOWN,)
    gaps = (-times % period or period for period in periods)
    return next((gap for gap in gaps if left is None or gap + details <= left), 1)


def _apart(schedule: Schedule) -> Schedule:
    """Return the schedule with an idle step between its cycles, unless they already have steps between them.

    If a range is open while one recording ends and the next begins, torch 2.13 writes into memory that it has released.
    The step of an optimizer is such a range: its hook runs inside it.
    """
    is_apart = schedule.wait + schedule.warmup > 0
    return schedule if is_apart else replace(schedule, wait=1, skip_first_wait=True)


def resolve_schedule(options: ScheduleOptions, *, how: str, length: int | None, done: int = 0) -> Schedule:
    """Return the schedule for these options, and for the number of steps in the loop if it is known.

    Without options the schedule fits the loop, so that even a loop of one step is recorded. If some options are set,
    the others have the defaults of ``torch.profiler.schedule``: no skipped steps, and cycles until the loop ends. torch
    has no default for ``wait``, ``warmup`` and ``active``; here they are no idle step, one warm-up step if the loop is
    long enough, and three active steps or as many as fit.

    The first ``done`` steps are over when the schedule begins, so they are idle ones.
    """
    length = 1 if how == "cell" else length
    if not options.is_adaptive:
        return _after(_completed(options, how, length), done)
    return _adaptive_after(length, done) if done else _adaptive(how, length)


def may_begin_late(options: ScheduleOptions) -> bool:
    """Return whether the first step is idle if the schedule may choose that."""
    waits = bool(options.wait) and not options.skip_first_wait
    return options.is_adaptive or bool(options.skip_first) or waits


def _after(schedule: Schedule, done: int) -> Schedule:
    """Return a schedule that begins with at least ``done`` idle steps."""
    idle = 0
    while idle < done and schedule.action(idle) is Action.NONE:
        idle += 1
    return replace(schedule, skip_first=schedule.skip_first + done - idle)


def _adaptive_after(length: int | None, done: int) -> Schedule:
    """Return the schedule of a loop of which ``done`` steps are over: they have warmed it up, but not the profiler."""
    left = DEFAULT_ACTIVE + 1 if length is None else max(length - done, 1)
    warmup = 1 if left > 1 else 0
    return Schedule(wait=done, warmup=warmup, active=min(left - warmup, DEFAULT_ACTIVE))


def _adaptive(how: str, length: int | None) -> Schedule:
    if how == "optimizer":
        return Schedule(active=OPTIMIZER_ACTIVE)
    if length is None or length >= ROOMY_LENGTH:
        return Schedule(wait=1, warmup=1, active=DEFAULT_ACTIVE)
    wait, warmup, active = {4: (1, 1, 2), 3: (0, 1, 2), 2: (0, 1, 1)}.get(length, (0, 0, 1))
    return Schedule(wait=wait, warmup=warmup, active=active)


def _completed(options: ScheduleOptions, how: str, length: int | None) -> Schedule:
    skip_first, wait = options.skip_first or 0, options.wait or 0
    repeat = options.repeat or 0
    spared = wait if options.skip_first_wait else 0
    room = None if length is None else (length - skip_first + spared) // max(repeat, 1) - wait
    warmup = options.warmup
    if warmup is None:
        # If no optimizer steps, the whole code is one step, which a warm-up step would leave out.
        has_room = how != "optimizer" if room is None else room > (options.active or 1)
        warmup = 1 if has_room else 0
    active = options.active
    if active is None:
        active = DEFAULT_ACTIVE if room is None else min(max(room - warmup, 1), DEFAULT_ACTIVE)
    return Schedule(
        wait=wait,
        warmup=warmup,
        active=active,
        repeat=repeat,
        skip_first=skip_first,
        skip_first_wait=options.skip_first_wait,
    )
