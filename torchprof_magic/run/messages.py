"""One-line messages for when no report can show them."""

from __future__ import annotations

import shlex
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.model.units import counted, format_bytes, print_text, printable, short_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchprof_magic.capture import Unfinished
    from torchprof_magic.model.recording import Recording
    from torchprof_magic.report.trace_report import Report

TOP_HOLDERS = 5


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


def say_holders(report: Report) -> None:
    """Print which lines held the memory of each device on which an allocation failed, if a snapshot shows it."""
    snapshot = report.snapshot
    for device in snapshot.devices.filter(pl.col("out_of_memory") > 0).to_dicts():
        held = snapshot.by_line("end", device["device"])
        whole, blocks = format_bytes(int(held["size_bytes"].sum())), counted(int(held["blocks"].sum()), "block")
        reserved = format_bytes(device["reserved_bytes"])
        say(f"Out of memory on {device['device']}. In use: {whole} in {blocks}, of {reserved} reserved:")
        for row in held.head(TOP_HOLDERS).to_dicts():
            say(f"  {format_bytes(row['size_bytes']):>8}  {_holder(row)} ({counted(row['blocks'], 'block')})")
        if held.height > TOP_HOLDERS:
            say(f"  and {counted(held.height - TOP_HOLDERS, 'other place')}; report.snapshot.by_line('end') lists all")


def _holder(row: dict[str, object]) -> str:
    file, _, line = str(row["line"] or "").rpartition(":")
    place = f"{short_file(file)}:{line}" if file else ""
    return f"{place} {row['function'] or ''}".strip() or "allocated before the history was recorded, or without stacks"


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
    with suppress(Exception):  # the stdout of the user may be closed, or anything
        print_text(f"torchprof: {printable(text)}")
