"""Who is late in a job, in words, with the numbers behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

import polars as pl

from torchprof_magic.findings.verdict.words import Span
from torchprof_magic.model.units import counted, format_ns, format_ratio, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchprof_magic.findings.ranks.job import Job

Kind = Literal["straggler", "uneven", "balanced", "none"]
# One rank is late if the others wait for it so much of all waiting; with two ranks, one of them always has half.
MOST_OF_WAITING, MOST_OF_TWO = 0.5, 0.75
# Waiting that is below this share of the steps of all ranks is not worth a word.
LEAST_OF_STEPS = 0.02
# What the devices wait for their own hosts is worth a word beside that from this share of the steps on.
LEAST_OF_HOSTS = 0.1
# A rank that comes last in so few collectives may have been late by chance.
FEW_COLLECTIVES = 3
_CELL = re.compile(r"[\\/](ipykernel|xpython)_[0-9]+[\\/]|^<")
_CAUSES = {
    "compute": "its device computes longer, most in ",
    "idle": "its host is idle",
    "python": "its host runs Python",
    "data": "its host fetches data",
    "waiting": "its host waits for its device",
    "op dispatch": "its host takes longer to launch ops",
    "compile": "its host compiles",
    "allocation": "its host allocates memory",
    "initialisation": "its host initialises the device",
    "communication": "its host takes part in other collectives",
    "queued": "its device begins launched work later",
    "missing": "its recording lacks work of its device",
    "forward": "its forward takes longer",
    "backward": "its backward takes longer",
    "optimizer": "its optimizer takes longer",
    "profiler": "its profiler works",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksVerdict:
    """Who is late.

    Attributes:
        kind: straggler if one rank is late, uneven if several are in turn, balanced if nobody waits noticeably, none
            if it is not known.
        title: The same for people.
        text: A few sentences of evidence, in pieces.
        rank: The late rank, None if no single one is.
        cause: What that rank does meanwhile, as in ``stragglers``.
        name: The op, call, range or kernel with the most of that.
        file: File of the line with the most of that, empty if it is not known.
        line: Number of that line.
        wait_ns: What all ranks wait for others, a step, in ns.
        share: Its share of the steps of all ranks, between 0 and 1.
        doubts: What makes the verdict doubtful, the gravest first.
        certainty: sure without doubts, likely with one, otherwise not sure.
    """

    kind: Kind
    title: str
    text: tuple[Span, ...]
    rank: int | None = None
    cause: str = ""
    name: str = ""
    file: str = ""
    line: int | None = None
    wait_ns: int = 0
    share: float = 0.0
    doubts: tuple[str, ...] = ()

    @property
    def certainty(self) -> Literal["sure", "likely", "not sure"]:
        """How sure it is."""
        return ("sure", "likely", "not sure")[min(len(self.doubts), 2)]

    @property
    def statement(self) -> str:
        """The title and the evidence, without the doubts, as one line of text."""
        return printable(f"{self.title}. {''.join(span.text for span in self.text)}")

    def __str__(self) -> str:
        return " ".join((self.statement, *map(printable, self.doubts[:1])))


def ranks_verdict(job: Job) -> RanksVerdict:
    """Return who is late, or why that is not known."""
    if job.collectives.height == 0:
        why = "The ranks share no collective, so who waits for whom is not known."
        title = "One rank" if job.ranks.height == 1 else f"{job.ranks.height} ranks"
        return RanksVerdict(kind="none", title=title, text=(_plain(why),))
    wait_ns = int(job.ranks["wait_ns"].sum())
    whole_ns = int(job.ranks["step_ns"].sum())
    share = wait_ns / max(whole_ns, 1)
    least = MOST_OF_TWO if is_pair(job) else MOST_OF_WAITING
    top = job.stragglers.row(0, named=True) if job.stragglers.height else None
    if top is not None and top["share_ratio"] >= least and share >= LEAST_OF_STEPS:
        return _straggler(job, top, wait_ns, share)
    if share < LEAST_OF_STEPS or top is None:
        text = (
            _plain("The ranks wait for each other "),
            _strong(format_ratio(share)),
            _plain(" of their steps."),
            *_host_words(job),
        )
        return RanksVerdict(
            kind="balanced", title="No rank is late", text=text, wait_ns=wait_ns, share=share, doubts=_doubts(job)
        )
    return _uneven(job, wait_ns, share)


def _straggler(job: Job, top: Mapping[str, object], wait_ns: int, share: float) -> RanksVerdict:
    rank = int(str(top["rank"]))
    line = top["line"]
    return RanksVerdict(
        kind="straggler",
        title=f"Rank {rank} is late",
        text=(
            *_cause_words(top, job),
            *_longest_words(job),
            *_waiting_words(job, float(str(top["caused_wait_ns"]))),
            *_host_words(job),
        ),
        rank=rank,
        cause=str(top["cause"]),
        name=str(top["name"] or ""),
        file=str(top["file"] or ""),
        line=line if isinstance(line, int) else None,
        wait_ns=wait_ns,
        share=share,
        doubts=_doubts(job, rank),
    )


def _uneven(job: Job, wait_ns: int, share: float) -> RanksVerdict:
    ranks = job.stragglers["rank"].head(3).to_list()
    text = (
        _plain("The ranks together wait "),
        _strong(format_ns(wait_ns)),
        _plain(
            f"{per_step(job)}, {format_ratio(share)} of their steps, and no single one causes most of it. Most often "
        ),
        _plain(f"the last are: {', '.join(f'rank {rank}' for rank in ranks)}."),
        *_host_words(job),
    )
    return RanksVerdict(
        kind="uneven", title="Ranks are late in turn", text=text, wait_ns=wait_ns, share=share, doubts=_doubts(job)
    )


def _cause_words(top: Mapping[str, object], job: Job) -> list[Span]:
    """Return what a late rank does while the others wait, and where."""
    cause, name, file, line = (top[key] for key in ("cause", "name", "file", "line"))
    if cause == "unknown":
        return [_plain("What it does meanwhile does not differ from the others")]
    words = _CAUSES.get(str(cause), f"its host: {cause}")
    spans = [_plain(f"{words[:1].upper()}{words[1:]}")]
    if cause == "compute":
        spans.append(_code(str(name)))
    elif line is not None:
        where = f"line {line} of {file_words(str(file or ''))}"
        spans += [_plain(", most at "), _strong(where)]
        spans += [_plain(", "), _code(str(top["source"]).strip())] if top["source"] else []
    elif name:
        spans += [_plain(", most in "), _code(str(name))]
    more = float(str(top["cause_ns"]))
    if cause == "late start":
        return [
            _plain(f"It starts {format_ns(more)} later than {'the other' if is_pair(job) else 'the others on average'}")
        ]
    return [*spans, _plain(f": {format_ns(more)} more{per_step(job)} than {_the_others(job)}")]


def _longest_words(job: Job) -> tuple[Span, ...]:
    """Return the end of the first sentence: which rank waits longest, if one alone does, of more than one other."""
    first, second = job.ranks.sort("wait_ns", descending=True).head(2).select("rank", "wait_ns").rows()
    if is_pair(job) or first[1] == second[1]:
        return (_plain("."),)
    return (
        _plain(f"; rank {first[0]} waits the longest for others, "),
        _strong(format_ns(first[1])),
        _plain(f"{per_step(job)}."),
    )


def _the_others(job: Job) -> str:
    """Return what a rank is compared with: the only other one, or the median of all others."""
    return "the other rank" if is_pair(job) else "the median of the others"


def is_pair(job: Job) -> bool:
    """Return whether a late rank has just one other that waits for it."""
    return job.ranks.height == 2  # noqa: PLR2004 - two ranks


def _waiting_words(job: Job, caused_ns: float) -> tuple[Span, ...]:
    """Return what the others wait for a late rank, and each of several on average: about what their steps lose."""
    others, together = job.ranks.height - 1, _strong(format_ns(caused_ns))
    if others == 1:
        return (_plain(" The other rank waits "), together, _plain(f" for it{per_step(job)}."))
    each = format_ns(caused_ns / others)
    return (_plain(" The others wait "), together, _plain(f" for it together{per_step(job)}, {each} each on average."))


def _host_words(job: Job) -> tuple[Span, ...]:
    """Return what a device waits for its own host, where that is more than what the ranks wait for each other."""
    idle_ns, wait_ns, step_ns = (float(str(job.ranks[name].mean())) for name in ("idle_ns", "wait_ns", "step_ns"))
    if not has_device(job) or idle_ns <= max(wait_ns, LEAST_OF_HOSTS * step_ns):
        return ()
    return (_plain(f" A device also waits for its own host, {format_ns(idle_ns)}{per_step(job)} on average."),)


def has_device(job: Job) -> bool:
    """Return whether the ranks work on devices."""
    return bool((job.ranks["device"] != "").any() or (job.ranks["copy_ns"] > 0).any())


def file_words(file: str) -> str:
    """Return a file for people: kernels call their cells by numbers that nobody has seen."""
    return PurePath(file).name if file and not _CELL.search(file) else "the cell"


def _doubts(job: Job, rank: int | None = None) -> tuple[str, ...]:
    found = []
    steps = job.collectives["step"].drop_nulls().n_unique()
    times = job.collectives.filter(pl.col("last_rank") == rank).height if rank is not None else job.collectives.height
    if times < FEW_COLLECTIVES:
        found.append(f"That is {counted(times, 'collective')}: it may be chance.")
    elif steps <= 1:
        found.append("The ranks recorded only one step in common: it may be chance.")
    if job.ranks.height < job.world_size:
        found.append(f"{job.world_size - job.ranks.height} of {job.world_size} ranks are not here.")
    return tuple(found)


def per_step(job: Job) -> str:
    """Return what follows a time of one step, where several were recorded."""
    return " per step" if int(str(job.ranks["steps"].max() or 0)) > 1 else ""


def _plain(text: str) -> Span:
    return Span(text=text)


def _strong(text: str) -> Span:
    return Span(text=text, style="strong")


def _code(text: str) -> Span:
    return Span(text=text, style="code")
