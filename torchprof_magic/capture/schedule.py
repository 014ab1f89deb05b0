"""Which steps are idle, which warm up, and which are recorded?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from torchprof_magic.options import EVERY_STEP

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.options import ScheduleOptions


class Action(Enum):
    """What the profiler does during a step; names and values are those of ``torch.profiler.ProfilerAction``.

    ``is_recording`` is true when the events of the step are kept.
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3

    def __init__(self, value: int) -> None:
        self.is_recording = value >= 2  # noqa: PLR2004 - no property: as a call it would be in traces with stacks

    @property
    def phase(self) -> str:
        """The word shown to the user: ``wait``, ``warmup`` or ``active``."""
        return {Action.NONE: "wait", Action.WARMUP: "warmup"}.get(self, "active")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Skip ``skip_first`` steps, then ``repeat`` cycles of ``wait``, ``warmup`` and ``active`` steps; 0 = endless.

    ``skip_first_wait`` leaves the idle steps of the first cycle out. ``period`` is the number of steps in one cycle,
    ``total`` that until the last cycle is complete, ``None`` when cycles never end.
    """

    wait: int = 0
    warmup: int = 0
    active: int = 1
    repeat: int = 1
    skip_first: int = 0
    skip_first_wait: bool = False

    period: int = field(init=False)
    total: int | None = field(init=False)
    _begin: int = field(init=False, repr=False)
    """Where the first cycle begins, or would begin with its idle steps; can be negative."""

    def __post_init__(self) -> None:
        """Work out once what every step asks for."""
        period = self.wait + self.warmup + self.active
        begin = self.skip_first - (self.wait if self.skip_first_wait else 0)
        object.__setattr__(self, "period", period)
        object.__setattr__(self, "_begin", begin)
        object.__setattr__(self, "total", begin + period * self.repeat if self.repeat else None)

    def action(self, step: int) -> Action:
        """Return what happens during ``step``, counted from 0; equal to ``torch.profiler.schedule``."""
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
        """Return whether another cycle is due, or may be, after ``cycle``."""
        return self.active < EVERY_STEP and (self.repeat == 0 or cycle + 1 < self.repeat)


class FunctionSchedule:
    """A schedule that is a function of the user's, from step number to ``ProfilerAction``, as torch takes it too.

    It is asked once for each step, in order, and two steps ahead. What it raises, or returns that is no action, ends
    the recording and goes to ``on_failure`` as a sentence. A step that is recorded is saved with its cycle even if the
    function forgets ``RECORD_AND_SAVE``.
    """

    total: int | None = None
    """Nobody knows how many steps a function asks for."""

    def __init__(self, function: Callable[[int], object], on_failure: Callable[[str], None]) -> None:
        self._function = function
        self._on_failure = on_failure
        self._asked: list[Action] = []
        self._cycles: list[int] = [0]  # before each step
        self._end: int | None = None

    def action(self, step: int) -> Action:
        """Return what happens during ``step``, counted from 0."""
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
        """Return whether the function has failed before ``step``; it never says that it is done."""
        return self._end is not None and step >= self._end

    def may_follow(self, cycle: int) -> bool:
        """Return whether another cycle may come after ``cycle``, which nobody knows before the function has failed."""
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
                action = known or self._fail(step, f"it returned {answer!r}, which is no ProfilerAction")
        self._asked.append(action)

    def _fail(self, step: int, reason: str) -> Action:
        self._end = step
        self._on_failure(f"The schedule could not say what to do in step {step} ({reason}); recording ended before it.")
        return Action.NONE


AnySchedule = Schedule | FunctionSchedule
# A loop of at least this many steps has room for one idle and one warm-up step before three recorded ones.
ROOMY_LENGTH = 5
DEFAULT_ACTIVE = 3
# The optimizer hook may fire once or a thousand times, so the first step is recorded, and no more than this many.
OPTIMIZER_ACTIVE = 4


# What a loop of so many steps, or more, has room for in two passes; a first step that is recorded makes what all later
# ones use, so it is left out as soon as there is room. Below the last there is none for a warm-up in both.
_TWO_PASSES = (
    (10, Schedule(wait=1, warmup=1, active=DEFAULT_ACTIVE, repeat=2)),
    (9, Schedule(skip_first=1, warmup=1, active=DEFAULT_ACTIVE, repeat=2)),
    (7, Schedule(skip_first=1, warmup=1, active=2, repeat=2)),
    (6, Schedule(warmup=1, active=2, repeat=2)),
    (5, Schedule(skip_first=1, warmup=1, active=1, repeat=2)),
    (4, Schedule(warmup=1, active=1, repeat=2)),
)


def resolve_two_passes(options: ScheduleOptions, *, how: str, length: int | None) -> Schedule | None:
    """Return a schedule of two equal cycles, or ``None`` where the loop is known to be too short for them.

    What was not asked for follows the length of the loop, as in ``resolve_schedule``. An optimizer's steps are not
    known ahead, so the first ones are recorded, without a warm-up. There is always a step between the passes.
    """
    if how == "cell":
        return None
    if not options.is_adaptive:
        schedule = _apart(_completed(replace(options, repeat=2), length))
        return schedule if length is None or (schedule.total or 0) <= length else None
    if how == "optimizer":
        return _apart(Schedule(active=OPTIMIZER_ACTIVE - 1, repeat=2))
    fitting = (schedule for least, schedule in _TWO_PASSES if length is None or length >= least)
    return next(fitting, None)


def _apart(schedule: Schedule) -> Schedule:
    """Return the schedule with an idle step between its cycles, if nothing else lies there.

    A range that is open while one recording ends and the next begins (an optimizer's step is one, around its own hook)
    makes torch 2.13 write into memory that it has released.
    """
    is_apart = schedule.wait + schedule.warmup > 0
    return schedule if is_apart else replace(schedule, wait=1, skip_first_wait=True)


def resolve_schedule(options: ScheduleOptions, *, how: str, length: int | None) -> Schedule:
    """Turn what was asked for, and the number of steps that are coming if known, into a schedule.

    With nothing asked for, the schedule fits the loop, so that even a loop of one step shows something. With some
    flags given, the others are: no skipped and no idle steps, one warm-up step if the loop has room for it, three
    active steps or as many as fit, one cycle.
    """
    length = 1 if how == "cell" else length
    if options.is_adaptive:
        return _adaptive(how, length)
    return _completed(options, length)


def _adaptive(how: str, length: int | None) -> Schedule:
    if how == "optimizer":
        return Schedule(active=OPTIMIZER_ACTIVE)
    if length is None or length >= ROOMY_LENGTH:
        return Schedule(wait=1, warmup=1, active=DEFAULT_ACTIVE)
    wait, warmup, active = {4: (1, 1, 2), 3: (0, 1, 2), 2: (0, 1, 1)}.get(length, (0, 0, 1))
    return Schedule(wait=wait, warmup=warmup, active=active)


def _completed(options: ScheduleOptions, length: int | None) -> Schedule:
    skip_first, wait = options.skip_first or 0, options.wait or 0
    repeat = 1 if options.repeat is None else options.repeat
    spared = wait if options.skip_first_wait else 0
    room = None if length is None else (length - skip_first + spared) // max(repeat, 1) - wait
    warmup = options.warmup
    if warmup is None:
        warmup = 1 if room is None or room > (options.active or 1) else 0
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
