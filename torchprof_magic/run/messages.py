"""One-line messages for when no report can show them."""

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
    """Print what the next interrupt does while the recording is being saved; ``interrupts`` counts them."""
    if interrupts == 1:
        say("Saving the recording. Interrupt again to skip the report.")
    else:
        say("Report skipped. Interrupt again to discard the recording.")


def say_unread(recording: Recording, *, is_remembered: bool, is_magic: bool, failure: str = "") -> None:
    """Print where the recording is, because an interrupt, or ``failure``, prevented its report.

    ``is_remembered``: the report was made, but not shown.
    """
    paths = [cycle.path for cycle in recording.cycles]
    if not paths:
        lost = [problem.message for problem in recording.problems if problem.severity == "data_loss"]
        say(" ".join(["No trace was saved.", *lost]))
    elif is_remembered:
        what = f"The report could not be shown ({failure})." if failure else "Interrupted before the report was shown."
        say(f"{what} Show it with: {'%torchprof last' if is_magic else 'torchprof_magic.last'}")
    else:
        what = f"The report could not be made ({failure})." if failure else "Analysis interrupted."
        more = f" (the first of {counted(len(paths), 'cycle')})" if len(paths) > 1 else ""
        how = _opening(paths[0], is_magic=is_magic)
        say(f"{what} The trace is kept in {paths[0].parent}. Open it with: {how}{more}")


def say_unfinished(runs: Sequence[Unfinished]) -> None:
    """Print which runs were cut off because their kernel died, and how to open what is left of them."""
    for run in runs:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.began_unix_s))
        say(f"The run {run.title} of {at} did not finish, because its process ended. {_left_of(run.paths)}")


def _left_of(paths: Sequence[Path]) -> str:
    if not paths:
        return "Nothing was saved."
    how = _opening(paths[0], is_magic=True)
    if len(paths) == 1:
        return f"One cycle was saved. Open it with: {how}"
    return f"{len(paths)} cycles were saved. Open the first with: {how}"


def _opening(path: Path, *, is_magic: bool) -> str:
    return f"%torchprof load {shlex.quote(str(path))}" if is_magic else f"torchprof_magic.load({str(path)!r})"


def say(text: str) -> None:
    """Print one line, prefixed with the name of the extension."""
    print(f"torchprof: {printable(text)}")  # noqa: T201 - this is the output
