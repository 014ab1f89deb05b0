"""Time, waiting and memory by line of the user's code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.host_states import called_ops, does_more_than_python, thread_timelines
from torchprof_magic.facts.ops.calls import op_rows, ops_in
from torchprof_magic.facts.ops.roofline import roofline
from torchprof_magic.facts.shared import in_category, is_named, once_for_the_whole, once_per_trace
from torchprof_magic.facts.source.attribution import Runs, Shares, shares_of, sites_of_events, watched_runs
from torchprof_magic.facts.source.forward_of import first_forward_of_events
from torchprof_magic.facts.source.fx_lines import with_compiled_lines
from torchprof_magic.facts.source.line_times import OWN_PHASES, line_times
from torchprof_magic.facts.source.methods import with_forward_classes
from torchprof_magic.facts.source.places import call_tree, places_of, places_that_ran
from torchprof_magic.facts.source.users_files import is_users_file
from torchprof_magic.facts.step_graph.on_path import ns_of_ops
from torchprof_magic.model.rows import filled, values_at
from torchprof_magic.model.shapes import BarPart, Column, Table
from torchprof_magic.model.trace import STEP_PATTERN
from torchprof_magic.tables.critical_path import known_on_path, with_path_in_sight
from torchprof_magic.tables.ops import rates
from torchprof_magic.tables.steps import of_memory_steps

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import DType, Trace

_OWN_COLUMNS = (
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
        definition="Text of the line, or name of the function; of the `forward` of modules with their class, "
        "`Block.forward`, where recorded stacks show a single one.",
        is_verbatim=True,
    ),
    Column(
        name="hits",
        title="Runs",
        unit="count",
        definition="How often the line began. Where stacks were recorded at ops alone, that is not known: the column "
        "is then called Ops, and tells how many ops the line ran. Null for a line that ran in compiled code alone, and "
        "for one of a quick inner loop, whose runs would have cost too much to note; its time is that of the loop.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="cpu_ns",
        title="CPU",
        unit="ns",
        definition="Host time of the steps that belongs to the line: what it runs itself, its backward pass, and "
        "waiting. The backward pass stands at the line of the forward op, wherever backward was called, or at the "
        "watched line that autograd called, as in a hook or in `backward` of an `autograd.Function`, and nowhere else; "
        "so all lines, and what belongs to none, add up to the steps.",
        has_bar=True,
        is_sum=True,
        parts=(
            BarPart(column="own_cpu_ns", phase=""),
            BarPart(column="backward_cpu_ns", phase="backward"),
            BarPart(column="wait_ns", phase="waiting"),
        ),
    ),
    Column(
        name="own_cpu_ns",
        title="Own CPU",
        unit="ns",
        definition="Part of it that the line runs itself, without waiting and the backward pass.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="backward_cpu_ns",
        title="Backward CPU",
        unit="ns",
        definition="Part of it in the backward pass: in the autograd nodes that the line's ops made, wherever backward "
        "was called, or in the line itself, where autograd called it. At a line that calls backward, only what belongs "
        "to no other line.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="wait_ns",
        title="Waiting",
        unit="ns",
        definition="Part of it in which the thread waits: in blocking calls, or asleep, as in `report.waits`.",
        is_sum=True,
    ),
    Column(
        name="phase",
        title="Phase",
        unit="phase",
        definition="Phase of most of its own time.",
        is_minor=True,
    ),
    Column(
        name="self_cpu_ns",
        title="While it ran",
        unit="ns",
        definition="Wall time on the thread while the line ran, with the backward pass that it called, and without "
        "watched lines that it called. The lines of the thread that runs the steps add up to the steps.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="total_cpu_ns",
        title="With calls",
        unit="ns",
        definition="The same with the lines that it called; recursive calls count once.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="on_path_ns",
        title="On path",
        unit="ns",
        definition="Part of its host and device time on the critical path of a step, with its backward pass, as in "
        "`report.critical_path`: only that part makes the step longer.",
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
        name="backward_device_ns",
        title="Backward device",
        unit="ns",
        definition="Summed time of device work that the autograd nodes launched that the line's ops made, or the line "
        "itself, where autograd called it.",
        has_bar=True,
        is_sum=True,
    ),
    Column(
        name="bytes",
        title="Memory change",
        unit="bytes",
        definition="Memory that was allocated minus memory that was freed while the line ran, on the host and on all "
        "devices. What one line allocates and another frees counts at both, so a line that frees what others allocated "
        "is below 0, and a line can be above the peak. What is in use at a moment, and which line allocated it, is in "
        "the Memory tab. Null if memory was not recorded.",
        has_bar=True,
        is_sum=True,
    ),
)
_RATES_AT = [column.name for column in _OWN_COLUMNS].index("backward_device_ns") + 1
COLUMNS = (*_OWN_COLUMNS[:_RATES_AT], *rates.COLUMNS, *_OWN_COLUMNS[_RATES_AT:])
_TEXT = ("file", "source", "phase")
SCHEMA: dict[str, DType] = {
    column.name: pl.String if column.name in _TEXT else pl.Int32 if column.name == "line" else pl.Int64
    for column in COLUMNS
} | {column.name: rates.TYPES[column.name] for column in rates.COLUMNS}


# The place of the runs where only the ops of lines are known.
_OPS = Column(
    name="hits",
    title="Ops",
    unit="count",
    definition="How many ops the line ran, those inside other ops as well. How often the line itself ran is not known: "
    "stacks were recorded at ops alone.",
    is_minor=True,
    is_sum=True,
)
# The function in the name of a frame: path(line): function.
FUNCTION = r"\([0-9]+\): (.+)$"
CPU_PARTS = ("own_cpu_ns", "backward_cpu_ns", "wait_ns")
_SHARED = {name: dtype for name, dtype in SCHEMA.items() if name not in ("cpu_ns", "phase", *CPU_PARTS, *rates.TYPES)}


@once_for_the_whole
def lines_table(trace: Trace, part: TimeRange) -> Table:
    """Return one row per line, in the order of files and lines; the watched lines, or else the user's functions.

    A run counts if any of it lies in the part.
    """
    table = lines_by_phase(trace, part)
    return replace(table, frame=table.frame.select(SCHEMA.keys()))


@once_for_the_whole
def lines_by_phase(trace: Trace, part: TimeRange) -> Table:
    """Return ``lines_table`` with the own time of each line by its phases, in the columns of ``OWN_PHASES``."""
    sites, runs = line_runs(trace)
    if len(runs.site) == 0 and runs.of_event is None:
        frame = with_forward_classes(trace, _with_times(trace, _without_work(_by_op(trace, part)), part))
        table = _table(trace, frame)
        return replace(table, columns=tuple(_OPS if column.name == "hits" else column for column in table.columns))
    frame = _with_work(trace, _frame(trace, sites, runs, shares_of(trace, runs, part)), runs, part)
    if "kind" in sites.columns:
        frame = frame.filter(pl.Series((sites["kind"] == "line").to_numpy()))
    if sites is not trace.sites:
        frame = frame.sort("file", "line")
    is_watched = len(watched_runs(trace, "line").site) > 0
    frame = _with_times(trace, frame if is_watched else with_forward_classes(trace, frame), part)
    return _table(trace, frame)


@once_per_trace
def line_runs(trace: Trace) -> tuple[pl.DataFrame, Runs]:
    """Return the lines and their runs as they were watched, or else the user's functions of recorded Python frames.

    With them are the lines of the model in compiled code. The sites of the runs are rows of the frame, which has the
    columns ``file, line`` and ``name``.
    """
    runs = watched_runs(trace, "line")
    return with_compiled_lines(trace, *((trace.sites, runs) if len(runs.site) else _functions(trace)))


def _table(trace: Trace, frame: pl.DataFrame) -> Table:
    absent = set() if trace.has_device else {"device_ns", "backward_device_ns"}
    if not trace.memory.height:
        absent.add("bytes")
    absent |= {column.name for column in rates.COLUMNS} - {column.name for column in rates.rate_columns(trace)}
    columns = tuple(column for column in COLUMNS if column.name not in absent)
    columns = with_path_in_sight(trace, of_memory_steps(trace, columns))
    return Table(frame=known_on_path(trace, frame), columns=columns, is_sparse=True)


def _with_times(trace: Trace, frame: pl.DataFrame, part: TimeRange) -> pl.DataFrame:
    """Return the lines with the host time that belongs to each."""
    times = line_times(trace, part).drop_nulls("file").with_columns(pl.col("line").cast(pl.Int32))
    joined = frame.join(times, on=["file", "line"], how="left", nulls_equal=True, maintain_order="left")
    parts = pl.col(*CPU_PARTS, *OWN_PHASES.values()).fill_null(0)
    summed = joined.with_columns(parts).with_columns(cpu_ns=pl.sum_horizontal(CPU_PARTS))
    own = [pl.col(name).cast(pl.Int64) for name in OWN_PHASES.values()]
    return summed.select(*(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items()), *own)


def _frame(trace: Trace, sites: pl.DataFrame, runs: Runs, shares: Shares) -> pl.DataFrame:
    is_compiled = np.zeros(sites.height, np.bool_)
    if runs.of_event is not None:
        is_compiled[np.unique(runs.of_event[runs.of_event >= 0])] = True
        is_compiled[runs.site] = False
    return pl.DataFrame(
        {
            "file": sites["file"].cast(pl.String),
            "line": sites["line"],
            "source": sites["name"].cast(pl.String),
            "hits": pl.Series(shares.runs).set(pl.Series(is_compiled | _are_unnoted(trace, sites)), None),
            "self_cpu_ns": shares.self_ns,
            "total_cpu_ns": shares.total_ns,
            "on_path_ns": shares.on_path_ns,
            "device_ns": shares.device_ns,
            "backward_device_ns": shares.backward_device_ns,
            "bytes": pl.Series(shares.bytes)
            if trace.memory.height
            else pl.Series([None] * sites.height, dtype=pl.Int64),
        },
        schema=_SHARED,
    )


def _are_unnoted(trace: Trace, sites: pl.DataFrame) -> BoolArray:
    """Return which lines are of quick inner loops of the cell, whose runs were not noted in every step."""
    cell = trace.meta.cell.filename if trace.meta.cell is not None else ""
    is_unnoted = sites["line"].is_in(trace.meta.unnoted_lines) & (sites["file"].cast(pl.String) == cell)
    return is_unnoted.fill_null(value=False).to_numpy().astype(np.bool_)


def _with_work(trace: Trace, frame: pl.DataFrame, runs: Runs, part: TimeRange) -> pl.DataFrame:
    """Return the lines with what they did in both passes, and how fast."""
    if not rates.has_work(trace):
        return _without_work(frame)
    sites = sites_of_events(trace, runs)[roofline(trace).row]
    return rates.with_rates(frame.with_columns(*rates.work_columns(trace, part, sites, runs.sites).values()))


def _without_work(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.lit(None, rates.TYPES[column.name]).alias(column.name) for column in rates.COLUMNS)


def _functions(trace: Trace) -> tuple[pl.DataFrame, Runs]:
    """Return the user's functions and their recorded calls; those that begin in one line are one."""
    nest, events = host_nest(trace), trace.events
    frames = np.flatnonzero(in_category(trace, "python_function")[nest.row])
    stack = filled(events["stack"], -1)[nest.row[frames]]
    users = np.append(is_users_file(trace.stacks["file"]), False)
    works = [lane for lane, line in thread_timelines(trace).items() if does_more_than_python(line)]
    works += trace.meta.captured_lanes
    chosen = users[stack] & (np.isin(nest.lane[frames], works) | (not works))
    frames, stack = frames[chosen], stack[chosen]
    places = trace.stacks.select(
        pl.col("file").cast(pl.String), "line", pl.col("function").cast(pl.String).alias("name")
    )[stack.tolist()]
    sites = places.unique(["file", "line"], keep="first", maintain_order=True).with_row_index("site")
    numbered = sites.select("file", "line", "site")
    site = places.join(numbered, on=["file", "line"], how="left", nulls_equal=True, maintain_order="left")["site"]
    start, end = nest.start_ns[frames], nest.end_ns[frames]
    numbers: IntArray = site.to_numpy().astype(np.int64)
    return sites, Runs(numbers, nest.lane[frames], start, end - start, sites.height, is_of_lines=True)


def _by_op(trace: Trace, part: TimeRange) -> pl.DataFrame:
    """Return the lines of the stacks that were recorded with each op, with the ops' own times."""
    if trace.stacks.height == 0:
        return pl.DataFrame(schema=_SHARED)
    ops = op_rows(trace)
    inside = ops_in(trace, part)
    is_backward = first_forward_of_events(trace)[ops.row] >= 0
    own_ns, device_ns = inside.self_cpu_ns, inside.self_device_ns
    ran, places = places_that_ran(trace, ops.row), places_of(trace, ops.row)
    on_path = _on_path_by_line(trace, part)
    is_there = part.touches(ops.start_ns, ops.dur_ns) | (device_ns > 0)
    # An old profiler writes its steps as ops.
    is_there &= ~is_named(trace, STEP_PATTERN)[ops.row]
    file, line = places.columns()
    frame = pl.DataFrame(
        {
            "file": file,
            "line": line,
            "source": values_at(call_tree(trace).name, places.file),
            "hits": (~is_backward).astype(np.int64),
            "self_cpu_ns": np.where(ran.file == places.file, own_ns, 0),
            "device_ns": np.where(is_backward, 0, device_ns),
            "backward_device_ns": np.where(is_backward, device_ns, 0),
        }
    )
    name = pl.col("source").first().str.extract(FUNCTION).fill_null("")
    numbers = pl.col("hits", "self_cpu_ns", "device_ns", "backward_device_ns").sum()
    sums = frame.filter(pl.Series(is_there)).drop_nulls("file").group_by("file", "line").agg(name, numbers)
    sums = sums.join(on_path, on=["file", "line"], how="left", nulls_equal=True)
    sums = sums.with_columns(
        pl.col("on_path_ns").fill_null(0), pl.col("self_cpu_ns").alias("total_cpu_ns"), pl.lit(None).alias("bytes")
    )
    return sums.select(_SHARED.keys()).cast(_SHARED).sort("file", "line")  # type: ignore[arg-type]


def _on_path_by_line(trace: Trace, part: TimeRange) -> pl.DataFrame:
    """Return how long ops were on the path, by the line that called the outermost of them, as the host time is."""
    nest, outer = host_nest(trace), called_ops(trace)
    caller = np.arange(trace.events.height)
    caller[nest.row[outer >= 0]] = nest.row[outer[outer >= 0]]
    file, line = places_of(trace, caller[op_rows(trace).row]).columns()
    frame = pl.DataFrame([file, line, pl.Series("on_path_ns", ns_of_ops(trace, part)[:-1])])
    return frame.drop_nulls("file").group_by("file", "line").sum()
