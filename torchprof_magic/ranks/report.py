"""``RanksReport``: many ranks of one job as data frames, text, a live view and a file."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

from torchprof_magic.exporters.pandas_frames import to_pandas
from torchprof_magic.findings.advice import ADVICE_FIELDS, cards_of_job, find_in_job
from torchprof_magic.findings.ranks.verdict import RanksVerdict, ranks_verdict
from torchprof_magic.model.errors import TorchProfError
from torchprof_magic.model.shapes import Table
from torchprof_magic.model.units import counted, printable
from torchprof_magic.ranks.choose import listed
from torchprof_magic.render.ranks_page import build_ranks_page, ranks_html, ranks_text
from torchprof_magic.render.standalone_html import write_html
from torchprof_magic.report import rules
from torchprof_magic.report.sql import run_sql
from torchprof_magic.report.views import RANK_VIEWS
from torchprof_magic.system.files.atomic import target_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    import pandas as pd
    import polars as pl

    from torchprof_magic.findings.advice import Advice
    from torchprof_magic.findings.ranks.job import Job
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.shapes import Card, Shape
    from torchprof_magic.render.page import Page
    from torchprof_magic.render.widget import ReportWidget, Shown
    from torchprof_magic.report.trace_report import Report

ALL_RANKS = "All ranks"
TABLES = ("ranks", "collectives", "arrivals", "stragglers")
# Reports of single ranks that stay open; each holds a whole recording.
OPEN_REPORTS = 8


class RanksReport:
    """Many ranks of one job. Frames are polars data frames; times are int64 ns, a step where their definition says so.

    docs/ranks.md explains it, and docs/definitions.md has every column.
    """

    def __init__(self, job: Job, openers: Mapping[int, Callable[[], Report]]) -> None:
        self._job = job
        self._openers = dict(openers)
        self._reports: dict[int, Report] = {}
        self._run_id = uuid.uuid4().hex[:12]
        self._widget: ReportWidget | None = None
        self._shown: dict[int, Shown] = {}

    @property
    def ranks(self) -> pl.DataFrame:
        """One row per rank: the mean of its steps, divided by what its device or thread did; its waiting; its clock.

        ``compute_ns``, ``exposed_comm_ns``, ``copy_ns`` and ``idle_ns`` add up to ``step_ns``. ``wait_ns`` is what the
        rank waits for others, and ``caused_wait_ns`` what all others wait for it.
        """
        return self._job.ranks

    @property
    def collectives(self) -> pl.DataFrame:
        """One row per collective that several ranks share, in order of time: who came last, and what that cost.

        ``skew_ns`` is how much later the last rank came than the first, and ``wait_ns`` what all ranks waited together:
        their lengths, each less the shortest. ``bytes`` and bandwidths, in bytes a second, are null if not recorded.
        """
        return self._job.collectives

    @property
    def arrivals(self) -> pl.DataFrame:
        """One row per collective and rank: when it came, on the common clock, how long it waited, and who was last."""
        return self._job.arrivals

    @property
    def stragglers(self) -> pl.DataFrame:
        """One row per rank for which the others wait noticeably, the most costly first, and what it does meanwhile.

        ``cause``, ``name``, ``file``, ``line`` and ``source`` say what it does more of than the others while no
        collective runs, from its own waits, idle times, lines and kernels. Empty if no rank is late.
        """
        return self._job.stragglers

    @property
    def verdict(self) -> RanksVerdict:
        """Who is late and why, in words: ``kind`` is straggler, uneven, balanced or none."""
        return self._verdict

    @property
    def advice(self) -> list[Advice]:
        """What to change, as ``Report.advice``: the ranks that hold up the others, with their lines.

        ``saving_ns`` is what a step of the job would be shorter. ``rank(n).advice`` is about a single rank.
        """
        return list(find_in_job(self._job, rules.current()).advice)

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

    def summary(self, format: Literal["text", "json"] = "text") -> str:  # noqa: A002 - as in Report
        """Return a summary as one screen of text, or the same facts as JSON."""
        if format == "text":
            return ranks_text(self._job, self._verdict, self._cards)
        if format != "json":
            raise ValueError(f"summary format must be 'text' or 'json' (got {format!r})")
        found = self._verdict
        verdict = {
            "kind": found.kind,
            "title": found.title,
            "text": "".join(span.text for span in found.text),
            "rank": found.rank,
            "cause": found.cause,
            "name": found.name,
            "file": found.file,
            "line": found.line,
            "share": found.share,
            "certainty": found.certainty,
            "doubts": found.doubts,
        }
        problems = [{"code": each.code, "severity": each.severity, "count": each.count} for each in self.problems]
        advice = [{name: getattr(each, name) for name in ADVICE_FIELDS} for each in self.advice]
        facts = {"verdict": verdict, "advice": advice, "world_size": self.world_size, "problems": problems}
        frames = {"ranks": self.ranks.to_dicts(), "stragglers": self.stragglers.to_dicts()}
        return json.dumps(facts | frames, default=str)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write a self-contained interactive HTML file, which opens without a network, and return its path.

        It has the ranks, collectives and the timeline of all, but not the reports of single ranks: ``rank(n).to_html``
        writes those. Raises ``ExportError`` when the file cannot be written; an existing file is then unchanged.
        """
        return write_html(self._page, target_of(path), title=self._job.title, static=self._repr_html_())

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the HTML file of ``to_html``. Raises ``ValueError`` for another ending than ``.html``.

        The trace of a single rank is exported by ``rank(n).export(path)``.
        """
        target = target_of(path)
        if target.suffix.lower() != ".html":
            raise ValueError(f"{target.name!r} must end in .html: a report of many ranks has no single trace")
        return self.to_html(target)

    def sql(self, query: str) -> pl.DataFrame:
        """Return the result of a SQL query; the tables are ranks, collectives, arrivals and stragglers.

        Raises ``ValueError`` with the tables and columns when the query is invalid.
        """
        return run_sql(query, {name: partial(getattr, self, name) for name in TABLES})

    def to_pandas(self, table: str | pl.DataFrame = "ranks") -> pd.DataFrame:
        """Return a table as a data frame of pandas, as ``Report.to_pandas`` does: one of ``sql``, or any frame.

        Raises ``ValueError`` for an unknown table, and ``ImportError`` without pandas.
        """
        if not isinstance(table, str):
            return to_pandas(table)
        if table not in TABLES:
            raise ValueError(f"unknown table {table!r}; choose from {', '.join(TABLES)}")
        return to_pandas(getattr(self, table))

    @property
    def widget(self) -> ReportWidget:
        """The live view, an anywidget; the same object until it is closed. A click opens the report of a rank in it."""
        # anywidget is needed to show a report, not to compute one.
        from torchprof_magic.render.widget import ReportWidget  # noqa: PLC0415

        if self._widget is None or self._widget.is_closed:
            self._widget = ReportWidget(self._shown_of(-1), self._shown_of)
        return self._widget

    def _shown_of(self, rank: int) -> Shown:
        """Return what the live view shows of a rank, or of all for -1. Raises ``TorchProfError``."""
        from torchprof_magic.render.widget import ALL_RANKS as ALL  # noqa: PLC0415 - as above
        from torchprof_magic.render.widget import Shown  # noqa: PLC0415

        if rank != ALL:
            try:
                shown = self.rank(rank).shown_below(ALL_RANKS)
            except ValueError as exc:
                raise TorchProfError(str(exc)) from exc
            self._shown = {ALL: self._shown[ALL], rank: shown}
        elif ALL not in self._shown:
            frame_bytes = int(self._job.arrivals.estimated_size())
            writers = {"html": self.to_html}
            self._shown[ALL] = Shown(self._page, title=self._job.title, frame_bytes=frame_bytes, writers=writers)
        return self._shown[rank]

    @cached_property
    def _page(self) -> Page:
        shapes = {view.name: self._with_cards(view.build(self._job)) for view in RANK_VIEWS}
        return build_ranks_page(self._job, RANK_VIEWS, shapes, self._verdict, self._run_id)

    @property
    def _cards(self) -> tuple[Card, ...]:
        return cards_of_job(self.advice)

    def _with_cards(self, shape: Shape) -> Shape:
        """Return the ranks with what to change, and other shapes as they are."""
        if not isinstance(shape, Table) or shape.ranks is None:
            return shape
        return replace(shape, ranks=replace(shape.ranks, cards=self._cards))

    @cached_property
    def _verdict(self) -> RanksVerdict:
        return ranks_verdict(self._job)

    def _repr_html_(self) -> str:
        return ranks_html(self._job, self._verdict, self._run_id, self._cards)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return the static copy as text and HTML, for front ends without widgets."""
        forms = {"text/plain": self.summary, "text/html": self._repr_html_}
        wanted = [kind for kind in forms if (include is None or kind in include) and kind not in (exclude or ())]
        return {kind: forms[kind]() for kind in wanted}

    def _ipython_display_(self) -> None:
        """Show the report as the last line of a cell."""
        from torchprof_magic.render.display import show_here  # noqa: PLC0415 - IPython calls this, so it is installed

        show_here(self)

    def _display_(self) -> object:
        """Return what marimo shows when the report is the last line of a cell."""
        return self.widget

    def __repr__(self) -> str:
        ranks = f"{self.ranks.height} of {counted(self.world_size, 'rank')}"
        return printable(f"<RanksReport {self._job.title}: {ranks}, {self._verdict.title}>")
