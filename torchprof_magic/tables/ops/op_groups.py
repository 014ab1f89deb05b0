"""The ops as they are shown: each with its kernels, or grouped by line, module, shapes and the like."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.device_time import device_time
from torchprof_magic.facts.device.graph_work import origins
from torchprof_magic.facts.host.phases import PHASE
from torchprof_magic.facts.ops.calls import are_there, op_rows, ops_around, ops_in
from torchprof_magic.facts.shared import device_rows, is_named, once_for_the_whole
from torchprof_magic.facts.source.fx_modules import fx_modules
from torchprof_magic.facts.source.fx_nodes import has_fx_nodes
from torchprof_magic.facts.source.places import MODULE_FRAME
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.facts.time_range import WHOLE, TimeRange
from torchprof_magic.model.distinct import codes_of
from torchprof_magic.model.intervals import NO_PARENT
from torchprof_magic.model.shapes import Column, Outline, Table, top_rows
from torchprof_magic.model.trace import CATEGORIES, DEVICE_CATEGORIES, STEP_PATTERN
from torchprof_magic.tables.ops import rates
from torchprof_magic.tables.ops.groups import KEYS
from torchprof_magic.tables.ops.op_table import (
    FX_COLUMNS,
    NO_OP,
    OUTSIDE_OPS,
    device_ns_of_no_op,
    is_recursive,
    ops_table,
    ops_with_sums,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.model.trace import Trace

# Annotations that torch makes itself.
_TORCHS_OWN = r"^(enumerate\(DataLoader\)#|Optimizer\.(step|zero_grad)#)"
# The order of the rows of an op: itself, what it called, what it launched.
ITSELF, CALLED, KERNEL = range(3)
# Columns of which the rows of a group can be added up.
SUMMED = (
    *("calls", "self_cpu_ns", "self_cpu_ratio", "self_device_ns", "on_path_ns", "flops", "self_cpu_bytes"),
    "self_device_bytes",
    *rates.SUMMED,
)
_OUTLINE = Outline(id="id", parent="above", open_levels=0)
_OUTLINE_WITH_CALLS = replace(_OUTLINE, aside="is_called")
# Only the work outside of recorded ops is open at first.
_OUTLINE_OF_KERNELS = replace(_OUTLINE_WITH_CALLS, open_levels=1, closed="is_closed")


@once_for_the_whole
def ops_view(trace: Trace, part: TimeRange) -> Table:
    """Return the ops, and below each the ops that it called and its kernels.

    In a range of time calls are cut at its edges, so it has the ops alone; steps that count are whole.
    """
    table = ops_table(trace, part)
    if part != WHOLE and not part.left_out:
        return table
    ops = table.frame.with_columns(pl.lit("").alias("above"), _holder_id(pl.col("name") + "\n" + pl.col("kind")))
    columns = _without_kind(table.columns)
    ops = ops.with_columns(_scope_note())
    ops = _interleaved(ops.with_columns(_unknown(table.columns)), _inside_of_ops(trace, part))
    names = [column.name for column in columns]
    is_called, is_closed = (pl.col("part") == CALLED).alias("is_called"), (pl.col("kind") != NO_OP).alias("is_closed")
    is_mostly_no_op = has_mostly_no_op(table.frame)
    # What is larger than any op is no rest: it is what the table is about.
    is_rest = _waits() if _is_no_op_first(table.frame) else _waits() | (pl.col("kind") == NO_OP)
    return Table(
        frame=ops.select("id", "above", "kind", "note", is_called, is_closed, is_rest.alias("is_rest"), *names),
        columns=columns,
        sort_by=table.sort_by,
        outline=_OUTLINE_OF_KERNELS if is_mostly_no_op else _OUTLINE_WITH_CALLS,
        device=table.device,
        note="note",
        rest="is_rest",
    )


def _is_no_op_first(ops: pl.DataFrame) -> bool:
    """Return whether more work of a device is of no known op than of any that is known."""
    if "self_device_ns" not in ops.columns:
        return False
    is_no_op = pl.col("kind") == NO_OP
    no_op, known = (ops.filter(each)["self_device_ns"] for each in (is_no_op, ~is_no_op))
    return bool(no_op.sum()) and no_op.sum() >= max(known.drop_nulls().to_list(), default=0)


def has_mostly_no_op(ops: pl.DataFrame) -> bool:
    """Return whether the ops of at least half of the device work are not known, so that its kernels say more."""
    if "self_device_ns" not in ops.columns:
        return False
    no_op_ns = ops.filter(pl.col("kind") == NO_OP)["self_device_ns"].sum()
    return bool(no_op_ns and 2 * no_op_ns >= ops["self_device_ns"].sum())


def is_mostly_in_no_op(ops: pl.DataFrame) -> bool:
    """Return whether ops launch less than half of the device work: the rest has none, or only a scope around it."""
    if "self_device_ns" not in ops.columns:
        return False
    outside_ns = ops.filter((pl.col("kind") == NO_OP) | is_scope())["self_device_ns"].sum()
    return bool(outside_ns and 2 * outside_ns >= ops["self_device_ns"].sum())


def is_scope() -> pl.Expr:
    """Return which rows of ops are annotations around ops: no ops, and their own time is what is in none of them.

    Older versions of torch write those of loaders and optimizers as ops.
    """
    is_annotation = (pl.col("kind") == "user_annotation") | pl.col("name").cast(pl.String).str.contains(_TORCHS_OWN)
    return is_annotation & (pl.col("total_cpu_ns") > pl.col("self_cpu_ns"))


def without_scopes(ops: Table) -> pl.DataFrame:
    """Return the top rows of a table of ops, without the annotations around others where it tells them apart."""
    frame = top_rows(ops)
    return frame.filter(~is_scope()) if {"kind", "total_cpu_ns"} <= {*frame.columns} else frame


def _waits() -> pl.Expr:
    """Return which annotations only wait, for autograd's threads."""
    return is_scope() & (pl.col("phase") == "waiting")


def _scope_note() -> pl.Expr:
    return pl.when(is_scope()).then(pl.lit("scope")).alias("note")


def _unknown(columns: tuple[Column, ...]) -> list[pl.Expr]:
    """Return the columns that are not known for device work outside of recorded ops, with null there."""
    known = ("name", "kind", "phase", "self_device_ns", "total_device_ns", "on_path_ns")
    names = [column.name for column in columns if column.name not in known]
    return [pl.when(pl.col("kind") != NO_OP).then(pl.col(name)).alias(name) for name in names]


def ops_grouped(trace: Trace, key: str, part: TimeRange = WHOLE) -> Table:
    """Return the ops by one of ``KEYS``: a row for each of its values, and below it the ops."""
    table = ops_with_sums(trace, key, part=part)
    values = table.frame[key].cast(pl.String)
    label = values.fill_null(NOT_KNOWN[key])
    if key in ("shapes", "dtypes"):
        distinct = label.unique().sort().to_list()
        label = label.replace_strict(distinct, _brief_labels(distinct))
    ops = table.frame.with_columns(label.alias("group"))
    summed = [name for name in SUMMED if name in ops.columns]
    groups = ops.group_by("group").agg(_sum_of_known(name) for name in summed).join(_main_phases(ops), on="group")
    groups = rates.with_rates(groups)
    groups = groups.with_columns(
        pl.col("group").alias("name"), pl.lit("").alias("above"), _holder_id(pl.col("group")), pl.lit(key).alias("kind")
    )
    ops = ops.with_columns(
        _holder_id(pl.col("group")).alias("above"),
        _held_id(pl.concat_str("group", "kind", "name", separator="\n")),
    )
    rows = pl.concat([groups, ops, _rest(trace, ops, part)], how="diagonal_relaxed")
    sort_by = table.sort_by or "self_cpu_ns"
    order = pl.col(sort_by).filter(pl.col("above") == "").sum().over("group")
    rows = rows.with_columns(order.alias("order"), (pl.col("above") != "").alias("is_op"))
    rows = rows.sort(
        "order", "group", "is_op", sort_by, "name", descending=[True, False, False, True, False], nulls_last=True
    )
    columns = tuple(column for column in _without_kind(table.columns) if column.name != key)
    title = f"{KEYS[key].title}, and its ops"
    columns = tuple(
        Column(name="name", title=title, unit="code", definition=KEYS[key].definition) if each.name == "name" else each
        for each in columns
    )
    is_rest = (pl.col("kind") == NO_OP).alias("is_rest")
    return Table(
        frame=rows.select("id", "above", "kind", is_rest, *(column.name for column in columns)),
        columns=columns,
        sort_by=table.sort_by,
        outline=_OUTLINE,
        device=device_time(trace, part),
        rest="is_rest",
    )


def _sum_of_known(name: str) -> pl.Expr:
    """Return the sum of a column, null where all of its values are."""
    return pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name)


def _holder_id(text: pl.Expr) -> pl.Expr:
    """Return the ids of rows that hold others; names may be empty, or contain what separates the parts of an id."""
    return (pl.lit("=") + text).alias("id")


def _held_id(text: pl.Expr) -> pl.Expr:
    """Return the ids of rows in others, none of which is that of a row that holds some."""
    return (pl.lit("-") + text).alias("id")


def _rest(trace: Trace, ops: pl.DataFrame, part: TimeRange) -> pl.DataFrame:
    """Return a row for the device work that no op launched, so that the groups add up to all of it."""
    rest_ns = device_ns_of_no_op(trace, ops, part) if trace.has_device else 0
    row = {"name": OUTSIDE_OPS, "group": OUTSIDE_OPS, "above": "", "kind": NO_OP}
    frame = pl.DataFrame([row | {"phase": "unknown", "self_device_ns": rest_ns}] if rest_ns > 0 else [])
    return frame.with_columns(pl.col("phase").cast(PHASE), _held_id(pl.col("name"))) if frame.height else frame


def _main_phases(ops: pl.DataFrame) -> pl.DataFrame:
    """Return the phase of each group in which its ops spent most of their time."""
    sums = ops.group_by("group", "phase").agg(pl.col("self_cpu_ns").sum())
    order = sums.sort("self_cpu_ns", "phase", descending=[True, False])
    return order.unique("group", keep="first", maintain_order=True).select("group", "phase")


def _brief_labels(texts: list[str]) -> list[str]:
    """Return each text in brief, or as it is where another one is the same in brief."""
    labels: dict[str, None] = {}
    for text in texts:
        brief = brief_json(text)
        labels[text if brief in labels else brief] = None
    return list(labels)


def brief_json(text: str) -> str:
    """Return the shapes or types of the inputs of an op as people write them: ``64×128, 128×256``."""
    try:
        value = json.loads(text)
        brief = ", ".join(_brief(each) for each in value) if isinstance(value, list) else text
    except (ValueError, RecursionError):  # broken text, or too many brackets
        return text
    return brief or "no inputs"


def _brief(value: object) -> str:
    if not isinstance(value, list):
        return str(value).removeprefix("c10::") or "–"
    if not value:
        return "–"
    if all(isinstance(each, int) for each in value):
        return "×".join(map(str, value))
    return f"[{', '.join(_brief(each) for each in value)}]"


# What ops without a value are called.
NOT_KNOWN = {
    "shapes": "no shapes",
    "dtypes": "no types",
    "overload": "no overload",
    "stack": "no stack",
    "line": "no known line",
    "module": "outside of all modules",
    "fx_node": "outside of compiled code",
    "model_line": "outside of compiled code",
    "thread": "no thread",
    "phase": "no phase",
    "step": "outside of all steps",
    "cycle": "no cycle",
}


def can_group(trace: Trace, key: str) -> bool:
    """Return whether a recording has what ops can be grouped by."""
    return key not in _IS_KNOWN or _IS_KNOWN[key](trace)


def _has_modules(trace: Trace) -> bool:
    """Return whether modules were watched, have a Python frame, or are named at ops."""
    has_frames = trace.stacks["name"].cast(pl.String).str.starts_with(MODULE_FRAME).any()
    is_named = trace.events["script_modules"].null_count() < trace.events.height
    return bool((trace.sites["kind"] == "module").any() or has_frames or is_named or fx_modules(trace) is not None)


_IS_KNOWN: dict[str, Callable[[Trace], bool]] = {
    "shapes": lambda trace: trace.events["shapes"].null_count() < trace.events.height,
    "dtypes": lambda trace: trace.events["dtypes"].null_count() < trace.events.height,
    "overload": lambda trace: trace.events["overload"].null_count() < trace.events.height,
    "stack": lambda trace: trace.stacks.height > 0,
    "line": lambda trace: trace.stacks.height > 0 or has_fx_nodes(trace) or bool((trace.sites["kind"] == "line").any()),
    "module": _has_modules,
    "fx_node": has_fx_nodes,
    "model_line": has_fx_nodes,
    "thread": lambda trace: trace.lanes.filter(pl.col("kind") == "thread").height > 1,
    "step": lambda trace: trace.steps.height > 1,
}


def _without_kind(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns without the category that torch gave, which says little, and the nodes, which are groups."""
    return tuple(column for column in columns if column.name not in ("kind", *FX_COLUMNS))


def _inside_of_ops(trace: Trace, part: TimeRange) -> pl.DataFrame:
    """Return what is in each op: the ops that it called itself, with all that is in them, and its own device work.

    Recursive calls count once.
    """
    return pl.concat([_called_by_ops(trace, part), _kernels_of_ops(trace, part)], how="diagonal_relaxed")


def _called_by_ops(trace: Trace, part: TimeRange) -> pl.DataFrame:
    every, events = op_rows(trace), trace.events
    ops = ops_in(trace, part)
    inner = np.flatnonzero((ops.parent >= 0) & are_there(trace, part))
    row, around = ops.row[inner], ops.row[ops.parent[inner]]
    name, kind = codes_of(events["name"]).astype(np.int64), codes_of(events["category"]).astype(np.int64)
    kinds = len(CATEGORIES)
    key = name * kinds + kind
    of_inner = key[around] * ((int(name.max(initial=0)) + 1) * kinds) + key[row]
    _, example, of_inner = np.unique(of_inner, return_index=True, return_inverse=True)
    count = len(example)
    pair = np.full(len(ops.row), count, np.int64)  # of what no op called
    pair[inner] = of_inner
    is_outermost = ~is_recursive(trace, every, pair, count + 1)[inner]
    return pl.DataFrame(
        {
            "op": events["name"].gather(around[example]).cast(pl.String),
            "op_kind": events["category"].gather(around[example]).cast(pl.String),
            "name": events["name"].gather(row[example]).cast(pl.String),
            "kind": events["category"].gather(row[example]).cast(pl.String),
            "calls": np.bincount(of_inner, minlength=count),
            "total_cpu_ns": sum_by(of_inner, np.where(is_outermost, ops.dur_ns[inner], 0), count),
            "total_device_ns": sum_by(of_inner, np.where(is_outermost, ops.total_device_ns[inner], 0), count),
        }
    )


def _kernels_of_ops(trace: Trace, part: TimeRange) -> pl.DataFrame:
    """Return the device work by the name of the op that launched it, or of no op, and its own name."""
    work = device_rows(trace)
    start, dur = (trace.events[name].to_numpy()[work] for name in ("start_ns", "dur_ns"))
    touches = part.touches(start, dur)
    work, dur_ns = work[touches], part.cut(start[touches], dur[touches])[1]
    ops = op_rows(trace)
    op = ops_around(trace, ops.nest, origins(trace)[work])
    events = trace.events
    around = np.append(ops.row, NO_PARENT)[op]
    # The ranges of steps are no ops.
    is_op = (around >= 0) & ~np.append(is_named(trace, STEP_PATTERN), True)[around]
    launched_by = pl.Series(np.where(is_op, around, 0)).set(pl.Series(~is_op), None)
    frame = pl.DataFrame(
        {
            "op": events["name"].gather(launched_by).cast(pl.String).fill_null(OUTSIDE_OPS),
            "op_kind": events["category"].gather(launched_by).cast(pl.String).fill_null(NO_OP),
            "name": events["name"].gather(work).cast(pl.String),
            "kind": events["category"].gather(work).cast(pl.String),
            "dur_ns": dur_ns,
        }
    )
    return frame.group_by("op", "op_kind", "name", "kind").agg(
        pl.len().cast(pl.Int64).alias("calls"), pl.col("dur_ns").sum().alias("self_device_ns")
    )


def _interleaved(ops: pl.DataFrame, inside: pl.DataFrame) -> pl.DataFrame:
    """Return every op followed by the ops that it called and by its kernels, the longest first."""
    ops = ops.with_row_index("place")
    above = ops.select(
        "place", "phase", pl.col("name").alias("op"), pl.col("kind").alias("op_kind"), pl.col("id").alias("above")
    )
    rows = inside.join(above, on=("op", "op_kind"))
    is_kernel = pl.col("kind").is_in(DEVICE_CATEGORIES)
    rows = rows.with_columns(
        _held_id(pl.concat_str("above", "kind", "name", separator="\n")),
        pl.col("phase").cast(PHASE),
        pl.when(is_kernel).then(KERNEL).otherwise(CALLED).alias("part"),
        pl.when(is_kernel).then("self_device_ns").otherwise("total_cpu_ns").alias("size"),
    )
    ops = ops.with_columns(pl.lit(ITSELF).alias("part"), pl.lit(0).alias("size"))
    columns = [name for name in ops.columns if name in rows.columns]
    both = pl.concat([ops, rows.select(columns)], how="diagonal_relaxed")
    return both.sort("place", "part", "size", "name", descending=[False, False, True, False])
