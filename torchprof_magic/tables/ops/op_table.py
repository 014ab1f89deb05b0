"""Host and device time by op."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.device_time import device_time
from torchprof_magic.facts.device.graph_captures import on_captured_lanes
from torchprof_magic.facts.device.graph_work import replayed_calls
from torchprof_magic.facts.host.awaits_backward import awaits_of_backward
from torchprof_magic.facts.host.phases import EVENT_PHASES, PHASE, PHASES
from torchprof_magic.facts.host.shown_phases import phases_shown
from torchprof_magic.facts.memory.allocations import op_allocations
from torchprof_magic.facts.ops.calls import OpRows, are_there, op_rows, ops_in
from torchprof_magic.facts.ops.flops import flops_in, has_flops
from torchprof_magic.facts.ops.roofline import roofline
from torchprof_magic.facts.shared import device_rows, name_numbers, once_for_the_whole, once_per_trace
from torchprof_magic.facts.source.fx_nodes import fx_names, has_fx_nodes, model_lines
from torchprof_magic.facts.step_graph.on_path import ns_of_ops
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, innermost_at, inside_earlier, stable_order
from torchprof_magic.model.rows import are_known, values_at
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.trace import STEP_PATTERN
from torchprof_magic.tables.critical_path import with_path_in_sight
from torchprof_magic.tables.ops import rates
from torchprof_magic.tables.ops.groups import KEYS, Groups, group_labels, group_ops
from torchprof_magic.tables.steps import of_memory_steps

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace

    Numbers = IntArray | npt.NDArray[np.float64]

_OWN_COLUMNS = (
    Column(name="name", title="Op", unit="code", definition="Name that torch recorded for the op or annotation."),
    Column(
        name="kind",
        title="Kind",
        unit="text",
        definition="cpu_op: recorded by torch. user_annotation: a record_function range. no op: device work that was "
        "launched outside of all of them, or before the recording.",
        is_minor=True,
    ),
    Column(
        name="phase",
        title="Phase",
        unit="phase",
        definition="Part of the training step in which the op spent most of its self CPU time.",
        is_minor=True,
    ),
    Column(
        name="calls", title="Calls", unit="count", definition="How often the op ran in the recorded steps.", is_sum=True
    ),
    Column(
        name="fx_node",
        title="FX node",
        unit="code",
        definition="Node of a graph of torch.compile in which its calls spent most of their self CPU time, as `ops_by` "
        "names it; null outside of compiled code. The column needs a recording of code that was compiled in it, or "
        "with names.",
        is_minor=True,
    ),
    Column(
        name="model_file",
        title="Model file",
        unit="text",
        definition="File of the line of the model that this node comes from.",
        is_minor=True,
    ),
    Column(name="model_line", title="Model line", unit="count", definition="Number of that line.", is_minor=True),
    Column(
        name="self_cpu_ns",
        title="Self CPU",
        unit="ns",
        definition="Host time in the op itself: the part of its duration that no op or annotation directly inside it "
        "covers. Never negative, even if they overlap each other.",
        has_bar=True,
        is_sum=True,
    ),
    Column(
        name="self_cpu_ratio",
        title="Of all self CPU %",
        unit="ratio",
        definition="Self CPU time as a share of the self CPU time of all ops and annotations except steps, on all "
        "threads together: not of the step.",
        is_minor=True,
    ),
    Column(
        name="total_cpu_ns",
        title="Total CPU",
        unit="ns",
        definition="Host time from start to end of the op, with everything inside; recursive calls count once.",
        is_sum=True,
    ),
    Column(
        name="mean_cpu_ns",
        title="Mean CPU",
        unit="ns",
        definition="Duration of one call on the host, averaged over all calls.",
        is_minor=True,
    ),
    Column(
        name="self_device_ns",
        title="Self device",
        unit="ns",
        definition="Summed time of kernels, copies and fills that the op itself launched. Streams add up, so the sum "
        "can exceed the busy time of the device.",
        has_bar=True,
        is_sum=True,
    ),
    Column(
        name="total_device_ns",
        title="Total device",
        unit="ns",
        definition="Summed time of kernels, copies and fills launched by the op or anything inside it.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="on_path_ns",
        title="On path",
        unit="ns",
        definition="Part of its self CPU and self device time on the critical path of a step, as in "
        "`report.critical_path`: only that makes the step longer.",
        is_sum=True,
    ),
    Column(
        name="flops",
        title="FLOPs",
        unit="flop",
        definition="Floating-point operations of matrix products, convolutions and attention, a multiplication and an "
        "addition each counted as one, by the formulas of `torch.utils.flop_counter` from the recorded shapes. They "
        "belong to the outermost op with a formula, so the column adds up. Null for ops without one; the column needs "
        "recorded shapes (`--flops` or `--shapes`).",
        has_bar=True,
        is_sum=True,
    ),
    Column(
        name="self_cpu_bytes",
        title="Self CPU memory",
        unit="bytes",
        definition="Host memory allocated minus freed by the op itself, on its own thread.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="self_device_bytes",
        title="Self device memory",
        unit="bytes",
        definition="Device memory allocated minus freed by the op itself, on its own thread.",
        is_sum=True,
    ),
    Column(
        name="self_alloc_bytes",
        title="Self allocated",
        unit="bytes",
        definition="Memory that the op itself allocated on its own thread, host and devices added up.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="self_free_bytes",
        title="Self freed",
        unit="bytes",
        definition="Memory that the op itself freed on its own thread, host and devices added up.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="net_bytes",
        title="Net memory",
        unit="bytes",
        definition="Memory allocated minus freed on the op's thread between its start and end, with everything inside; "
        "host and devices added up; recursive calls count once.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="peak_bytes",
        title="Peak inside",
        unit="bytes",
        definition="Maximum of allocated minus freed memory on the op's thread during one call, counted "
        "from 0 at its start; the largest of all calls.",
        is_minor=True,
    ),
    Column(
        name="overlapping_calls",
        title="Overlapping",
        unit="count",
        definition="Calls that began inside another event of their thread and outlived it, as asynchronous ranges do; "
        "they are shown beside that event, not inside it.",
        is_minor=True,
    ),
    Column(
        name="median_cpu_ns",
        title="Median CPU",
        unit="ns",
        definition="Median (p50) of the durations of single calls on the host; for an even number of calls, the mean "
        "of the two in the middle.",
        is_minor=True,
    ),
    Column(
        name="p95_cpu_ns",
        title="p95 CPU",
        unit="ns",
        definition="95th percentile of the durations of single calls on the host, which 95 % of the calls do not "
        "exceed: sorted and counted from 0, that at 0.95 · (calls − 1), rounded up (`higher` in numpy).",
        is_minor=True,
    ),
    Column(
        name="max_cpu_ns",
        title="Longest CPU",
        unit="ns",
        definition="Longest duration of a single call on the host.",
        is_minor=True,
    ),
)
# What an op did, and how fast, stands beside its time.
_RATES_AT = [column.name for column in _OWN_COLUMNS].index("flops") + 1
COLUMNS = (*_OWN_COLUMNS[:_RATES_AT], *rates.COLUMNS, *_OWN_COLUMNS[_RATES_AT:])
# The row of device work that belongs to no op, and its kind.
OUTSIDE_OPS = "outside of recorded ops"
NO_OP = "no op"
_DEVICE = {"self_device_ns", "total_device_ns"}
FX_COLUMNS = ("fx_node", "model_file", "model_line")
_MEMORY = {"self_alloc_bytes", "self_free_bytes", "net_bytes", "peak_bytes"}


@once_for_the_whole
def ops_table(trace: Trace, part: TimeRange) -> Table:
    """Return one row per op, sorted by self device time, or by self CPU time when no device was recorded.

    Device time is summed over streams, so rows can add up to more than the step. Times are cut at the edges of the
    part; a call counts if any of it lies inside, device work where it runs, and FLOPs where their op begins.
    """
    return ops_by(trace, part=part)


def ops_by(trace: Trace, *by: str, stack_n: int = 1, part: TimeRange = WHOLE) -> Table:
    """Return one row per op and value of every key of ``by``; ``stack_n`` is how many frames make up a stack.

    Raises ``ValueError`` for a key that is none of ``KEYS``.
    """
    table = ops_with_sums(trace, *by, stack_n=stack_n, part=part)
    return replace(table, frame=table.frame.select(column.name for column in table.columns))


def ops_with_sums(trace: Trace, *by: str, stack_n: int = 1, part: TimeRange = WHOLE) -> Table:
    """Return ``ops_by`` with the columns of which the rates of several rows together are made."""
    if unknown := [key for key in by if key not in KEYS]:
        raise ValueError(f"ops cannot be grouped by {unknown[0]!r}; choose from {', '.join(KEYS)}")
    if stack_n < 1:
        raise ValueError(f"stack_n must be at least 1 (got {stack_n})")
    by = tuple(dict.fromkeys(by))
    frame = _summed(trace, by, stack_n, part)
    if not by and trace.has_device:
        frame = _with_rest(trace, frame, part)
    absent = _absent(trace)
    fixed = tuple(_without_rank(column, absent) for column in COLUMNS if column.name not in {*absent, *by})
    columns = (*fixed[:2], *(KEYS[key] for key in by), *fixed[2:])
    sort_by = "self_device_ns" if trace.has_device else "self_cpu_ns"
    shown = {column.name for column in columns}
    hidden = [name for name in rates.SUMMED if name in frame.columns and name not in shown]
    frame = frame.select(*(column.name for column in columns), *hidden).sort(
        sort_by, "self_cpu_ns", "name", *by, descending=[True, True, False, *(False for _ in by)]
    )
    columns = with_path_in_sight(trace, of_memory_steps(trace, columns))
    return Table(frame=frame, columns=columns, sort_by=sort_by, device=device_time(trace, part))


def device_ns_of_no_op(trace: Trace, ops: pl.DataFrame, part: TimeRange) -> int:
    """Return the time of the device work that belongs to none of the ops."""
    return _device_ns(trace, part) - int(ops["self_device_ns"].sum())


@once_for_the_whole
def _device_ns(trace: Trace, part: TimeRange) -> int:
    """Return the time of all device work."""
    start, dur = (trace.events[name].to_numpy()[device_rows(trace)] for name in ("start_ns", "dur_ns"))
    return int(part.cut(start, dur)[1].sum())


def _with_rest(trace: Trace, frame: pl.DataFrame, part: TimeRange) -> pl.DataFrame:
    """Return the ops with a row for the device work that belongs to none of them, so that the column adds up."""
    rest_ns = device_ns_of_no_op(trace, frame, part)
    if rest_ns <= 0:
        return frame
    row: dict[str, object] = {name: 0 for name, dtype in frame.schema.items() if dtype.is_numeric()}
    row |= {"name": OUTSIDE_OPS, "kind": NO_OP, "phase": "unknown"}
    row |= {"self_device_ns": rest_ns, "total_device_ns": rest_ns}
    row["on_path_ns"] = int(ns_of_ops(trace, part)[-1])
    row |= {name: None for name in ("flops", *rates.TYPES) if name in row}
    return pl.concat([frame, pl.DataFrame([row], schema=frame.schema)])


def _without_rank(column: Column, absent: set[str]) -> Column:
    """Return the column; the host's memory is no minor one when it is the only memory there is."""
    is_only_memory = column.name == "self_cpu_bytes" and "self_device_bytes" in absent
    return replace(column, is_minor=column.is_minor and not is_only_memory)


def _absent(trace: Trace) -> set[str]:
    """Return the columns of what was not recorded."""
    absent = set() if trace.has_device else set(_DEVICE)
    if not has_flops(trace):
        absent |= {"flops"}
    absent |= {column.name for column in rates.COLUMNS} - {column.name for column in rates.rate_columns(trace)}
    if not has_fx_nodes(trace):
        absent |= {*FX_COLUMNS}
    if trace.memory.height == 0:
        absent |= {"self_cpu_bytes", "self_device_bytes", *_MEMORY}
    elif not (trace.memory["device"] != "cpu").any():
        absent |= {"self_device_bytes"}
    return absent


def _summed(trace: Trace, by: tuple[str, ...], stack_n: int, part: TimeRange) -> pl.DataFrame:
    ops = op_rows(trace)
    groups = group_ops(trace, by, stack_n)
    examples = ops.row[groups.example]
    frame = pl.DataFrame(
        [
            trace.events["name"][examples].cast(pl.String),
            trace.events["category"][examples].cast(pl.String).alias("kind"),
            *(group_labels(trace, examples, key, stack_n) for key in by),
            *(pl.Series(name, values) for name, values in _sums(trace, ops, groups, part).items() if name not in by),
        ]
    )
    if has_fx_nodes(trace):
        frame = frame.with_columns(each for each in _main_nodes(trace, ops, groups) if each.name not in by)
    frame = frame.filter(~pl.col("name").str.contains(STEP_PATTERN))
    if part != WHOLE:
        frame = frame.filter(pl.any_horizontal(pl.col("calls", "self_device_ns", "total_device_ns") > 0))
    own = pl.col("self_cpu_ns")
    return rates.with_rates(frame).with_columns((own / own.sum().clip(lower_bound=1)).alias("self_cpu_ratio"))


def _main_nodes(trace: Trace, ops: OpRows, groups: Groups) -> tuple[pl.Series, ...]:
    """Return the columns ``fx_node``, ``model_file`` and ``model_line``: of the node with most of a group's time."""
    names, at = fx_names(trace), fx_names(trace).of_event[ops.row]
    known = np.flatnonzero(at >= 0)
    frame = pl.DataFrame(
        {"group": groups.of_op[known], "name": at[known], "row": ops.row[known], "ns": ops.self_cpu_ns[known]}
    )
    sums = frame.group_by("group", "name", maintain_order=True).agg(pl.col("row").first(), pl.col("ns").sum())
    first = sums.sort("ns", "name", descending=[True, False]).unique("group", keep="first")
    main, row = (np.full(len(groups.example), NO_PARENT, np.int64) for _ in range(2))
    main[first["group"].to_numpy()], row[first["group"].to_numpy()] = first["name"].to_numpy(), first["row"].to_numpy()
    file, line = model_lines(trace, row)
    return (
        values_at(names.names, main).alias("fx_node"),
        file.cast(pl.String).alias("model_file"),
        line.alias("model_line"),
    )


def _sums(trace: Trace, all_ops: OpRows, groups: Groups, part: TimeRange) -> dict[str, Numbers | pl.Series]:
    """Return the columns of numbers by name, one value per group."""
    group, count = groups.of_op, len(groups.example)
    is_outermost = ~is_recursive(trace, all_ops, group, count)
    ops = ops_in(trace, part)
    is_there = are_there(trace, part) & ~on_captured_lanes(trace)[all_ops.row]
    replayed = replayed_calls(trace, part)[all_ops.row]
    calls = np.bincount(group[is_there], minlength=count) + sum_by(group, replayed, count)
    sums: dict[str, Numbers | pl.Series] = {
        "phase": _main_phase(_phases(trace, all_ops), ops.self_cpu_ns, groups),
        "calls": calls,
        "self_cpu_ns": sum_by(group, ops.self_cpu_ns, count),
        "total_cpu_ns": sum_by(group, ops.dur_ns * is_outermost, count),
        "mean_cpu_ns": sum_by(group, ops.dur_ns, count) / np.maximum(calls, 1),
        "self_device_ns": sum_by(group, ops.self_device_ns, count),
        "total_device_ns": sum_by(group, ops.total_device_ns * is_outermost, count),
        "on_path_ns": sum_by(group, ns_of_ops(trace, part)[:-1], count),
        "overlapping_calls": sum_by(
            group, (trace.events["overlaps"].to_numpy()[ops.row] & is_there).astype(np.int64), count
        ),
        **_spread(ops.dur_ns, _by_length(trace, part), np.where(is_there, group, count), count),
    }
    if has_flops(trace):
        sums["flops"] = _flops(trace, groups, part)
    sums |= rates.work_columns(trace, part, group[_ops_of_work(trace)], count)
    if trace.memory.height:
        memory = op_allocations(trace, part)
        peak = np.zeros(count, np.int64)
        np.maximum.at(peak, group, memory.peak)
        sums |= {
            "self_cpu_bytes": sum_by(group, memory.self_host, count),
            "self_device_bytes": sum_by(group, memory.self_device, count),
            "self_alloc_bytes": sum_by(group, memory.self_alloc, count),
            "self_free_bytes": sum_by(group, memory.self_free, count),
            "net_bytes": sum_by(group, memory.net * is_outermost, count),
            "peak_bytes": peak,
        }
    return sums


@once_for_the_whole
def _by_length(trace: Trace, part: TimeRange) -> IntArray:
    """Return the order of the ops by how long they are in a part."""
    return np.argsort(ops_in(trace, part).dur_ns)


def _spread(dur_ns: IntArray, by_length: IntArray, group: IntArray, count: int) -> dict[str, Numbers]:
    """Return the median, the 95th percentile and the longest of the durations of each group; 0 without any."""
    dur_ns = np.append(dur_ns[by_length[stable_order(group[by_length], count + 1)]], 0)
    calls = np.bincount(group, minlength=count)[:count]
    end = np.cumsum(calls)
    first = end - calls

    def at(share: float, rounded: np.ufunc) -> IntArray:
        place = first + rounded(share * (calls - 1)).astype(np.int64)
        return dur_ns[np.where(calls > 0, place, -1)]

    return {
        "median_cpu_ns": at(0.5, np.floor) / 2 + at(0.5, np.ceil) / 2,
        "p95_cpu_ns": at(0.95, np.ceil),
        "max_cpu_ns": at(1.0, np.ceil),
    }


@once_per_trace
def _ops_of_work(trace: Trace) -> IntArray:
    """Return the op that each piece of known work is of."""
    return np.searchsorted(op_rows(trace).row, roofline(trace).op)


def _flops(trace: Trace, groups: Groups, part: TimeRange) -> pl.Series:
    """Return the FLOPs of each group; null where those of no call are known."""
    op, flops = _known_flops(trace, part)
    group, count = groups.of_op[op], len(groups.example)
    total = pl.Series(sum_by(group, flops, count))
    return total.set(pl.Series(np.bincount(group, minlength=count) == 0), None)


@once_for_the_whole
def _known_flops(trace: Trace, part: TimeRange) -> tuple[IntArray, IntArray]:
    """Return the ops whose FLOPs are known, and these."""
    flops = flops_in(trace, part).gather(op_rows(trace).row)
    op = np.flatnonzero(are_known(flops))
    return op, flops.gather(op).to_numpy()


def is_recursive(trace: Trace, ops: OpRows, group: IntArray, count: int) -> BoolArray:
    """Return True for ops inside another of their group on their thread."""
    rows = _inner_and_outer(trace)
    children = rows[ops.parent[rows] >= 0]
    lies_inside, holds = (np.zeros(count, np.bool_) for _ in range(2))
    lies_inside[group[children]] = True
    holds[group[ops.parent[children]]] = True
    rows = rows[(lies_inside & holds)[group[rows]]]
    keys = trace.events["lane"].to_numpy()[ops.row[rows]].astype(np.int64) * count + group[rows]
    order = stable_order(keys, trace.lanes.height * count)
    rows = rows[order]
    is_inside = np.zeros(len(group), np.bool_)
    is_inside[rows] = inside_earlier(keys[order], ops.start_ns[rows], ops.dur_ns[rows])
    return is_inside


@once_per_trace
def _inner_and_outer(trace: Trace) -> IntArray:
    """Return the ops that may recur: those with a name that lies, over others or not, both around and in a name."""
    ops = op_rows(trace)
    name, child = name_numbers(trace)[ops.row].astype(np.int64), np.flatnonzero(ops.parent >= 0)
    count = int(name.max(initial=0)) + 1
    outer, inner = np.divmod(np.unique(name[ops.parent[child]] * count + name[child]), count)
    while True:
        lies_inside, holds = (np.bincount(names, minlength=count) > 0 for names in (inner, outer))
        is_kept = lies_inside[outer] & holds[inner]
        if is_kept.all():
            return np.flatnonzero((lies_inside & holds)[name])
        outer, inner = outer[is_kept], inner[is_kept]


def _phases(trace: Trace, ops: OpRows) -> npt.NDArray[np.int8]:
    """Return the phase of each op; that of a range which mostly waits for the threads of autograd is waiting."""
    phase, awaits = phases_shown(trace)[ops.row], awaits_of_backward(trace)
    if len(awaits.lane) == 0:
        return phase
    lane = trace.events["lane"].to_numpy()[ops.row].astype(np.int64)
    at = innermost_at(lane, ops.start_ns, ops.dur_ns, awaits.lane, awaits.start_ns)
    inside = at >= 0
    awaits_ns = sum_by(at[inside], (awaits.end_ns - awaits.start_ns)[inside], len(ops.row))
    return np.where(2 * awaits_ns > ops.self_cpu_ns, np.int8(PHASES.index("waiting")), phase)


def _main_phase(phase: npt.NDArray[np.int8], self_cpu_ns: IntArray, groups: Groups) -> pl.Series:
    """Return the phase in which each group spent most of its own time; calls of no length count too."""
    cell = groups.of_op * len(EVENT_PHASES) + phase
    table = sum_by(cell, self_cpu_ns + 1, len(groups.example) * len(EVENT_PHASES))
    table = table.reshape(-1, len(EVENT_PHASES))
    names = pl.Series(EVENT_PHASES, dtype=PHASE)
    return names[table.argmax(axis=1)]
