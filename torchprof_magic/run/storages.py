"""Turns what a live run noted about the memory of the host into the frame ``storages`` of its trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.model.trace import FRAME_SCHEMAS, MAX_SUM
from torchprof_magic.run.scopes import clock_shift_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.recording import ProgramMarks, Recording
    from torchprof_magic.model.trace import Trace

_SCHEMA = FRAME_SCHEMAS["storages"]


def with_storages(trace: Trace, recording: Recording) -> Trace:
    """Return the trace with its frame ``storages``, on its clock, if all cycles that recorded memory have them."""
    recorded = set(trace.memory["cycle"].unique().to_list())
    marks = [each for each in recording.program if each.cycle in recorded]
    frames = [frame for each in marks if (frame := _of_cycle(trace, each)) is not None]
    if not recorded or len(frames) < len(recorded):
        return trace
    return replace(trace, storages=pl.concat(frames), meta=replace(trace.meta, knows_storages=True))


def _of_cycle(trace: Trace, marks: ProgramMarks) -> pl.DataFrame | None:
    """Return the rows of one cycle; None if they are not known, or its clock cannot be compared with the trace's."""
    shift_ns = clock_shift_ns(trace, marks)
    if marks.storages is None or shift_ns is None:
        return None
    return pl.DataFrame(list(_rows(marks, shift_ns)), schema=_SCHEMA, orient="row")


def _rows(marks: ProgramMarks, shift_ns: int) -> Iterator[tuple[object, ...]]:
    for each in marks.storages or ():
        gone_ns = None if each.gone_ns is None else each.gone_ns + shift_ns
        size_bytes = min(each.size_bytes, MAX_SUM)
        yield each.address, size_bytes, each.is_older, each.is_in_use, gone_ns, marks.cycle
