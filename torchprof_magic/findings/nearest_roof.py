"""Which row of the work in a recording is furthest from its roof in time, in one sentence."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.findings.hottest_rows import Times, code_of
from torchprof_magic.model.units import format_ratio

if TYPE_CHECKING:
    from typing import Any

    from torchprof_magic.facts.shared import OfPart
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.shapes import Table
    from torchprof_magic.model.trace import Trace

# Calls above the roof show in the share of all calls from so much of what the others could gain.
_BOTH_SIDES = 0.01


def below_roofs(build: OfPart[Table]) -> OfPart[Table]:
    """Return a function that builds the same table, with a sentence on what could gain most."""

    @wraps(build)
    def built(trace: Trace, part: TimeRange = WHOLE) -> Table:
        table = build(trace, part=part)
        return replace(table, answer=_most_to_gain(trace, table, part))

    return built


def _most_to_gain(trace: Trace, table: Table, part: TimeRange) -> str:
    """Return which row loses most against its roof, of how much time, in the numbers of the table."""
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
    lost, worked = (Times(trace, name, part, table) for name in ("above_ns", "worked_ns"))
    of_all = f"{lost.number(most)} of {worked.of(most)}"
    if not lost.of(most).endswith(worked.of(most).split(" ")[-1]):
        of_all = f"{lost.of(most)} of {worked.of(most)}"
    return f"{code_of(most['name'])} could gain most: {of_all}{worked.each} ({_where(most)})."


def _where(row: dict[str, Any]) -> str:
    """Return how near its roof a row is; where its calls are on both sides, the share of all would not fit the gain."""
    faster_ns = row["above_ns"] + row["roof_ns"] - row["roof_ns"] / row["roof_ratio"]
    if faster_ns > _BOTH_SIDES * row["above_ns"]:
        return f"in calls slower than the {row['roof']} roof, others are faster"
    return f"{format_ratio(row['roof_ratio'])} of the {row['roof']} roof"


def _without_peak(trace: Trace) -> str:
    if trace.has_device:
        return "The peak of this device is not known, so neither are its roofs. Set it with `tp.peaks.add()`."
    return "The peak of this CPU is not known, so neither are its roofs. Measure it once with `tp.measure_peak()`."
