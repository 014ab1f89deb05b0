"""What does the user want recorded, and on which steps?"""

from __future__ import annotations

from dataclasses import dataclass

from torchprof_magic.errors import OptionsError

ACTIVITIES = ("cpu", "cuda", "xpu", "mtia", "hpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """Which steps are recorded, in torch's own terms; ``None`` means: chosen from the length of the loop.

    After ``skip_first`` steps every cycle is ``wait`` idle steps, ``warmup`` steps with the profiler running but
    nothing kept, and ``active`` recorded steps. ``repeat`` counts cycles; 0 means until the loop ends.
    """

    wait: int | None = None
    warmup: int | None = None
    active: int | None = None
    repeat: int | None = None
    skip_first: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("wait", 0), ("warmup", 0), ("active", 1), ("repeat", 0), ("skip_first", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise OptionsError(f"--{name.replace('_', '-')} must be at least {least} (got {value})")

    @property
    def is_adaptive(self) -> bool:
        """True when nothing was asked for, so that the schedule may follow the length of the loop."""
        return all(value is None for value in (self.wait, self.warmup, self.active, self.repeat, self.skip_first))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """Everything that shapes one recording. ``activities`` empty means: all that this machine has."""

    schedule: ScheduleOptions = ScheduleOptions()
    activities: tuple[str, ...] = ()
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False

    def __post_init__(self) -> None:
        unknown = [name for name in self.activities if name not in ACTIVITIES]
        if unknown:
            raise OptionsError(f"--activities: unknown {', '.join(unknown)}; choose from {', '.join(ACTIVITIES)}")
