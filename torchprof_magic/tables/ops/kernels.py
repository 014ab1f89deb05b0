"""The kernels, copies and fills that keep the device busy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.device_time import device_time
from torchprof_magic.facts.device.graph_work import origins
from torchprof_magic.facts.device.launch_configs import launch_configs, uses_matrix_cores
from torchprof_magic.facts.host.phases import EVENT_PHASES, PHASE, phase_of_events
from torchprof_magic.facts.ops.calls import op_rows, ops_around
from torchprof_magic.facts.ops.roofline import roofline
from torchprof_magic.facts.shared import device_rows, is_named, once_for_the_whole
from torchprof_magic.facts.step_graph.on_path import ns_of_events
from torchprof_magic.facts.time_range import WHOLE, TimeRange
from torchprof_magic.model.distinct import codes_of, numbered
from torchprof_magic.model.intervals import NO_PARENT, IntArray, union_by
from torchprof_magic.model.rows import filled, row_numbers, values_at
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.trace import STEP_PATTERN, DType
from torchprof_magic.tables.critical_path import ON_PATH, known_on_path
from torchprof_magic.tables.ops import rates

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

_OWN_COLUMNS = (
    Column(name="name", title="Kernel", unit="code", definition="Name of the kernel, copy or fill."),
    Column(
        name="phase",
        title="Phase",
        unit="phase",
        definition="Part of the training step in which it spent most of its time.",
        is_minor=True,
    ),
    Column(
        name="calls",
        title="Calls",
        unit="count",
        definition="How often it ran in the recorded steps.",
        is_sum=True,
    ),
    Column(
        name="sum_ns",
        title="Time",
        unit="ns",
        definition="Summed duration over all streams and devices; concurrent work adds up.",
        has_bar=True,
        is_sum=True,
    ),
    Column(name="sum_ratio", title="Time %", unit="ratio", definition="Share of the summed time of all device work."),
    Column(name="mean_ns", title="Mean", unit="ns", definition="Average duration of a single run."),
    Column(
        name="op",
        title="Launched by",
        unit="code",
        definition="The op that launched most of its time; empty if that is not in the file.",
        is_minor=True,
    ),
    Column(
        name="on_path_ns",
        title="On path",
        unit="ns",
        definition="Part of it on the critical path of a step, as in `report.critical_path`: only that makes the step "
        "longer.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="op_count",
        title="Launching ops",
        unit="count",
        definition="How many different ops launched it.",
        is_minor=True,
    ),
    Column(
        name="union_ns",
        title="Busy",
        unit="ns",
        definition="Time in which at least one run of it was on a device; runs at the same time count once.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="median_ns",
        title="Median",
        unit="ns",
        definition="Median duration of a single run.",
        is_minor=True,
    ),
    Column(
        name="p95_ns",
        title="p95",
        unit="ns",
        definition="Duration that 95 % of the runs do not exceed.",
        is_minor=True,
    ),
    Column(name="max_ns", title="Longest", unit="ns", definition="Longest duration of a single run.", is_minor=True),
    Column(
        name="bytes",
        title="Copied",
        unit="bytes",
        definition="Bytes of a copy or fill, summed; null for kernels.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="bytes_per_s",
        title="Copied a second",
        unit="bytes",
        definition="Bytes of a copy or fill by its summed duration in s; null for kernels.",
        is_minor=True,
    ),
    Column(
        name="grid",
        title="Grid",
        unit="text",
        definition="Blocks of a run in each direction, those of the launch configuration with the most time.",
        is_minor=True,
    ),
    Column(
        name="block",
        title="Block",
        unit="text",
        definition="Threads of a block in each direction, in the same configuration.",
        is_minor=True,
    ),
    Column(
        name="registers",
        title="Registers",
        unit="count",
        definition="Registers of a thread, in the same configuration.",
        is_minor=True,
    ),
    Column(
        name="shared_bytes",
        title="Shared memory",
        unit="bytes",
        definition="Shared memory of a block, in the same configuration.",
        is_minor=True,
    ),
    Column(
        name="occupancy_ratio",
        title="Occupancy %",
        unit="ratio",
        definition="Kineto's estimate of the occupancy in whole percent, averaged over the time of all runs.",
        is_minor=True,
    ),
    Column(
        name="tensor_cores",
        title="Tensor cores",
        unit="bool",
        definition="Whether its name says that it uses tensor cores, or AMD's matrix cores.",
        is_minor=True,
    ),
    Column(name="kind", title="Kind", unit="text", definition="kernel, memcpy or memset.", is_minor=True),
)
_RATES_AT = [column.name for column in _OWN_COLUMNS].index("op_count")
COLUMNS = (*_OWN_COLUMNS[:_RATES_AT], *rates.COLUMNS, *_OWN_COLUMNS[_RATES_AT:])
_OF_LAUNCH = ("grid", "block", "registers", "shared_bytes", "occupancy_ratio")
_TYPES: dict[str, DType] = {
    "name": pl.String,
    "kind": pl.String,
    "op": pl.String,
    "phase": PHASE,
    "sum_ratio": pl.Float64,
    "mean_ns": pl.Float64,
    "median_ns": pl.Float64,
    "bytes_per_s": pl.Float64,
    "grid": pl.String,
    "block": pl.String,
    "occupancy_ratio": pl.Float64,
    "tensor_cores": pl.Boolean,
    **rates.TYPES,
}
_SCHEMA: dict[str, DType] = {column.name: _TYPES.get(column.name, pl.Int64) for column in COLUMNS}


@once_for_the_whole
def kernels_table(trace: Trace, part: TimeRange) -> Table:
    """Return one row per kernel name with its summed time, longest first.

    Times are cut at the edges of the part, and of the bytes of a copy so many count as of its time lie inside.
    """
    rows = device_rows(trace)
    rows = rows[part.touches(*(trace.events[name].to_numpy()[rows] for name in ("start_ns", "dur_ns")))]
    if len(rows) == 0:
        return _table(pl.DataFrame(schema=_SCHEMA))
    work = _work_in(trace, rows, part)
    frame = _summed(work)
    frame = _with_work(trace, frame, rows, work["number"].to_numpy(), part)
    frame = frame.with_columns(
        (pl.col("sum_ns") / pl.col("sum_ns").sum().clip(lower_bound=1)).alias("sum_ratio"),
        pl.when("copies").then("bytes").alias("bytes"),
        pl.when(pl.col("copies") & (pl.col("sum_ns") > 0))
        .then(pl.col("bytes") / pl.col("sum_ns") * 1e9)
        .alias("bytes_per_s"),
        pl.col("phase").replace_strict(dict(enumerate(EVENT_PHASES)), return_dtype=pl.String).cast(PHASE),
        _tensor_cores(frame),
    )
    frame = frame.select(_SCHEMA.keys()).cast(_SCHEMA)  # type: ignore[arg-type]
    table = _table(known_on_path(trace, frame).sort("sum_ns", "name", "kind", descending=[True, False, False]))
    return replace(table, device=device_time(trace, part))


def _work_in(trace: Trace, rows: IntArray, part: TimeRange) -> pl.DataFrame:
    """Return one row per piece of work, cut at the edges of the part; ``number`` is that of its kernel."""
    name, kind, start, dur, size, device, launch_config = (
        values_at(trace.events[column], rows)
        for column in ("name", "category", "start_ns", "dur_ns", "bytes", "device", "launch_config")
    )
    start_ns, dur_ns = part.cut(start.to_numpy(), dur.to_numpy())
    return pl.DataFrame(
        {
            "name": name,
            "kind": kind,
            "number": numbered(row_numbers(codes_of(name), codes_of(kind)))[1].astype(np.int64),
            "start_ns": start_ns,
            "dur_ns": dur_ns,
            "bytes": size if part == WHOLE else _bytes_inside(size, dur, dur_ns),
            "device": device,
            "launch_config": launch_config,
            "on_path_ns": ns_of_events(trace, part)[rows],
            "phase": phase_of_events(trace)[rows].astype(np.int64),
            "op": launching_ops(trace, rows),
        }
    )


def _summed(work: pl.DataFrame) -> pl.DataFrame:
    """Return one row per kernel: what its work took, and the op and the phase that took most of it."""
    dur, key = pl.col("dur_ns"), ("name", "kind")
    frame = work.group_by(key).agg(
        pl.len().alias("calls"),
        pl.col("number").first(),
        dur.sum().alias("sum_ns"),
        pl.col("on_path_ns").sum(),
        dur.mean().alias("mean_ns"),
        dur.median().alias("median_ns"),
        dur.quantile(0.95, "higher").alias("p95_ns"),
        dur.max().alias("max_ns"),
        pl.col("op").filter(pl.col("op") != "").n_unique().alias("op_count"),
        pl.col("bytes").sum().alias("bytes"),
        pl.col("bytes").is_not_null().any().alias("copies"),
    )
    for column in ("op", "phase"):
        most = work.group_by(*key, column).agg(dur.sum()).sort("dur_ns", column, descending=[True, False])
        frame = frame.join(most.unique(key, keep="first", maintain_order=True).drop("dur_ns"), on=key)
    return frame.join(_unions(work), on=key).join(_launches(work), on=key, how="left")


def _table(frame: pl.DataFrame) -> Table:
    """Return the table without the columns of which nothing is known."""
    absent = {
        name
        for name in (*_OF_LAUNCH, *rates.TYPES, "bytes", "bytes_per_s", ON_PATH)
        if name in frame.columns and frame[name].null_count() == frame.height
    }
    columns = tuple(column for column in COLUMNS if column.name not in absent)
    return Table(frame=frame, columns=columns, sort_by="sum_ns")


def _with_work(trace: Trace, frame: pl.DataFrame, rows: IntArray, number: IntArray, part: TimeRange) -> pl.DataFrame:
    """Return the kernels with what they did, of those with known work; ``number`` is that of each event's kernel."""
    number_of_event = np.full(trace.events.height, -1, np.int64)
    number_of_event[rows] = number
    sums = rates.work_columns(trace, part, number_of_event[roofline(trace).row], frame.height)
    if not sums:
        return frame.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in rates.TYPES.items())
    known = pl.DataFrame(sums).with_row_index("number").with_columns(pl.col("number").cast(pl.Int64))
    return rates.without_hidden(rates.with_rates(frame.join(known, on="number", how="left")))


def _bytes_inside(size: pl.Series, dur_ns: pl.Series, inside_ns: IntArray) -> pl.Series:
    """Return so many bytes of each copy as of its time lie in a part."""
    return (size * (pl.Series(inside_ns) / dur_ns.clip(1))).round().cast(pl.Int64)


def _launches(work: pl.DataFrame) -> pl.DataFrame:
    """Return for each kernel how most of its time was launched, and its mean occupancy."""
    key = ("name", "kind")
    sums = work.drop_nulls("launch_config").group_by(*key, "launch_config").agg(pl.col("dur_ns").sum())
    sums = pl.concat([sums, launch_configs(sums["launch_config"])], how="horizontal")
    order = sums.with_columns(pl.col("launch_config").cast(pl.String)).sort(
        "dur_ns", "launch_config", descending=[True, False]
    )
    weight = pl.col("dur_ns").clip(lower_bound=1).filter(pl.col("occupancy_ratio").is_not_null())
    mean = (pl.col("occupancy_ratio").drop_nulls() * weight).sum() / weight.sum()
    known = pl.col("occupancy_ratio").is_not_null().any()
    return order.group_by(key, maintain_order=True).agg(
        pl.col("grid", "block", "registers", "shared_bytes").first(),
        pl.when(known).then(mean).alias("occupancy_ratio"),
    )


def _tensor_cores(frame: pl.DataFrame) -> pl.Series:
    names = zip(frame["name"].cast(pl.String).to_list(), frame["kind"].cast(pl.String).to_list(), strict=True)
    return pl.Series("tensor_cores", [kind == "kernel" and uses_matrix_cores(name) for name, kind in names], pl.Boolean)


def launching_ops(trace: Trace, rows: IntArray) -> pl.Series:
    """Return the name of the op that launched each piece of device work, empty where that is not known; categorical.

    The ranges around steps are no ops.
    """
    ops = op_rows(trace)
    op = ops_around(trace, ops.nest, origins(trace)[rows])
    launched_by = np.append(ops.row, NO_PARENT)[op]
    is_step = np.append(is_named(trace, STEP_PATTERN), False)[launched_by]
    return values_at(trace.events["name"], np.where(is_step, NO_PARENT, launched_by)).fill_null("")


def _unions(work: pl.DataFrame) -> pl.DataFrame:
    """Return for each kernel the time in which it ran on any stream of a device, devices added up."""
    rows, group = numbered(row_numbers(work["number"].to_numpy(), filled(work["device"], NO_PARENT)))
    union = union_by(group, work["start_ns"].to_numpy(), work["dur_ns"].to_numpy())
    frame = work.select("name", "kind")[rows].with_columns(pl.Series("union_ns", [*union.values()], pl.Int64))
    return frame.group_by("name", "kind").agg(pl.col("union_ns").sum())
