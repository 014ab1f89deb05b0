"""The ranks of a job as shapes: one bar a rank, the waiting in each collective, and a timeline of all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import polars as pl

from torchprof_magic.findings.hottest_rows import code_of
from torchprof_magic.findings.ranks.job import ARRIVAL_COLUMNS, COLLECTIVE_COLUMNS, RANK_COLUMNS
from torchprof_magic.findings.ranks.stragglers import COLUMNS as STRAGGLER_COLUMNS
from torchprof_magic.findings.ranks.verdict import has_device, is_pair, per_step, ranks_verdict
from torchprof_magic.model.meta import shortened
from torchprof_magic.model.shapes import Column, Layer, Problems, RankBars, RankPart, SliceLane, Slices, Table
from torchprof_magic.model.units import format_ns, format_ratio, short_file
from torchprof_magic.tables.timeline.slices import OPS
from torchprof_magic.tables.timeline.slices import SCHEMA as SLICE_SCHEMA

if TYPE_CHECKING:
    from torchprof_magic.findings.ranks.job import Job

# Collectives in the picture of who waits: those with the most waiting, in order of time.
SHOWN_COLLECTIVES = 12
MOST_SLICES = 200_000
_LAYERS = (Layer(title="Ops", column=OPS),)
# The lanes of each rank: their titles and kinds.
_LANES: tuple[tuple[str, Literal["thread", "stream"]], ...] = (
    ("steps", "thread"),
    ("collectives", "stream"),
    ("compute", "stream"),
)
# How each part of a rank's bar is drawn: in the hue of a phase, of two at once, as idle, or as waiting. What a rank
# waits for the others stands last, so that the one they wait for is the one without it.
PARTS = {
    "only_compute_ns": "forward",
    "hidden_comm_ns": "both",
    "own_comm_ns": "communication",
    "copy_ns": "data",
    "idle_ns": "idle",
    "waited_ns": "waiting",
}
PART_TITLES = {
    "only_compute_ns": "compute",
    "hidden_comm_ns": "both",
    "own_comm_ns": "communication",
    "copy_ns": "copies",
    "idle_ns": "GPU waits for the host",
    "waited_ns": "waits for other ranks",
}
HOST_IDLE_TITLE = "idle"
# The numbers beside the bars, as far as there are such parts of them, and what they are called as in the legend.
_BESIDE = ("step_ns", "compute_ns", "own_comm_ns", "idle_ns", "wait_ns", "caused_wait_ns")
# What communication takes without the waiting, so that no two columns have the same time.
_OWN_COMM = Column(
    name="own_comm_ns",
    title="Communication",
    unit="ns",
    definition="Time per step in which collectives ran and no other kernel, without the waiting for other ranks.",
)
_DEVICE_TITLES = {"idle_ns": "Waits for host"}
WAITS_VIEW = "waits"


def ranks_view(job: Job) -> Table:
    """Return one row per rank, with the parts of its bar."""
    verdict = ranks_verdict(job)
    # Waiting is of all collectives, and some of it is hidden behind other work.
    waited_ns = pl.min_horizontal("wait_ns", "exposed_comm_ns")
    frame = job.ranks.with_columns(
        (pl.col("compute_ns") - pl.col("hidden_comm_ns")).alias("only_compute_ns"),
        (pl.col("exposed_comm_ns") - waited_ns).alias("own_comm_ns"),
        waited_ns.alias("waited_ns"),
        (pl.col("rank") == (-1 if verdict.rank is None else verdict.rank)).alias("is_late"),
        pl.col("file").map_elements(short_file, return_dtype=pl.String),
    )
    with_device = has_device(job)
    titles = PART_TITLES if with_device else PART_TITLES | {"idle_ns": HOST_IDLE_TITLE}
    shown = {name: look for name, look in PARTS.items() if (frame[name] > 0).any()}
    return Table(
        frame=frame,
        columns=tuple(
            replace(column, title=_DEVICE_TITLES.get(column.name, column.title)) if with_device else column
            for column in (*RANK_COLUMNS, _OWN_COMM)
            if not frame[column.name].is_null().all()
        ),
        ranks=RankBars(
            number="rank",
            total="step_ns",
            late="is_late",
            parts=tuple(RankPart(column=name, title=titles[name], look=look) for name, look in shown.items()),
            beside=tuple(name for name in _BESIDE if name in shown or name not in PARTS),
            waits=WAITS_VIEW if job.collectives.height else "",
        ),
    )


def waits_view(job: Job) -> Table:
    """Return what each rank waits in the collectives with the most waiting, in order of time."""
    worst = job.collectives.sort("wait_ns", descending=True, maintain_order=True).head(SHOWN_COLLECTIVES)
    frame = job.arrivals.join(worst.select("number"), on="number", how="semi").sort("number", "rank")
    return Table(frame=frame, columns=ARRIVAL_COLUMNS)


def collectives_view(job: Job) -> Table:
    """Return the collectives, the one with the most waiting first."""
    columns = tuple(column for column in COLLECTIVE_COLUMNS if not job.collectives[column.name].is_null().all())
    return Table(frame=job.collectives, columns=columns, sort_by="wait_ns", answer=_most_waiting(job))


def stragglers_view(job: Job) -> Table:
    """Return the ranks that others wait for."""
    frame = job.stragglers.with_columns(
        pl.col("file").map_elements(short_file, return_dtype=pl.String),
        pl.col("source").map_elements(lambda text: shortened(text.strip()), return_dtype=pl.String),
    )
    columns = tuple(column for column in STRAGGLER_COLUMNS if not frame[column.name].is_null().all())
    return Table(frame=frame, columns=columns, sort_by="caused_wait_ns", answer=_most_waited_for(job))


def problems_view(job: Job) -> Problems:
    """Return the problems of the job and of its files."""
    return Problems(problems=job.problems)


def timeline_view(job: Job) -> Slices:
    """Return the steps, collectives and computation of every rank on the common clock, those first that are late."""
    if job.spans.height + job.arrivals.height > MOST_SLICES:
        return Slices(frame=pl.DataFrame(schema=SLICE_SCHEMA), lanes=(), layers=_LAYERS)
    # A window shows a few ranks of many, so those that the others wait for are the first.
    numbers = list(dict.fromkeys([*job.stragglers["rank"], *job.ranks["rank"]]))
    late = ranks_verdict(job).rank
    groups = [f"rank {rank}{' ▲' if rank == late else ''}" for rank in numbers]
    lanes = [SliceLane(title=title, kind=kind, group=group) for group in groups for title, kind in _LANES]
    first_lane = pl.col("rank").replace_strict(
        dict(zip(numbers, range(0, len(lanes), len(_LANES)), strict=True)), return_dtype=pl.Int64
    )
    steps = _slices(job.spans.filter(pl.col("kind") == "step"), first_lane, "annotation", "python")
    collectives = _slices(_with_notes(job), first_lane + 1, "kernel", "communication")
    compute = _slices(job.spans.filter(pl.col("kind") == "compute"), first_lane + 2, "kernel", "forward")
    frame = pl.concat([steps, collectives, compute])
    # Clocks that are set right can put the begin of a rank a little before the first moment.
    least = min(int(frame["start_ns"].min() or 0), 0)  # type: ignore[arg-type]
    return Slices(
        frame=frame.with_columns(pl.col("start_ns") - least).sort("lane", "start_ns"),
        lanes=tuple(lanes),
        layers=_LAYERS,
        answer=_longest_wait(job, least),
    )


def _longest_wait(job: Job, least: int) -> str:
    """Return what the others wait for a rank, in which collective most, and until when in a picture from ``least``."""
    waits = job.collectives.filter(pl.col("wait_ns") > 0).sort("wait_ns", descending=True)
    if waits.height == 0:
        return ""
    row = waits.row(0, named=True)
    several = row["ranks"] > 2  # noqa: PLR2004 - two ranks
    others, together = ("the others wait", " together") if several else ("the other one waits", "")
    whole_ns = int(waits.filter(pl.col("last_rank") == row["last_rank"])["wait_ns"].sum())
    in_all = " in all steps" if waits["step"].n_unique() > 1 else ""
    return (
        f"For rank {row['last_rank']} {others} {format_ns(whole_ns)}{together}{in_all}, {format_ns(row['wait_ns'])} of "
        f"it in collective {row['number']}, {code_of(row['name'])}, which it enters at "
        f"{format_ns(row['start_ns'] - least)}."
    )


def _most_waiting(job: Job) -> str:
    """Return in which collective the ranks wait longest, for whom, and how much of all waiting that is."""
    waits = job.collectives.filter(pl.col("wait_ns") > 0).sort("wait_ns", descending=True)
    if waits.height == 0:
        return ""
    row = waits.row(0, named=True)
    in_all = "in all steps" if waits["step"].n_unique() > 1 else "in total"
    return (
        f"The ranks wait longest in collective {row['number']}, {code_of(row['name'])}, for rank {row['last_rank']}: "
        f"{format_ns(row['wait_ns'])} of {format_ns(int(waits['wait_ns'].sum()))} {in_all}."
    )


def _most_waited_for(job: Job) -> str:
    """Return for which rank the others wait longest, and how much of all waiting that is."""
    if job.stragglers.height == 0:
        return ""
    row = job.stragglers.row(0, named=True)
    others, together = ("the other one waits", "") if is_pair(job) else ("the others wait", " together")
    waited = f"{format_ns(row['caused_wait_ns'])}{together}{per_step(job)}"
    share = "all" if row["share_ratio"] == 1 else format_ratio(row["share_ratio"])
    return f"For rank {row['rank']} {others} {waited}: {share} of the waiting."


def _with_notes(job: Job) -> pl.DataFrame:
    """Return the collectives of all ranks with a word on who waits for whom."""
    rows = job.arrivals.join(job.collectives.select("number", "last_rank"), on="number", how="left")
    waits = pl.Series("wait", [format_ns(wait) for wait in rows["wait_ns"]], dtype=pl.String)
    note = (
        pl.when("is_last")
        .then(pl.lit("comes last"))
        .otherwise(pl.format("waits {} for rank {}", pl.col("wait"), pl.col("last_rank")))
    )
    return rows.with_columns(waits).with_columns(note.alias("note"))


def _slices(rows: pl.DataFrame, lane: pl.Expr, kind: str, phase: str) -> pl.DataFrame:
    note = pl.col("note") if "note" in rows.columns else pl.lit("")
    return rows.select(
        lane.alias("lane"),
        pl.lit(0).alias(OPS),
        "start_ns",
        "dur_ns",
        "name",
        pl.lit(kind).alias("kind"),
        pl.lit(phase).alias("phase"),
        note.alias("note"),
        pl.lit(-1).alias("source"),
        pl.lit(-1).alias("op"),
        pl.lit(1).alias("count"),
    ).cast(SLICE_SCHEMA)  # type: ignore[arg-type]
