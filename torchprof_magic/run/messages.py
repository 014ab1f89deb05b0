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
    more = f" (the first of {counted(len(paths), 'cycle')})" if len(paths) > 1 else ""
    how = _opening(paths[0], is_magic=is_magic)
    _say(f"the analysis was stopped; the raw trace is in {paths[0].parent} and opens with: {how}{more}")


def say_unfinished(runs: Sequence[Unfinished]) -> None:
    """Name the runs that ended with their kernel, and what is left of them."""
    for run in runs:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.began_unix_s))
        left = _saved(run.paths) if run.paths else "nothing of it was saved"
        _say(f"the run {printable(run.title)} of {at} did not finish, because its process ended; {left}")


def _saved(paths: Sequence[Path]) -> str:
    how = _opening(paths[0], is_magic=True)
    if len(paths) == 1:
        return f"one cycle of it was saved, and opens with: {how}"
    return f"{len(paths)} cycles of it were saved, and the first opens with: {how}"


def _opening(path: Path, *, is_magic: bool) -> str:
    return f"%torchprof load {shlex.quote(str(path))}" if is_magic else f"torchprof_magic.load({str(path)!r})"


def _say(text: str) -> None:
    print(f"torchprof: {text}")  # noqa: T201 - this is the output
