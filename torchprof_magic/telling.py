"""What is the user told in a line of text, because there is no report to tell it?"""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

from torchprof_magic.units import counted, printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchprof_magic.capture import Recording, Unfinished


def say_waiting(interrupts: int) -> None:
    """Answer an interrupt that has to wait until the recording is safe; ``interrupts`` counts them."""
    if interrupts == 1:
        _say("the recording is being finished; interrupt again to do without its report")
    else:
        _say("there will be no report; interrupt again to give up the recording, too")


def say_unread(recording: Recording, *, is_remembered: bool, is_magic: bool) -> None:
    """Say where the recording is when an interrupt ended its analysis. ``is_remembered``: the report was ready."""
    lost = [problem.message for problem in recording.problems if problem.severity == "data_loss"]
    paths = [cycle.path for cycle in recording.cycles]
    if not paths:
        _say(f"the analysis was stopped, and there is no trace. {' '.join(lost)}".rstrip())
        return
    if is_remembered:
        again = "%torchprof last" if is_magic else "torchprof_magic.last"
        _say(f"the report is not shown; see it with: {again}")
        return
    _say(f"the analysis was stopped; the raw trace is in {paths[0].parent} {_opening(paths, is_magic=is_magic)}")


def say_unfinished(runs: Sequence[Unfinished]) -> None:
    """Name the runs that ended with their kernel, and what is left of them."""
    for run in runs:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.began_unix_s))
        left = "nothing of it was saved"
        if run.paths:
            left = f"{counted(len(run.paths), 'cycle')} of it was saved {_opening(run.paths, is_magic=True)}"
        _say(f"the run {printable(run.title)} of {at} did not finish, because its process ended; {left}")


def _opening(paths: Sequence[Path], *, is_magic: bool) -> str:
    path = str(paths[0])
    how = f"%torchprof load {shlex.quote(path)}" if is_magic else f"torchprof_magic.load({path!r})"
    return f"and opens with: {how}" + (f" (the first of {counted(len(paths), 'cycle')})" if len(paths) > 1 else "")


def _say(text: str) -> None:
    print(f"torchprof: {text}")  # noqa: T201 - this is the output
