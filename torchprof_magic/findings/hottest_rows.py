"""Which rows of a table take most of the time that decides, in one sentence above it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_part, counted_steps, has_counted_steps
from torchprof_magic.facts.source.fused_titles import shown_title
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.findings.deciding_time import opened_on_deciding_time
from torchprof_magic.findings.verdict.words import cut_name
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.trace import DEVICE_CATEGORIES
from torchprof_magic.model.units import column_format, format_ns, printable
from torchprof_magic.tables.ops.op_groups import is_scope
from torchprof_magic.tables.ops.op_table import NO_OP
from torchprof_magic.tables.source.source_view import FUNCTION_TITLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchprof_magic.facts.shared import OfPart
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.shapes import Shape
    from torchprof_magic.model.trace import Trace
    from torchprof_magic.model.units import ColumnFormat

# torch calls the range around a batch "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__".
_FETCH = re.compile(r"enumerate\((\w+)\)#.*", re.DOTALL)
_IN_BRACKETS_AT_END = re.compile(r"(?<=\S) \([^()]*\)\Z")
_MAX_SCOPE = 32
_DONE_ONCE = {"initialisation": "initialisation", "compile": "compilation or graph capture"}
_DEVICE = "self_device_ns"


def answered(build: OfPart[Shape]) -> OfPart[Shape]:
    """Return a function that builds the same table, opened on the time that decides, with what takes most of it."""

    @wraps(build)
    def built(trace: Trace, part: TimeRange = WHOLE) -> Shape:
        shape = opened_on_deciding_time(trace, build(trace, part=part))
        return replace(shape, answer=_most_of(trace, shape, part)) if isinstance(shape, Table) else shape

    return built


def _most_of(trace: Trace, table: Table, part: TimeRange) -> str:
    """Return the row with the most time in words; empty where there is no time, or just one row."""
    column = _main_column(table)
    if column is None or table.frame.height == 0:
        return ""
    times = Times(trace, column.name, part, table)
    every = _rows(table).filter(pl.col(column.name) > 0).sort(column.name, descending=True, maintain_order=True)
    rows = every.filter(~_is_no_row(every))
    if rows.height == 0:
        return _of_no_op(trace, table, times, _called(column))
    if every.height == 1:
        return ""
    first = rows.row(0, named=True)
    named = _name_in(trace, every)
    most, op = f"takes the most {_called(column)}", (_at_its_place(named) if _has_functions(table) else named)(first)
    above = every.row(0, named=True) if _is_first_no_row(every) else None
    on_device = _ops_on_device(table)
    why = "The host limits this run: " if on_device.height else ""
    if above and above["kind"] == NO_OP:
        rest = f"{times.of(above)} of device work{times.each} was launched outside of the recorded ops"
        return f"{rest}; of the ops {op} {most}, {times.of(first)}."
    # Where a scope only waits, its time stands in the rows of the threads that it waits for.
    if above and above["phase"] != "waiting":
        scope = f"{code_of(short_scope(above['name']))} {most}, {times.of(above)}{times.each}"
        return f"{why}{scope}, but is not an op. Of the ops, {op} {most}, {times.of(first)}."
    also = _also_on_device(trace, on_device, first, Times(trace, _DEVICE, part, table)) if why else ""
    return f"{why}{_begun(op)} {most}, {times.of(first)}{times.each}{_once(first)}{also}."


def _once(row: Mapping[str, Any]) -> str:
    """Return that what a row mostly does is done once, as a clause; else nothing."""
    what = _DONE_ONCE.get(str(row.get("phase")))
    return f", mostly {what} that is done once" if what else ""


def _ops_on_device(table: Table) -> pl.DataFrame:
    """Return the ops with work of a device, most first, where the host decides; no rows otherwise."""
    has_device = any(each.name == _DEVICE for each in table.columns)
    if table.sort_by != "self_cpu_ns" or not has_device or not _has_ops(table.frame):
        return pl.DataFrame()
    rows = _rows(table).filter(pl.col(_DEVICE) > 0).sort(_DEVICE, descending=True, maintain_order=True)
    return rows.filter(~_is_no_row(rows))


def _also_on_device(trace: Trace, rows: pl.DataFrame, first: Mapping[str, Any], times: Times) -> str:
    """Return which of the ops takes most of the device, after the one that takes most of the host."""
    most = rows.row(0, named=True)
    if most["id" if "id" in most else "name"] == first["id" if "id" in first else "name"]:
        return f", and most on the device, {times.of(most)}"
    return f". On the device, {_name_in(trace, rows)(most)} takes the most, {times.of(most)}"


class Times:
    """How the times of a column are written: per step, in a range, or in all; in the unit of its table, if given."""

    def __init__(self, trace: Trace, name: str, part: TimeRange, table: Table | None = None) -> None:
        is_range = part not in (WHOLE, counted_part(trace))
        self.name = name
        self._steps = 1 if is_range else counted_steps(trace).steps
        self.each = " in this range" if is_range else " per step" if has_counted_steps(trace) else ""
        self._look = None if table is None else _look_of(table, name, self._steps)

    def of(self, row: Mapping[str, Any]) -> str:
        """Return the time of a row."""
        time = row[self.name] / self._steps
        return f"{self._look.format(time)} {self._look.suffix}" if self._look else format_ns(time)


def _look_of(table: Table, name: str, steps: float) -> ColumnFormat:
    """Return how a page writes the times of a column: in the unit of all times of the table, where that can be read."""
    of_column = {
        column.name: _largest(table.frame[column.name]) / (max(steps * column.share, 1) if column.is_sum else 1)
        for column in table.columns
        if column.unit == "ns" and column.name in table.frame.columns
    }
    return column_format("ns", of_column[name], max(of_column.values()))


def _largest(values: pl.Series) -> float:
    return float(np.nanmax(np.abs(values.cast(pl.Float64).to_numpy()), initial=0))


def _main_column(table: Table) -> Column | None:
    """Return the column that a table is sorted by, or its first bar in an order of its own; None if that is no time."""
    if table.sort_by is None:
        found = next((each for each in table.columns if each.has_bar), None)
    else:
        found = next((each for each in table.columns if each.name == table.sort_by), None)
    return found if found is not None and found.unit == "ns" else None


def _rows(table: Table) -> pl.DataFrame:
    """Return the rows that count: those in no other row, and lines in a run of quiet ones never have any time."""
    frame = table.frame
    if "line" in frame.columns:
        frame = frame.filter(pl.col("line").is_not_null())
    if table.outline is not None:
        frame = frame.filter(pl.col(table.outline.parent).fill_null("") == "")
    return frame


def _is_no_row(rows: pl.DataFrame) -> pl.Expr:
    """Return which rows stand for what has no name of its own: annotations around ops, and work outside of them."""
    if not _has_ops(rows):
        return pl.lit(value=False)
    return is_scope() | (pl.col("kind") == NO_OP)


def _has_ops(rows: pl.DataFrame) -> bool:
    return {"kind", "total_cpu_ns"} <= {*rows.columns}


def _is_first_no_row(rows: pl.DataFrame) -> bool:
    return bool(rows.select(_is_no_row(rows).first()).item())


def _called(column: Column) -> str:
    """Return what a column holds: ``self CPU time`` for Self CPU, and ``time`` for Time."""
    title = column.title if column.title[:2].isupper() else column.title[:1].lower() + column.title[1:]
    return title if title.endswith("time") else f"{title} time"


def _name_in(trace: Trace, rows: pl.DataFrame) -> Any:
    """Return a function that gives the name of a row: a line by its number, and by its file where there are several."""
    if "line" not in rows.columns:
        return lambda row: code_of(shown_title(trace, row["name"], is_kernel=row["kind"] in DEVICE_CATEGORIES))
    has_one_file = "file" not in rows.columns or rows["file"].n_unique() == 1
    if has_one_file and (rows["source"].fill_null("") != "").all():
        return lambda row: f"line {row['line']}"
    return lambda row: code_of(f"{row['file']}:{row['line']}")


def _at_its_place(name: Any) -> Any:
    """Return a function that names a row by its function, and then as ``name`` does."""
    return lambda row: f"{code_of(row['source'])} at {name(row)}" if row["source"] else name(row)


def _has_functions(table: Table) -> bool:
    """Return whether the rows are functions, as no lines were watched."""
    return any(column.is_verbatim and column.title == FUNCTION_TITLE for column in table.columns)


def _begun(text: str) -> str:
    """Return a text as the begin of a sentence."""
    return text[:1].upper() + text[1:]


def code_of(name: str) -> str:
    """Return a name as code in a sentence."""
    return f"`{printable(cut_name(name)).replace('`', chr(39))}`"


def short_scope(name: str) -> str:
    """Return what a scope is of, without what stands in brackets behind it."""
    short = _IN_BRACKETS_AT_END.sub("", _FETCH.sub(r"\1", name))
    return short if len(short) <= _MAX_SCOPE else f"{short[: _MAX_SCOPE - 1]}…"


def _of_no_op(trace: Trace, table: Table, times: Times, called: str) -> str:
    """Return the kernel with the most time, where no op has any."""
    frame = table.frame
    if "above" not in frame.columns or not {"kind", times.name} <= {*frame.columns}:
        return ""
    kernels = frame.filter((pl.col("above") != "") & pl.col("kind").is_in(DEVICE_CATEGORIES))
    if kernels.height == 0:
        return ""
    most = kernels.sort(times.name, descending=True).row(0, named=True)
    name = code_of(shown_title(trace, most["name"], is_kernel=True))
    taken = f"The kernel {name} takes the most {called}, {times.of(most)}{times.each}"
    return f"{taken}; all of it was launched outside of the recorded ops."
