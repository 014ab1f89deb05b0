"""How near the roof each op or kernel is: points of operations per second over operations per byte, below the roofs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.budget import busiest_device
from torchprof_magic.facts.ops.roofline import peak_of_device, roofline
from torchprof_magic.facts.shared import is_named, once_for_the_whole
from torchprof_magic.model.dtypes import KINDS
from torchprof_magic.model.shapes import Column, Points, Roof, Table
from torchprof_magic.model.units import format_flop
from torchprof_magic.tables.ops import kernels, op_table, rates

if TYPE_CHECKING:
    from collections.abc import Collection

    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace

# Why work can be faster than its roof, by what is known of it; from this share on it is told.
ABOVE = 1.02
_FEWER = r"(?i)winograd|fft"
_WHY = {
    "fewer": "fewer operations than a product needs: Winograd or FFT",
    "cached": "in caches",
    "less": "it had less to do than its shapes say, or the peak is too low",
}
# What a call moves at most for caches to hold it: that is as large as those of the largest devices.
_CACHE_BYTES = 256 * 2**20
BEYOND = Column(
    name="beyond",
    title="Why above it",
    unit="text",
    definition="Why it was faster than its roof, null if it was not. In caches: a call moves so few bytes "
    f"({_CACHE_BYTES // 2**20} MiB at most) that they can be there already. Fewer operations: its kernels transform "
    "the input, which saves multiplications. Else it had less to do than its shapes say, such as attention to a "
    "window, or the peak of the device is set too low.",
    is_minor=True,
)
# What stands beside the points, in this order.
_SHOWN = ("name", "phase", "above_ns", "roof_ratio", "worked_ns", "roof", "calls", "kind")
_RATES = ("flops_per_s", "moved_bytes_per_s", "flops_per_byte", "roof_ns", "work_flops", "moved_bytes")
_IN_SIGHT = {"name", "phase", "worked_ns", "roof_ratio", "roof", "above_ns", "flops_per_s"}
# Roofs of types in which less than this part of the operations is done say little.
_LEAST_SHARE = 0.01


def _columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    by_name = {column.name: column for column in columns}
    shown = [by_name[name] for name in (*_SHOWN, *_RATES) if name in by_name]
    shown += [BEYOND] * ("roof_ratio" in by_name)
    main = _main(by_name)
    return tuple(replace(each, is_minor=each.name not in _IN_SIGHT, has_bar=each.name == main) for each in shown)


def _main(names: Collection[str]) -> str:
    """Return the column by which the rows are sorted: what they could gain, where their roofs are known."""
    return "above_ns" if "above_ns" in names else "worked_ns"


COLUMNS = _columns(op_table.COLUMNS)
_SCHEMA = {
    column.name: rates.TYPES.get(column.name, pl.Int64 if column.unit == "count" else pl.String) for column in COLUMNS
}


@once_for_the_whole
def roofline_table(trace: Trace, part: TimeRange) -> Table:
    """Return one row per op with known work, what could gain the most first; without known roofs what took longest."""
    return _points(trace, op_table.ops_table(trace, part))


@once_for_the_whole
def roofline_of_kernels(trace: Trace, part: TimeRange) -> Table:
    """Return one row per kernel with known work, what could gain the most first, as those of ops."""
    return _points(trace, kernels.kernels_table(trace, part))


def has_points(trace: Trace) -> bool:
    """Return whether the bytes of any work are known, so that it has a place on the plane."""
    return bool((~np.isnan(roofline(trace).bytes)).any())


def has_kernels(trace: Trace) -> bool:
    """Return whether there are kernels with a place on the plane."""
    return trace.has_device and has_points(trace)


def _points(trace: Trace, table: Table) -> Table:
    if "worked_ns" not in [column.name for column in table.columns]:
        return Table(frame=pl.DataFrame(schema=_SCHEMA), columns=COLUMNS)
    columns = _columns(table.columns)
    is_known = pl.col("moved_bytes_per_s").is_not_null()
    has_roof = "roof_ratio" in table.frame.columns
    frame = table.frame.filter(is_known).with_columns(*[_beyond(trace)] * has_roof)
    frame = frame.select(column.name for column in columns)
    main = _main(frame.columns)
    points = Points(
        x="flops_per_byte",
        y="flops_per_s",
        x_of_none="moved_bytes_per_s",
        size="worked_ns",
        phase="phase",
        roofs=roofs(trace),
    )
    return Table(
        frame=frame.sort(main, "worked_ns", "name", descending=[True, True, False], nulls_last=True),
        columns=columns,
        points=points,
        sort_by=main,
    )


def _beyond(trace: Trace) -> pl.Expr:
    """Return why work was faster than its roof, by the names of its rows."""
    pieces, events = roofline(trace), trace.events
    is_fewer = np.isin(pieces.op, pieces.op[is_named(trace, _FEWER, "kernel")[pieces.row]])
    rows = np.unique(np.concatenate((pieces.op[is_fewer], pieces.row[is_fewer])))
    names = events["name"].gather(rows).cast(pl.String).unique().to_list()
    # How long requests are is known, but not to how much of that a window leads.
    attends = pl.col("name").str.contains(r"(?i)attention|fmha|mha_")
    is_small = pl.col("moved_bytes") <= _CACHE_BYTES * pl.col("calls")
    is_cached = (pl.col("roof") == rates.MEMORY) & is_small & ~attends
    return (
        pl.when(pl.col("roof_ns") > ABOVE * pl.col("worked_ns"))
        .then(
            pl.when(pl.col("name").is_in(names) & (pl.col("roof") == rates.COMPUTE))
            .then(pl.lit(_WHY["fewer"]))
            .when(is_cached)
            .then(pl.lit(_WHY["cached"]))
            .otherwise(pl.lit(_WHY["less"]))
        )
        .alias(BEYOND.name)
    )


def roof_titles(trace: Trace) -> list[str]:
    """Return the roofs as words: ``bf16 products 989 TFLOP/s``."""
    return [
        f"{roof.title} {format_flop(roof.flops_per_s or roof.bytes_per_s).removesuffix('FLOP')}"
        f"{'B/s' if roof.bytes_per_s else 'FLOP/s'}"
        for roof in roofs(trace)
    ]


def roofs(trace: Trace) -> tuple[Roof, ...]:
    """Return the roofs of the busiest device: of its memory, and of the types in which it computes."""
    peak = peak_of_device(trace, busiest_device(trace))
    if peak is None:
        return ()
    pieces = roofline(trace)
    found: dict[float, str] = {}
    flops = np.nan_to_num(pieces.flops)
    for number, kind in enumerate((*KINDS, "")):
        for is_matrix in (True, False):
            here = (pieces.kind == (number if kind else -1)) & (pieces.is_matrix == is_matrix)
            rate = peak.flops_per_s(kind, is_matrix=is_matrix)
            if rate and (flops[here].sum() >= _LEAST_SHARE * flops.sum() or (here.any() and not is_matrix)):
                uses_units = is_matrix and kind in peak.matrix
                found.setdefault(rate, f"{kind} products" if uses_units else "vector units")
    memory = (Roof(title="memory", bytes_per_s=peak.bytes_per_s),) if peak.bytes_per_s else ()
    return (*memory, *(Roof(title=title, flops_per_s=rate) for rate, title in sorted(found.items(), reverse=True)))
