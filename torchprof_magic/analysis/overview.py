"""The headline numbers of a recording."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.analysis.devices import devices_table
from torchprof_magic.analysis.distortion import find_distortion
from torchprof_magic.analysis.memory import memory_series
from torchprof_magic.analysis.ops import ops_table
from torchprof_magic.analysis.phases import PHASES
from torchprof_magic.analysis.steps import complete_steps, steps_table
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.trace import DEVICE_CATEGORIES, Trace
from torchprof_magic.units import counted

COLUMNS = (
    Column(name="section", title="Section", unit="text", definition="Group of the fact."),
    Column(name="label", title="Fact", unit="text", definition="Name of the fact."),
    Column(name="value", title="Value", unit="count", definition="The number, in the unit of its row."),
    Column(name="unit", title="Unit", unit="text", definition="What the value is measured in."),
    Column(name="note", title="Note", unit="text", definition="How the number is defined or what it is compared with."),
    Column(name="op", title="Op", unit="code", definition="The op that the fact is about."),
)
_SCHEMA = dict.fromkeys(("section", "label", "unit", "note", "op"), pl.String) | {"value": pl.Float64}
TOP_OPS = 8


class _Fact(NamedTuple):
    section: str
    label: str
    value: float
    unit: str
    note: str = ""
    op: str = ""


def overview_table(trace: Trace) -> Table:
    """Return the headline facts in reading order: steps, phases, device, top ops, memory, recording, metadata."""
    facts = [*_steps(trace), *_device(trace), *_top_ops(trace), *_memory(trace), *_recording(trace), *_metadata(trace)]
    rows = [fact._asdict() for fact in facts]
    frame = pl.DataFrame(rows, schema={column.name: _SCHEMA[column.name] for column in COLUMNS})
    return Table(frame=frame, columns=COLUMNS)


def _steps(trace: Trace) -> list[_Fact]:
    steps = complete_steps(steps_table(trace).frame)
    if steps.height == 0:
        return []
    dur = steps["dur_ns"].to_numpy()
    facts = [
        *_phases(steps),
        _Fact("Steps", "Mean step", float(dur.mean()), "ns", f"over {counted(steps.height, 'step')}"),
    ]
    if steps.height > 1:
        facts.append(
            _Fact("Steps", "Slowest step", float(dur.max()), "ns", f"step {steps['number'][int(dur.argmax())]}")
        )
        facts.append(_Fact("Steps", "Spread", float(np.std(dur) / dur.mean()), "ratio", "standard deviation over mean"))
    return facts


def _phases(steps: pl.DataFrame) -> list[_Fact]:
    means = [(phase, float(steps[f"{phase}_ns"].mean() or 0)) for phase in PHASES]  # type: ignore[arg-type]
    return [_Fact("Mean step by phase", phase, mean, "ns", "adds up to the step") for phase, mean in means if mean]


def _device(trace: Trace) -> list[_Fact]:
    facts = []
    for row in devices_table(trace).frame.to_dicts():
        section, window = f"Device {row['device']}", max(row["window_ns"], 1)
        facts.append(_Fact(section, "Busy", row["busy_ns"], "ns", "at least one kernel, copy or fill running"))
        if row["launched_busy_ns"] != row["busy_ns"]:
            note = "without work that was queued before the recording began"
            facts.append(_Fact(section, "Busy, launched in the recording", row["launched_busy_ns"], "ns", note))
        facts.append(
            _Fact(section, "Busy share", row["busy_ns"] / window, "ratio", "of the time from first start to last end")
        )
        facts.append(_Fact(section, "Summed work", row["sum_ns"], "ns", "sum over streams"))
        if row["comm_kernels"]:
            note = f"{counted(row['comm_kernels'], 'collective')}, union over streams"
            facts.append(_Fact(section, "Communication", row["comm_ns"], "ns", note))
            note = "no computation ran at the same time"
            facts.append(_Fact(section, "Exposed communication", row["exposed_comm_ns"], "ns", note))
    return facts


def _top_ops(trace: Trace) -> list[_Fact]:
    table = ops_table(trace)
    by = table.sort_by or "self_cpu_ns"
    where = "device" if by == "self_device_ns" else "CPU"
    rows = table.frame.filter(pl.col(by) > 0).head(TOP_OPS)
    whole = float(table.frame[by].sum() or 1)
    return [
        _Fact(f"Top ops by self {where} time", row["name"], float(row[by]), "ns", _share(row, by, whole), row["name"])
        for row in rows.to_dicts()
    ]


def _share(row: dict[str, float], by: str, whole: float) -> str:
    return f"{row[by] / whole * 100:.1f} % · {counted(int(row['calls']), 'call')}"


def _memory(trace: Trace) -> list[_Fact]:
    frame = memory_series(trace).frame
    facts = []
    for (lane,), rows in frame.group_by("lane", maintain_order=True):
        facts.append(_Fact("Memory", f"Peak on {lane}", float(rows["allocated_bytes"].max() or 0), "bytes"))  # type: ignore[arg-type]
        if (reserved := rows["reserved_bytes"].max()) is not None:
            facts.append(_Fact("Memory", f"Reserved on {lane}", float(reserved), "bytes"))  # type: ignore[arg-type]
    return facts


def _recording(trace: Trace) -> list[_Fact]:
    events = trace.events
    facts = [_Fact("Recording", "Events", float(events.height), "count")]
    threads = trace.lanes.filter(pl.col("kind") == "thread").height
    facts.append(_Fact("Recording", "Threads", float(threads), "count"))
    if work := events.filter(pl.col("category").is_in(DEVICE_CATEGORIES)).height:
        facts.append(_Fact("Recording", "Kernels, copies and fills", float(work), "count"))
    if (found := find_distortion(trace)) is not None:
        facts.append(_Fact("Recording", "Step without profiler", found.plain_ns, "ns", "median"))
        way = "Longer" if found.ratio >= 1 else "Shorter"  # shorter by chance, or because the first steps do more
        facts.append(_Fact("Recording", f"{way} when recorded", abs(found.ratio - 1), "ratio", found.basis))
    return facts


def _metadata(trace: Trace) -> list[_Fact]:
    """Return the metadata of the file as facts: the text is in ``note``, and ``value`` is NaN."""
    meta = trace.meta
    facts = list(meta.extra)
    if meta.rank is not None:
        where = f"{meta.rank} of {meta.world_size}" if meta.world_size else str(meta.rank)
        facts.insert(0, ("Rank", f"{where}, {meta.backend}" if meta.backend else where))
    return [_Fact("Metadata", key, float("nan"), "text", text) for key, text in facts]
