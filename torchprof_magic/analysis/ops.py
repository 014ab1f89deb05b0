"""Where do host and device time go, op by op?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from torchprof_magic.analysis.phases import PHASE, PHASES, phase_of_events
from torchprof_magic.intervals import NO_PARENT, IntArray, nest, nesting_order, rolled_up, self_time
from torchprof_magic.shapes import Column, Table

if TYPE_CHECKING:
    from torchprof_magic.trace import Trace

OP_CATEGORIES = ("cpu_op", "user_annotation")

COLUMNS = (
    Column(name="name", title="Op", unit="code", definition="Name that torch recorded for the op or annotation."),
    Column(
        name="kind",
        title="Kind",
        unit="text",
        definition="cpu_op: recorded by torch. user_annotation: a record_function range.",
        is_minor=True,
    ),
    Column(
        name="phase",
        title="Phase",
        unit="phase",
        definition="Part of the training step in which the op spent most of its self CPU time.",
        is_minor=True,
    ),
    Column(name="calls", title="Calls", unit="count", definition="How often the op ran in the recorded steps."),
    Column(
        name="self_cpu_ns",
        title="Self CPU",
        unit="ns",
        definition="Host time in the op itself: its duration minus the ops and annotations directly inside it.",
        has_bar=True,
    ),
    Column(
        name="self_cpu_ratio",
        title="Self CPU %",
        unit="ratio",
        definition="Self CPU time as a share of the self CPU time of all ops and annotations, steps left out.",
        is_minor=True,
    ),
    Column(
        name="total_cpu_ns",
        title="Total CPU",
        unit="ns",
        definition="Host time from start to end of the op, with everything inside; a recursive op counts once a stack.",
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
    ),
    Column(
        name="total_device_ns",
        title="Total device",
        unit="ns",
        definition="Summed time of kernels, copies and fills launched by the op or anything inside it.",
        is_minor=True,
    ),
    Column(
        name="self_cpu_bytes",
        title="Self CPU memory",
        unit="bytes",
        definition="Host memory allocated minus freed by the op itself, on its own thread.",
        is_minor=True,
    ),
    Column(
        name="self_device_bytes",
        title="Self device memory",
        unit="bytes",
        definition="Device memory allocated minus freed by the op itself, on its own thread.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRows:
    """The ops and annotations of a trace, nested among themselves as torch nests them.

    ``row`` is each op's row in ``trace.events``; ``parent`` is an index into these arrays, or -1.
    """

    row: IntArray
    parent: IntArray
    self_cpu_ns: IntArray
    self_device_ns: IntArray
    total_device_ns: IntArray
    self_cpu_bytes: IntArray
    self_device_bytes: IntArray
    is_recursive: npt.NDArray[np.bool_]


def ops_table(trace: Trace) -> Table:
    """Return one row per op, sorted by self device time, or by self CPU time when no device was recorded.

    Device time is summed over streams, so rows can add up to more than the step.
    """
    frame = _summed(trace, op_rows(trace))
    absent = set()
    if not trace.has_device:
        absent |= {"self_device_ns", "total_device_ns"}
    if trace.memory.height == 0:
        absent |= {"self_cpu_bytes", "self_device_bytes"}
    elif not (trace.memory["device"] != "cpu").any():
        absent |= {"self_device_bytes"}
    columns = tuple(column for column in COLUMNS if column.name not in absent)
    sort_by = "self_device_ns" if trace.has_device else "self_cpu_ns"
    frame = frame.select(column.name for column in columns).sort(
        sort_by, "self_cpu_ns", "name", descending=[True, True, False]
    )
    return Table(frame=frame, columns=columns, sort_by=sort_by)


def op_rows(trace: Trace, categories: tuple[str, ...] = OP_CATEGORIES) -> OpRows:
    """Return the self and total values of every single op; ``categories`` says what may enclose what."""
    events = trace.events
    row = np.flatnonzero(events["category"].is_in(categories).to_numpy())
    chosen = events[row]
    lane, start, dur = (chosen[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns", "dur_ns"))
    parent, _, _ = nest(lane, start, dur)
    self_device = _device_ns(trace, row)
    cpu_bytes, device_bytes = _allocated(trace, row)
    return OpRows(
        row=row,
        parent=parent,
        self_cpu_ns=self_time(parent, dur),
        self_device_ns=self_device,
        total_device_ns=rolled_up(self_device, parent),
        self_cpu_bytes=cpu_bytes,
        self_device_bytes=device_bytes,
        is_recursive=_inside_same_name(chosen["name"].to_physical().to_numpy(), lane, start, dur),
    )


def _summed(trace: Trace, ops: OpRows) -> pl.DataFrame:
    phase = phase_of_events(trace)[ops.row]
    calls = (
        trace.events[ops.row]
        .select(pl.col("name"), pl.col("category").alias("kind"), "dur_ns")
        .with_columns(
            pl.Series("phase", phase),
            pl.Series("self_cpu_ns", ops.self_cpu_ns),
            pl.Series("self_device_ns", ops.self_device_ns),
            pl.Series("outer_cpu_ns", np.where(ops.is_recursive, 0, trace.events["dur_ns"].to_numpy()[ops.row])),
            pl.Series("outer_device_ns", np.where(ops.is_recursive, 0, ops.total_device_ns)),
            pl.Series("self_cpu_bytes", ops.self_cpu_bytes),
            pl.Series("self_device_bytes", ops.self_device_bytes),
        )
    )
    calls = calls.filter(~pl.col("name").cast(pl.String).str.starts_with("ProfilerStep#"))
    weight = pl.col("self_cpu_ns").clip(lower_bound=0)
    by_phase = [weight.filter(pl.col("phase") == code).sum().alias(phase) for code, phase in enumerate(PHASES)]
    frame = calls.group_by("name", "kind").agg(
        pl.len().alias("calls"),
        pl.col("self_cpu_ns").sum(),
        pl.col("outer_cpu_ns").sum().alias("total_cpu_ns"),
        pl.col("dur_ns").mean().alias("mean_cpu_ns"),
        pl.col("self_device_ns").sum(),
        pl.col("outer_device_ns").sum().alias("total_device_ns"),
        pl.col("self_cpu_bytes").sum(),
        pl.col("self_device_bytes").sum(),
        *by_phase,
    )
    main_phase = pl.concat_list(PHASES).list.arg_max()
    return frame.with_columns(
        pl.col("name").cast(pl.String),
        pl.col("kind").cast(pl.String),
        (pl.col("self_cpu_ns") / pl.col("self_cpu_ns").sum().clip(lower_bound=1)).alias("self_cpu_ratio"),
        main_phase.replace_strict(dict(enumerate(PHASES)), return_dtype=pl.String).cast(PHASE).alias("phase"),
    )


def enclosing_op(trace: Trace, rows: IntArray, op_row: IntArray) -> IntArray:
    """Return for each event row the index into ``op_row`` of the innermost op at or around it, or -1."""
    index_of = np.full(trace.events.height + 1, NO_PARENT, np.int64)  # the last one answers for row -1
    index_of[op_row] = np.arange(len(op_row))
    parent = trace.events["parent"].to_numpy()
    at = rows.astype(np.int64)
    while True:  # one turn a level of nesting above the innermost event
        is_open = at >= 0
        is_open[is_open] = index_of[at[is_open]] == NO_PARENT
        if not is_open.any():
            return index_of[at]
        at = np.where(is_open, parent[at], at)


def _device_ns(trace: Trace, op_row: IntArray) -> IntArray:
    """Return the device time that each op launched itself, through launch call and innermost op around it."""
    launches = trace.flows.filter(pl.col("kind") == "launch")
    op = enclosing_op(trace, launches["source"].to_numpy(), op_row)
    dur = trace.events["dur_ns"].to_numpy()[launches["target"].to_numpy()]
    return np.bincount(op[op >= 0], weights=dur[op >= 0], minlength=len(op_row)).astype(np.int64)


def _allocated(trace: Trace, op_row: IntArray) -> tuple[IntArray, IntArray]:
    """Return the net host and device bytes that each op allocated itself."""
    memory = trace.memory
    op = enclosing_op(trace, memory["event"].to_numpy(), op_row)
    delta = memory["delta_bytes"].to_numpy()
    on_host = (memory["device"] == "cpu").to_numpy()

    def summed(mask: npt.NDArray[np.bool_]) -> IntArray:
        mask = mask & (op >= 0)
        return np.bincount(op[mask], weights=delta[mask], minlength=len(op_row)).astype(np.int64)

    return summed(on_host), summed(~on_host)


def _inside_same_name(
    name: npt.NDArray[np.uint32], lane: IntArray, start: IntArray, dur: IntArray
) -> npt.NDArray[np.bool_]:
    """Return True for ops inside another of the same name: those that nest among their namesakes on their thread."""
    namesakes = lane * (int(name.max(initial=0)) + 1) + name
    order = nesting_order(namesakes, start, dur)
    parent, _, _ = nest(namesakes[order], start[order], dur[order])
    is_inside = np.empty(len(name), np.bool_)
    is_inside[order] = parent >= 0
    return is_inside
