"""Which part of the model takes most of a step: the tree of modules with one sentence above it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.findings.deciding_time import is_decided_on_device, opened_on_deciding_time
from torchprof_magic.findings.hottest_rows import Times, code_of
from torchprof_magic.model.shapes import Table
from torchprof_magic.model.units import counted
from torchprof_magic.tables.source.module_outline import modules_view
from torchprof_magic.tables.source.modules import OUTSIDE, modules_table, own_times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    return replace(table, columns=columns, answer=hottest_classes(trace, part, table))


def hottest_classes(trace: Trace, part: TimeRange = WHOLE, table: Table | None = None) -> str:
    """Return the classes of modules with most of their own time, as the overview lists it; empty without any time.

    Own time is that of both passes, without that of modules inside. A class is in no row of a tree, so of the first one
    it is told what its modules take, in the unit of ``table``, which has their rows.
    """
    on_device = is_decided_on_device(trace)
    frame = modules_table(trace, part=part).frame.filter(pl.col("path") != OUTSIDE)
    passes = _BOTH_PASSES[on_device]
    own = frame.select("path", "class_name", *passes, own_times(frame, *passes).alias("own_ns"))
    classes = own.group_by("class_name").agg(pl.col("own_ns").sum(), pl.len().alias("modules"))
    classes = classes.sort("own_ns", "class_name", descending=[True, False])
    whole = int(classes["own_ns"].sum())
    times = Times(trace, "own_ns", part)
    found = [
        row
        for row in classes.head(_MOST_CLASSES).iter_rows(named=True)
        if whole and row["own_ns"] >= _LEAST_SHARE * whole
    ]
    if not found:
        return ""
    first, *others = found
    where = "device" if on_device else "CPU"
    said = f"{code_of(str(first['class_name']))} takes most self {where} time, {times.of(first)}{times.each}"
    name = f"own_{'device' if on_device else 'cpu'}_ns"
    of_class = own.filter(pl.col("class_name") == first["class_name"])
    said += _of_each(Times(trace, name, part, table), of_class["own_ns"])
    shown = {column.name for column in table.columns} if table is not None else set()
    beside = table if shown.issuperset(passes) else None
    said += _of_passes([Times(trace, each, part, beside) for each in passes], of_class)
    return f"{said}{''.join(f', then {_called(row)} {times.of(row)}' for row in others)}."


def _of_passes(times: Sequence[Times], of_class: pl.DataFrame) -> str:
    """Return what the module with the most of its class takes forward and backward, if it has both and none inside.

    That is as its row has it, where the table has both passes.
    """
    row = of_class.sort("own_ns", "path", descending=[True, False]).row(0, named=True)
    forward, backward = (row[each.name] for each in times)
    if not (forward and backward) or forward + backward != row["own_ns"]:
        return ""
    which = f"most in {code_of(str(row['path']))}: " if len(of_class) > 1 else ""
    return f" ({which}{times[0].of(row)} forward, {times[1].of(row)} backward)"


def _of_each(times: Times, own: pl.Series) -> str:
    """Return in how many modules that is, and between which times in each, as their rows have it."""
    if len(own) == 1:
        return ""
    least, most = (times.of({times.name: ns}) for ns in (own.min(), own.max()))
    number, _, unit = least.partition(" ")
    least = number if least != most and (most.endswith(f" {unit}") or number == "0") else least
    return f" in {counted(len(own), 'module')} of {least if least == most else f'{least} to {most}'}"


def _called(row: Mapping[str, Any]) -> str:
    name, modules = code_of(str(row["class_name"])), int(row["modules"])
    return name if modules == 1 else f"{name} ({counted(modules, 'module')})"
