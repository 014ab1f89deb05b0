"""Recording with torch's profiler: each cycle becomes a verified trace file. Only this package imports torch."""

from torchprof_magic.capture.checks.doctor import Check, examine
from torchprof_magic.capture.interrupts.guard import open_to_interrupts, protected
from torchprof_magic.capture.lengths import count_ahead
from torchprof_magic.capture.live_profile import LiveProfile
from torchprof_magic.capture.output.crash_marker import FOLDER_PREFIX, Unfinished, take_unfinished
from torchprof_magic.capture.parts import (
    CHECKS,
    CLEANUP,
    COLLECTIONS,
    EARLY,
    FREE_MEMORY,
    FREED_EVENTS,
    FUNCTIONS,
    KEPT_TRACES,
    LINES,
    MARKED_LOOP,
    PROGRESS,
    RESTART,
    SAMPLE,
)
from torchprof_magic.capture.progress import STAGES, Progress
from torchprof_magic.capture.schedule import Action, Schedule, resolve_schedule
from torchprof_magic.capture.session import CaptureSession, StepMaker, live_session
from torchprof_magic.capture.switch import switch_off
from torchprof_magic.capture.torch_api.compat import available_activities, busy_profiler
from torchprof_magic.capture.torch_api.cuda_graphs import prime
from torchprof_magic.capture.torch_api.fx_names import name_compiled_code
from torchprof_magic.capture.torch_api.kinds import TENSOR_METHODS, holds_tensor, is_model, is_parameter, is_tensor
from torchprof_magic.capture.watch.holders import find_holders
from torchprof_magic.capture.watch.lines import LineMarks
from torchprof_magic.capture.watch.pauses import Pause
from torchprof_magic.capture.watch.program import ProgramWatch

__all__ = [
    "CHECKS",
    "CLEANUP",
    "COLLECTIONS",
    "EARLY",
    "FOLDER_PREFIX",
    "FREED_EVENTS",
    "FREE_MEMORY",
    "FUNCTIONS",
    "KEPT_TRACES",
    "LINES",
    "MARKED_LOOP",
    "PROGRESS",
    "RESTART",
    "SAMPLE",
    "STAGES",
    "TENSOR_METHODS",
    "Action",
    "CaptureSession",
    "Check",
    "LineMarks",
    "LiveProfile",
    "Pause",
    "ProgramWatch",
    "Progress",
    "Schedule",
    "StepMaker",
    "Unfinished",
    "available_activities",
    "busy_profiler",
    "count_ahead",
    "examine",
    "find_holders",
    "holds_tensor",
    "is_model",
    "is_parameter",
    "is_tensor",
    "live_session",
    "name_compiled_code",
    "open_to_interrupts",
    "prime",
    "protected",
    "resolve_schedule",
    "switch_off",
    "take_unfinished",
]
