"""Reading the recording of a live run from disk into a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.capture import find_holders
from torchprof_magic.report.trace_report import Report
from torchprof_magic.run.cleanup import delete_with
from torchprof_magic.run.recorded_trace import bytes_of_file, trace_of
from torchprof_magic.runs import this_process
from torchprof_magic.system.process.memory import lack_for_reading

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from torchprof_magic.model.meta import CellSource
    from torchprof_magic.model.recording import Recording


def read_recording(
    recording: Recording,
    *,
    title: str = "",
    cell: CellSource | None = None,
    cell_labels: tuple[tuple[str, str], ...] = (),
    find_saved: Callable[[], pl.DataFrame] | None = None,
    run_id: str = "",
) -> Report:
    """Return the report of a live run.

    A cycle whose file cannot be read becomes a problem that names the file, and the file is then kept. Otherwise the
    raw files of a run are deleted soon after its report is gone. Raises ``MemoryError`` if the addresses of this
    process are so limited that not even an empty report can be made; polars would abort the process.
    """
    if lack := lack_for_reading(0):
        lack = lack_for_reading(sum(bytes_of_file(cycle.path) for cycle in recording.cycles)) or lack
        raise MemoryError(f"it {lack}. {lack.advice}")
    trace, is_whole = trace_of(
        recording, title=title, cell=cell, cell_labels=cell_labels, ops_before=this_process.ops_before
    )
    paths = tuple(cycle.stored or cycle.path for cycle in recording.cycles)
    report = Report(trace, trace_paths=paths, find_holders=find_holders, find_saved=find_saved, run_id=run_id)
    is_only_copy = any(found.code == "store.not_stored" for found in recording.problems)
    if not is_only_copy and is_whole:
        delete_with(report, recording)
    return report
