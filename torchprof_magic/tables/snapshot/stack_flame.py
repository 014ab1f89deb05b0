"""The stacks that hold the memory of a device at its peak, as a flame graph of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.host.phases import PHASE
from torchprof_magic.facts.memory.alive import Moment, alive_at
from torchprof_magic.facts.memory.stack_categories import BACKWARD
from torchprof_magic.facts.memory.stack_lines import frame_titles
from torchprof_magic.facts.source.users_files import is_users_file
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.model.intervals import NO_PARENT, IntArray, depth_of, nearest_marked, rolled_up
from torchprof_magic.model.shapes import Tree, Weight
from torchprof_magic.model.units import short_file
from torchprof_magic.tables.flame.call_tree import KIND, ROOT_NAME, preorder_positions

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

WEIGHTS = (
    Weight(name="bytes", title="Bytes", unit="bytes"),
    Weight(name="blocks", title="Blocks", unit="count"),
)
BEFORE_NAME = "from before the recording"
NO_STACK_NAME = "allocated without a stack"
_OPTIMIZER = r"[/\\]torch[/\\]optim[/\\]"


def bytes_flame(trace: Trace, at: Moment = "peak", device: str | None = None) -> Tree:
    """Return the stacks that allocated what is in use at a moment, merged, the largest first.

    Boxes are as wide as their requested bytes, or their number of blocks. Every frame is a box: of Python a function
    and the line that ran in it, of native code a function. Blocks without a stack hang under the root. Raises
    ``ValueError`` as ``alive_at`` does.
    """
    alive, boxes = alive_at(trace, at, device), _boxes(trace)
    no_stack = pl.when(pl.col("allocated_at_ns").is_null()).then(_BEFORE).otherwise(_NO_STACK)
    row = alive.select(pl.coalesce(pl.col("stack") + len(_OTHERS), no_stack).cast(pl.Int64)).to_series().to_numpy()
    parent = boxes["parent"].to_numpy()
    own = {
        "bytes": sum_by(row, alive["size_bytes"].to_numpy(), boxes.height),
        "blocks": np.bincount(row, minlength=boxes.height).astype(np.int64),
    }
    totals = {name: rolled_up(values, parent) for name, values in own.items()}
    for part, sums in (("self", own), ("total", totals)):
        boxes = boxes.with_columns(pl.Series(f"{part}_{name}", values) for name, values in sums.items())
    frame = _in_preorder(boxes.filter(pl.col("total_blocks") > 0))
    return Tree(frame=frame, weights=WEIGHTS)


_OTHERS = (ROOT_NAME, BEFORE_NAME, NO_STACK_NAME)
_BEFORE, _NO_STACK = _OTHERS.index(BEFORE_NAME), _OTHERS.index(NO_STACK_NAME)


def _boxes(trace: Trace) -> pl.DataFrame:
    """Return the root, the boxes of what has no stack, and one for each row of ``stacks``."""
    stacks, titles = trace.stacks, frame_titles(trace)
    file, is_users = stacks["file"].cast(pl.String), pl.Series(is_users_file(stacks["file"]), dtype=pl.Boolean)
    files = file.unique().drop_nulls()
    short = file.replace_strict(files, [short_file(name) for name in files.to_list()], return_dtype=pl.String)
    frames = pl.DataFrame({"title": titles, "file": short, "line": stacks["line"], "is_users": is_users}).select(
        pl.coalesce(pl.format("{} {}:{}", "title", "file", "line"), "title").alias("name"),
        pl.when("is_users")
        .then(pl.lit("python"))
        .when(pl.col("file").is_not_null())
        .then(pl.lit("library"))
        .otherwise(pl.lit("op"))
        .alias("kind"),
    )
    above = stacks["parent"].to_numpy().astype(np.int64)
    others = pl.DataFrame({"name": _OTHERS, "kind": ["root", "annotation", "annotation"]})
    parent = np.concatenate(([NO_PARENT, 0, 0], np.where(above >= 0, above + len(_OTHERS), 0)))
    phase = pl.concat([pl.Series(["python"] * len(_OTHERS)), _phases(trace)])
    return pl.concat([others, frames]).with_columns(
        pl.Series("parent", parent), phase.alias("phase"), pl.Series("row", np.arange(len(parent)))
    )


def _phases(trace: Trace) -> pl.Series:
    """Return the phase of each frame: what is in a backward pass or in an optimizer of torch, else Python."""
    name, file = (trace.stacks[column].cast(pl.String) for column in ("function", "file"))
    parent = trace.stacks["parent"].to_numpy().astype(np.int64)
    depth = depth_of(parent)
    marks = {
        "backward": name.str.contains(BACKWARD),
        "optimizer": file.str.contains(_OPTIMIZER).fill_null(value=False),
    }
    phase = pl.Series(["python"] * len(parent), dtype=pl.String)
    for key, is_marked in marks.items():
        is_inside = nearest_marked(parent, depth, is_marked.to_numpy())[:-1] >= 0
        phase = phase.zip_with(pl.Series(~is_inside, dtype=pl.Boolean), pl.Series([key] * len(parent), dtype=pl.String))
    return phase


def _in_preorder(boxes: pl.DataFrame) -> pl.DataFrame:
    """Return the boxes so that each is followed by what is inside, the largest first; outer boxes are all kept."""
    row = boxes["row"].to_numpy()
    place = np.full(int(row.max(initial=0)) + 1, NO_PARENT)
    place[row] = np.arange(boxes.height)
    above = boxes["parent"].to_numpy()
    parent: IntArray = np.where(above >= 0, place[above], NO_PARENT)
    inside = rolled_up(np.ones(len(parent), np.int64), parent)
    siblings = np.lexsort((-boxes["total_bytes"].to_numpy(), parent))
    position = preorder_positions(parent, inside, siblings)
    moved = np.where(parent >= 0, position[parent], NO_PARENT)
    ordered = boxes.with_columns(pl.Series("parent", moved, dtype=pl.Int32))[np.argsort(position)]
    return ordered.select(
        "parent",
        pl.col("name").cast(pl.Categorical),
        pl.col("kind").cast(KIND),
        pl.col("phase").cast(PHASE),
        *(pl.col(f"{part}_{weight.name}").cast(pl.Float64) for weight in WEIGHTS for part in ("self", "total")),
    )
