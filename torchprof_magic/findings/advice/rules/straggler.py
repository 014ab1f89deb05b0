"""Advice about many ranks of one job: the rank that the others wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.findings.advice.kinds import Advice
from torchprof_magic.findings.ranks.stragglers import LATE_START, UNKNOWN
from torchprof_magic.model.units import counted, format_ns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchprof_magic.findings.ranks.job import Job

# A rank that comes last so seldom may have been late by chance.
LEAST_COLLECTIVES = 3
_SAME_WORK = "do this on all ranks alike, or outside the steps"
_FIXES = {
    "compute": "give it no more work than the others, in lengths of sequences as well; with the same work, its device "
    "is slower",
    "data": "feed it as quickly as the others: more workers, or data on storage that is as near",
    "idle": _SAME_WORK,
    "python": _SAME_WORK,
}


def straggler(job: Job) -> Iterator[Advice]:
    """Advise to mend what makes ranks late. The saving is by how much they come after the last of the others."""
    for row in job.stragglers.iter_rows(named=True):
        lead = _lead(job, int(row["rank"]))
        # A late start costs its wait once, not in each step.
        if row["cause"] == LATE_START or lead["collectives"] < LEAST_COLLECTIVES:
            continue
        yield Advice(
            rule="straggler",
            title=f"Let rank {row['rank']} keep up",
            fix=_FIXES.get(str(row["cause"]), f"`report.rank({row['rank']})` shows what it does meanwhile"),
            evidence=_evidence(row, lead),
            file=str(row["file"] or ""),
            line=row["line"],
            op=str(row["name"] or ""),
            saving_ns=int(lead["saving_ns"]),
            certainty="measured",
        )


def _lead(job: Job, rank: int) -> Mapping[str, int]:
    """Return by how much a rank comes after the last but one, in ns per step, and in how many collectives."""
    steps = max(job.collectives["step"].drop_nulls().n_unique(), 1)
    late = job.collectives.filter(pl.col("last_rank") == rank).select("number")
    others = job.arrivals.filter(~pl.col("is_last")).join(late, on="number", how="semi")
    leads = others.group_by("number").agg(pl.col("wait_ns").min())["wait_ns"]
    return {"saving_ns": round(int(leads.sum()) / steps), "collectives": late.height}


def _evidence(row: Mapping[str, object], lead: Mapping[str, int]) -> str:
    """Return how often and by how much it is late, and what it does more of than the others."""
    wait, more = (format_ns(float(str(row[name]))) for name in ("caused_wait_ns", "cause_ns"))
    of = counted(int(str(row["collectives"])), "collective")
    late = f"Last in {lead['collectives']} of {of}; all others together wait {wait} per step."
    if row["cause"] == UNKNOWN:
        return late
    name = f", most in `{row['name']}`" if row["name"] else ""
    return f"{late} What it does more of than the others: {row['cause']}, {more} per step{name}."
