"""The critical path of a job: through the ranks, which wait for one another in collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from torchprof_magic.findings.what_if.limits import GROUPS
from torchprof_magic.model.shapes import Column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchprof_magic.model.trace import DType

COLUMNS = (
    Column(name="step", title="Step", unit="step", definition="Number of the step."),
    Column(name="order", title="Order", unit="count", definition="Place on the path of the step, from 0."),
    Column(name="rank", title="Rank", unit="count", definition="The rank that all wait for meanwhile."),
    Column(
        name="collective",
        title="Collective",
        unit="count",
        definition="Number of the collective, a row of `collectives`; null for what a rank does itself.",
    ),
    Column(
        name="kind",
        title="Kind",
        unit="text",
        definition="What it is: communication; or what the rank does itself since then: "
        + ", ".join(f"{name} ({title})" for name, title in GROUPS.items() if name != "communication")
        + ".",
    ),
    Column(
        name="name",
        title="Name",
        unit="code",
        definition="The kind of collective, or the event that takes most of it; null if it is in none.",
    ),
    Column(name="file", title="File", unit="text", definition="File of the line with most of it, if known."),
    Column(name="line", title="Line", unit="count", definition="Number of that line."),
    Column(
        name="dur_ns",
        title="Duration",
        unit="ns",
        definition="How long it takes of the step; of a collective that ranks share its shortest length among them.",
    ),
)
SCHEMA: dict[str, DType] = {
    "step": pl.Int32,
    "order": pl.Int32,
    "rank": pl.Int32,
    "collective": pl.Int32,
    "kind": pl.String,
    "name": pl.String,
    "file": pl.String,
    "line": pl.Int32,
    "dur_ns": pl.Int64,
}


class _Shared(NamedTuple):
    """A collective that ranks share: its number, the rank that comes last with its own row of it, and its length."""

    number: int
    rank: int
    row: int
    transfer_ns: int


_Leg = tuple[int | None, list[dict[str, object]]]


def path_of_job(
    legs: pl.DataFrame, arrivals: pl.DataFrame, collectives: Mapping[int, pl.DataFrame], ends: pl.DataFrame
) -> pl.DataFrame:
    """Return the critical path of each step that counts on all ranks.

    It begins with the rank that ends the step last, and goes back. Where that waited in a collective, it goes on with
    the rank that came last to it. ``legs`` are those of all ranks with their ``rank``, ``arrivals`` has the ``number``
    and the ``row`` of each collective of a rank, and ``ends`` has ``step``, ``rank`` and ``end_ns`` by a common clock.
    """
    shared = _shared(arrivals)
    known = {key: _leg(part) for key, part in _by_leg(legs)}
    ranks = ends["rank"].n_unique()
    rows: list[dict[str, object]] = []
    for (step,), part in sorted(ends.group_by("step")):
        if part["rank"].n_unique() < ranks:
            continue
        rank = int(part.sort("end_ns", "rank", descending=[True, False])["rank"][0])
        found = [*_walk(step, rank, known, shared, collectives)]
        rows += [row | {"step": step, "order": order} for order, row in enumerate(reversed(found))]
    return pl.DataFrame(rows, schema=SCHEMA)


def _by_leg(legs: pl.DataFrame) -> Iterator[tuple[tuple[Any, ...], pl.DataFrame]]:
    yield from legs.group_by("rank", "step", "collective", maintain_order=True)


def _leg(part: pl.DataFrame) -> _Leg:
    """Return the collective before a leg, and what it consists of, the shortest first."""
    rows = part.drop_nulls("kind").sort("ns").rename({"ns": "dur_ns"})
    return part["before"][0], rows.select("kind", "name", "file", "line", "dur_ns").to_dicts()


def _shared(arrivals: pl.DataFrame) -> dict[tuple[int, int], _Shared]:
    """Return the shared collectives by the rank and its row of each."""
    last = arrivals.filter("is_last").select(
        "number", pl.col("rank").alias("last"), pl.col("row").alias("last_row"), pl.col("dur_ns").alias("transfer_ns")
    )
    rows = arrivals.join(last, on="number").select("rank", "row", "number", "last", "last_row", "transfer_ns")
    return {(rank, row): _Shared(*rest) for rank, row, *rest in rows.iter_rows()}


def _walk(
    step: int,
    rank: int,
    legs: Mapping[tuple[Any, ...], _Leg],
    shared: Mapping[tuple[int, int], _Shared],
    collectives: Mapping[int, pl.DataFrame],
) -> Iterator[dict[str, object]]:
    """Yield what a step waits for, from its end back to its begin."""
    collective: int | None = None
    seen = set()
    while (rank, collective) not in seen and (rank, step, collective) in legs:
        seen.add((rank, collective))
        before, parts = legs[rank, step, collective]
        yield from ({"rank": rank, "collective": None, **part} for part in parts)
        if before is None:
            return
        row = collectives[rank].row(before, named=True)
        found = shared.get((rank, before))
        dur_ns, number = (row["dur_ns"], None) if found is None else (found.transfer_ns, found.number)
        rank, collective = (rank, before) if found is None else (found.rank, found.row)
        yield {
            "rank": rank,
            "collective": number,
            "kind": "communication",
            "name": row["name"],
            "file": None,
            "line": None,
            "dur_ns": dur_ns,
        }
