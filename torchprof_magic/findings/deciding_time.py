"""Which time a view opens on where it has two: that of the host, or that of the device, as the verdict decides."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING

from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.findings.verdict.decision import find_verdict
from torchprof_magic.model.shapes import Outline, Shape, Table, Tree

if TYPE_CHECKING:
    from torchprof_magic.facts.shared import OfPart
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.shapes import Column
    from torchprof_magic.model.trace import Trace

# What the host does, or waits for: with one of these verdicts, its time decides. With any other it is the device's.
_OF_HOST = ("data", "waiting", "dispatch", "python", "compile", "initialisation")
# The columns and weights that views open on: of the host, and the same of the device.
_PAIRS = (("self_cpu_ns", "self_device_ns"), ("cpu_ns", "both_device_ns"), ("cpu_ns", "device_ns"))


def is_decided_on_device(trace: Trace) -> bool:
    """Return whether the time of the device decides how long a step is, rather than that of the host."""
    return trace.has_device and find_verdict(trace).kind not in _OF_HOST


def on_deciding_time(build: OfPart[Shape]) -> OfPart[Shape]:
    """Return a function that builds the same shape, opened on the time that decides."""

    @wraps(build)
    def opened(trace: Trace, part: TimeRange = WHOLE) -> Shape:
        return opened_on_deciding_time(trace, build(trace, part=part))

    return opened


def opened_on_deciding_time(trace: Trace, shape: Shape) -> Shape:
    """Return a table sorted by, or a tree as wide as, the time that decides; any other shape as it is.

    A table in an order of its own begins with the bars of that time and their parts.
    """
    match shape:
        case Table(sort_by=str() as first):
            names = [column.name for column in shape.columns]
            main = _chosen(trace, names, first)
            return replace(shape, sort_by=main)
        case Table(sort_by=None, outline=Outline()):
            return replace(
                shape, columns=_device_first(shape.columns) if is_decided_on_device(trace) else shape.columns
            )
        case Tree():
            names = [weight.name for weight in shape.weights]
            main = _chosen(trace, names, names[0])
            return replace(shape, weights=tuple(sorted(shape.weights, key=lambda weight: weight.name != main)))
        case _:
            return shape


def _chosen(trace: Trace, names: list[str], first: str) -> str:
    """Return the name that a view opens on, of those that it has."""
    for pair in _PAIRS:
        if first in pair and set(pair) <= set(names):
            return pair[is_decided_on_device(trace)]
    return first


def _device_first(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns with the bars of the device, and their halves, before those of the host."""
    bars = [each for each in columns if each.parts]
    device = [each for each in bars if "device" in each.name]
    if not device or device == bars:
        return columns
    moved = {name for each in device for name in (each.name, *(part.column for part in each.parts))}
    moved |= {"own_device_ns"}
    first = columns.index(bars[0])
    rest = [each for each in columns[first:] if each.name not in moved]
    return (*columns[:first], *(each for each in columns if each.name in moved), *rest)
