"""A recording on disk becomes a report, whatever state it is in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.capture import lacks_memory_for
from torchprof_magic.errors import IngestError
from torchprof_magic.ingest import join_passes, read_chrome
from torchprof_magic.model.meta import CellSource, Meta, Problem, StepMark
from torchprof_magic.report import Report
from torchprof_magic.run.cleanup import delete_with
from torchprof_magic.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchprof_magic.capture.recording import Cycle, Recording
    from torchprof_magic.model.trace import Trace

_NO_EVENTS = b'{"traceEvents": []}'


def read_recording(
    recording: Recording,
    *,
    title: str = "",
    cell: CellSource | None = None,
    cell_labels: tuple[tuple[str, str], ...] = (),
) -> Report:
    """Return the report of a live run.

    A cycle whose file cannot be read becomes a counted problem that names the file, and the file is then kept. The raw
    files of a run are deleted soon after its report has gone.
    """
    marks = tuple(mark for cycle in recording.cycles for mark in cycle.steps)
    meta = Meta(
        title=title,
        torch_version=recording.torch_version,
        device_names=recording.device_names,
        cell=cell,
        cell_labels=cell_labels,
        stepping=recording.stepping,
        recorded_steps=marks,
        is_partial=any(not mark.is_complete for mark in marks),
        plain_step_ns=recording.plain_step_ns,
        two_pass=recording.two_pass,
    )
    trace, problems = _read_cycles(recording, meta)
    trace = join_passes(replace(trace, steps=_with_marks(trace.steps, marks)))
    found = replace(trace.meta, cell_labels=_labels_in(trace))
    trace = replace(trace, meta=found, problems=(*recording.problems, *problems, *trace.problems))
    report = Report(trace, trace_paths=tuple(cycle.stored or cycle.path for cycle in recording.cycles))
    is_only_copy = any(problem.code == "store.not_stored" for problem in recording.problems)
    if not (is_only_copy or problems):
        delete_with(report, recording)
    return report


def _labels_in(trace: Trace) -> tuple[tuple[str, str], ...]:
    """Return the labels of the cells that occur in a trace: a long session has thousands, and reports are kept."""
    files = set(trace.stacks["file"])
    return tuple((file, label) for file, label in trace.meta.cell_labels if file in files)


def _read_cycles(recording: Recording, meta: Meta) -> tuple[Trace, list[Problem]]:
    """Return one trace of all cycles; one that is broken, or for which there is no memory, does not take the others."""
    cycles, problems = _readable_here(recording.cycles)
    try:
        return _joined(cycles, meta), problems
    except IngestError:
        pass
    except MemoryError:  # somebody else took it meanwhile
        return _joined([], meta), [
            *problems,
            *(_too_large(cycle.path, "more memory than there is") for cycle in cycles),
        ]
    whole: list[Cycle] = []
    for cycle in cycles:
        try:
            read_chrome([cycle.path])
        except IngestError as exc:
            problems.append(_unreadable(cycle.path, exc))
        else:
            whole.append(cycle)
    return _joined(whole, meta), problems


def _readable_here(cycles: Sequence[Cycle]) -> tuple[list[Cycle], list[Problem]]:
    """Return the cycles, from the first, that there is memory for; running out of it would kill the process."""
    readable: list[Cycle] = []
    problems: list[Problem] = []
    taken_bytes = 0
    for cycle in cycles:
        size_bytes = _size_bytes(cycle.path)
        lacking = lacks_memory_for(taken_bytes + size_bytes)
        if lacking is None:
            taken_bytes += size_bytes
            readable.append(cycle)
        else:
            need, free = map(format_bytes, lacking)
            problems.append(_too_large(cycle.path, f"about {need} of memory, and {free} are free"))
    return readable, problems


def _joined(cycles: Sequence[Cycle], meta: Meta) -> Trace:
    if not cycles:
        return read_chrome([_NO_EVENTS], meta)
    return read_chrome([cycle.path for cycle in cycles], meta, cycles=[cycle.number for cycle in cycles])


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # reading it will say what is wrong


def _too_large(path: Path, need: str) -> Problem:
    return Problem(
        code="run.too_large",
        severity="data_loss",
        count=1,
        message=f"{path.name} was saved, and is too large to analyse here: that takes {need}.",
        fix=f"It is kept at {path}; open it with tp.load() where there is more memory, or record fewer steps.",
    )


def _unreadable(path: Path, exc: IngestError) -> Problem:
    return Problem(
        code="run.unreadable_cycle",
        severity="data_loss",
        count=1,
        message=f"A recorded cycle could not be read: {exc}.",
        fix=f"The raw file is kept at {path}.",
    )


def _with_marks(steps: pl.DataFrame, marks: Sequence[StepMark]) -> pl.DataFrame:
    """Return the steps that the stepping counted, each with whether it ended; torch's empty last one is dropped."""
    if not marks:
        return steps
    known = pl.DataFrame(
        [(mark.cycle, mark.number, mark.is_complete) for mark in marks],
        schema={"cycle": pl.Int32, "number": pl.Int32, "complete": pl.Boolean},
        orient="row",
    )
    joined = steps.drop("complete").join(known, on=["cycle", "number"], maintain_order="left")
    return joined.select(steps.columns)
