"""All ranks of a job, joined: who waits for whom, in which collective, and for how long."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.findings.ranks.matching import clocks_of, match_collectives
from torchprof_magic.findings.ranks.path import path_of_job
from torchprof_magic.findings.ranks.stragglers import stragglers_of
from torchprof_magic.model.shapes import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torchprof_magic.findings.ranks.frames import RankFrames
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.trace import DType

RANK_COLUMNS = (
    Column(name="rank", title="Rank", unit="count", definition="Number of the rank in its job."),
    Column(
        name="step_ns",
        title="Step",
        unit="ns",
        definition="Time of a step: the mean of those that count, as `step_ns` of the rank's own report. The whole "
        "recording if it has no steps.",
    ),
    Column(
        name="compute_ns",
        title="Compute",
        unit="ns",
        definition="Time per step in which a kernel other than a collective ran. Without a device: what is left of the "
        "step without communication and idle time.",
    ),
    Column(
        name="hidden_comm_ns",
        title="Hidden",
        unit="ns",
        definition="Part of that in which a collective ran as well.",
    ),
    Column(
        name="exposed_comm_ns",
        title="Comm. alone",
        unit="ns",
        definition="Time per step in which collectives ran and no other kernel; on the host, in which the thread of "
        "the step did nothing else.",
    ),
    Column(
        name="copy_ns",
        title="Copies",
        unit="ns",
        definition="Time per step in which only copies and fills ran.",
        is_minor=True,
    ),
    Column(
        name="idle_ns",
        title="Idle",
        unit="ns",
        definition="Time per step in which nothing ran on the device, which waits for the host. Without a device: in "
        "which the thread of the step was idle or waited. Compute, alone, copies and idle add up to the step.",
    ),
    Column(
        name="wait_ns",
        title="Waits for others",
        unit="ns",
        definition="Time per step that the rank waits for others: the length of each collective less the shortest "
        "among its ranks, summed over those of its steps that count, also where it computes meanwhile. This needs no "
        "common clock.",
    ),
    Column(
        name="caused_wait_ns",
        title="Others wait for it",
        unit="ns",
        definition="Time per step that all others together wait in the collectives to which this rank comes last, "
        "of those of its steps that count.",
    ),
    Column(name="last_in", title="Last in", unit="count", definition="Number of collectives to which it comes last."),
    Column(
        name="host_wait_ns",
        title="Host waits",
        unit="ns",
        definition="Time per step in blocking calls of its host, as in its own report's waits.",
        is_minor=True,
    ),
    Column(
        name="memory_peak_bytes",
        title="Memory peak",
        unit="bytes",
        definition="The most memory in use at once on the device, or the host without one; missing if not recorded.",
        is_minor=True,
    ),
    Column(
        name="clock_offset_ns",
        title="Clock ahead",
        unit="ns",
        definition="How far the clock of its machine is ahead of the middle of all, by the ends of shared collectives.",
        is_minor=True,
    ),
    Column(
        name="clock_error_ns",
        title="Clock error",
        unit="ns",
        definition="Nine of ten shared collectives agree on the offset within this; all of them if there are fewer "
        "than ten.",
        is_minor=True,
    ),
    Column(name="steps", title="Steps", unit="count", definition="Number of steps that count.", is_minor=True),
    Column(
        name="first_step",
        title="First step",
        unit="step",
        definition="Number of the first complete one.",
        is_minor=True,
    ),
    Column(
        name="last_step", title="Last step", unit="step", definition="Number of the last complete one.", is_minor=True
    ),
    Column(name="device", title="Device", unit="text", definition="Name of its device, if known.", is_minor=True),
    Column(name="file", title="File", unit="text", definition="Where it was read from.", is_minor=True),
)
COLLECTIVE_COLUMNS = (
    Column(name="number", title="Number", unit="count", definition="Number of the collective, in order of time."),
    Column(name="step", title="Step", unit="step", definition="Step in which it was launched; missing outside steps."),
    Column(name="name", title="Collective", unit="code", definition="Its kind, such as all_reduce."),
    Column(
        name="group", title="Group", unit="text", definition="Its process group; empty if not recorded.", is_minor=True
    ),
    Column(name="ranks", title="Ranks", unit="count", definition="How many of the ranks took part in it."),
    Column(
        name="last_rank", title="Last", unit="count", definition="The rank that came last, for which the others waited."
    ),
    Column(
        name="bytes",
        title="Size",
        unit="bytes",
        definition="The larger of what goes in and comes out on one rank; missing if not recorded.",
    ),
    Column(
        name="transfer_ns",
        title="Shortest",
        unit="ns",
        definition="Its shortest length among the ranks: that of the last to come, which waits for nobody.",
        is_minor=True,
    ),
    Column(name="longest_ns", title="Longest", unit="ns", definition="Its longest length among the ranks."),
    Column(
        name="skew_ns",
        title="Skew",
        unit="ns",
        definition="Longest less shortest: how much later the last rank came than the first.",
        has_bar=True,
    ),
    Column(
        name="wait_ns",
        title="Waiting",
        unit="ns",
        definition="What all ranks together waited: the sum of their lengths, each less the shortest.",
        has_bar=True,
    ),
    Column(name="first_rank", title="First", unit="count", definition="The rank that came first.", is_minor=True),
    Column(
        name="bytes_per_s",
        title="Bytes per second",
        unit="bytes",
        definition="Bytes divided by the shortest length; missing if the bytes were not recorded.",
        is_minor=True,
    ),
    Column(
        name="bus_bytes_per_s",
        title="Bus bytes per second",
        unit="bytes",
        definition="The same times 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter and all_to_all, of "
        "n ranks: the speed of the links, as in nccl-tests.",
        is_minor=True,
    ),
    Column(
        name="start_ns",
        title="Start",
        unit="ns",
        definition="When the last rank came, on the common clock, from the first event of all ranks.",
        is_minor=True,
    ),
)
ARRIVAL_COLUMNS = (
    Column(name="number", title="Number", unit="count", definition="Number of the collective."),
    Column(name="rank", title="Rank", unit="count", definition="Number of the rank."),
    Column(name="step", title="Step", unit="step", definition="Step in which it was launched; missing outside steps."),
    Column(name="name", title="Collective", unit="code", definition="Its kind."),
    Column(
        name="start_ns",
        title="Start",
        unit="ns",
        definition="When the rank came, on the common clock, from the first event of all ranks.",
    ),
    Column(name="dur_ns", title="Length", unit="ns", definition="How long the collective took on the rank."),
    Column(
        name="wait_ns",
        title="Waiting",
        unit="ns",
        definition="Its length less the shortest among its ranks.",
        has_bar=True,
    ),
    Column(name="is_last", title="Last", unit="bool", definition="Whether the rank came last."),
)
_ARRIVAL_SCHEMA: dict[str, DType] = {
    "number": pl.Int32,
    "rank": pl.Int32,
    "step": pl.Int32,
    "name": pl.String,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "wait_ns": pl.Int64,
    "is_last": pl.Boolean,
}
_BUS_TWICE, _BUS_ONCE = ("all_reduce",), ("all_gather", "reduce_scatter", "all_to_all")
_NS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """The ranks of a job, joined. Frames are sorted by rank, or by the number of the collective.

    ``spans`` are the steps and pictures of the ranks on the common clock. ``critical_path`` returns that through all
    ranks, for which it looks at the recording of each. ``world_size`` is that of the job, or the number of ranks if not
    recorded.
    """

    ranks: pl.DataFrame
    collectives: pl.DataFrame
    arrivals: pl.DataFrame
    stragglers: pl.DataFrame
    spans: pl.DataFrame
    critical_path: Callable[[], pl.DataFrame]
    problems: tuple[Problem, ...]
    world_size: int
    title: str
    backend: str
    unmatched: int = 0

    def with_problems(self, problems: tuple[Problem, ...]) -> Job:
        """Return the same job with these problems."""
        return replace(self, problems=problems)


def join_ranks(
    frames: Mapping[int, RankFrames],
    *,
    files: Mapping[int, str],
    legs: Callable[[int], pl.DataFrame],
    title: str = "",
    problems: Sequence[Problem] = (),
) -> Job:
    """Return the ranks of one job, joined. ``frames`` are those of each rank by its number, ``files`` their names.

    ``legs`` returns the ``legs_of_rank`` of one of them, and is called where the critical path is asked for.
    """
    summary = pl.concat(
        [frames[rank].summary.with_columns(pl.lit(rank, pl.Int32).alias("rank")) for rank in sorted(frames)]
    ).with_columns(pl.Series("file", [files.get(rank, "") for rank in sorted(frames)], dtype=pl.String))
    matched = match_collectives(_all_rows(frames, "collectives", summary))
    clocks = clocks_of(matched.rows)
    summary = summary.join(clocks, on="rank", how="left", maintain_order="left")
    arrivals, collectives = _arrivals(matched.rows, summary)
    zero_ns = _zero(summary)
    arrivals, collectives = (frame.with_columns(pl.col("start_ns") - zero_ns) for frame in (arrivals, collectives))
    ranks = _with_waiting(summary, arrivals, collectives)
    return Job(
        ranks=ranks.select(column.name for column in RANK_COLUMNS),
        collectives=collectives.select(column.name for column in COLLECTIVE_COLUMNS),
        arrivals=arrivals.select(_ARRIVAL_SCHEMA.keys()).cast(_ARRIVAL_SCHEMA),  # type: ignore[arg-type]
        stragglers=stragglers_of(ranks, arrivals, {rank: each.doings for rank, each in frames.items()}),
        spans=_spans(frames, summary, zero_ns),
        critical_path=partial(
            _critical_path, legs, {rank: each.collectives for rank, each in frames.items()}, summary, arrivals
        ),
        problems=tuple(problems),
        world_size=max(int(summary["world_size"].max() or 0), summary.height),  # type: ignore[arg-type]
        title=title,
        backend=next((name for name in summary["backend"] if name), ""),
        unmatched=matched.unmatched,
    )


def _all_rows(frames: Mapping[int, RankFrames], name: str, summary: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of one frame of all ranks, with the rank and the Unix time of their starts."""
    base = dict(summary.select("rank", "start_unix_ns").iter_rows())
    return pl.concat(
        [
            getattr(frames[rank], name)
            .with_columns(pl.int_range(pl.len(), dtype=pl.Int32).alias("row"))
            .with_columns(
                pl.lit(rank, pl.Int32).alias("rank"), (pl.col("start_ns") + base[rank]).alias("start_unix_ns")
            )
            for rank in sorted(frames)
        ]
    )


def _arrivals(rows: pl.DataFrame, summary: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return what each rank waited in each collective, and the collectives, on the common clock."""
    offset = summary.select("rank", pl.col("clock_offset_ns").fill_null(0).alias("offset"))
    rows = rows.join(offset, on="rank", how="left", maintain_order="left").with_columns(
        (pl.col("start_unix_ns") - pl.col("offset")).alias("start_ns")
    )
    shortest = pl.col("dur_ns").min().over("key")
    is_last = (pl.int_range(pl.len()) == pl.col("dur_ns").arg_min()).over("key")
    rows = rows.with_columns((pl.col("dur_ns") - shortest).alias("wait_ns"), is_last.alias("is_last"))
    whole = rows.group_by("key").agg(
        pl.col("step").min(),
        pl.col("name").first(),
        pl.col("group_title").first().alias("group"),
        pl.len().cast(pl.Int32).alias("ranks"),
        pl.max_horizontal(pl.len(), pl.col("group_size").max()).cast(pl.Int32).alias("size"),
        pl.col("bytes").max(),
        pl.col("dur_ns").min().alias("transfer_ns"),
        pl.col("dur_ns").max().alias("longest_ns"),
        (pl.col("dur_ns").max() - pl.col("dur_ns").min()).alias("skew_ns"),
        pl.col("wait_ns").sum(),
        pl.col("rank").filter("is_last").first().alias("last_rank"),
        pl.col("rank").sort_by("dur_ns", descending=True).first().alias("first_rank"),
        pl.col("start_ns").filter("is_last").first(),
    )
    whole = whole.sort("start_ns", "key").with_columns(
        pl.int_range(1, pl.len() + 1, dtype=pl.Int32).alias("number"), *_bandwidths()
    )
    rows = rows.join(whole.select("key", "number"), on="key", how="left").sort("number", "rank")
    return rows, whole


def _bandwidths() -> tuple[pl.Expr, pl.Expr]:
    speed = pl.col("bytes") * _NS / pl.when(pl.col("transfer_ns") > 0).then(pl.col("transfer_ns"))
    share = (pl.col("size") - 1) / pl.col("size")
    factor = (
        pl.when(pl.col("name").is_in(_BUS_TWICE))
        .then(2 * share)
        .when(pl.col("name").is_in(_BUS_ONCE))
        .then(share)
        .otherwise(1.0)
    )
    return speed.alias("bytes_per_s"), (speed * factor).alias("bus_bytes_per_s")


def _zero(summary: pl.DataFrame) -> int:
    """Return the first moment of all ranks on the common clock, in Unix ns."""
    starts = summary["start_unix_ns"] - summary["clock_offset_ns"].fill_null(0)
    return int(starts.min())  # type: ignore[arg-type]


def _with_waiting(summary: pl.DataFrame, arrivals: pl.DataFrame, collectives: pl.DataFrame) -> pl.DataFrame:
    """Return the ranks with their waiting, and that of the others for them, per step of those that count."""
    waits = arrivals.filter("counts").group_by("rank").agg(pl.col("wait_ns").sum())
    last = arrivals.filter("is_last").select("rank", "number", "counts")
    last = last.join(collectives.select("number", "wait_ns"), on="number", how="left")
    caused = last.group_by("rank").agg(
        pl.col("wait_ns").filter("counts").sum().alias("caused_wait_ns"), pl.len().cast(pl.Int32).alias("last_in")
    )
    found = summary.join(waits, on="rank", how="left", maintain_order="left").join(
        caused, on="rank", how="left", maintain_order="left"
    )
    a_step = [
        (pl.col(name).fill_null(0) / pl.col("steps").clip(1)).round().cast(pl.Int64).alias(name)
        for name in ("wait_ns", "caused_wait_ns")
    ]
    return found.with_columns(*a_step, pl.col("last_in").fill_null(0))


def _critical_path(
    legs: Callable[[int], pl.DataFrame],
    collectives: Mapping[int, pl.DataFrame],
    summary: pl.DataFrame,
    arrivals: pl.DataFrame,
) -> pl.DataFrame:
    """Return the critical path of the job."""
    ranks = [legs(rank).with_columns(pl.lit(rank, pl.Int32).alias("rank")) for rank in sorted(collectives)]
    known = pl.concat(ranks)
    clocks = summary.select(
        "rank", (pl.col("start_unix_ns") - pl.col("clock_offset_ns").fill_null(0)).alias("clock_ns")
    )
    ends = known.filter(pl.col("collective").is_null()).unique(["rank", "step"], maintain_order=True)
    ends = ends.join(clocks, on="rank", how="left").select("rank", "step", pl.col("end_ns") + pl.col("clock_ns"))
    return path_of_job(known, arrivals, collectives, ends)


def _spans(frames: Mapping[int, RankFrames], summary: pl.DataFrame, zero_ns: int) -> pl.DataFrame:
    """Return the pictures of all ranks on the common clock."""
    offset = dict(summary.select("rank", pl.col("clock_offset_ns").fill_null(0)).iter_rows())
    rows = _all_rows(frames, "spans", summary)
    ahead = rows["rank"].replace_strict(offset, return_dtype=pl.Int64) if rows.height else pl.Series([], dtype=pl.Int64)
    return rows.select("rank", "kind", "name", (pl.col("start_unix_ns") - ahead - zero_ns).alias("start_ns"), "dur_ns")
