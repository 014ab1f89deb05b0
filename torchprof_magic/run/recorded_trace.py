"""Reading the files and marks of a recording into one trace. It needs no torch, so another process can do it."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.exporters.saved import write_saved
from torchprof_magic.ingest import (
    facts_of,
    join_passes,
    read_chrome,
    read_saved,
    with_graph_notes,
    with_snapshot,
    with_what_files_say,
)
from torchprof_magic.model.distinct import distinct
from torchprof_magic.model.errors import IngestError, TorchProfError
from torchprof_magic.model.meta import Meta
from torchprof_magic.model.problems import problem
from torchprof_magic.model.recording import READ_FILES
from torchprof_magic.model.units import format_file_size
from torchprof_magic.run.function_lines import own_function_scopes, with_function_lines
from torchprof_magic.run.fx_nodes import with_fx_nodes
from torchprof_magic.run.host_lines import with_host_lines
from torchprof_magic.run.scopes import with_scopes
from torchprof_magic.run.storages import with_storages
from torchprof_magic.run.tags import tags_of
from torchprof_magic.run.transitions import with_whole_steps, without_transitions
from torchprof_magic.run.waits import with_waits
from torchprof_magic.system.process.memory import lack_for_reading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torchprof_magic.model.meta import CellSource, Problem, StepMark
    from torchprof_magic.model.recording import Cycle, Recording
    from torchprof_magic.model.trace import Trace

# Reading a snapshot takes half a second per MB, and the report waits for it.
MAX_SNAPSHOT_BYTES = 20 << 20
_NO_EVENTS = b'{"traceEvents": []}'
# What torch.compile compiled, or its compilation, is called in a trace.
_COMPILED = r"^Torch-Compiled Region|\(dynamo_timed\)$"


def trace_of(
    recording: Recording,
    *,
    title: str,
    cell: CellSource | None,
    cell_labels: tuple[tuple[str, str], ...],
    ops_before: Callable[[list[str]], tuple[str, ...] | None],
    keeps: bool = False,
) -> tuple[Trace, bool]:
    """Return the trace of a live run, and whether all of its files could be read.

    A cycle whose file cannot be read becomes a problem that names the file. ``ops_before`` is asked which of the ops
    the process had called before. With ``keeps``, what was read is kept beside the files: another process, which reads
    them again when the loop has ended, then has it in a quarter of the time.
    """
    meta = _meta_of(recording, title, cell, cell_labels)
    trace, problems = _read_cycles(recording, meta, keeps=keeps)
    trace = with_whole_steps(trace, recording)
    sites, scopes, lanes = with_scopes(trace, recording, cell)
    trace = replace(trace, sites=sites, scopes=scopes, lanes=lanes, tags=tags_of(trace, recording))
    trace = with_host_lines(with_waits(with_storages(trace, recording), recording), recording)
    functions = own_function_scopes(trace, recording, cell)
    trace = without_transitions(trace, recording)  # last: the clocks are compared by where torch's ranges begin
    trace = with_function_lines(replace(trace, steps=_with_marks(trace.steps, meta.recorded_steps)), functions)
    cost_too_much = any(found.code == "capture.details_left_out" for found in recording.problems)
    trace = join_passes(trace, cost_too_much=cost_too_much)
    trace = with_graph_notes(with_fx_nodes(trace, recording), dict(recording.graph_notes))
    trace = _with_snapshot(trace, recording.snapshot)
    found = replace(
        trace.meta,
        cell_labels=_labels_in(trace, recording),
        extra=_with_added(trace.meta.extra, recording),
        ops_before=ops_before(_ops_in(trace)),
        compiled=recording.compiled if _runs_compiled(trace) else (),
        compilations=recording.compilations,
    )
    return replace(trace, meta=found, problems=(*recording.problems, *problems, *trace.problems)), not problems


def _meta_of(
    recording: Recording, title: str, cell: CellSource | None, cell_labels: tuple[tuple[str, str], ...]
) -> Meta:
    """Return what is known of a live run without its files."""
    marks = tuple(mark for cycle in recording.cycles for mark in cycle.steps)
    return Meta(
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
        cpu_cores=recording.cpu.cores if recording.cpu else None,
        cpu_threads=recording.cpu.threads if recording.cpu else None,
        cpu_features=recording.cpu.features if recording.cpu else (),
        cpu_model=recording.cpu.model if recording.cpu else "",
        others_share=recording.others_share,
        watched=recording.watched,
        unnoted_lines=tuple(sorted({line for marks in recording.program for line in marks.left_out})),
        has_function_lines=bool(recording.function_lines)
        and (recording.two_pass is None or recording.two_pass.lines_cycle is None),
    )


def _with_snapshot(trace: Trace, path: Path | None) -> Trace:
    """Return the trace with the memory snapshot of the run, or a note why it is not in it."""
    if path is None:
        return trace
    size_bytes = bytes_of_file(path)
    reason = f"with {format_file_size(size_bytes)} it would delay it" if size_bytes > MAX_SNAPSHOT_BYTES else ""
    if lack := lack_for_reading(size_bytes):
        reason = f"reading it {lack}"
    if not reason:
        try:
            return with_snapshot(trace, path)
        except IngestError as exc:
            reason = str(exc)
        except MemoryError:
            reason = "memory ran out"
    note = problem("capture.snapshot_not_read", reason=reason, path=path)
    return replace(trace, problems=(*trace.problems, note))


def _with_added(extra: tuple[tuple[str, str], ...], recording: Recording) -> tuple[tuple[str, str], ...]:
    """Return the metadata with what was added during the run, of which the files lack what came after their cycle."""
    text = ",".join(f"{json.dumps(key)}:{value}" for key, value in recording.metadata)
    return tuple(sorted({**dict(extra), **facts_of(f"{{{text}}}".encode())}.items()))


def _ops_in(trace: Trace) -> list[str]:
    is_op = trace.events["category"] == "cpu_op"
    return distinct(trace.events["name"].filter(is_op)).cast(pl.String).to_list()


def _runs_compiled(trace: Trace) -> bool:
    """Return whether code of ``torch.compile`` ran, or was made, in the recording."""
    return bool(distinct(trace.events["name"]).cast(pl.String).str.contains(_COMPILED).any())


def _labels_in(trace: Trace, recording: Recording) -> tuple[tuple[str, str], ...]:
    """Return only the labels of cells that occur in the trace, because a long session has thousands."""
    compiled = {frame.file for frame in recording.compiled}
    compiled |= {each.file for frame in recording.compiled for each in frame.breaks}
    compiled |= {frame.file for frame in recording.compilations}
    compiled |= {each.file for frame in recording.compilations for each in frame.breaks}
    files = {
        *trace.stacks["file"],
        *trace.sites["file"],
        *trace.waits["file"],
        *trace.host_lines["file"],
        *trace.fx_nodes["file"],
        *compiled,
    }
    return tuple((file, label) for file, label in trace.meta.cell_labels if file in files)


def _read_cycles(recording: Recording, meta: Meta, *, keeps: bool) -> tuple[Trace, list[Problem]]:
    """Return one trace of all cycles, without those that are damaged or too large to read, and their problems."""
    joined = partial(_joined, meta=meta, folder=recording.folder, keeps=keeps)
    cycles, problems = _readable_here(recording.cycles)
    try:
        return joined(cycles), problems
    except IngestError:
        pass
    except MemoryError:  # another process took it meanwhile
        return joined([]), [
            *problems,
            *(_too_large(cycle.path, "memory ran out") for cycle in cycles),
        ]
    whole: list[Cycle] = []
    for cycle in cycles:
        try:
            read_chrome([cycle.path])
        except IngestError as exc:
            problems.append(problem("run.unreadable_cycle", error=exc, path=cycle.path))
        except MemoryError:
            problems.append(_too_large(cycle.path, "memory ran out"))
        else:
            whole.append(cycle)
    return joined(whole), problems


def _readable_here(cycles: Sequence[Cycle]) -> tuple[list[Cycle], list[Problem]]:
    """Return the cycles that fit into free memory, from the first; running out of it would kill the process."""
    readable: list[Cycle] = []
    problems: list[Problem] = []
    taken_bytes = 0
    for cycle in cycles:
        size_bytes = bytes_of_file(cycle.path)
        lack = lack_for_reading(taken_bytes + size_bytes)
        if lack is None:
            taken_bytes += size_bytes
            readable.append(cycle)
        else:
            problems.append(_too_large(cycle.path, f"that {lack}"))
    return readable, problems


def _joined(cycles: Sequence[Cycle], meta: Meta, folder: Path, *, keeps: bool) -> Trace:
    if not cycles:
        return read_chrome([_NO_EVENTS], meta)
    before = _place_of(cycles, folder)
    if before is not None and before.exists():
        with suppress(IngestError, MemoryError):
            trace = read_saved(before)
            return replace(trace, meta=with_what_files_say(meta, trace.meta))
    trace = read_chrome([cycle.path for cycle in cycles], meta, cycles=[cycle.number for cycle in cycles])
    if keeps and before is not None:
        with suppress(TorchProfError, OSError):  # it is only faster with it
            write_saved(trace, before, level=0)
    return trace


def _place_of(cycles: Sequence[Cycle], folder: Path) -> Path | None:
    """Return where the trace of these files is kept once it was read; ``None`` if one of them is gone."""
    try:
        facts = [(cycle.number, stat.st_size, stat.st_mtime_ns) for cycle in cycles for stat in (cycle.path.stat(),)]
    except OSError:
        return None
    return folder / READ_FILES.format(hashlib.blake2s(repr(facts).encode(), digest_size=8).hexdigest())


def bytes_of_file(path: Path) -> int:
    """Return the size of a file, 0 if it is gone."""
    try:
        return path.stat().st_size
    except OSError:
        return 0  # the error shows when it is read


def _too_large(path: Path, reason: str) -> Problem:
    return problem("run.too_large", file=path.name, path=path, reason=reason)


def _with_marks(steps: pl.DataFrame, marks: Sequence[StepMark]) -> pl.DataFrame:
    """Return the steps with whether each is complete; torch's empty last step is dropped."""
    if not marks:
        return steps
    known = pl.DataFrame(
        [(mark.cycle, mark.number, mark.is_complete) for mark in marks],
        schema={"cycle": pl.Int32, "number": pl.Int32, "complete": pl.Boolean},
        orient="row",
    )
    joined = steps.drop("complete").join(known, on=["cycle", "number"], maintain_order="left")
    return joined.select(steps.columns)
