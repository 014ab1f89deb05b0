"""Which part of the model takes most of a step: the tree of modules with one sentence above it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.findings.deciding_time import is_decided_on_device, opened_on_deciding_time
from torchprof_magic.findings.hottest_rows import Times
from torchprof_magic.model.shapes import Table
from torchprof_magic.model.units import counted, printable
from torchprof_magic.tables.source.module_outline import modules_view
from torchprof_magic.tables.source.modules import OUTSIDE, modules_table, own_times

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace

# Classes with less of the time are not worth a word.
_LEAST_SHARE = 0.05
_MOST_CLASSES = 2
_BOTH_PASSES = {True: ("device_ns", "backward_device_ns"), False: ("total_cpu_ns", "backward_cpu_ns")}


def modules_shown(trace: Trace, part: TimeRange = WHOLE) -> Table:
    """Return the tree of modules, opened on the time that decides, with the classes that take most of it in words."""
    table = opened_on_deciding_time(trace, modules_view(trace, part=part))
    if not isinstance(table, Table):
        raise TypeError(table)
    beside = "own_cpu_ns" if is_decided_on_device(trace) else "own_device_ns"
    columns = tuple(replace(each, is_minor=True) if each.name == beside else each for each in table.columns)
    return replace(table, columns=columns, answer=hottest_classes(trace, part))


def hottest_classes(trace: Trace, part: TimeRange = WHOLE) -> str:
    """Return the classes of modules with most of their own time, as the overview lists it; empty without any time.

    Own time is that of both passes, without that of modules inside.
    """
    on_device = is_decided_on_device(trace)
    frame = modules_table(trace, part=part).frame.filter(pl.col("path") != OUTSIDE)
    own = frame.select("class_name", own_times(frame, *_BOTH_PASSES[on_device]).alias("own_ns"))
    classes = own.group_by("class_name").agg(pl.col("own_ns").sum(), pl.len().alias("modules"))
    classes = classes.sort("own_ns", "class_name", descending=[True, False])
    whole = int(classes["own_ns"].sum())
    times = Times(trace, "own_ns", part)
    found = [
        (_called(str(row["class_name"]), int(row["modules"])), times.of(row))
        for row in classes.head(_MOST_CLASSES).iter_rows(named=True)
        if whole and row["own_ns"] >= _LEAST_SHARE * whole
    ]
    if not found:
        return ""
    (name, time), *others = found
    rest = "".join(f", then {other} {each}" for other, each in others)
    where = "device" if on_device else "CPU"
    return f"{name} takes most self {where} time, {time}{times.each}{rest}."


def _called(name: str, modules: int) -> str:
    name = f"`{printable(name).replace('`', chr(39))}`"
    return name if modules == 1 else f"{name} ({counted(modules, 'module')})"
