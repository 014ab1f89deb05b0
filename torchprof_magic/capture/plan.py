"""Decides which steps are recorded, and with which options, once it is known what makes the steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.capture.schedule import (
    AnySchedule,
    FunctionSchedule,
    WatchSchedule,
    resolve_auto,
    resolve_schedule,
    resolve_two_passes,
)
from torchprof_magic.model.units import counted
from torchprof_magic.options import ProfileOptions, asked_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.options import ScheduleOptions


class Plan(NamedTuple):
    """Which steps are recorded, and the options of each pass over them."""

    schedule: AnySchedule
    passes: tuple[ProfileOptions, ...]


class Planner:
    """Makes the plan of a session. ``how`` says what makes the steps: ``Stepping.how``.

    ``may_time_lines`` is called, at most once, where lines of functions would get a cycle of their own. What the plan
    leaves out is noted in ``problems``.
    """

    def __init__(
        self, options: ProfileOptions, how: str, problems: ProblemLog, may_time_lines: Callable[[], bool]
    ) -> None:
        self._options = options
        self._how = how
        self._problems = problems
        self._may_time_lines = may_time_lines

    def plan(self, length: int | None, done: int) -> Plan:
        """Return the plan for a loop of ``length`` steps, if known, of which ``done`` are over.

        A loop that is too short for two passes gets one.
        """
        options = self._options
        if options.watch_s is not None:
            return self._watched(done)
        if options.schedule_function is not None:
            return Plan(FunctionSchedule(options.schedule_function, self._note_failure), (options,))
        if options.two_pass:
            return self._auto(length, done) if options.is_auto else self._two_passes(length, done)
        return Plan(self._resolved(options.schedule, length, done), options.passes[-1:])

    def _watched(self, done: int) -> Plan:
        """Watch the whole run; code without steps is recorded once."""
        options = self._options
        if self._how == "cell":
            self._problems.note("capture.not_watched")
            return Plan(self._resolved(options.schedule, None, done), options.passes[:1])
        return Plan(WatchSchedule(), options.passes)

    def _two_passes(self, length: int | None, done: int) -> Plan:
        options = self._options
        schedule = resolve_two_passes(options.schedule, how=self._how, length=length, done=done)
        if schedule is not None:
            return Plan(schedule, options.passes)
        self._problems.note("capture.one_pass", reason=self._lack_of_steps(length))
        return Plan(self._resolved(self._one_cycle(), length, done), options.passes[-1:])

    def _auto(self, length: int | None, done: int) -> Plan:
        """Nobody asked for details, so they come with what fits after the times."""
        options, passes, has_lines = self._options, self._options.passes, self._may_time_lines()
        schedule = resolve_auto(options.schedule, how=self._how, length=length, done=done, has_lines=has_lines)
        reason = self._lack_of_steps(length)
        if schedule is None:
            missing = asked_for((*options.details, *(["lines"] if has_lines else ())))
            self._problems.note("capture.only_times", reason=reason, **missing)
            return Plan(self._resolved(options.schedule, length, done), passes[:1])
        if has_lines and not schedule.lines:
            self._problems.note("capture.no_lines", reason=reason)
        return Plan(schedule, passes if schedule.lines else passes[:2])

    def _resolved(self, asked: ScheduleOptions, length: int | None, done: int) -> AnySchedule:
        return resolve_schedule(asked, how=self._how, length=length, done=done)

    def _one_cycle(self) -> ScheduleOptions:
        """Return the schedule options of the one cycle that stands in for two passes."""
        asked = self._options.schedule
        return asked if asked.is_adaptive else replace(asked, repeat=1)

    def _lack_of_steps(self, length: int | None) -> str:
        if self._how == "cell":
            return "there are no steps to repeat"
        return f"the loop has {counted(length or 0, 'step')}"

    def _note_failure(self, step: int, reason: str) -> None:
        self._problems.note("capture.schedule_failed", step=step, reason=reason)
