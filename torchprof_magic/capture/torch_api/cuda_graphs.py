"""CUDA graphs and recordings: what must happen before a graph is captured."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchprof_magic.capture.checks import preflight
from torchprof_magic.capture.interrupts.guard import protected
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.capture.torch_api.engine import Engine
from torchprof_magic.capture.torch_api.stderr_filter import StderrFilter
from torchprof_magic.options import ProfileOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture.problems import ProblemLog

# The processes in which graphs can be recorded; a forked child is not among them.
_primed: set[int] = set()


@protected
def prime() -> bool:
    """Run torch's profiler once, so that CUDA graphs captured later can be recorded; return whether that was needed.

    With CUDA older than 12.6, a graph that was captured before the first recording can crash the process during it.
    Does nothing with a newer CUDA, without CUDA, or the second time. Raises ``ProfilerBusyError`` if a profiler runs.
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
    """Return whether ``prime`` is needed in this process."""
    return compat.cuda_before_graph_safe() is not None and os.getpid() not in _primed


def watch_cupti(problems: ProblemLog) -> Callable[[], None]:
    """Return a function that notes if torch's profiler has meanwhile decided to keep CUPTI loaded."""
    was_kept = compat.is_cupti_kept()

    def note() -> None:
        if compat.is_cupti_kept() and not was_kept:
            problems.note("capture.cupti_kept")

    return note


def note_capture(problems: ProblemLog, step: int) -> None:
    """Note if torch's profiler starts while a CUDA graph is being captured."""
    if compat.is_capturing():
        problems.note("capture.during_graph_capture", step=step)
