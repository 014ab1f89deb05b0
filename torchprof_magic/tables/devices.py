"""Names, busy and idle time of the devices, and the part of their communication that runs alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.busy import together_ns, window_ns
from torchprof_magic.facts.shared import (
    device_numbers,
    device_rows,
    in_category,
    is_named,
    launch_sources,
    once_for_the_whole,
)
from torchprof_magic.model.intervals import union_ns
from torchprof_magic.model.rows import filled
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.vendors import COLLECTIVE_KERNEL, COLLECTIVE_KERNELS, COLLECTIVE_LIBRARIES

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

COLUMNS = (
    Column(name="device", title="Device", unit="text", definition="Number of the device in the trace."),
    Column(
        name="name",
        title="Name",
        unit="text",
        definition="Name of the device, of its process in the trace, or of the platform; empty if unknown.",
    ),
    Column(
        name="busy_ns",
        title="Busy",
        unit="ns",
        definition="Time during which at least one kernel, copy or fill ran, on any stream of the device.",
        has_bar=True,
    ),
    Column(
        name="launched_busy_ns",
        title="Busy, launched in the recording",
        unit="ns",
        definition="Busy time of work whose launch is in the file; the rest was queued before the recording began.",
    ),
    Column(
        name="window_ns",
        title="First to last",
        unit="ns",
        definition="Time from the start of the first to the end of the last kernel, copy or fill.",
    ),
    Column(
        name="launched_window_ns",
        title="First to last launched",
        unit="ns",
        definition="First to last, for work whose launch is in the file.",
        is_minor=True,
    ),
    Column(
        name="idle_ns",
        title="Idle between",
        unit="ns",
        definition="First to last, minus busy. The verdict and `report.idle` also have the waits before the first and "
        "after the last work, from the first step or op on.",
    ),
    Column(
        name="sum_ns",
        title="Summed work",
        unit="ns",
        definition="Summed duration of all work; concurrent streams add up.",
        is_minor=True,
    ),
    Column(name="streams", title="Streams", unit="count", definition="Number of streams that were used."),
    Column(
        name="events", title="Kernels, copies, fills", unit="count", definition="Number of kernels, copies and fills."
    ),
    Column(
        name="launched_events",
        title="Launched in the recording",
        unit="count",
        definition="Number of kernels, copies and fills whose launch is in the file.",
        is_minor=True,
    ),
    Column(name="kernels", title="Kernels", unit="count", definition="Number of kernels, without copies and fills."),
    Column(
        name="comm_kernels",
        title="Collectives",
        unit="count",
        definition=f"Kernels of collectives, by name: of {', '.join((*COLLECTIVE_LIBRARIES, *COLLECTIVE_KERNELS))}.",
        is_minor=True,
    ),
    Column(
        name="comm_ns",
        title="Communication",
        unit="ns",
        definition="Time during which at least one collective kernel ran, including the time it waits for other ranks.",
    ),
    Column(
        name="hidden_comm_ns",
        title="Hidden communication",
        unit="ns",
        definition="Part of the communication time during which a computation kernel ran as well.",
    ),
    Column(
        name="exposed_comm_ns",
        title="Exposed communication",
        unit="ns",
        definition="Communication time during which no computation ran.",
    ),
)


@once_for_the_whole
def devices_table(trace: Trace, part: TimeRange) -> Table:
    """Return one row per device, sorted by number: its busy time, with and without work queued before the recording.

    Times are cut at the edges of the part, also that from the first to the last work of the whole recording. A kernel
    counts if any of it lies inside.
    """
    row = device_rows(trace)
    device = device_numbers(trace)[row]
    rows = [_device_row(trace, one, row[device == one], part) for one in np.unique(device).tolist()]
    schema = {column.name: pl.Int64 for column in COLUMNS if column.name != "name"}
    frame = pl.DataFrame(rows, schema=schema)
    names = dict(trace.meta.devices)
    named = pl.Series("name", [names.get(device, "") for device in frame["device"]], dtype=pl.String)
    return Table(frame=frame.insert_column(1, named), columns=COLUMNS)


def _device_row(trace: Trace, device: int, row: IntArray, part: TimeRange) -> dict[str, int]:
    whole_start, whole_dur = (trace.events[name].to_numpy()[row] for name in ("start_ns", "dur_ns"))
    is_there = part.touches(whole_start, whole_dur)
    start, dur = part.cut(whole_start, whole_dur)
    end = start + dur
    is_launched, is_comm = launch_sources(trace)[row] >= 0, is_named(trace, COLLECTIVE_KERNEL)[row]
    is_kernel = in_category(trace, "kernel")[row]
    stream = filled(trace.events["stream"], 0)[row]
    collective, compute = is_kernel & is_comm, is_kernel & ~is_comm
    busy, window = union_ns(start, end), window_ns(start, end)
    comm = union_ns(start[collective], end[collective])
    hidden = together_ns(start, end, collective, compute)
    return {
        "device": device,
        "busy_ns": busy,
        "launched_busy_ns": union_ns(start[is_launched], end[is_launched]),
        "window_ns": window,
        "launched_window_ns": window_ns(start[is_launched], end[is_launched]),
        "idle_ns": window - busy,
        "sum_ns": int(dur.sum()),
        "streams": len(np.unique(stream[is_there])),
        "events": int(is_there.sum()),
        "launched_events": int((is_there & is_launched).sum()),
        "kernels": int((is_there & is_kernel).sum()),
        "comm_kernels": int((is_there & collective).sum()),
        "comm_ns": comm,
        "hidden_comm_ns": hidden,
        "exposed_comm_ns": comm - hidden,
    }
