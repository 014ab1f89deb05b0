"""``RanksReport``: many ranks of one job as data frames, text, a live view and a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.findings.ranks.job import Job
from torchprof_magic.jobs.choose import listed
from torchprof_magic.jobs.forms import JobForms
from torchprof_magic.jobs.views import TABLES
from torchprof_magic.model.units import counted, printable
from torchprof_magic.render.displayed import Displayed
from torchprof_magic.report.tables import HasTables, Tables, with_tables
from torchprof_magic.system.files.atomic import target_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pandas as pd
    import polars as pl

    from torchprof_magic.findings.advice import Advice
    from torchprof_magic.findings.ranks.verdict import RanksVerdict
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.report.trace_report import Report

# Reports of single ranks that stay open; each holds a whole recording.
OPEN_REPORTS = 8


@with_tables(TABLES)
class RanksReport(HasTables[Job], Displayed[JobForms]):
    """Many ranks of one job. Frames are polars data frames; times are int64 ns, a step where their definition says so.

    docs/ranks.md explains it, and docs/definitions.md has every column. A click in the live view opens the report of a
    rank in it.
    """

    def __init__(self, job: Job, openers: Mapping[int, Callable[[], Report]]) -> None:
        super().__init__()
        self._job = job
        self._openers = dict(openers)
        self._reports: dict[int, Report] = {}
        self._tables = Tables(TABLES, job)
        self._forms = JobForms(job, self.rank)

    @property
    def verdict(self) -> RanksVerdict:
        """Who is late and why, in words: ``kind`` is straggler, uneven, balanced or none."""
        return self._forms.verdict

    @property
    def advice(self) -> list[Advice]:
        """What to change, as ``Report.advice``: the ranks that hold up the others, with their lines.

        ``saving_ns`` is what a step of the job would be shorter. ``rank(n).advice`` is about a single rank.
        """
        return list(self._forms.advice)

    @property
    def problems(self) -> list[Problem]:
        """Files that could not be read, missing and doubled ranks, and the problems of the single recordings."""
        return list(self._job.problems)

    @property
    def world_size(self) -> int:
        """How many ranks the job has, as recorded; or how many there are here."""
        return self._job.world_size

    def rank(self, number: int) -> Report:
        """Return the report of one rank, read when it is first asked for; the last eight are kept.

        Raises ``ValueError`` for a rank that is not here, and ``IngestError`` if its file can no longer be read.
        """
        if number not in self._openers:
            raise ValueError(f"no rank {number}; the ranks here are: {listed(sorted(self._openers)) or 'none'}")
        if number not in self._reports:
            report = self._openers[number]()
            while len(self._reports) >= OPEN_REPORTS:
                self._reports.pop(next(iter(self._reports)))
            self._reports[number] = report
        return self._reports[number]

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write a self-contained interactive HTML file, which opens without a network, and return its path.

        It has the ranks, collectives and the timeline of all, but not the reports of single ranks: ``rank(n).to_html``
        writes those. Raises ``ExportError`` when the file cannot be written; an existing file is then unchanged.
        """
        return super().to_html(path)

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the HTML file of ``to_html``. Raises ``ValueError`` for another ending than ``.html``.

        The trace of a single rank is exported by ``rank(n).export(path)``.
        """
        target = target_of(path)
        if target.suffix.lower() != ".html":
            raise ValueError(f"{target.name!r} must end in .html: a report of many ranks has no single trace")
        return self.to_html(target)

    def to_pandas(self, table: str | pl.DataFrame = "ranks") -> pd.DataFrame:
        """Return a table as a data frame of pandas, as ``Report.to_pandas`` does: one of ``sql``, or any frame.

        Raises ``ValueError`` for an unknown table, and ``ImportError`` without pandas.
        """
        return self._tables.to_pandas(table)

    def __repr__(self) -> str:
        ranks = f"{self.ranks.height} of {counted(self.world_size, 'rank')}"
        return printable(f"<RanksReport {self._job.title}: {ranks}, {self.verdict.title}>")
