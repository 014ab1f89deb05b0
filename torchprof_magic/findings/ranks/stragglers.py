"""The ranks that others wait for, and what each of them does in the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from torchprof_magic.model.shapes import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchprof_magic.model.trace import DType

COLUMNS = (
    Column(name="rank", title="Rank", unit="count", definition="Number of the rank that others wait for."),
    Column(
        name="caused_wait_ns",
        title="Others wait for it",
        unit="ns",
        definition="What all others together wait, a step, in the collectives to which it comes last.",
        has_bar=True,
    ),
    Column(
        name="share_ratio", title="Share", unit="ratio", definition="Its share of all waiting for others in the job."
    ),
    Column(name="last_in", title="Last in", unit="count", definition="Number of collectives to which it comes last."),
    Column(
        name="collectives",
        title="Of collectives",
        unit="count",
        definition="Number of collectives that it is in.",
    ),
    Column(
        name="cause",
        title="Cause",
        unit="text",
        definition="What it does more of than the others while no collective runs: compute (kernels of its device), "
        "the causes of its own report's idle time, or the phases of its host, such as python, data or idle; late start "
        "if it entered its first step later; unknown if nothing explains it.",
    ),
    Column(name="name", title="Name", unit="code", definition="The op, call, range or kernel with the most of that."),
    Column(name="file", title="File", unit="text", definition="File of the line with the most of that, if known."),
    Column(name="line", title="Line", unit="count", definition="Number of that line."),
    Column(name="source", title="Source", unit="code", definition="Text of that line, if it was watched."),
    Column(
        name="cause_ns",
        title="Longer than others",
        unit="ns",
        definition="Time per step that the cause takes on this rank more than on the others, by their median; by "
        "their mean for a late start.",
    ),
    Column(
        name="own_ns",
        title="Outside collectives",
        unit="ns",
        definition="Its time per step while no collective runs.",
        is_minor=True,
    ),
    Column(
        name="others_own_ns",
        title="Others outside",
        unit="ns",
        definition="The median of that of the other ranks.",
        is_minor=True,
    ),
)
SCHEMA: dict[str, DType] = {
    "rank": pl.Int32,
    "caused_wait_ns": pl.Int64,
    "share_ratio": pl.Float64,
    "last_in": pl.Int32,
    "collectives": pl.Int32,
    "cause": pl.String,
    "name": pl.String,
    "file": pl.String,
    "line": pl.Int32,
    "source": pl.String,
    "cause_ns": pl.Int64,
    "own_ns": pl.Int64,
    "others_own_ns": pl.Int64,
}
# What the other ranks wait for a rank, each, as a share of their step; below this it counts as prompt.
LEAST_SHARE_OF_STEP = 0.01
# A rank that causes less of the job's waiting than this is not named beside one that causes more.
LEAST_SHARE_OF_WAITING = 0.1
# What a rank does more than the others must explain this share of its being late to be called the cause.
_EXPLAINS = 0.2
# An event is named if it takes this share of the cause.
_MOSTLY = 0.5
# Host time counts as sleep if so much of the excess is time in which the thread used no CPU.
_ASLEEP = 0.5
LATE_START = "late start"
UNKNOWN = "unknown"


class _Cause(NamedTuple):
    """What a rank does more than the others, in ns per step."""

    cause: str = UNKNOWN
    name: str | None = None
    file: str | None = None
    line: int | None = None
    source: str | None = None
    cause_ns: int = 0


def stragglers_of(ranks: pl.DataFrame, arrivals: pl.DataFrame, doings: Mapping[int, pl.DataFrame]) -> pl.DataFrame:
    """Return one row per rank for which the others wait noticeably, the one that costs the most first."""
    whole = int(ranks["caused_wait_ns"].sum())
    if whole == 0:
        return pl.DataFrame(schema=SCHEMA)
    others = max(ranks.height - 1, 1)
    step_ns = float(ranks["step_ns"].median() or 0)  # type: ignore[arg-type]
    late = ranks.filter(
        (pl.col("caused_wait_ns") >= LEAST_SHARE_OF_STEP * step_ns * others)
        & (pl.col("caused_wait_ns") >= LEAST_SHARE_OF_WAITING * whole)
    ).sort("caused_wait_ns", "rank", descending=[True, False])
    taken = dict(arrivals.group_by("rank").agg(pl.len()).iter_rows())
    a_step = _a_step(ranks, doings)
    starts = _late_starts(ranks)
    rows = []
    for row in late.iter_rows(named=True):
        rank = int(row["rank"])
        late_ns = row["caused_wait_ns"] / others
        rows.append(
            {
                "rank": rank,
                "caused_wait_ns": row["caused_wait_ns"],
                "share_ratio": row["caused_wait_ns"] / whole,
                "last_in": row["last_in"],
                "collectives": taken.get(rank, 0),
                **_cause_of(rank, a_step, ranks, late_ns, starts.get(rank, 0))._asdict(),
                **_own_times(rank, ranks),
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA)


def _a_step(ranks: pl.DataFrame, doings: Mapping[int, pl.DataFrame]) -> pl.DataFrame:
    """Return the doings of all ranks in ns per step."""
    steps = dict(ranks.select("rank", pl.col("steps").clip(1)).iter_rows())
    return pl.concat(
        [
            frame.with_columns(pl.lit(rank, pl.Int32).alias("rank"), pl.col("ns") / steps[rank])
            for rank, frame in doings.items()
        ]
    )


def _own_times(rank: int, ranks: pl.DataFrame) -> dict[str, int]:
    own = ranks.select("rank", (pl.col("step_ns") - pl.col("exposed_comm_ns")).alias("own_ns"))
    mine, others = own.filter(pl.col("rank") == rank)["own_ns"], own.filter(pl.col("rank") != rank)["own_ns"]
    return {"own_ns": int(mine[0]), "others_own_ns": round(float(others.median() or 0))}  # type: ignore[arg-type]


def _late_starts(ranks: pl.DataFrame) -> dict[int, float]:
    """Return by how many ns per step each rank entered its first step later than the others did on average."""
    if ranks["clock_offset_ns"].null_count() or ranks["first_step"].n_unique() != 1:
        return {}
    steps = dict(ranks.select("rank", pl.col("steps").clip(1)).iter_rows())
    entered = ranks.select(
        "rank", (pl.col("start_unix_ns") + pl.col("window_start_ns") - pl.col("clock_offset_ns")).alias("at")
    )
    least = int(entered["at"].min())  # type: ignore[arg-type]
    after = {rank: at - least for rank, at in entered.iter_rows()}
    others = max(len(after) - 1, 1)
    return {rank: (at - (sum(after.values()) - at) / others) / steps[rank] for rank, at in after.items()}


def _cause_of(rank: int, doings: pl.DataFrame, ranks: pl.DataFrame, late_ns: float, late_start_ns: float) -> _Cause:
    """Return what the rank does more than the others: first of which kind, and then what of it, and where."""
    kinds = _excess(doings, ["cause"], rank, ranks)
    if kinds.height == 0 or max(float(kinds["more_ns"][0]), late_start_ns) < _EXPLAINS * late_ns:
        return _Cause()
    if late_start_ns > float(kinds["more_ns"][0]):
        return _Cause(cause=LATE_START, cause_ns=round(late_start_ns))
    cause, more_ns = str(kinds["cause"][0]), float(kinds["more_ns"][0])
    of_kind = doings.filter(pl.col("cause") == cause)
    lines = _excess(of_kind.drop_nulls("line"), ["file", "line"], rank, ranks)
    place = lines.row(0, named=True) if lines.height and float(lines["more_ns"][0]) > 0 else {}
    here = of_kind.filter(pl.col("file").eq_missing(place["file"]), line=place["line"]) if place else of_kind
    names = _excess(here.drop_nulls("name"), ["name"], rank, ranks)
    sources = here.filter(pl.col("rank") == rank)["source"].drop_nulls().to_list() if place else []
    return _Cause(
        cause="idle" if cause == "python" and _asleep_ns(rank, ranks) >= _ASLEEP * more_ns else cause,
        name=names["name"][0] if names.height and float(names["more_ns"][0]) >= _MOSTLY * more_ns else None,
        file=place.get("file"),
        line=place.get("line"),
        source=sources[0] if len(sources) else None,
        cause_ns=round(more_ns),
    )


def _asleep_ns(rank: int, ranks: pl.DataFrame) -> float:
    """Return how many ns per step the host of a rank without a device is idle more than the others."""
    others = ranks.filter(pl.col("rank") != rank)["idle_ns"].median()
    mine = ranks.filter((pl.col("rank") == rank) & ~pl.col("has_device"))["idle_ns"]
    return float(mine[0]) - float(others or 0) if len(mine) else 0.0  # type: ignore[arg-type]


def _excess(doings: pl.DataFrame, key: list[str], rank: int, ranks: pl.DataFrame) -> pl.DataFrame:
    """Return the doings of a rank by a key, each less the median of the other ranks, the largest first."""
    sums = doings.group_by("rank", *key).agg(pl.col("ns").sum())
    mine = sums.filter(pl.col("rank") == rank).drop("rank")
    others = sums.filter(pl.col("rank") != rank)
    # A rank without the key has 0 of it.
    every = mine.select(key).join(ranks.filter(pl.col("rank") != rank).select("rank"), how="cross")
    known = every.join(others, on=["rank", *key], how="left", nulls_equal=True)
    usual = known.group_by(key).agg(pl.col("ns").fill_null(0).median().alias("usual_ns"))
    found = mine.join(usual, on=key, how="left", nulls_equal=True)
    return found.with_columns((pl.col("ns") - pl.col("usual_ns").fill_null(0)).alias("more_ns")).sort(
        "more_ns", *key, descending=[True, *(False for _ in key)], nulls_last=True
    )
