"""The data of a report of many ranks for the page, and the same as text and as plain HTML."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.findings.verdict.words import first_sentence
from torchprof_magic.model.shapes import count_rows
from torchprof_magic.model.units import counted, format_ns, printable
from torchprof_magic.render.arrow import pack
from torchprof_magic.render.exports import HTML, export_header
from torchprof_magic.render.header import ReportHeader, SpanHeader, VerdictHeader, as_json, view_header
from torchprof_magic.render.page import Page, framed, sentence
from torchprof_magic.render.static_html import card_rows
from torchprof_magic.render.text import card_lines, doubt_lines, problem_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchprof_magic.findings.ranks.job import Job
    from torchprof_magic.findings.ranks.verdict import RanksVerdict
    from torchprof_magic.findings.verdict.words import Span
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.shapes import Card, Shape
    from torchprof_magic.render.view import View

MOST_ROWS = 32
_TEXT_COLUMNS = ("rank", "step_ns", "compute_ns", "exposed_comm_ns", "wait_ns", "caused_wait_ns", "idle_ns")
RANK_TITLES = ("rank", "step", "compute", "comm. alone", "for others", "others for it", "idle")
_ALIGN = 'align="right" style="text-align:right"'


def build_ranks_page(
    job: Job, views: Sequence[View[Job]], shapes: Mapping[str, Shape], verdict: RanksVerdict, run_id: str
) -> Page:
    """Return the data for the front end."""
    ready = [view for view in views if count_rows(shapes[view.name])]
    packed = pack(framed({view.name: shapes[view.name] for view in ready}))
    said, more = first_sentence(verdict.text)
    header = ReportHeader(
        run_id=run_id,
        title=job.title,
        subtitle=job_sentence(job),
        machine=machine_of(job),
        notice=_notice(job.problems),
        verdict=VerdictHeader(
            title=verdict.title,
            text=tuple(SpanHeader(text=span.text, style=span.style) for span in said),
            more=tuple(SpanHeader(text=span.text, style=span.style) for span in more),
            code=None,
            doubts=tuple(verdict.doubts),
            without_advice="",
        ),
        views=tuple(view_header(view, shapes[view.name], packed.places.get(view.name, (0, 0))) for view in ready),
        exports=(export_header(HTML, run_id),),
    )
    return Page(header=as_json(header), data=packed.data, pulled=packed.pulled, answers={})


def job_sentence(job: Job) -> str:
    """Return how many ranks and steps there are: ``8 of 8 ranks, 1 step each``."""
    steps = job.ranks["steps"].unique().sort().to_list()
    each = counted(steps[0], "step") if len(steps) == 1 else f"{steps[0]}\N{EN DASH}{steps[-1]} steps"
    ranks = f"{job.ranks.height} of {job.world_size} ranks" if job.world_size > 1 else counted(job.ranks.height, "rank")
    return f"{ranks}, {each} each" if steps[-1] else ranks


def machine_of(job: Job) -> str:
    """Return the devices of all ranks and the backend: ``8 × Tesla V100 · nccl``."""
    names = job.ranks.filter(pl.col("device") != "").group_by("device", maintain_order=True).len()
    devices = ", ".join(f"{count} \N{MULTIPLICATION SIGN} {name}" for name, count in names.rows()[:4])
    return " · ".join(part for part in (devices or "CPU", job.backend) if part)


def ranks_text(job: Job, verdict: RanksVerdict, cards: Sequence[Card] = ()) -> str:
    """Return the job as one screen of text."""
    lines = [printable(f"{job.title} — {job_sentence(job)}"), printable(machine_of(job)), "", verdict.statement]
    lines += [*doubt_lines(verdict.doubts), ""]
    rows = [RANK_TITLES, *(rank_cells(row) for row in shown_ranks(job).iter_rows())]
    lines += ["  ".join(f"{cell:>13}" for cell in row) for row in rows]
    if job.ranks.height > MOST_ROWS:
        lines.append(f"and {job.ranks.height - MOST_ROWS} more ranks")
    lines += card_lines(cards)
    return "\n".join([*lines, *(problem_line(problem) for problem in job.problems)])


def ranks_html(job: Job, verdict: RanksVerdict, run_id: str, cards: Sequence[Card] = ()) -> str:
    """Return the job as HTML without scripts or links; every name in it is escaped."""
    spans = "".join(_span(span) for span in verdict.text)
    head = "".join(f'<th scope="col" {_ALIGN}>{title}</th>' for title in RANK_TITLES)
    body = "".join(
        f"<tr>{''.join(f'<td {_ALIGN}>{cell}</td>' for cell in rank_cells(row))}</tr>"
        for row in shown_ranks(job).iter_rows()
    )
    more = job.ranks.height - MOST_ROWS
    return "".join(
        (
            f'<details open data-tp-static="{run_id}" class="mathjax_ignore tex2jax_ignore">',
            f"<summary><b>{_text(job.title)}</b> {_text(job_sentence(job))} ",
            f"<small>{_text(machine_of(job))}</small></summary>",
            f"<p><b>{_text(verdict.title)}.</b> {spans}</p>",
            *(f"<p>▲ {_text(doubt)}</p>" for doubt in verdict.doubts),
            *(f"<p>⚠ {_text(problem.message)} {_text(problem.fix)}</p>" for problem in job.problems),
            card_rows(cards, has_steps=bool((job.ranks["steps"] > 0).any())),
            f'<table cellpadding="4"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>',
            f"<p><small>and {more} more ranks</small></p>" if more > 0 else "",
            "</details>",
        )
    )


def shown_ranks(job: Job) -> pl.DataFrame:
    """Return the ranks that are shown: all, or those for which the others wait the most."""
    frame = job.ranks
    if frame.height > MOST_ROWS:
        frame = frame.sort("caused_wait_ns", "wait_ns", descending=True).head(MOST_ROWS)
    return frame.select(_TEXT_COLUMNS)


def rank_cells(row: tuple[int, ...]) -> tuple[str, ...]:
    """Return what is said of a rank: its number, and its times."""
    return (str(row[0]), *(format_ns(value) for value in row[1:]))


def _notice(problems: tuple[Problem, ...]) -> str:
    lost = [problem for problem in problems if problem.severity == "data_loss"]
    return sentence(lost[0]) if lost else ""


def _text(text: str) -> str:
    return html.escape(printable(text), quote=True)


def _span(span: Span) -> str:
    tag = {"strong": "b", "code": "code"}.get(span.style)
    return f"<{tag}><bdi>{_text(span.text)}</bdi></{tag}>" if tag else _text(span.text)
