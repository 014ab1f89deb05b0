"""What counters are called: in files an event, a series and often a unit in brackets, here a name and a unit."""

from __future__ import annotations

import re
from typing import NamedTuple

# Units as programs write them, alone or in brackets at the end of a name. A few letters of other meaning, such as K and
# M, are no units here: "Queue (M)" is a name.
UNIT = (
    r"%|percent|pct|ratio|[munµ]?s|min"
    r"|[kMGT]?Hz|[umkM]?W|[mkM]?J|m?V|m?A|°?[CF]|rpm|RPM"
    r"|[Bb]ytes|[kKMGTP]?i?B|[kKMGT]?bit|[KMGT]?bps|[kMGTPE]?FLOPS?|[kMGTPE]?FLOP/s|MT/s"
    r"|(?:[Bb]ytes|[kKMGTP]?i?B|[kKMGT]?bit|[a-z]{2,12})/s"
)
_UNIT = re.compile(UNIT)
_BRACKETED = re.compile(rf"(.*\S)\s*(?:\(\s*({UNIT})\s*\)|\[\s*({UNIT})\s*\])\s*", re.DOTALL)
# How names end that say their unit in their own way: metrics of NVIDIA's hardware, and identifiers.
_ENDINGS = (
    (re.compile(r"\.pct(_of_peak\w*)?$|[_.](pct|percent)$"), "%"),
    (re.compile(r"bytes(?=\.)[.\w]*\.per_second$"), "bytes/s"),
    (re.compile(r"[_.]bytes(\.(sum|avg|min|max))?$"), "bytes"),
    (re.compile(r"[_.]ns$"), "ns"),
    (re.compile(r"[_.]us$"), "us"),
    (re.compile(r"[_.]ms$"), "ms"),
)
# Names of a series that say no more than the name of its event.
_EMPTY_SERIES = ("", "value", "counter")
NAMELESS = "counter"


class CounterName(NamedTuple):
    """The name of a counter, and its unit as the file writes it; None if it names none."""

    name: str
    unit: str | None


def counter_name(event: str, series: str = "", identifier: str = "", *, is_only: bool = True) -> CounterName:
    """Return what a series of a counter event is called: ``event``, ``event: series`` or ``event[identifier]``.

    The only series of an event is called like the event if it is called ``value``, like its unit, or not at all.
    """
    base, unit = _without_unit(event)
    label, own_unit = _without_unit(series)
    if _UNIT.fullmatch(label) and own_unit is None:
        own_unit = label
        label = "" if is_only else label
    if identifier:
        base = f"{base}[{identifier}]"
    is_said = is_only and (label.lower() in _EMPTY_SERIES or label == base)
    name = base if is_said else f"{base}: {label}".removeprefix(": ")
    return CounterName(name or NAMELESS, own_unit or unit or _unit_by_ending(name))


def event_name(name: str, unit: str | None) -> str:
    """Return what the event of a counter is called in a file, so that ``counter_name`` returns the same again."""
    return name if unit is None or counter_name(name) == (name, unit) else f"{name} ({unit})"


def _without_unit(text: str) -> CounterName:
    found = _BRACKETED.fullmatch(text)
    return CounterName(text.strip(), None) if found is None else CounterName(found[1], found[2] or found[3])


def _unit_by_ending(name: str) -> str | None:
    return next((unit for ending, unit in _ENDINGS if ending.search(name)), None)
