"""One flame graph of two runs: each box is as wide as the larger of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_part, counted_steps
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.model.intervals import NO_PARENT, IntArray, depth_of, levels, merge_paths, rolled_up
from torchprof_magic.model.shapes import Tree, Weight
from torchprof_magic.model.units import format_ns
from torchprof_magic.tables.flame.call_tree import flame_tree, preorder_positions

if TYPE_CHECKING:
    from torchprof_magic.findings.compare.changes import Runs

# Boxes that changed by less of a step than this are drawn as unchanged.
_LEAST_CHANGE = 0.002
# The colors of changes, in place of phases.
CHANGES = ("same", "slower", "faster")
_WEIGHTS = (
    Weight(name="cpu_ns", title="Larger of both", unit="ns"),
    Weight(name="before_ns", title="Before", unit="ns"),
    Weight(name="after_ns", title="After", unit="ns"),
)


def change_flame(runs: Runs) -> Tree:
    """Return the call trees of both runs as one, in ns per step; the name of a box that changed says by how much.

    ``phase`` is ``slower``, ``faster`` or ``same``. Kernels are left out: they take no time on the host.
    """
    parents, names, kinds, own = [], [], [], []
    offset = 0
    for trace in runs:
        frame = _with_parents(flame_tree(trace, counted_part(trace)).frame)
        parent = frame["parent"].to_numpy().astype(np.int64)
        parents.append(np.where(parent >= 0, parent + offset, NO_PARENT))
        # Lines that moved are the same lines.
        names.append(frame["name"].cast(pl.String).str.replace(r"^line [0-9]+: ", ""))
        kinds.append(frame["kind"].cast(pl.String))
        own.append((frame["self_cpu_ns"].to_numpy() / counted_steps(trace).steps).astype(np.int64))
        offset += frame.height
    name, kind = pl.concat(names), pl.concat(kinds)
    code = pl.struct(name.alias("name"), kind.alias("kind"))
    codes = pl.DataFrame([name.alias("name"), kind.alias("kind")]).select(code.rank("dense")).to_series()
    path, first = merge_paths(np.concatenate(parents), codes.to_numpy().astype(np.int64) - 1)
    count, is_after = len(first), np.arange(offset) >= len(own[0])
    values = np.concatenate(own)
    parent = _parents_of(np.concatenate(parents), path, first)
    sides = [rolled_up(sum_by(path[chosen], values[chosen], count), parent) for chosen in (~is_after, is_after)]
    return _tree(name.gather(first), kind.gather(first), parent, sides)


def _with_parents(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the boxes of the host with their parents among them; kernels hold nothing."""
    row = frame["kind"] != "kernel"
    position = np.cumsum(row.to_numpy()) - 1
    kept = frame.filter(row)
    parent = kept["parent"].to_numpy().astype(np.int64)
    moved = np.where(parent >= 0, position[np.maximum(parent, 0)], NO_PARENT)
    return kept.with_columns(pl.Series("parent", moved))


def _parents_of(parent: IntArray, path: IntArray, first: IntArray) -> IntArray:
    above = parent[first]
    return np.where(above >= 0, path[np.maximum(above, 0)], NO_PARENT)


def _tree(name: pl.Series, kind: pl.Series, parent: IntArray, sides: list[IntArray]) -> Tree:
    before, after = sides
    width = _widths(parent, np.maximum(before, after))
    least = _LEAST_CHANGE * max(int(width.max(initial=0)), 1)
    delta = after - before
    change = np.where(delta > least, 1, np.where(delta < -least, 2, 0))
    boxes = rolled_up(np.ones(len(parent), np.int64), parent)
    position = preorder_positions(parent, boxes, np.lexsort((-width, parent)))
    order = np.argsort(position)
    moved = np.where(parent >= 0, position[np.maximum(parent, 0)], NO_PARENT)
    shown = [
        text if not how else f"{text} {'▲' if how == 1 else '▼'} {format_ns(abs(by))}"
        for text, how, by in zip(name.to_list(), change.tolist(), delta.tolist(), strict=True)
    ]
    columns = [
        pl.Series("parent", moved, dtype=pl.Int32),
        pl.Series("name", shown, dtype=pl.String).cast(pl.Categorical),
        kind.cast(pl.Enum(kind.unique().sort())).alias("kind"),
        pl.Series("phase", [CHANGES[number] for number in change], dtype=pl.Enum(CHANGES)),
    ]
    for weight, total in zip(_WEIGHTS, (width, before, after), strict=True):
        columns.append(pl.Series(f"self_{weight.name}", _own(parent, total), dtype=pl.Float64))
        columns.append(pl.Series(f"total_{weight.name}", total).cast(pl.Float64))
    return Tree(frame=pl.DataFrame(columns)[order], weights=_WEIGHTS)


def _widths(parent: IntArray, total: IntArray) -> IntArray:
    """Return how wide each box is: as wide as the larger of both, and as what is inside together."""
    width = total.copy()
    for rows in reversed(levels(depth_of(parent))[1:]):
        inside = sum_by(parent[rows], width[rows], len(parent))
        width = np.maximum(width, inside)
    return width


def _own(parent: IntArray, total: IntArray) -> IntArray:
    return np.maximum(total - sum_by(parent, total, len(parent)), 0)
