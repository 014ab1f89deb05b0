"""The process groups of a distributed job that the process which recorded the trace belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.model.shapes import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.trace import DType, Trace

COLUMNS = (
    Column(name="name", title="Group", unit="text", definition="Name of the group in torch.distributed."),
    Column(
        name="description",
        title="Description",
        unit="text",
        definition="What the program calls it; default_pg is the group of all processes.",
    ),
    Column(
        name="backend", title="Backend", unit="text", definition="Backend for each kind of device, such as cuda:nccl."
    ),
    Column(name="size", title="Size", unit="count", definition="Number of processes."),
    Column(
        name="ranks",
        title="Ranks",
        unit="text",
        definition="Global ranks of its processes; successive ones are joined, as in 0-3, 8.",
    ),
)
_SCHEMA: dict[str, DType] = {
    "name": pl.String,
    "description": pl.String,
    "backend": pl.String,
    "size": pl.Int64,
    "ranks": pl.String,
}


def process_groups_table(trace: Trace) -> Table:
    """Return one row per process group, in the order of the file; empty if the job has none."""
    rows = [
        (group.name, group.description, group.backend, group.size, ranks_text(group.ranks))
        for group in trace.meta.process_groups
    ]
    return Table(frame=pl.DataFrame(rows, schema=_SCHEMA, orient="row"), columns=COLUMNS)


def ranks_text(ranks: tuple[int, ...]) -> str:
    """Return ranks as ranges: ``0-3, 8``."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in _ranges(sorted(set(ranks))))


def _ranges(ranks: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of successive ranks."""
    first = previous = None
    for rank in ranks:
        if previous is not None and first is not None and rank != previous + 1:
            yield first, previous
            first = None
        first, previous = rank if first is None else first, rank
    if first is not None and previous is not None:
        yield first, previous
