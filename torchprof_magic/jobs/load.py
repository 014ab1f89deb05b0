"""Opens the files of many ranks as one report."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.findings.ranks.job import join_ranks
from torchprof_magic.findings.ranks.legs import legs_of_rank
from torchprof_magic.jobs.choose import Read, choose_ranks, listed, missing_ranks
from torchprof_magic.jobs.gather import gather
from torchprof_magic.jobs.report import RanksReport
from torchprof_magic.jobs.wire import unpacked
from torchprof_magic.jobs.work import saved_of
from torchprof_magic.model.errors import IngestError
from torchprof_magic.model.meta import Problem
from torchprof_magic.model.problems import problem
from torchprof_magic.model.units import counted
from torchprof_magic.report.opening import open_report
from torchprof_magic.system.files.listing import files_at
from torchprof_magic.system.files.place import Place, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Executor

    from torchprof_magic.jobs.wire import Sent
    from torchprof_magic.report.trace_report import Report

    Progress = Callable[[int, int], None]

_SHOWN_ERRORS = 3


def load_ranks(
    given: Place | Iterable[object],
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> RanksReport:
    """Return one report of all files that a place or a list of paths stands for; see ``load``."""
    files = files_at(given)
    if not files:
        raise IngestError("no files were given")
    sent = gather(files, executor, progress)
    return joined(sent, title=_title(given, files), opener=partial(_opened, executor))


def joined(
    sent: Sequence[Sent],
    *,
    title: str,
    opener: Callable[[str], Report],
    problems: Sequence[Problem] = (),
) -> RanksReport:
    """Return the report of what workers sent; raises ``IngestError`` if none of them sent anything."""
    reads, errors = [], []
    for each in sent:
        if each["error"]:
            errors.append(each["error"])
            continue
        try:
            reads.append(Read(each["source"], each["file"], unpacked(each)))
        except (ValueError, pl.exceptions.PolarsError) as exc:
            errors.append(f"{each['file']}: {exc}")
    if not reads:
        more = f" and {len(errors) - _SHOWN_ERRORS} more" if len(errors) > _SHOWN_ERRORS else ""
        raise IngestError(f"no rank could be read. {'; '.join(errors[:_SHOWN_ERRORS])}{more}")
    chosen = choose_ranks(reads)
    frames = {rank: read.frames for rank, read in chosen.reads.items()}
    told = [*problems, *(problem("ranks.unreadable", error=error) for error in errors), *chosen.problems]
    told += _missing(frames)
    openers = {rank: partial(opener, read.source) for rank, read in chosen.reads.items()}
    job = join_ranks(
        frames,
        files={rank: read.file for rank, read in chosen.reads.items()},
        legs=lambda rank: legs_of_rank(openers[rank]().trace),
        title=title,
    )
    if job.collectives.height == 0 and len(frames) > 1:
        told.append(problem("ranks.no_collectives"))
    elif job.unmatched:
        told.append(problem("ranks.unmatched", count=job.unmatched))
    job = job.with_problems((*_most_severe_first(told), *_of_ranks(frames)))
    return RanksReport(job, openers)


def _missing(frames: Mapping[int, object]) -> list[Problem]:
    sizes = [size for each in frames.values() if (size := each.summary["world_size"][0]) is not None]  # type: ignore[attr-defined]
    world_size = max(sizes, default=None)
    missing = missing_ranks(frames, world_size)
    if not missing:
        return []
    return [
        problem("ranks.missing", count=len(missing), there=len(frames), world_size=world_size, ranks=listed(missing))
    ]


def _most_severe_first(problems: Sequence[Problem]) -> list[Problem]:
    order = ("data_loss", "warning", "info")
    return sorted(problems, key=lambda each: order.index(each.severity))


def _of_ranks(frames: Mapping[int, object]) -> list[Problem]:
    """Return the problems of the single recordings, one per kind, with the ranks that have it."""
    rows = pl.concat(
        [
            each.problems.with_columns(pl.lit(rank, pl.Int32).alias("rank"))  # type: ignore[attr-defined]
            for rank, each in frames.items()
        ]
    )
    kinds = rows.group_by("code", "severity", maintain_order=True).agg(
        pl.col("count").sum(), pl.col("message").first(), pl.col("fix").first(), pl.col("rank")
    )
    found = [
        Problem(
            code=row["code"],
            severity=row["severity"],
            count=row["count"],
            message=f"{'Rank' if len(row['rank']) == 1 else 'Ranks'} {listed(sorted(row['rank']))}: {row['message']}",
            fix=row["fix"],
        )
        for row in kinds.iter_rows(named=True)
    ]
    return _most_severe_first(found)


def _opened(executor: Executor | None, source: str) -> Report:
    """Return the report of one file: read here, or if it lies elsewhere, sent by a worker as a saved run."""
    place = place_of(source)
    if executor is None or place.path is None or place.is_there:
        return open_report(place)
    return report_of_saved(executor.submit(saved_of, source).result())


def report_of_saved(data: bytes) -> Report:
    """Return the report of a saved run."""
    with tempfile.TemporaryDirectory(prefix="torchprof-rank-") as folder:
        file = Path(folder) / "rank.torchprof"
        file.write_bytes(data)
        return open_report(place_of(file))


def _title(given: object, files: Sequence[Place]) -> str:
    """Return the name of the folder or pattern, or that of the folder in which all files of a list lie."""
    if isinstance(given, Place):
        return given.shown.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or given.shown
    folders = {file.text.replace("\\", "/").rpartition("/")[0].rpartition("/")[2] for file in files}
    return next(iter(folders)) if len(folders) == 1 and folders != {""} else counted(len(files), "file")
