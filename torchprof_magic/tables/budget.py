"""What each step spends its time on, in parts that add up to it: work at and above the roof, and all else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.budget import LONG_LATENCY_NS, PARTS, TINY_OP_NS, budget
from torchprof_magic.facts.device.counter_means import ACTIVE, active_in, joules_in
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.model.shapes import Column, Table

if TYPE_CHECKING:
    from torchprof_magic.model.trace import DType, Trace

TITLES = {
    "compute_roof": "Compute at the roof",
    "compute_above": "Compute above it",
    "memory_roof": "Memory at the roof",
    "memory_above": "Memory above it",
    "other_work": "Other work",
    "communication": "Communication",
    "copies": "Copies",
    "waiting": "Waits",
    "dispatch": "Op dispatch",
    "python": "Python",
    "data": "Data",
    "compile": "Compilation",
    "unknown": "Unknown",
}
_TEXT = {
    "compute_roof": "Computation, as long as it would take at the peak of the device: kernels, or without a device "
    "ops, whose operations take longer than their bytes.",
    "compute_above": "What this computation took longer than at the peak.",
    "memory_roof": "Work whose bytes take longer than its operations, as long as it would take at the bandwidth of the "
    "memory.",
    "memory_above": "What this work took longer than at the bandwidth.",
    "other_work": "Kernels and ops whose operations and bytes are not known, or whose device has no known peak. "
    f"Without a device, only ops of at least {TINY_OP_NS // 1000} us.",
    "communication": "Time in which the device only communicates, or the host takes part in a collective.",
    "copies": "Time in which the device only copies or fills.",
    "waiting": "Blocking calls of the host, reserving device memory, and sleep, while the device idles.",
    "dispatch": "The host runs ops or launches work one piece at a time, while the device idles; also launched work "
    f"that begins within {LONG_LATENCY_NS // 1000} us. Without a device, ops without known work of less than "
    f"{TINY_OP_NS // 1000} us.",
    "python": "Python between ops, while the device idles.",
    "data": "The next batch is loaded, while the device idles.",
    "compile": "Compilation, the capture of graphs, and other work that is done once, while the device idles.",
    "unknown": "What the recording does not say: launches without work, work that begins late, the profiler, and "
    "silence. All parts add up to the duration exactly.",
}
PART_COLUMNS = tuple(Column(name=f"{part}_ns", title=TITLES[part], unit="ns", definition=_TEXT[part]) for part in PARTS)
_STEP_COLUMNS = (
    Column(
        name="number",
        title="Step",
        unit="step",
        definition="Number of the step; null for a recording without steps, which is one row for each cycle.",
    ),
    Column(
        name="start_ns", title="Start", unit="ns", definition="Start, from the first recorded event.", is_minor=True
    ),
    Column(name="dur_ns", title="Duration", unit="ns", definition="Wall time from its start to its end."),
    *PART_COLUMNS,
    Column(
        name="mfu_ratio",
        title="MFU",
        unit="ratio",
        definition="Utilisation by the model: how long the FLOPs of the model that `flops` counts would take at the "
        "peak of their types, divided by the duration; of products that torch does not count, `work_flops`. Each of "
        "them once: what a checkpoint computes again is no part. "
        "Null without FLOPs or without a known peak. On one device.",
    ),
    Column(
        name="hfu_ratio",
        title="HFU",
        unit="ratio",
        definition="Utilisation of the hardware: the same with what a checkpoint computes again in the backward pass.",
    ),
)
_COUNTED = (
    Column(
        name="joules",
        title="Energy J",
        unit="count",
        definition="Energy in J that the devices took, by the counter of the power of each (`report.counters`), whose "
        "values hold until the next one. Null without one.",
    ),
    Column(
        name="sm_active_ratio",
        title="SM active",
        unit="ratio",
        definition="How active the units that compute were, by a counter of the file: its mean over the step. Null "
        "without one.",
    ),
    Column(
        name="dram_active_ratio",
        title="DRAM active",
        unit="ratio",
        definition="The same for the memory of the device.",
    ),
)
COLUMNS = (*_STEP_COLUMNS, *_COUNTED)
_TYPES: dict[str, DType] = {
    "number": pl.Int32,
    "mfu_ratio": pl.Float64,
    "hfu_ratio": pl.Float64,
    "joules": pl.Float64,
    "sm_active_ratio": pl.Float64,
    "dram_active_ratio": pl.Float64,
}
SCHEMA: dict[str, DType] = {column.name: _TYPES.get(column.name, pl.Int64) for column in COLUMNS}


@once_per_trace
def budget_table(trace: Trace) -> Table:
    """Return one row per step, or per cycle of a recording without steps, with its time in parts."""
    found = budget(trace)
    dur = found.end_ns - found.start_ns
    numbers = trace.steps["number"].gather(pl.Series(found.step).set(pl.Series(found.step < 0), None))
    ratios = {
        name: pl.Series(np.where(dur > 0, ns / np.maximum(dur, 1), np.nan)).fill_nan(None)
        for name, ns in (("mfu_ratio", found.model_ns), ("hfu_ratio", found.hardware_ns))
    }
    counted = {
        "joules": joules_in(trace, found.start_ns, found.end_ns),
        **{f"{kind}_ratio": active_in(trace, kind, found.start_ns, found.end_ns) for kind in ACTIVE},
    }
    ratios |= {name: pl.Series(values).fill_nan(None) for name, values in counted.items()}
    columns = {"number": numbers, "start_ns": found.start_ns, "dur_ns": dur}
    parts = {f"{part}_ns": found.parts[:, place] for place, part in enumerate(PARTS)}
    frame = pl.DataFrame({**columns, **parts, **ratios}, schema=SCHEMA)
    absent = {column.name for column in _COUNTED if frame[column.name].null_count() == frame.height}
    return Table(frame=frame, columns=tuple(column for column in COLUMNS if column.name not in absent))
