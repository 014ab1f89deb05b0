"""The forms of many ranks: page, live view, text, HTML without scripts and file; and the view of one rank in it."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from torchprof_magic.findings.advice import cards_of_job, find_in_job
from torchprof_magic.findings.ranks.verdict import RanksVerdict, ranks_verdict
from torchprof_magic.jobs.markdown_summary import ranks_markdown
from torchprof_magic.jobs.views import TABS
from torchprof_magic.model.errors import TorchProfError
from torchprof_magic.model.shapes import Table
from torchprof_magic.render.displayed import Forms, KeptView
from torchprof_magic.render.ranks_page import build_ranks_page, ranks_html, ranks_text
from torchprof_magic.render.standalone_html import write_html
from torchprof_magic.report import rules
from torchprof_magic.report.json_summary import advice_fields, problem_fields, verdict_fields

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchprof_magic.findings.advice import Advice
    from torchprof_magic.findings.ranks.job import Job
    from torchprof_magic.model.shapes import Card, Shape
    from torchprof_magic.render.page import Page
    from torchprof_magic.render.widget import Shown
    from torchprof_magic.report.trace_report import Report

ALL_RANKS = "All ranks"


class JobForms(Forms):
    """The forms of a job of many ranks; ``open_report`` returns the report of one."""

    def __init__(self, job: Job, open_report: Callable[[int], Report]) -> None:
        self._job = job
        self._open_report = open_report
        self._run_id = uuid.uuid4().hex[:12]
        self._shown: dict[int, Shown] = {}

    @cached_property
    def verdict(self) -> RanksVerdict:
        """Who is late and why."""
        return ranks_verdict(self._job)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What to change: the ranks that hold up the others."""
        return tuple(find_in_job(self._job, rules.current()).advice)

    def text(self) -> str:
        """Return the verdict, the ranks and the problems."""
        return ranks_text(self._job, self.verdict, self._cards)

    def markdown(self, max_tokens: int) -> str:
        """Return the same as Markdown, with how to ask for more."""
        return ranks_markdown(self._job, self.verdict, self._cards, max_tokens)

    def json(self) -> str:
        """Return the verdict, the advice, the ranks, the late ones and the problems."""
        job = self._job
        found = {
            "verdict": verdict_fields(self.verdict, "rank", "cause"),
            "advice": advice_fields(self.advice),
            "world_size": job.world_size,
            "problems": problem_fields(job.problems),
            "ranks": job.ranks.to_dicts(),
            "stragglers": job.stragglers.to_dicts(),
        }
        return json.dumps(found, default=str)

    def html(self) -> str:
        """Return the static copy."""
        return ranks_html(self._job, self.verdict, self._run_id, self._cards)

    def shown(self, kept: KeptView) -> Shown:
        """Return the data of the live view of all ranks; a click opens the report of a rank in its place."""
        del kept  # these forms keep what is shown themselves, as the way back from a rank needs it
        return self._shown_of(_ALL)

    def open_rank(self) -> Callable[[int], Shown]:
        """Return what opens one rank in the live view, or all ranks again."""
        return self._shown_of

    def write_html(self, target: Path) -> Path:
        """Write the ranks, the collectives and the timeline of all."""
        return write_html(self._page, target, title=self._job.title, static=self.html())

    def _shown_of(self, rank: int) -> Shown:
        """Return what the live view shows of a rank, or of all for -1. Raises ``TorchProfError``."""
        from torchprof_magic.render.widget import Shown  # noqa: PLC0415 - to show a job, not to compute one

        if _ALL not in self._shown:
            frame_bytes = int(self._job.arrivals.estimated_size())
            writers = {"html": self.write_html}
            self._shown[_ALL] = Shown(self._page, title=self._job.title, frame_bytes=frame_bytes, writers=writers)
        if rank != _ALL:
            try:
                shown = self._open_report(rank).shown_below(ALL_RANKS)
            except ValueError as exc:
                raise TorchProfError(str(exc)) from exc
            self._shown = {_ALL: self._shown[_ALL], rank: shown}
        return self._shown[rank]

    @cached_property
    def _page(self) -> Page:
        shapes = {view.name: self._with_cards(view.shape(self._job)) for view in TABS}
        return build_ranks_page(self._job, TABS, shapes, self.verdict, self._run_id)

    @property
    def _cards(self) -> tuple[Card, ...]:
        return cards_of_job(self.advice)

    def _with_cards(self, shape: Shape) -> Shape:
        """Return the ranks with what to change, and other shapes as they are."""
        if not isinstance(shape, Table) or shape.ranks is None:
            return shape
        return replace(shape, ranks=replace(shape.ranks, cards=self._cards))


# The number that stands for all ranks in ``ReportWidget``.
_ALL = -1
