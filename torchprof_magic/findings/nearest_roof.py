"""How near the roofs the work of a recording is, and which rows have most to gain, in one sentence."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.findings.hottest_rows import Times, code_of
from torchprof_magic.model.units import format_ratio

if TYPE_CHECKING:
    from torchprof_magic.facts.shared import OfPart
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.shapes import Table
    from torchprof_magic.model.trace import Trace


def below_roofs(build: OfPart[Table]) -> OfPart[Table]:
    """Return a function that builds the same table, with a sentence on how near its roofs the work is."""

    @wraps(build)
    def built(trace: Trace, part: TimeRange = WHOLE) -> Table:
        table = build(trace, part=part)
        return replace(table, answer=_how_near(trace, table, part))

    return built


def _how_near(trace: Trace, table: Table, part: TimeRange) -> str:
    """Return how near the roofs all rows are together, and what the one that loses most could gain."""
    if table.frame.height == 0:
        return ""
    if table.points is None or not table.points.roofs:
        return _without_peak(trace)
    known = table.frame.filter(pl.col("roof_ns").is_not_null())
    worked = float(known["worked_ns"].sum() or 0)
    if worked <= 0:
        return ""
    worked_times, above_times = (Times(trace, name, part) for name in ("worked_ns", "above_ns"))
    sums = {name: float(known[name].sum()) for name in ("worked_ns", "above_ns")}
    ratio = format_ratio(1 - sums["above_ns"] / worked)
    said = (
        f"Work of known size runs at {ratio} of its roof: {above_times.of(sums)} of "
        f"{worked_times.of(sums)}{worked_times.each} are above it"
    )
    most = known.sort("above_ns", descending=True).row(0, named=True)
    return (
        f"{said}. {code_of(most['name'])} could gain most, {above_times.of(most)}: "
        f"it is at {format_ratio(most['roof_ratio'])} of its {most['roof']} roof.{_beyond(known)}"
    )


def _beyond(known: pl.DataFrame) -> str:
    """Return the row with the most time of those above their roof, and why that is; empty where none is."""
    above = known.filter(pl.col("beyond").is_not_null()).sort("worked_ns", descending=True)
    if above.height == 0:
        return ""
    row = above.row(0, named=True)
    return f" {code_of(row['name'])} is at {format_ratio(row['roof_ratio'])}, above it: {row['beyond']}."


def _without_peak(trace: Trace) -> str:
    if trace.has_device:
        return "The peak of this device is not known, so neither are its roofs. Set it with `tp.peaks.add()`."
    return "The peak of this CPU is not known, so neither are its roofs. Measure it once with `tp.measure_peak()`."
