"""Memory in use on each device over time, by what it is used for, with its peak."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.memory.blocks import HOST
from torchprof_magic.facts.memory.levels import memory_levels, silent_releases
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.model.shapes import EVERY_LANE, Column, Mark, PhaseSpan, Series
from torchprof_magic.model.trace import MEMORY_CATEGORIES
from torchprof_magic.model.units import format_bytes
from torchprof_magic.tables.memory.module_strip import module_strip
from torchprof_magic.tables.memory.starting_level import WITHOUT_OLDER, own_note, starting_note
from torchprof_magic.tables.phase_strip import phase_strip

if TYPE_CHECKING:
    from torchprof_magic.facts.memory.levels import Levels
    from torchprof_magic.model.trace import Trace

TOTAL = Column(
    name="allocated_bytes",
    title="Allocated",
    unit="bytes",
    definition="Bytes held by live tensors. On accelerators this is the total that the allocator reports; if a file "
    "has none, the changes are summed up from the lowest level that is possible. On the CPU the blocks are added up: "
    "those that the recording allocates, and in a live run with --memory all storages of tensors from before it. "
    "Otherwise the overview says what is not in it.",
)
RESERVED = Column(
    name="reserved_bytes",
    title="Reserved",
    unit="bytes",
    definition="Bytes that the caching allocator has reserved on the device, in use or not.",
)
BANDS = (TOTAL, RESERVED)
_LIVE = "In a live run, by the addresses of the live objects"
CATEGORY_TEXT = {
    "parameter": "Parameters of modules and optimizers. In a live run only, by the addresses of the live objects.",
    "buffer": "Buffers of modules. In a live run only, by the addresses of the live objects.",
    "gradient": f"{_LIVE} when an optimizer steps. Otherwise what is allocated in the backward pass and outlives it.",
    "optimizer_state": f"{_LIVE} after an optimizer stepped. Otherwise what is allocated in Optimizer.step and "
    "outlives it.",
    "activation": "Allocated by an op outside of the backward pass and of optimizers, and not released in the same op.",
    "input": f"{_LIVE}: arguments of a model that have no gradient function. Otherwise what is allocated in the "
    "iterator of a DataLoader, or by an op that makes or moves a tensor and is called outside of modules and other "
    "ops.",
    "temporary": "Released by the same outermost op or node of autograd that allocated it, or in the same call of "
    "Optimizer.step.",
    "autograd": "Allocated in the backward pass and released before its end, also what a checkpoint computes again.",
    "unknown": "Everything else: allocated outside of ops, or before the recording by what no live object explains.",
}
CATEGORY_BANDS = tuple(
    Column(
        name=f"{name}_bytes",
        title="Other or from before" if name == "unknown" else name.replace("_", " ").capitalize(),
        unit="bytes",
        definition=CATEGORY_TEXT[name],
    )
    for name in MEMORY_CATEGORIES
)
UNKNOWN = CATEGORY_BANDS[-1]
FRAME_COLUMNS = (
    Column(name="time_ns", title="Time", unit="ns", definition="Time, relative to the first recorded event."),
    Column(
        name="device",
        title="Device",
        unit="text",
        definition="cpu, or type and number of the device, such as cuda:0; accelerators come first.",
    ),
    Column(
        name="total_bytes",
        title="Total",
        unit="bytes",
        definition=f"{TOTAL.definition} The columns that follow add up to it in every row.",
    ),
    *CATEGORY_BANDS,
)
# More spans than these are finer than pixels.
MOST_SPANS = 600
LEAST_PARTS = 4


@once_per_trace
def memory_series(trace: Trace) -> Series:
    """Return the bytes in use on every device over time, in all and by category, with each device's peak and the steps.

    Accelerators come first, because it is their memory that runs out.
    """
    frame = _level_frame(trace)
    if frame.height == 0:
        return Series(frame=frame, bands=BANDS[:1])
    total = replace(TOTAL, title="Allocated in the recording") if _begins_at_none(trace, frame) else TOTAL
    bands = (total, RESERVED) if frame["reserved_bytes"].is_not_null().any() else (total,)
    stacked = tuple(band for band in _from_the_bottom(frame) if band.name in frame.columns)
    marks = (*_peaks(trace, frame), *_step_marks(trace))
    modules = module_strip(trace, MOST_SPANS)
    return Series(frame=frame, bands=bands, stacked=stacked, marks=marks, phases=_phases(trace), modules=modules)


def _begins_at_none(trace: Trace, frame: pl.DataFrame) -> bool:
    """Return whether no curve has what was in use before; where only some lack it, it is said of their peaks."""
    return {starting_note(trace, lane) for lane in frame["lane"].unique()} == {WITHOUT_OLDER}


def _from_the_bottom(frame: pl.DataFrame) -> tuple[Column, ...]:
    """Return the bands of the categories as they lie on one another.

    What is unknown lies on top, unless most of it stays all the time, as what was there before the recording does.
    """
    if UNKNOWN.name not in frame.columns:
        return CATEGORY_BANDS
    level = pl.col(UNKNOWN.name)
    of_lanes = frame.group_by("lane").agg(level.min().alias("least"), level.max().alias("most")).sort("most")
    least, most = of_lanes.select("least", "most").row(-1)
    return (UNKNOWN, *CATEGORY_BANDS[:-1]) if 2 * least >= most else CATEGORY_BANDS


@once_per_trace
def _level_frame(trace: Trace) -> pl.DataFrame:
    """Return the bytes in use after every change, in all, reserved, and of the categories that there are."""
    if trace.memory.height == 0:
        return trace.memory.select(pl.col("device").alias("lane"), "time_ns", "allocated_bytes", "reserved_bytes")
    frame = trace.memory.select(pl.col("device").alias("lane"), "time_ns", "reserved_bytes")
    frame = frame.with_columns(_level_columns(memory_levels(trace)))
    silent = silent_releases(trace)
    if len(silent.time_ns):
        times = pl.DataFrame({"lane": HOST, "time_ns": silent.time_ns}).with_columns(_level_columns(silent.levels))
        # A release that is known by our clock comes before the record that follows it, whatever the clocks say.
        order = pl.Series("order", np.concatenate((np.arange(frame.height) * 2 + 1, silent.next_row * 2)))
        frame = pl.concat([frame, times], how="diagonal").with_columns(order).sort("order", maintain_order=True)
        frame = frame.drop("order")
    # A reserved size of 0 beside allocated bytes means that this allocator (that of the CPU) does not reserve memory.
    has_reserve = (pl.col("reserved_bytes") > 0).any().over("lane")
    frame = frame.with_columns(pl.when(has_reserve).then(pl.col("reserved_bytes")).alias("reserved_bytes"))
    number = pl.col("lane").str.extract(r"([0-9]+)$").cast(pl.Int64, strict=False)
    frame = frame.sort(pl.col("lane") == "cpu", number, "lane", "time_ns", maintain_order=True)
    stacked = [band.name for band in CATEGORY_BANDS if (frame[band.name] != 0).any()]
    return frame.select("lane", "time_ns", "allocated_bytes", "reserved_bytes", *stacked)


def _level_columns(levels: Levels) -> list[pl.Series]:
    """Return the bytes in use in all, and of each category."""
    total = pl.Series("allocated_bytes", levels.total, dtype=pl.Int64)
    names = (band.name for band in CATEGORY_BANDS)
    return [total, *(pl.Series(name, row, dtype=pl.Int64) for name, row in zip(names, levels.by_category, strict=True))]


def memory_frame(trace: Trace) -> pl.DataFrame:
    """Return one row per recorded change: time, device, total bytes, and the bytes of each category."""
    frame = _level_frame(trace)
    absent = (pl.lit(0, pl.Int64).alias(band.name) for band in CATEGORY_BANDS if band.name not in frame.columns)
    return (
        frame.rename({"lane": "device", "allocated_bytes": "total_bytes"})
        .with_columns(*absent)
        .select(*(column.name for column in FRAME_COLUMNS))
    )


def memory_peaks(series: Series) -> list[Mark]:
    """Return the peak of every device."""
    return [mark for mark in series.marks if mark.kind == "peak"]


def _peaks(trace: Trace, frame: pl.DataFrame) -> list[Mark]:
    marks = []
    for (lane,), rows in frame.group_by("lane", maintain_order=True):
        index = rows["allocated_bytes"].arg_max()
        if index is None:
            continue
        peak, time_ns = rows["allocated_bytes"][index], rows["time_ns"][index]
        label = ", ".join(filter(None, (f"peak {format_bytes(peak)}", own_note(trace, str(lane)))))
        marks.append(Mark(lane=str(lane), time_ns=time_ns, label=label, kind="peak"))
    return marks


def _phases(trace: Trace) -> tuple[PhaseSpan, ...]:
    """Return the phases of the steps, coarser the more steps there are."""
    strip = phase_strip(trace, max(MOST_SPANS // max(trace.steps.height, 1), LEAST_PARTS))
    rows = zip(strip.start_ns.tolist(), strip.end_ns.tolist(), strip.phase.tolist(), strict=True)
    return tuple(PhaseSpan(start_ns=start, end_ns=end, phase=PHASES[phase]) for start, end, phase in rows)


def _step_marks(trace: Trace) -> list[Mark]:
    steps = trace.steps.select("number", "start_ns").rows()
    return [Mark(lane=EVERY_LANE, time_ns=start, label=f"step {number}", kind="step") for number, start in steps]
