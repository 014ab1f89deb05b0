"""Counters of devices over parts of the time: energy from their power, and how active their units were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

    Floats = npt.NDArray[np.float64]

_WATTS = {"W": 1.0, "mW": 1e-3, "kW": 1e3}
_POWER = r"(?i)power"
# What the units that compute, and the memory, are called by those who sample them.
ACTIVE = {
    "sm_active": r"(?i)\bsm[ _]*active|sm__cycles_active|sm__throughput|gr_engine_active",
    "dram_active": r"(?i)\bdram[ _]*(active|util)|dram__throughput|dram__cycles_active",
}
_PERCENT = ("%", "percent", "pct")
_NS = 1e9


def joules_in(trace: Trace, start_ns: IntArray, end_ns: IntArray) -> Floats:
    """Return the energy in J that all devices took in each interval, by the first counter of the power of each.

    A value holds until the next one; nan without such counters.
    """
    power = trace.counters.filter(pl.col("unit").cast(pl.String).is_in([*_WATTS]) & _is_named(_POWER))
    if power.height == 0:
        return np.full(len(start_ns), np.nan)
    watts = power.with_columns(
        (pl.col("value") * pl.col("unit").cast(pl.String).replace_strict(_WATTS, return_dtype=pl.Float64)).alias(
            "value"
        )
    )
    return sum((_integral(each, start_ns, end_ns) for each in _first_of_devices(watts)), np.zeros(len(start_ns))) / _NS


def active_in(trace: Trace, kind: str, start_ns: IntArray, end_ns: IntArray) -> Floats:
    """Return the mean share of an ``ACTIVE`` counter in each interval, over all devices; nan without any."""
    found = trace.counters.filter(_is_named(ACTIVE[kind]))
    series = _first_of_devices(found)
    if not series:
        return np.full(len(start_ns), np.nan)
    ns = np.maximum(end_ns - start_ns, 1)
    return np.mean([_integral(each, start_ns, end_ns) / ns * _scale(each) for each in series], axis=0)


def _is_named(pattern: str) -> pl.Expr:
    return pl.col("name").cast(pl.String).str.contains(pattern)


def _first_of_devices(counters: pl.DataFrame) -> list[pl.DataFrame]:
    """Return one counter of each device, the first by name."""
    texts = counters.with_columns(pl.col("name").cast(pl.String))
    return [
        rows.filter(pl.col("name") == rows["name"].min()) for _, rows in sorted(texts.group_by("device"), key=_order)
    ]


def _order(group: tuple[tuple[object, ...], pl.DataFrame]) -> int:
    (device,), _ = group
    return device if isinstance(device, int) else -1


def _scale(counter: pl.DataFrame) -> float:
    """Return what makes a share between 0 and 1 of a value."""
    unit, largest = counter["unit"].cast(pl.String)[0], counter["value"].max()
    is_percent = unit in _PERCENT or (unit is None and isinstance(largest, float) and largest > 1)
    return 0.01 if is_percent else 1.0


def _integral(counter: pl.DataFrame, start_ns: IntArray, end_ns: IntArray) -> Floats:
    """Return value times ns over each interval; before the first value and after the last one, these hold."""
    ordered = counter.sort("time_ns")
    time, value = ordered["time_ns"].to_numpy().astype(np.float64), ordered["value"].to_numpy()
    until = np.concatenate(([0.0], np.cumsum(np.diff(time) * value[:-1])))

    def at(moment: IntArray) -> Floats:
        inside: Floats = np.interp(moment, time, until)
        before = np.minimum(moment - time[0], 0) * value[0]
        after = np.maximum(moment - time[-1], 0) * value[-1]
        return inside + before + after

    return at(end_ns) - at(start_ns)
