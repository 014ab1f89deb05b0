"""Why does a run have no steps, fewer than were asked for, or less in them?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.capture.schedule import Schedule

if TYPE_CHECKING:
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.capture.recorder import Recorder
    from torchprof_magic.meta import Stepping

_PLACES = {"wait": "during the wait", "warmup": "during the warm-up", "active": "while recording"}


def note_ending(problems: ProblemLog, recorder: Recorder | None, stepping: Stepping) -> None:
    """Note what the user's code left out, what a run that ended too early lacks, where it ended, and what to do."""
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
    reached = f"the run ended {place}, after {recorder.step} of {wanted or 'endless'} steps"
    if not steps:
        if not problems.has_loss:  # else a better reason is known
            fix = _fix_for_none(recorder, stepping)
            problems.note("capture.nothing_recorded", "data_loss", f"No step was recorded: {reached}.", fix)
    elif wanted is not None and recorder.phase != "done" and stepping.how != "optimizer":
        complete = sum(mark.is_complete for mark in steps)
        asked = schedule.active * schedule.repeat if isinstance(schedule, Schedule) else len(steps)
        text = f"Partial: {complete} of {asked} steps are complete; {reached}."
        problems.note("capture.partial", "warning", text)


def _fix_for_none(recorder: Recorder, stepping: Stepping) -> str:
    if recorder.step == 0 and stepping.how == "loop":
        return "The loop had no items, or its first step did not end."
    if recorder.step == 0 and stepping.how == "manual":
        return "step() was never called: call it at the end of every step, or use --step auto."
    return "Run more steps, or ask for fewer with --wait, --warmup and --active."
