"""Are CUDA graphs in the way of a recording?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchprof_magic.capture import preflight
from torchprof_magic.capture.interrupts.guard import protected
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.capture.torch_api.engine import Engine
from torchprof_magic.capture.torch_api.stderr_filter import StderrFilter
from torchprof_magic.options import ProfileOptions

if TYPE_CHECKING:
    from torchprof_magic.capture.problems import ProblemLog

# The processes in which graphs can be recorded now; a forked child has to do it again.
_primed: set[int] = set()


@protected
def prime() -> bool:
    """Run torch's profiler once, so that CUDA graphs captured from now on can be recorded; return if that was needed.

    With CUDA before 12.6 a graph that was captured before the first recording can crash the process in it. Does
    nothing with a newer CUDA, without one, or the second time. Raises ``ProfilerBusyError`` while a profiler runs.
    """
    if not needs_priming():
        return False
    preflight.check_busy()
    compat.keep_cupti()
    quiet = StderrFilter()
    engine = Engine(ProfileOptions())
    try:
        with quiet.held():
            engine.prepare()
            engine.start()
            compat.touch_device()
            engine.stop()
    except BaseException:
        engine.abandon()
        raise
    finally:
        quiet.close()
    _primed.add(os.getpid())
    return True


def needs_priming() -> bool:
    """Return whether ``prime`` has something to do here."""
    return compat.cuda_before_graph_safe() is not None and os.getpid() not in _primed


def note_capture(problems: ProblemLog, step: int) -> None:
    """Note that torch's profiler is brought up in the middle of a capture, if it is."""
    if compat.is_capturing():
        problems.note(
            "capture.during_graph_capture",
            "warning",
            f"At step {step} the profiler started while a CUDA graph was being captured: kernels do not run in a "
            "capture, so they are not in the recording, and the capture itself may fail.",
            "Capture the graph before the first recorded step, and record its replays.",
        )
