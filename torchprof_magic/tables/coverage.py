"""How much of the work that was launched on a device is in the file, in all and per step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.coverage import Launches, launches_of, work_without_launch
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray
from torchprof_magic.model.rows import filled
from torchprof_magic.model.shapes import Column, Table

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

COLUMNS = (
    Column(
        name="device",
        title="Device",
        unit="text",
        definition="Number of the device in the trace; null for all of them, and where no work tells the device.",
    ),
    Column(
        name="step",
        title="Step",
        unit="step",
        definition="Number of the step in which it was launched; null for the whole recording.",
    ),
    Column(
        name="launches",
        title="Launches",
        unit="count",
        definition="Calls that started a kernel, a graph, a copy or a fill, or should have: not those that were "
        "captured into a graph, that copy or fill nothing, or whose work may have run after the recording.",
    ),
    Column(
        name="answered",
        title="Answered",
        unit="count",
        definition="Launches of which at least one kernel, copy or fill is in the file.",
    ),
    Column(
        name="missing",
        title="Missing",
        unit="count",
        definition="Launches of which no work is in the file, although it must have run during the recording.",
        has_bar=True,
    ),
    Column(
        name="events",
        title="Events",
        unit="count",
        definition="Kernels, copies and fills that answer a launch.",
    ),
    Column(
        name="without_launch",
        title="Without a launch",
        unit="count",
        definition="Kernels, copies and fills whose launch is not in the file; of a step those that began in it.",
    ),
    Column(
        name="graph_launches",
        title="Graph launches",
        unit="count",
        definition="Launches that started a graph, or should have.",
        is_minor=True,
    ),
    Column(
        name="graphs_without_kernels",
        title="Graphs without kernels",
        unit="count",
        definition="Graph launches of which no kernel is in the file.",
        is_minor=True,
    ),
    Column(
        name="missing_in_graphs",
        title="Missing in graphs",
        unit="count",
        definition="Kernels that a graph launch has less than its counterpart at the same place in another step, which "
        "has the same kernels and more.",
        is_minor=True,
    ),
    Column(
        name="captured",
        title="Captured",
        unit="count",
        definition="Launches that ran nothing, because they were captured into a graph.",
        is_minor=True,
    ),
    Column(
        name="after_the_end",
        title="After the end",
        unit="count",
        definition="Launches at the end of the recording whose work may have run after it.",
        is_minor=True,
    ),
)
_SCHEMA = {column.name: pl.Int64 for column in COLUMNS}


@once_per_trace
def coverage_table(trace: Trace) -> Table:
    """Return a row for the whole recording, one per device, and one per device and step; empty without launches."""
    found, strays = launches_of(trace), work_without_launch(trace)
    stray_device = filled(trace.events["device"], 0)[strays]
    stray_step = filled(trace.events["step"], NO_PARENT)[strays]
    if len(found.row) + len(strays) == 0:
        return Table(frame=pl.DataFrame(schema=_SCHEMA), columns=COLUMNS)
    rows = [_row(None, None, found, np.ones(len(found.row), np.bool_), len(strays))]
    for device in np.unique(np.concatenate((found.device, stray_device))).tolist():
        number = device if device >= 0 else None
        here, there = found.device == device, stray_device == device
        rows.append(_row(number, None, found, here, int(there.sum())))
        for step in _steps(found.step[here], stray_step[there]):
            inside = here & (found.step == step)
            rows.append(_row(number, step, found, inside, int((there & (stray_step == step)).sum())))
    return Table(frame=pl.DataFrame(rows, schema=_SCHEMA), columns=COLUMNS)


def _steps(*numbers: IntArray) -> list[int]:
    steps: list[int] = np.unique(np.concatenate(numbers)).tolist()
    return [step for step in steps if step >= 0]


def _row(device: int | None, step: int | None, found: Launches, here: BoolArray, strays: int) -> dict[str, int | None]:
    missing = here & found.is_missing
    return {
        "device": device,
        "step": step,
        "launches": int((here & found.counts).sum()),
        "answered": int((here & (found.events > 0)).sum()),
        "missing": int(missing.sum()),
        "events": int(found.events[here].sum()),
        "without_launch": strays,
        "graph_launches": int((here & found.counts & found.is_graph).sum()),
        "graphs_without_kernels": int((missing & found.is_graph).sum()),
        "missing_in_graphs": int(found.short[here].sum()),
        "captured": int((here & found.is_captured).sum()),
        "after_the_end": int((here & found.is_pending).sum()),
    }
