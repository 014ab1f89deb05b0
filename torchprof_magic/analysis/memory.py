"""Memory in use on each device over time, with its peak."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.analysis.shared import once_per_trace
from torchprof_magic.analysis.sums import LARGEST
from torchprof_magic.model.shapes import EVERY_LANE, Column, Mark, Series
from torchprof_magic.units import format_bytes

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

BANDS = (
    Column(
        name="allocated_bytes",
        title="Allocated",
        unit="bytes",
        definition="Bytes held by live tensors, as reported by the allocator. CPU memory counts from the start of the "
        "recording; if a file has no totals, the allocations since then are summed up.",
    ),
    Column(
        name="reserved_bytes",
        title="Reserved",
        unit="bytes",
        definition="Bytes that the caching allocator has reserved on the device, in use or not.",
    ),
)


@once_per_trace
def memory_series(trace: Trace) -> Series:
    """Return the allocated and reserved bytes of every device over time, with each device's peak and the steps."""
    frame = (
        trace.memory.sort("time_ns", maintain_order=True)
        .with_columns(_allocated().alias("allocated_bytes"))
        .select(pl.col("device").alias("lane"), "time_ns", "allocated_bytes", "reserved_bytes")
    )
    # A reserved size of 0 beside allocated bytes means that this allocator (that of the CPU) does not reserve memory.
    has_reserve = (pl.col("reserved_bytes") > 0).any().over("lane")
    frame = frame.with_columns(pl.when(has_reserve).then(pl.col("reserved_bytes")).alias("reserved_bytes"))
    # Accelerators come first, because it is their memory that runs out.
    number = pl.col("lane").str.extract(r"(\d+)$").cast(pl.Int64, strict=False)
    frame = frame.sort(pl.col("lane") == "cpu", number, "lane", "time_ns", maintain_order=True)
    bands = BANDS if frame["reserved_bytes"].is_not_null().any() else BANDS[:1]
    return Series(frame=frame, bands=bands, marks=(*_peaks(frame), *_step_marks(trace)))


def memory_peaks(series: Series) -> list[Mark]:
    """Return the peak of every device."""
    return [mark for mark in series.marks if mark.kind == "peak"]


def _allocated() -> pl.Expr:
    """Return the total reported by the allocator, or a running sum for devices without one."""
    running = _never_wrapping_sum(pl.col("delta_bytes")).over("device")
    has_totals = pl.col("allocated_bytes").is_not_null().all().over("device")
    return pl.when(has_totals).then(pl.col("allocated_bytes")).otherwise(running)


def _never_wrapping_sum(delta: pl.Expr) -> pl.Expr:
    """Return the running sum, limited where damaged values would overflow it. float64 detects where."""
    rough = delta.cast(pl.Float64).cum_sum()
    stopped = rough.clip(-float(LARGEST), float(LARGEST)).cast(pl.Int64)
    return pl.when(rough.abs() < float(LARGEST)).then(delta.cum_sum()).otherwise(stopped)


def _peaks(frame: pl.DataFrame) -> list[Mark]:
    marks = []
    for (lane,), rows in frame.group_by("lane", maintain_order=True):
        index = rows["allocated_bytes"].arg_max()
        if index is None:
            continue
        peak, time_ns = rows["allocated_bytes"][index], rows["time_ns"][index]
        marks.append(Mark(lane=str(lane), time_ns=time_ns, label=f"peak {format_bytes(peak)}", kind="peak"))
    return marks


def _step_marks(trace: Trace) -> list[Mark]:
    steps = trace.steps.select("number", "start_ns").rows()
    return [Mark(lane=EVERY_LANE, time_ns=start, label=f"step {number}", kind="step") for number, start in steps]
