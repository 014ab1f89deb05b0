"""Why does a run have no steps, fewer than were asked for, or less in them?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.capture.schedule import FunctionSchedule, Schedule
from torchprof_magic.units import counted

if TYPE_CHECKING:
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.capture.recorder import Recorder
    from torchprof_magic.model.meta import Stepping

_MORE_STEPS = "Run more steps, or ask for fewer with --wait, --warmup and --active."
_FROM_THE_FIRST = "Mend what ended it, or record from its first step on with --wait 0 --warmup 0."
# What says itself why a run ended early, and what to do.
_REASONS = ("capture.budget", "capture.taken_over", "capture.device_stopped", "capture.gave_up", "capture.reclaimed")
_PLACES = {"wait": "during the wait", "warmup": "during the warm-up", "active": "while recording"}


def note_ending(problems: ProblemLog, recorder: Recorder | None, stepping: Stepping, *, is_cut: bool) -> None:
    """Note what the user's code left out, what a run that ended too early lacks, where it ended, and what to do.

    ``is_cut``: an exception ended it.
    """
    if recorder is None:
        problems.note(
            "capture.never_started",
            "data_loss",
            "Nothing was recorded: the loop that should have been stepped was never entered.",
            "Choose another loop with --step line:N, or record the whole cell with --step cell.",
        )
        return
    recorder.pauses.note(problems)
    schedule, steps = recorder.schedule, [mark for cycle in recorder.cycles for mark in cycle.steps]
    wanted, place = schedule.total, _PLACES.get(recorder.phase, "early")
    seen = counted(recorder.step, "step") if wanted is None else f"{recorder.step} of {counted(wanted, 'step')}"
    reached = f"the run ended {place}, after {seen}"
    if not steps:
        if not problems.has_loss:  # else a better reason is known
            fix = _FROM_THE_FIRST if is_cut else _fix_for_none(recorder, stepping)
            problems.note("capture.nothing_recorded", "data_loss", f"No step was recorded: {reached}.", fix)
    elif wanted is not None and recorder.phase != "done" and (is_cut or stepping.how != "optimizer"):
        complete = sum(mark.is_complete for mark in steps)
        asked = schedule.active * schedule.repeat if isinstance(schedule, Schedule) else len(steps)
        text = f"Partial: {complete} of {asked} steps are complete; {reached}."
        # An exception is shown above the report.
        fix = "" if is_cut or problems.has(*_REASONS) else _MORE_STEPS
        problems.note("capture.partial", "warning", text, fix)


def _fix_for_none(recorder: Recorder, stepping: Stepping) -> str:
    if isinstance(recorder.schedule, FunctionSchedule) and recorder.schedule.is_over(recorder.step):
        return "Mend the schedule: it ended the recording before anything was recorded."
    if recorder.step == 0 and stepping.how == "loop":
        return "The loop had no items, or its first step did not end."
    if recorder.step == 0 and stepping.how == "manual":
        return "step() was never called: call it at the end of every step, or use --step auto."
    if stepping.how == "loop" and stepping.line is not None:
        return f"{_MORE_STEPS} Line {stepping.line} was stepped: for another loop, use --step line:N."
    return _MORE_STEPS
