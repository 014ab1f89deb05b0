"""Which row of the work in a recording is furthest from its roof in time, and which is nearest to it, in words."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.budget import busiest_device
from torchprof_magic.facts.counted_steps import counted_part, counted_steps, has_counted_steps
from torchprof_magic.facts.ops.roofline import peak_of_device
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.findings.deciding_time import is_decided_on_device
from torchprof_magic.findings.hottest_rows import Times, code_of
from torchprof_magic.model.units import format_ns, format_ratio
from torchprof_magic.tables.ops.rates import COMPUTE, MEMORY
from torchprof_magic.tables.ops.roofline import roofline_table

if TYPE_CHECKING:
    from torchprof_magic.facts.shared import OfPart
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.shapes import Table
    from torchprof_magic.model.trace import Trace

# What keeps work from being faster than its roof.
_LIMITS = {MEMORY: "memory bandwidth", COMPUTE: "arithmetic"}
# What takes less of the work says little of how near a run is to the limit, and what gains less of a step is no advice.
_LEAST_WORK = 0.01
_LEAST_GAIN = 0.02


def below_roofs(build: OfPart[Table]) -> OfPart[Table]:
    """Return a function that builds the same table, with a sentence on what could gain the most."""

    @wraps(build)
    def built(trace: Trace, part: TimeRange = WHOLE) -> Table:
        table = build(trace, part=part)
        return replace(table, answer=_most_to_gain(trace, table, part))

    return built


def without_advice(trace: Trace) -> str:
    """Return what to change where no rule for advice applies: the work that could gain most, where that is much."""
    part, chosen = counted_part(trace), counted_steps(trace)
    known = _known(roofline_table(trace, part))
    if known.height == 0 or not chosen.whole_ns:
        return f"No advice: no rule applies.{_what_is_missing(trace)}"
    gain_ns = float(known["above_ns"].sum())
    share = gain_ns / chosen.whole_ns
    if share >= _LEAST_GAIN:
        return _of_most(trace, known, part)
    if not gain_ns:
        return "No advice. All work of known size is at its roof."
    each = " per step" if has_counted_steps(trace) else ""
    most = f"{format_ns(gain_ns / chosen.steps)}{each} ({format_ratio(share)})"
    return f"No advice. Faster kernels could save {most} at most, where the size of their work is known."


def _known(table: Table) -> pl.DataFrame:
    """Return the rows that have a roof, what could gain the most first."""
    if table.points is None or not table.points.roofs:
        return table.frame.clear()
    known = table.frame.filter(pl.col("roof_ns").is_not_null() & (pl.col("worked_ns") > 0))
    return known.sort("above_ns", descending=True)


def _most_to_gain(trace: Trace, table: Table, part: TimeRange) -> str:
    """Return which row loses most against its roof, and which of those with much work is nearest to it."""
    if table.frame.height == 0:
        return ""
    if table.points is None or not table.points.roofs:
        return _without_peak(trace)
    known = _known(table)
    if known.height == 0:
        return ""
    if not known["above_ns"][0]:
        return "Nothing can gain: all work of known size is at its roof."
    return _of_most(trace, known, part) + _nearest(known)


def _of_most(trace: Trace, known: pl.DataFrame, part: TimeRange) -> str:
    """Return how much of its time the first row could gain, in three digits as all sentences."""
    most = known.row(0, named=True)
    lost, worked = (Times(trace, name, part) for name in ("above_ns", "worked_ns"))
    number, unit = lost.of(most).split(" ")
    gain = number if worked.of(most).endswith(f" {unit}") else lost.of(most)
    return (
        f"{code_of(most['name'])} could gain the most: up to {gain} of {worked.of(most)}{worked.each}; its limit is "
        f"{_LIMITS[most['roof']]}."
    )


def _nearest(known: pl.DataFrame) -> str:
    """Return which row is nearest to its roof, of those that take a part of the work."""
    by_roof = known.sort("roof_ratio", "worked_ns", descending=True)
    large = by_roof.filter(pl.col("worked_ns") >= _LEAST_WORK * pl.col("worked_ns").sum())
    nearest, every = large.row(0, named=True), by_roof.row(0, named=True)
    ratio = format_ratio(nearest["roof_ratio"])
    if large.height == 1:
        return f" It is at {ratio} of its roof."
    some = f"of those with at least {format_ratio(_LEAST_WORK)} of the work, "
    of_what = "" if nearest["name"] == every["name"] else some
    if nearest["name"] == known["name"][0]:
        who = f"{of_what}it is also the nearest"
    else:
        who = f"{of_what}{code_of(nearest['name'])} is nearest"
    return f" {who[0].upper()}{who[1:]} to its roof, at {ratio} of it."


def _what_is_missing(trace: Trace) -> str:
    """Return what would tell how near the work of a device is to the limit; empty where that is not the question."""
    if not is_decided_on_device(trace):
        return ""
    if not trace.meta.has_shapes:
        return " With `--shapes` (`record_shapes=True`) the roofline says what its kernels could gain."
    return f" {_without_peak(trace)}" if peak_of_device(trace, busiest_device(trace)) is None else ""


def _without_peak(trace: Trace) -> str:
    lacks = "is not known, so there is nothing to compare the work with."
    if trace.has_device:
        return f"The peak of this device {lacks} Set it with `tp.peaks.add()`."
    return f"The peak of this CPU {lacks} Measure it once with `tp.measure_peak()`."
