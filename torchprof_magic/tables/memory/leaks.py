"""Memory that grows from step to step: what is allocated in each step and never released."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.memory.blocks import HOST
from torchprof_magic.facts.memory.recorders_own import cycles_with_own
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.source.keeping import with_keeping_lines
from torchprof_magic.facts.source.shown_files import files_as_shown
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.tables.memory.block_table import PLACE_COLUMNS, allocations_table
from torchprof_magic.tables.memory.replacements import find_replacements

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# With fewer complete steps, what one step hands to the next looks like growth.
LEAST_STEPS = 3
# A leak that skips some steps, as one of an occasional log, is still one.
LEAST_SHARE = 0.8
MEASURED, POSSIBLE = "measured", "possible"
_KEYS = ("device", "category", "module", "op", "file", "line")
COLUMNS = (
    Column(
        name="device", title="Device", unit="text", definition="cpu, or type and number of the device, such as cuda:0."
    ),
    *(column for column in PLACE_COLUMNS if column.name != "name"),
    Column(
        name="kept_in",
        title="Kept in",
        unit="code",
        definition="Container that holds most of them at the end of a step, as the user's code calls it, with numbers "
        "of elements left out, such as kept[…]. Null if none is known from a live run.",
    ),
    Column(
        name="kept_line",
        title="Kept in line",
        unit="count",
        definition="Number of the line that puts them there, such as that of kept.append(loss), among the lines of the "
        "cell and those that were recorded. Null if none is found.",
    ),
    Column(name="kept_file", title="Kept in file", unit="text", definition="File of that line.", is_minor=True),
    Column(
        name="bytes_per_step",
        title="Bytes per step",
        unit="bytes",
        definition="Bytes that are still in use at the end of the recording, or of their cycle, on average over the "
        "complete steps. "
        "Blocks that take the place of one from before the recording, of the same size and in the same step, do not "
        "count, nor do those that torch's recording itself held.",
        has_bar=True,
    ),
    Column(
        name="size_bytes",
        title="Size",
        unit="bytes",
        definition="Bytes that the complete steps allocated here and that are in use at the end.",
    ),
    Column(name="blocks", title="Blocks", unit="count", definition="Number of these blocks."),
    Column(
        name="steps", title="Steps", unit="count", definition="Number of complete steps that left at least one of them."
    ),
    Column(
        name="certainty",
        title="Certainty",
        unit="text",
        definition="measured: The blocks were in use at the end, and what was there before them was not released. "
        "possible: That is not known. torch does not report when memory of the host is released that was allocated "
        "before the recording, so without the live objects a buffer of fixed size that was full looks the same; or "
        "as much memory of other sizes was released in these steps, or the blocks were not found at the end.",
    ),
    Column(name="addresses", title="Addresses", unit="count", definition="Addresses of the blocks.", is_minor=True),
)


@once_per_trace
def leaks_table(trace: Trace) -> Table:
    """Return one row per place whose blocks pile up, by bytes per step.

    Such blocks are allocated in at least four of five complete steps, and are alive at the end of the recording. Those
    that take the place of an older block do not count. Each cycle is judged by itself, and a place that grows in
    several is one row. Empty with fewer than three complete steps.
    """
    steps = trace.steps.filter("complete").select(pl.col("number").alias("step"), "cycle")
    count = steps.group_by("cycle").len("of_steps").with_columns(pl.col("of_steps").cast(pl.Int64))
    kept = allocations_table(trace).frame.filter(pl.col("freed_at_ns").is_null())
    kept = _held_by_program(trace, kept).join(steps, on=["step", "cycle"], how="inner").join(count, on="cycle")
    kept, others = _growing(trace, kept)
    found = (
        kept.with_columns(_is_found(trace, kept), _container(pl.col("name")).alias("kept_in"))
        .group_by(*_KEYS, "cycle", "of_steps", maintain_order=True)
        .agg(
            pl.col("size_bytes").sum(),
            pl.len().cast(pl.Int64).alias("blocks"),
            pl.col("step").n_unique().cast(pl.Int64).alias("steps"),
            pl.col("address").alias("addresses"),
            pl.col("size_bytes").filter("is_found").sum().alias("found_bytes"),
            pl.col("kept_in").drop_nulls().mode().sort().first(),
        )
    )
    needed = (pl.col("of_steps") * LEAST_SHARE).ceil()
    found = found.filter((pl.col("of_steps") >= LEAST_STEPS) & (pl.col("steps") >= needed))
    found = found.with_columns(_certainty(found, others.join(steps, on=["step", "cycle"], how="semi")))
    found = _over_cycles(found, int(count.filter(pl.col("of_steps") >= LEAST_STEPS)["of_steps"].sum()))
    found = with_keeping_lines(trace, found)
    frame = found.select(column.name for column in COLUMNS).sort("bytes_per_step", descending=True, maintain_order=True)
    return Table(frame=frame, columns=COLUMNS, sort_by="bytes_per_step")


def _container(name: pl.Expr) -> pl.Expr:
    """Return a name with the numbers of elements and in keys left out, if it is that of an element; else null."""
    alike = name.str.replace_all(r"\[[0-9]+\]", "[…]").str.replace_all(r"(\['[^'0-9]*)[0-9]+", "${1}…")
    return pl.when(name.str.contains("[", literal=True)).then(alike)


def _over_cycles(found: pl.DataFrame, of_steps: int) -> pl.DataFrame:
    """Return one row per place for those of its cycles, which have so many steps in all; certain if one of them is."""
    is_certain = (pl.col("certainty") == MEASURED).any()
    return found.group_by(*_KEYS, maintain_order=True).agg(
        pl.col("size_bytes").sum(),
        (pl.col("size_bytes").sum() / of_steps).round().cast(pl.Int64).alias("bytes_per_step"),
        pl.col("blocks").sum(),
        pl.col("steps").sum(),
        pl.when(is_certain).then(pl.lit(MEASURED)).otherwise(pl.lit(POSSIBLE)).alias("certainty"),
        pl.col("addresses").explode(),
        pl.col("kept_in").drop_nulls().first(),
    )


def _growing(trace: Trace, kept: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the blocks without those of places that replace older ones, and the other releases of older blocks.

    A place replaces older ones if it does so in at least half of its steps: a variable of the loop does it only once.
    """
    pairs, others = find_replacements(trace, kept)
    kept = kept.with_row_index("row").with_columns(pl.col("row").is_in(pairs["row"].implode()).alias("is_new"))
    steps, replacing = pl.col("step").n_unique(), pl.col("step").filter("is_new").n_unique()
    is_ring = (replacing * 2 >= steps).over(*_KEYS, "cycle") & pl.col("is_new")
    kept = kept.with_columns(is_ring.alias("is_ring"))
    unexplained = pairs.join(kept.filter("is_ring"), on="row", how="anti").drop("row")
    return kept.filter(~pl.col("is_ring")).drop("row", "is_new", "is_ring"), pl.concat([others, unexplained])


def _held_by_program(trace: Trace, kept: pl.DataFrame) -> pl.DataFrame:
    """Return the blocks without those that torch's recording held.

    Of a cycle in which it held some, these are all blocks of the host that no object of the program uses: such tensors
    keep others, which Python does not see.
    """
    is_in_cycle = pl.col("cycle").is_in(cycles_with_own(trace).implode())
    is_of_others = (pl.col("device") == HOST) & is_in_cycle & ~_is_found(trace, kept)
    return kept.filter(~is_of_others)


def _is_found(trace: Trace, kept: pl.DataFrame) -> pl.Series:
    """Return whether blocks are certainly in use at the end: those of the host only if a live object uses them."""
    live = trace.storages.filter("is_in_use").select("address", "cycle", pl.lit(value=True).alias("is_found")).unique()
    found = kept.select("address", "cycle").join(live, on=["address", "cycle"], how="left", maintain_order="left")
    is_live = found["is_found"].fill_null(value=False) & trace.meta.knows_storages
    return (is_live | (kept["device"] != HOST)).alias("is_found")


def _certainty(found: pl.DataFrame, others: pl.DataFrame) -> pl.Series:
    """Return how certain growth is: not if nearly as much older memory, of other sizes, went in nearly all steps."""
    gone = others.group_by("device", "cycle").agg(
        pl.col("size_bytes").sum().alias("gone_bytes"), pl.col("step").n_unique().alias("gone_steps")
    )
    rows = found.join(gone, on=["device", "cycle"], how="left", maintain_order="left")
    is_regular = pl.col("gone_steps") >= pl.col("of_steps") * LEAST_SHARE
    is_offset = is_regular & (pl.col("gone_bytes") >= pl.col("size_bytes") * LEAST_SHARE)
    is_doubtful = is_offset.fill_null(value=False) | (pl.col("found_bytes") < pl.col("size_bytes") * LEAST_SHARE)
    certainty = pl.when(is_doubtful).then(pl.lit(POSSIBLE)).otherwise(pl.lit(MEASURED)).alias("certainty")
    return rows.select(certainty)["certainty"]


def leaks_view(trace: Trace) -> Table:
    """Return the table with files as people know them, and without addresses, which are for ``report.holders()``."""
    table = leaks_table(trace)
    files = (files_as_shown(trace, table.frame[name]).alias(name) for name in ("file", "kept_file"))
    frame = table.frame.with_columns(*files)
    columns = tuple(column for column in table.columns if column.name != "addresses")
    return replace(table, frame=frame.select(column.name for column in columns), columns=columns)
