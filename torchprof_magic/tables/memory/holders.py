"""Who keeps blocks of memory alive, summed up by variable or attribute."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import polars as pl

from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.tables.memory.block_table import allocations_table
from torchprof_magic.tables.memory.leaks import leaks_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torchprof_magic.model.trace import Trace

# Kinds and ways that have words of their own, as ``capture`` writes them.
UNNAMED, TRACEBACK = "unnamed", "traceback"
TENSOR = "tensor"
# More addresses than these are looked for only on request: it takes seconds.
MOST_UNASKED = 300
COLUMNS = (
    Column(
        name="holder",
        title="Holder",
        unit="code",
        definition="Variable or attribute that keeps the blocks alive, with numbers of elements left out. Rows may "
        "overlap: a block that two variables hold counts in both.",
    ),
    Column(
        name="kind",
        title="Kind",
        unit="text",
        definition="variable: of a notebook or module. local: of a function that is running. class: an attribute of a "
        "class. traceback: a local of a function that an exception keeps. unnamed: no variable was found; the holder "
        "then begins with the type of the last object, such as a node of autograd.",
    ),
    Column(
        name="way",
        title="Way",
        unit="text",
        definition="tensor: a tensor there uses the block. graph: the graph of autograd behind a tensor there does.",
    ),
    Column(name="size_bytes", title="Size", unit="bytes", definition="Bytes of these blocks.", has_bar=True),
    Column(name="blocks", title="Blocks", unit="count", definition="Number of these blocks."),
    Column(name="example", title="Example", unit="code", definition="One of the holders in full."),
    Column(
        name="source",
        title="Kept by",
        unit="code",
        definition="Line that puts tensors there, such as kept.append(loss), by the sources of the cells that ran and "
        "of the user's modules; null if none is found.",
    ),
    Column(name="file", title="File", unit="text", definition="File of that line.", is_minor=True),
    Column(name="line", title="Line", unit="count", definition="Number of that line."),
)


class Holder(Protocol):
    """What keeps a tensor alive, as ``capture`` finds it."""

    @property
    def path(self) -> str:
        """The holder, written as code."""

    @property
    def kind(self) -> str:
        """What the root of the path is."""

    @property
    def way(self) -> str:
        """Whether the tensor or its graph has the addresses."""

    @property
    def addresses(self) -> tuple[int, ...]:
        """The addresses that it keeps in use."""

    @property
    def kept_at(self) -> tuple[str, int, str] | None:
        """File, number and source of the line that puts tensors there, if it is known."""


if TYPE_CHECKING:
    FindHolders = Callable[[Iterable[int]], Sequence[Holder]]


def nothing_held(trace: Trace) -> Table:  # noqa: ARG001 - views are built of traces
    """Return a table without rows: a trace alone does not know which objects of the process use its blocks."""
    types = {"size_bytes": pl.Int64, "blocks": pl.Int64, "line": pl.Int64}
    schema = {column.name: types.get(column.name, pl.String) for column in COLUMNS}
    return Table(frame=pl.DataFrame(schema=schema), columns=COLUMNS, sort_by="size_bytes")


class LeakHolders:
    """Who holds what grows, as it was last seen. Without ``find`` that is not known."""

    def __init__(self, trace: Trace, find: FindHolders | None) -> None:
        self._trace = trace
        self._find = find
        self._last: Table | None = None
        self._has_looked = False

    def look(self) -> Table:
        """Look for the holders now. Raises ``ValueError`` in another process than the one that recorded."""
        if self._find is None:
            raise ValueError("what holds memory is known only in the process that recorded it, from its report there")
        self._has_looked = True
        found = holders_table(self._trace, leaks_table(self._trace).frame, self._find)
        if found.frame.height:
            self._last = found
        return found

    def known(self) -> Table | None:
        """Return the holders that were seen last; looks for those of few blocks if nobody has asked before."""
        if self._find is not None and not self._has_looked:
            self._has_looked = True
            if 0 < leaks_table(self._trace).frame["addresses"].list.len().sum() <= MOST_UNASKED:
                with suppress(Exception):  # objects of the user's own may raise anything
                    self.look()
        return self._last


def holders_table(trace: Trace, rows: pl.DataFrame, find: FindHolders) -> Table:
    """Return one row per holder of the blocks in some rows of ``leaks``, ``allocations`` or ``memory_at``."""
    name = "addresses" if "addresses" in rows.columns else "address"
    if name not in rows.columns:
        raise ValueError("the rows have no addresses; choose rows of leaks, allocations or memory_at()")
    wanted = rows[name].explode() if name == "addresses" else rows[name]
    addresses = wanted.drop_nulls().cast(pl.UInt64).unique().to_list()
    texts = ("holder", "kind", "way", "example", "file", "source")
    schema = {**dict.fromkeys(texts, pl.String), "line": pl.Int64, "address": pl.UInt64}
    pattern = pl.col("example").str.replace_all(r"\[[0-9]+\]", "[…]")
    found = pl.DataFrame(
        [
            (one.path, one.kind, one.way, one.path, file, source, line, address)
            for one in (find(addresses) if addresses else ())
            for file, line, source in [one.kept_at or (None, None, None)]
            for address in one.addresses
        ],
        schema=schema,
        orient="row",
    ).with_columns(pattern.alias("holder"))
    sizes = allocations_table(trace).frame.filter(pl.col("freed_at_ns").is_null()).select("address", "size_bytes")
    found = found.unique(["holder", "kind", "way", "address"], maintain_order=True)
    found = found.join(sizes.unique("address", keep="last"), on="address", how="left", maintain_order="left")
    frame = found.group_by("holder", "kind", "way", maintain_order=True).agg(
        pl.col("size_bytes").sum().cast(pl.Int64),
        pl.len().cast(pl.Int64).alias("blocks"),
        _shortest("example"),
        pl.col("source", "file", "line").drop_nulls().first(),
    )
    frame = frame.sort("size_bytes", "holder", "way", descending=[True, False, False])
    return Table(frame=frame.select(column.name for column in COLUMNS), columns=COLUMNS, sort_by="size_bytes")


def _shortest(name: str) -> pl.Expr:
    """Return the shortest text, the first in the alphabet of several, so that it does not depend on addresses."""
    return pl.col(name).sort_by(pl.col(name).str.len_chars(), pl.col(name)).first()
