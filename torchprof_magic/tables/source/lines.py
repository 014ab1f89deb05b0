"""Time, waiting and memory by line of the user's code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.host_states import does_more_than_python, thread_timelines
from torchprof_magic.facts.ops.calls import in_part, op_rows
from torchprof_magic.facts.shared import in_category, once_for_the_whole, once_per_trace
from torchprof_magic.facts.source.attribution import Runs, Shares, shares_of, watched_runs
from torchprof_magic.facts.source.places import is_users_file, places_of
from torchprof_magic.facts.source.shown_files import files_as_shown
from torchprof_magic.model.shapes import Column, Outline, Table

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import DType, Trace

COLUMNS = (
    Column(name="file", title="File", unit="text", definition="File of the line, or the cell."),
    Column(
        name="line",
        title="Line",
        unit="count",
        definition="Number of the line. In a file of another program it is the line at which a function is defined, "
        "and the row stands for the whole function.",
    ),
    Column(
        name="source",
        title="Source",
        unit="code",
        definition="Text of the line, or name of the function.",
        is_verbatim=True,
    ),
    Column(name="hits", title="Runs", unit="count", definition="How often the line began.", is_minor=True, is_sum=True),
    Column(
        name="self_cpu_ns",
        title="CPU",
        unit="ns",
        definition="Wall time on the thread while the line ran, without that of watched lines which it called. The "
        "lines of the thread that runs the steps add up to the steps.",
        has_bar=True,
        is_sum=True,
    ),
    Column(
        name="total_cpu_ns",
        title="Total CPU",
        unit="ns",
        definition="The same with the lines that it called; recursive calls count once.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="wait_ns",
        title="Waiting",
        unit="ns",
        definition="Part of it in blocking calls, as in `report.waits`.",
        is_sum=True,
    ),
    Column(
        name="device_ns",
        title="Device",
        unit="ns",
        definition="Summed time of kernels, copies and fills that the line launched, without its backward.",
        has_bar=True,
        is_sum=True,
    ),
    Column(
        name="backward_cpu_ns",
        title="Backward CPU",
        unit="ns",
        definition="Host time of the autograd nodes that the line's ops made, wherever backward was called. The line "
        "that calls it has the same time in CPU.",
        has_bar=True,
        is_sum=True,
    ),
    Column(
        name="backward_device_ns",
        title="Backward device",
        unit="ns",
        definition="Summed time of device work that these nodes launched.",
        has_bar=True,
        is_sum=True,
    ),
    Column(
        name="bytes",
        title="Memory kept",
        unit="bytes",
        definition="Memory allocated minus freed while the line ran; null if memory was not recorded.",
        is_sum=True,
    ),
)
_TEXT = ("file", "source")
# Cells of so many lines are shown as they are; in others, runs of at least so many quiet lines are folded.
UNFOLDED = 16
LEAST_FOLDED = 4
SCHEMA: dict[str, DType] = {
    column.name: pl.String if column.name in _TEXT else pl.Int32 if column.name == "line" else pl.Int64
    for column in COLUMNS
}


@once_for_the_whole
def lines_table(trace: Trace, part: TimeRange) -> Table:
    """Return one row per line, in the order of files and lines; the watched lines, or else the user's functions.

    A run counts if any of it lies in the part.
    """
    sites, runs = line_runs(trace)
    if len(runs.site) == 0:
        return _table(trace, _by_op(trace, part))
    frame = _frame(trace, sites, shares_of(trace, runs, part))
    if sites is not trace.sites:
        return _table(trace, frame.sort("file", "line"))
    return _table(trace, frame.filter(pl.Series((trace.sites["kind"] == "line").to_numpy())))


@once_per_trace
def line_runs(trace: Trace) -> tuple[pl.DataFrame, Runs]:
    """Return the lines and their runs as they were watched, or else the user's functions of recorded Python frames.

    The sites of the runs are rows of the frame, which has the columns ``file, line`` and ``name``.
    """
    runs = watched_runs(trace, "line")
    return (trace.sites, runs) if len(runs.site) else _functions(trace)


def _table(trace: Trace, frame: pl.DataFrame) -> Table:
    absent = set() if trace.has_device else {"device_ns", "backward_device_ns", "wait_ns"}
    if not trace.memory.height:
        absent.add("bytes")
    columns = tuple(column for column in COLUMNS if column.name not in absent)
    return Table(frame=frame, columns=columns, is_sparse=True)


@once_for_the_whole
def source_view(trace: Trace, part: TimeRange) -> Table:
    """Return the lines as they are shown: cells by their labels, and files by the last parts of their paths.

    A report of a single file has no column for it. Many lines without numbers in a row are folded into one that opens.
    Functions that are known from recorded stacks alone are sorted by their time.
    """
    table = _with_short_files(trace, lines_table(trace, part))
    if not (trace.sites["kind"] == "line").any():
        return replace(table, sort_by="self_cpu_ns")
    return _folded(table)


def _with_short_files(trace: Trace, table: Table) -> Table:
    frame = table.frame
    shown = frame.with_columns(files_as_shown(trace, frame["file"]))
    is_single = frame["file"].drop_nulls().n_unique() <= 1
    columns = tuple(column for column in table.columns if not (is_single and column.name == "file"))
    first = [column.name for column in columns]
    return replace(table, frame=shown.select(first), columns=columns)


def _folded(table: Table) -> Table:
    """Return the lines with a row for each run of many lines that have no numbers; it opens."""
    frame = table.frame
    if frame.height <= UNFOLDED:
        return table
    numbers = [name for name in frame.columns if name not in (*_TEXT, "line")]
    is_quiet = ~frame.select(pl.any_horizontal(pl.col(numbers).fill_null(0) != 0)).to_series()
    # Functions stand in the order in which they were called first, and two files can have one short name.
    part = (pl.col("line").diff() < 0).fill_null(value=False).cum_sum().alias("part")
    run = frame.select(pl.struct(is_quiet.alias("quiet"), part, *_of_file(frame)).rle_id()).to_series()
    rows = frame.with_columns(is_quiet.alias("quiet"), run.alias("run")).with_row_index("row")
    rows = rows.with_columns((pl.col("quiet") & (pl.len().over("run") >= LEAST_FOLDED)).alias("folded"))
    text = pl.format("lines {}–{}: nothing of them in the recorded steps", pl.col("line").min(), pl.col("line").max())
    folds = (
        rows.filter("folded")
        .group_by("run", maintain_order=True)
        .agg(pl.col("row").min(), text.alias("source"), *_of_file(frame, first=True))
    )
    fold_id = pl.format("lines {}", "run")
    folds = folds.with_columns(fold_id.alias("id"), pl.lit("").alias("above"), pl.lit(value=True).alias("is_fold"))
    rows = rows.with_columns(
        pl.format("line {}", "row").alias("id"),
        pl.when("folded").then(fold_id).otherwise(pl.lit("")).alias("above"),
        pl.lit(value=False).alias("is_fold"),
    )
    both = pl.concat([folds, rows], how="diagonal_relaxed").sort("row", "is_fold", descending=[False, True])
    outline = Outline(id="id", parent="above", open_levels=1, closed="is_fold")
    return replace(table, frame=both.select("id", "above", "is_fold", *frame.columns), outline=outline)


def _of_file(frame: pl.DataFrame, *, first: bool = False) -> list[pl.Expr]:
    """Return the column of the file, where there is one."""
    column = pl.col("file").first() if first else pl.col("file")
    return [column] if "file" in frame.columns else []


def _frame(trace: Trace, sites: pl.DataFrame, shares: Shares) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "file": sites["file"].cast(pl.String),
            "line": sites["line"],
            "source": sites["name"].cast(pl.String),
            "hits": shares.runs,
            "self_cpu_ns": shares.self_ns,
            "total_cpu_ns": shares.total_ns,
            "wait_ns": shares.wait_ns,
            "device_ns": shares.device_ns,
            "backward_cpu_ns": shares.backward_ns,
            "backward_device_ns": shares.backward_device_ns,
            "bytes": pl.Series(shares.bytes)
            if trace.memory.height
            else pl.Series([None] * sites.height, dtype=pl.Int64),
        },
        schema=SCHEMA,
    )


def _functions(trace: Trace) -> tuple[pl.DataFrame, Runs]:
    """Return the user's functions and their recorded calls."""
    nest, events = host_nest(trace), trace.events
    frames = np.flatnonzero(in_category(trace, "python_function")[nest.row])
    stack = events["stack"].fill_null(-1).to_numpy()[nest.row[frames]]
    users = np.append(is_users_file(trace.stacks["file"]), False)
    works = [lane for lane, line in thread_timelines(trace).items() if does_more_than_python(line)]
    chosen = users[stack] & (np.isin(nest.lane[frames], works) | (not works))
    frames, stack = frames[chosen], stack[chosen]
    places = trace.stacks.select(
        pl.col("file").cast(pl.String), "line", pl.col("function").cast(pl.String).alias("name")
    )[stack.tolist()]
    sites = places.unique(maintain_order=True).with_row_index("site")
    site = places.join(sites, on=["file", "line", "name"], how="left", nulls_equal=True, maintain_order="left")["site"]
    start, end = nest.start_ns[frames], nest.end_ns[frames]
    numbers: IntArray = site.to_numpy().astype(np.int64)
    return sites, Runs(numbers, nest.lane[frames], start, end - start, sites.height, is_of_lines=True)


def _by_op(trace: Trace, part: TimeRange) -> pl.DataFrame:
    """Return the lines of the stacks that were recorded with each op, with the ops' own times."""
    if trace.stacks.height == 0:
        return pl.DataFrame(schema=SCHEMA)
    ops = op_rows(trace)
    inside = in_part(trace, ops, part)
    own_ns, device_ns = inside.self_cpu_ns, inside.self_device_ns
    places = places_of(trace, ops.row)
    file, line = places.columns()
    frame = pl.DataFrame({"file": file, "line": line, "self_cpu_ns": own_ns, "device_ns": device_ns})
    is_there = part.touches(ops.start_ns, ops.dur_ns) | (device_ns > 0)
    frame = frame.filter(pl.Series(is_there)).drop_nulls("file")
    sums = frame.group_by("file", "line").agg(
        pl.len().alias("hits"), pl.col("self_cpu_ns").sum(), pl.col("device_ns").sum()
    )
    sums = sums.with_columns(
        pl.col("self_cpu_ns").alias("total_cpu_ns"),
        pl.lit("").alias("source"),
        *(pl.lit(0).alias(name) for name in ("wait_ns", "backward_cpu_ns", "backward_device_ns")),
        pl.lit(None).alias("bytes"),
    )
    return sums.select(SCHEMA.keys()).cast(SCHEMA).sort("file", "line")  # type: ignore[arg-type]
