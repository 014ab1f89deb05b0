"""Which part of the model takes most of a step: the tree of modules with one sentence above it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.findings.deciding_time import is_decided_on_device, opened_on_deciding_time
from torchprof_magic.findings.hottest_rows import Times, code_of
from torchprof_magic.model.shapes import Table
from torchprof_magic.tables.source.module_outline import modules_view
from torchprof_magic.tables.source.modules import OUTSIDE, modules_table, own_times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace

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
    """Return the module with most of its own time, or the class where many modules share it; empty without any time.

    Own time is that of both passes, without that of modules inside. The time of a module is as its row in ``table`` has
    it; a class is in no row of a tree, so its time is that of all its modules.
    """
    on_device = is_decided_on_device(trace)
    every = modules_table(trace, part=part).frame
    frame = every.filter(pl.col("path") != OUTSIDE)
    passes = _BOTH_PASSES[on_device]
    own = f"own_{'device' if on_device else 'cpu'}_ns"
    modules = frame.select("path", "class_name", *passes, own_times(frame, *passes).alias(own))
    modules = modules.sort(own, "path", descending=[True, False])
    if modules.height == 0 or not modules[own][0]:
        return ""
    most = f"takes the most self {'device' if on_device else 'CPU'} time:"
    outside = _outside(trace, every, own, part)
    classes = modules.group_by("class_name").agg(pl.col(own).sum(), pl.len().alias("modules"))
    of_class = classes.sort(own, "class_name", descending=[True, False]).row(0, named=True)
    first = modules.row(0, named=True)
    if first["class_name"] != of_class["class_name"] or first[own] <= of_class[own] / 2:
        times, count = Times(trace, own, part), of_class["modules"]
        each = f"{times.of({own: of_class[own] / count})} in each of its {count:,} modules"
        return f"{outside}{code_of(str(of_class['class_name']))} {most} {times.of(of_class)}{times.each}, {each}."
    times = Times(trace, own, part, table)
    shown = {column.name for column in table.columns} if table is not None else set()
    beside = table if shown.issuperset(passes) else None
    both = _of_passes([Times(trace, each, part, beside) for each in passes], first, own)
    return f"{outside}{_called(first)} {most} {times.of(first)}{times.each}{both}."


def _outside(trace: Trace, every: pl.DataFrame, own: str, part: TimeRange) -> str:
    """Return how much is outside of all modules as the begin of a sentence, where that is more than in them."""
    own_ns = every.select("path", own_times(every, *_BOTH_PASSES[own == "own_device_ns"]).alias(own))
    is_outside = own_ns["path"] == OUTSIDE
    rows = own_ns.filter(is_outside)
    if rows.height == 0 or rows[own].sum() <= own_ns.filter(~is_outside)[own].sum():
        return ""
    times = Times(trace, own, part)
    return f"{times.of({own: rows[own].sum()})}{times.each} is outside of modules; of the modules, "


def _of_passes(times: Sequence[Times], row: Mapping[str, Any], own: str) -> str:
    """Return what a module takes forward and backward, as its row has it, if it has both and none inside."""
    forward, backward = (row[each.name] for each in times)
    if not (forward and backward) or forward + backward != row[own]:
        return ""
    return f" ({times[0].of(row)} forward, {times[1].of(row)} backward)"


def _called(row: Mapping[str, Any]) -> str:
    """Return the path of a module and the class that it does not name itself; the model itself has no path."""
    path, of_class = str(row["path"]), str(row["class_name"])
    return f"{code_of(path)} ({code_of(of_class)})" if path and of_class not in path else code_of(path or of_class)
