"""The Python stacks of events, as a prefix tree: equal frames under equal callers are one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.model.intervals import NO_PARENT, IntArray, levels, merge_paths
from torchprof_magic.model.meta import shortened
from torchprof_magic.model.rows import in_categories
from torchprof_magic.model.trace import MAX_NAME_CHARS, STACKS_SCHEMA, no_rows

if TYPE_CHECKING:
    import numpy.typing as npt

# Names are "train.py(12): step", or "nn.Module: Linear_0" and "<built-in function sum>" without a file.
_PLACE = r"^(?<file>.*)\((?<line>[0-9]+)\): (?<function>.*)$"


def find_stacks(
    events: pl.DataFrame, category: npt.NDArray[np.uint8], launches: pl.DataFrame
) -> tuple[pl.Series, pl.DataFrame]:
    """Return the innermost frame around each event as a row of the stacks, null if there is none, and the stacks.

    torch 2.13 leaves its own ``stack`` fields empty, so stacks are rebuilt from the ``python_function`` events; the
    torch of 2021 recorded none of those, but a text at each op. ``category`` are the numbers of those of events.
    Device events have the stack of the call that launched them.
    """
    is_frame = in_categories(category, "python_function")
    if not is_frame.any():
        return _stacks_of_texts(events["call_stack"])
    inner_frame = _innermost_frames(events["parent"].to_numpy().astype(np.int64), events["depth"].to_numpy(), is_frame)
    frames = np.flatnonzero(is_frame)
    index_of = np.full(events.height + 1, NO_PARENT, np.int64)
    index_of[frames] = np.arange(len(frames))
    above = events["parent"].to_numpy()[frames].astype(np.int64)
    caller = index_of[np.where(above >= 0, inner_frame[above], NO_PARENT)]
    label = events["name"].to_physical().to_numpy()[frames].astype(np.int64)
    path, first = merge_paths(caller, label)
    stack = np.where(inner_frame >= 0, path[index_of[inner_frame]], NO_PARENT)
    source, target = launches["source"].to_numpy(), launches["target"].to_numpy()
    stack[target] = stack[source]
    series = pl.Series("stack", stack, dtype=pl.Int32)
    parent = np.where(caller[first] >= 0, path[caller[first]], NO_PARENT)
    return series.set(series < 0, None), _with_places(events["name"][frames[first]], parent)


def _innermost_frames(parent: IntArray, depth: IntArray, is_frame: np.ndarray) -> IntArray:
    """Return for each event the row of the innermost frame at or around it, or -1."""
    found = np.where(is_frame, np.arange(len(parent)), NO_PARENT)
    for rows in levels(depth)[1:]:
        open_rows = rows[found[rows] < 0]
        found[open_rows] = found[parent[open_rows]]
    return found


def _with_places(name: pl.Series, parent: IntArray) -> pl.DataFrame:
    text = name.cast(pl.String)
    place = text.str.extract_groups(_PLACE).struct
    return pl.DataFrame(
        {
            "parent": parent,
            "name": name,
            "file": place.field("file"),
            "line": place.field("line").cast(pl.Int32, strict=False),
            "function": place.field("function").fill_null(text),
        }
    ).cast(STACKS_SCHEMA)  # type: ignore[arg-type]


def _stacks_of_texts(call_stack: pl.Series) -> tuple[pl.Series, pl.DataFrame]:
    """Return the stacks recorded as texts at the ops: ``place;place;place``, the innermost first."""
    if call_stack.null_count() == len(call_stack):  # as in most files
        return pl.Series("stack", [None], dtype=pl.Int32).new_from_index(0, len(call_stack)), no_rows("stacks")
    texts = call_stack.drop_nulls().unique()
    nodes: dict[tuple[int, str], int] = {}
    innermost = []
    for text in texts.cast(pl.String):
        node = NO_PARENT
        for name in reversed(text.split(";")):
            node = nodes.setdefault((node, shortened(name, MAX_NAME_CHARS)), len(nodes))
        innermost.append(node)
    series = call_stack.replace_strict(texts, innermost, default=None, return_dtype=pl.Int32).alias("stack")
    names = pl.Series("name", [name for _, name in nodes], dtype=pl.String).cast(STACKS_SCHEMA["name"])
    return series, _with_places(names, np.array([parent for parent, _ in nodes], np.int64))
