"""Problems of runs that recorded no steps, or fewer than requested."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.capture.schedule import FunctionSchedule, Schedule, TimesThenDetails
from torchprof_magic.model.units import counted, format_ns

if TYPE_CHECKING:
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.capture.recorder import Recorder
    from torchprof_magic.model.meta import StepMark, Stepping, TwoPass

# Problems that already say why a recording ended early and what to do.
_REASONS = (
    "capture.budget",
    "capture.budget_files",
    "capture.busy",
    "capture.taken_over",
    "capture.device_stopped",
    "capture.gave_up",
    "capture.failed",
    "capture.reclaimed",
    "capture.no_step_seen",
)
# Recording a step costs more than this, so it is measured by the steps that ran without the profiler.
TINY_NS = 10_000
LEAST_PLAIN = 3
_PLACES = {"wait": "during the wait", "warmup": "during the warm-up", "active": "while recording"}


def note_ending(problems: ProblemLog, recorder: Recorder | None, stepping: Stepping, *, is_cut: bool) -> None:
    """Note pauses, and which steps are missing because the run ended early. ``is_cut``: an exception ended it."""
    if recorder is None:
        if not problems.has(*_REASONS):  # otherwise a better reason is known
            problems.note("capture.never_started")
        return
    recorder.pauses.note(problems)
    recorder.rests.note(problems)
    schedule, steps = recorder.schedule, [mark for cycle in recorder.cycles for mark in cycle.steps]
    # An endless schedule has no total, but its first cycle has an end.
    is_auto = isinstance(schedule, TimesThenDetails)
    total = schedule.least if schedule.total is None or is_auto else schedule.total
    place = _PLACES.get(recorder.phase, "early")
    seen = counted(recorder.step, "step") if total is None else f"{recorder.step} of {counted(total, 'step')}"
    plain = sorted(recorder.plain_step_ns)
    length = plain[len(plain) // 2] if len(plain) >= LEAST_PLAIN else TINY_NS
    if steps and length < TINY_NS and not problems.has(*_REASONS):
        problems.note("capture.tiny_steps", length=format_ns(length))
    if not steps:
        if not problems.has_loss:  # otherwise a better reason is known
            _note_nothing(problems, recorder, stepping, phase=place, steps=seen, is_cut=is_cut)
    elif is_auto and total is not None and recorder.step >= total:
        # The times are there. The report says what is known of the details.
        _note_lines(problems, recorder.two_pass, steps, is_cut=is_cut)
    elif total is not None and recorder.phase != "done" and (is_cut or stepping.how not in ("optimizer", "model")):
        # An exception is shown above the report.
        code = "capture.partial" if is_cut or problems.has(*_REASONS) else "capture.too_few_steps"
        complete = sum(mark.is_complete for mark in steps)
        planned = schedule.times if isinstance(schedule, TimesThenDetails) else schedule
        requested = planned.active * max(planned.repeat, 1) if isinstance(planned, Schedule) else len(steps)
        if schedule.total is not None or complete < requested:
            problems.note(code, complete=complete, requested=requested, phase=place, steps=seen)


def _note_lines(problems: ProblemLog, passes: TwoPass | None, steps: list[StepMark], *, is_cut: bool) -> None:
    """Note that lines of functions were not timed, if they would have been in a later step."""
    if passes is None or passes.lines_cycle is None or problems.has(*_REASONS, "capture.lines_left_out"):
        return
    has_details = any(mark.cycle == passes.details_cycle for mark in steps)
    has_lines = any(mark.cycle == passes.lines_cycle and mark.is_complete for mark in steps)
    if not has_lines and (has_details or not is_cut):  # without details, these are named with them
        problems.note("capture.no_lines", reason="the loop ended before the step that times them was over")


def _note_nothing(
    problems: ProblemLog, recorder: Recorder, stepping: Stepping, *, phase: str, steps: str, is_cut: bool
) -> None:
    """Note that no step was recorded, with the most likely reason."""
    if is_cut:
        problems.note("capture.stopped_too_soon", phase=phase, steps=steps)
    elif isinstance(recorder.schedule, FunctionSchedule) and recorder.schedule.is_over(recorder.step):
        problems.note("capture.nothing_scheduled", phase=phase, steps=steps)
    elif recorder.step == 0 and stepping.how == "loop":
        problems.note("capture.empty_loop", phase=phase, steps=steps)
    elif recorder.step == 0 and stepping.how == "manual":
        problems.note("capture.step_not_called")
    elif stepping.how == "loop" and stepping.line is not None:
        problems.note("capture.loop_too_short", phase=phase, steps=steps, line=stepping.line)
    else:
        problems.note("capture.nothing_recorded", phase=phase, steps=steps)
