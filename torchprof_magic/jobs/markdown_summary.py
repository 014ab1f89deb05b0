"""The summary of a job of many ranks as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.jobs.views import VIEWS
from torchprof_magic.render.markdown import DATA_NOTE, Section, fitting, prose, table
from torchprof_magic.render.ranks_page import RANK_TITLES, job_sentence, machine_of, rank_cells, shown_ranks
from torchprof_magic.report.markdown_summary import advice_section, problems_section, verdict_section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.findings.ranks.job import Job
    from torchprof_magic.findings.ranks.verdict import RanksVerdict
    from torchprof_magic.model.shapes import Card


def ranks_markdown(job: Job, verdict: RanksVerdict, cards: Sequence[Card], max_tokens: int) -> str:
    """Return the job as Markdown, in at most about so many tokens."""
    rows = table(
        [title.capitalize() for title in RANK_TITLES],
        (rank_cells(row) for row in shown_ranks(job).iter_rows()),
        numbers=range(len(RANK_TITLES)),
    )
    more = (
        '- `report.rank(0)` is the report of one rank; `report.rank(0).summary("markdown")` says what it did.',
        f"- `report.NAME` is a data frame: {', '.join(view.table or view.name for view in VIEWS if view.columns)}.",
    )
    sections = [
        verdict_section(verdict.title, verdict.text, verdict.doubts),
        advice_section(cards),
        Section("Ranks", rows, least=min(len(rows), 10), rows="rank"),
        problems_section(job.problems),
        Section("How to ask for more", more, least=2),
    ]
    head = (f"# Profile of many ranks, {prose(job_sentence(job))}", "", prose(machine_of(job)), "", DATA_NOTE)
    return fitting(head, sections, max_tokens)
