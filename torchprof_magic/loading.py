"""``load``, which opens a recording as a report, or those of many ranks as one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, overload

from torchprof_magic.report.opening import open_report
from torchprof_magic.system.files.place import Place, place_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from typing_extensions import TypeIs

    from torchprof_magic.jobs.report import RanksReport
    from torchprof_magic.report.trace_report import Report

    Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
    Progress = Callable[[int, int], None]


@overload  # a str is an Iterable of str, too; and that of a folder gives a RanksReport
def load(  # type: ignore[overload-overlap]
    path: str | os.PathLike[str],
    *,
    capture: Paths | None = None,
    executor: None = None,
    progress: Progress | None = None,
) -> Report: ...


@overload
def load(
    path: Iterable[str | os.PathLike[str]], *, executor: Executor | None = None, progress: Progress | None = None
) -> RanksReport: ...


@overload
def load(path: str | os.PathLike[str], *, executor: Executor, progress: Progress | None = None) -> RanksReport: ...


def load(
    path: Paths,
    *,
    capture: Paths | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Report | RanksReport:
    """Return a report of a trace (``.json`` or ``.json.gz``), a saved run or a memory snapshot (``.pickle``).

    The file may come from any machine. The format is detected from its content, not its name; docs/formats.md lists
    the formats. Snapshots are read without unpickling, so no code in them can run.

    A list of paths, a folder, a pattern (``runs/*.json.gz``) or a URL of a folder gives a ``RanksReport`` of all ranks
    of a job; so does a single path with an executor. See docs/ranks.md.

    Args:
        path: A path, or a URL that fsspec supports (``s3://``, ``https://``). A URL is downloaded to a temporary
            file, which is deleted afterwards; a download that has no end, or hardly moves, is given up. A URL that
            ends in ``/`` is a folder.
        capture: For a recording of replayed CUDA graphs: the recording of the step in which they were captured, several
            of them, or a folder or pattern of files, of which those with a capture are taken. Kernels of graphs get the
            ops, shapes, modules and lines of the captured launches that they fit, by name, grid and order; what fits
            none is counted in ``Report.problems``. Files in which torch says where the nodes of graphs were launched
            (``dump_kernel_py_stacks``) are taken as well. For one recording, not for many ranks.
        executor: For many ranks: any ``concurrent.futures.Executor``, such as that of Dask, ipyparallel, Ray or MPI.
            Each worker reads one file where it lies and sends back small frames. By default many or large files are
            read in processes of their own, and few small ones here.
        progress: Called from time to time with the number of bytes read and the total; for many ranks with the number
            of files read and of all. Ctrl-C, or an exception in it, cancels what has not begun.

    Damaged parts of a file are repaired or omitted, and counted in ``Report.problems``. Raises ``IngestError`` when
    the file cannot be read, takes more memory than is free, or in a forked process in which polars would hang, and
    ``NotATraceError`` when the file is not a trace, also for ``capture``, and ``ValueError`` for a capture with many
    ranks. Of many ranks, a file that cannot be read is a problem of the
    report; ``IngestError`` is raised when none can be.
    """
    __tracebackhide__ = True
    files = place_of(path) if is_one(path) else path
    if not isinstance(files, Place) or files.is_many or executor is not None:
        if capture is not None:
            raise ValueError(_ONE_RECORDING)
        from torchprof_magic.jobs.load import load_ranks  # noqa: PLC0415 - one file needs nothing of many ranks

        return load_ranks(files, executor, progress)
    return open_report(files, progress, tuple(map(place_of, () if capture is None else all_of(capture))))


_ONE_RECORDING = "a capture belongs to one recording, not to many ranks; load that of one rank with its capture"


def is_one(path: Paths) -> TypeIs[str | os.PathLike[str]]:
    """Return whether something is one path, not several."""
    return isinstance(path, (str, bytes, bytearray, os.PathLike)) or not isinstance(path, Iterable)


def all_of(path: Paths) -> list[str | os.PathLike[str]]:
    """Return one path or several as a list."""
    return [path] if is_one(path) else list(path)
