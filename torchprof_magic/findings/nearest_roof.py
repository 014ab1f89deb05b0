"""Which row of the work in a recording is furthest from its roof in time, in one sentence."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.findings.hottest_rows import Times, code_of
from torchprof_magic.tables.ops.rates import COMPUTE, MEMORY

if TYPE_CHECKING:
    from torchprof_magic.facts.shared import OfPart
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.shapes import Table
    from torchprof_magic.model.trace import Trace

# What keeps work from being faster than its roof.
_LIMITS = {MEMORY: "memory bandwidth", COMPUTE: "arithmetic"}


def below_roofs(build: OfPart[Table]) -> OfPart[Table]:
    """Return a function that builds the same table, with a sentence on what could gain most."""

    @wraps(build)
    def built(trace: Trace, part: TimeRange = WHOLE) -> Table:
        table = build(trace, part=part)
        return replace(table, answer=_most_to_gain(trace, table, part))

    return built


def _most_to_gain(trace: Trace, table: Table, part: TimeRange) -> str:
    """Return which row loses most against its roof, of how much time, in three digits as all sentences."""
    if table.frame.height == 0:
        return ""
    if table.points is None or not table.points.roofs:
        return _without_peak(trace)
    known = table.frame.filter(pl.col("roof_ns").is_not_null() & (pl.col("worked_ns") > 0))
    if known.height == 0:
        return ""
    most = known.sort("above_ns", descending=True).row(0, named=True)
    if not most["above_ns"]:
        return "Nothing can gain: all work of known size is at its roof."
    lost, worked = (Times(trace, name, part) for name in ("above_ns", "worked_ns"))
    number, unit = lost.of(most).split(" ")
    gain = number if worked.of(most).endswith(f" {unit}") else lost.of(most)
    return (
        f"{code_of(most['name'])} could gain most: up to {gain} of {worked.of(most)}{worked.each}, limited by "
        f"{_LIMITS[most['roof']]}."
    )


def _without_peak(trace: Trace) -> str:
    lacks = "is not known, so there is nothing to compare the work with."
    if trace.has_device:
        return f"The peak of this device {lacks} Set it with `tp.peaks.add()`."
    return f"The peak of this CPU {lacks} Measure it once with `tp.measure_peak()`."
