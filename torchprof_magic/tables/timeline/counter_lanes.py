"""Counters as curves over time: one lane each, those of a device together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.model.meta import shortened
from torchprof_magic.model.shapes import MOST_LEVEL, Scale
from torchprof_magic.model.units import counted

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# More lanes of one device than anyone compares; the others are in the frame of counters.
MOST_CURVES = 32
# With more in all, their lanes are folded at first, so that threads and devices stay in sight.
MOST_OPEN = 12
FULL_PERCENT = 100.0
# A page measures these texts again and again, and names can have thousands of characters.
MAX_NAME_CHARS = 60
MAX_TITLE_CHARS = 240
_SERIES = ["name", "unit"]


class Extent(NamedTuple):
    """The time that a timeline shows."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One counter: its value holds from each moment of ``start_ns`` for ``dur_ns``, at ``level`` of ``scale``."""

    name: str
    scale: Scale
    start_ns: IntArray
    dur_ns: IntArray
    level: IntArray

    @property
    def title(self) -> str:
        """Its name, short enough for a lane."""
        return shortened(self.name, MAX_NAME_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveGroup:
    """The counters of one device, or those of none. ``count`` is how many there are, also beyond those with a curve."""

    curves: tuple[Curve, ...]
    count: int

    @property
    def title(self) -> str:
        """What the lane above the curves says: how many there are, and their names."""
        shown = len(self.curves)
        count = counted(shown, "counter") if shown == self.count else f"{shown} of {counted(self.count, 'counter')}"
        return shortened(f"{count}: {', '.join(curve.title for curve in self.curves)}", MAX_TITLE_CHARS)


def extent_of(trace: Trace) -> Extent | None:
    """Return the time from the first event or step to the end of the last; None if there is neither."""
    end_ns = (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns")
    frames = [frame.select("start_ns", end_ns) for frame in (trace.events, trace.scopes)]
    times = pl.concat([*frames, trace.steps.select("start_ns", "end_ns")])
    if times.height == 0:
        return None
    start_ns, last_ns = times.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    return Extent(start_ns, max(last_ns, start_ns + 1))


def curve_groups(trace: Trace) -> dict[int | None, CurveGroup]:
    """Return the counters by device, and those of no device under None, in the order in which they begin.

    They are cut to the time that the events take; if there are none, all is shown. Values from before it hold until the
    first within it, and the last value holds until its end. Of many, those with the most values are shown.
    """
    counters = trace.counters
    if counters.height == 0:
        return {}
    extent = extent_of(trace) or Extent(counters["time_ns"][0], counters["time_ns"][-1] + 1)
    within = counters.filter(pl.col("time_ns") < extent.end_ns)
    devices = within["device"].unique().sort(nulls_last=True).to_list()
    return {device: _group(within.filter(pl.col("device").eq_missing(device)), extent) for device in devices}


def _group(counters: pl.DataFrame, extent: Extent) -> CurveGroup:
    series = counters.group_by(_SERIES, maintain_order=True).len("count").with_row_index("order")
    kept = series.sort("count", "order", descending=[True, False]).head(MOST_CURVES).sort("order")
    curves = (
        _curve(counters.filter(pl.col("name") == name, pl.col("unit").eq_missing(unit)), name, unit or "", extent)
        for name, unit in kept.select("name", "unit").iter_rows()
    )
    return CurveGroup(curves=tuple(curves), count=series.height)


def is_folded(groups: dict[int | None, CurveGroup]) -> bool:
    """Return whether there are so many curves that they are to be folded at first."""
    return sum(len(group.curves) for group in groups.values()) > MOST_OPEN


def _curve(series: pl.DataFrame, name: str, unit: str, extent: Extent) -> Curve:
    time = np.maximum(series["time_ns"].to_numpy(), extent.start_ns)
    # Of several values at one moment, the last one holds.
    is_last = np.append(time[1:] > time[:-1], [True])
    start, value = time[is_last], series["value"].to_numpy()[is_last]
    scale = _scale(value, unit)
    level = np.rint((value - scale.low) / (scale.high - scale.low) * MOST_LEVEL).astype(np.int64)
    return Curve(
        name=name,
        scale=scale,
        start_ns=start,
        dur_ns=np.diff(start, append=extent.end_ns),
        level=np.clip(level, 0, MOST_LEVEL),
    )


def _scale(value: npt.NDArray[np.float64], unit: str) -> Scale:
    """Return the scale from 0 to the largest value, down to the least if it is negative; of percentages up to 100."""
    least, most = float(value.min()), float(value.max())
    low, high = min(least, 0.0), max(most, 0.0)
    if unit == "%" and low == 0.0:
        high = max(high, FULL_PERCENT)
    return Scale(low=low, high=high if high > low else 1.0, unit=unit, least=least, most=most)
