"""Which steps are idle, which warm up, and which are recorded?"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchprof_magic.options import ScheduleOptions


class Action(Enum):
    """What the profiler does during a step; names and values are those of ``torch.profiler.ProfilerAction``."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3

    @property
    def is_recording(self) -> bool:
        """True when the events of the step are kept."""
        return self is Action.RECORD or self is Action.RECORD_AND_SAVE

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


# A loop of at least this many steps has room for one idle and one warm-up step before three recorded ones.
ROOMY_LENGTH = 5
DEFAULT_ACTIVE = 3
# The optimizer hook may fire once or a thousand times, so the first step is recorded, and no more than this many.
OPTIMIZER_ACTIVE = 4


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
