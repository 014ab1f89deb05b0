"""Which node of a compiled graph each event belongs to, on the host and on devices, in forward and in backward."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_work import origin_links
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.facts.source.forward_of import BackwardNodes, backward_nodes, first_forward_of_events
from torchprof_magic.model.fx_marks import Marks, marks_of
from torchprof_magic.model.intervals import NO_PARENT, nearest_marked
from torchprof_magic.model.rows import values_at

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

REGION = r"^Torch-Compiled Region: ([0-9]{1,9}/[0-9]{1,9})$"
_RANGE_OF_NODE = r"^autograd::engine::evaluate_function: "


@once_per_trace
def fx_marks(trace: Trace) -> Marks:
    """Return the nodes that the marks in the trace say."""
    return marks_of(trace)


@once_per_trace
def own_nodes(trace: Trace) -> IntArray:
    """Return the node in which each event ran, a row of ``fx_nodes``, or -1; that of device work is its launch's."""
    found = fx_marks(trace).node.copy()
    calls, work = origin_links(trace)
    found[work] = found[calls]
    return found


@once_per_trace
def fx_nodes(trace: Trace) -> IntArray:
    """Return ``own_nodes``, and for what autograd runs in backward outside of compiled code that of the forward op."""
    found = own_nodes(trace)
    if not trace.fx_nodes.height:
        return found
    forward = np.append(found, NO_PARENT)[first_forward_of_events(trace)]
    return np.where(found >= 0, found, forward)


@once_per_trace
def is_in_backward(trace: Trace) -> BoolArray:
    """Return which events run in a node of autograd, or were launched there."""
    parent, depth = trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy()
    is_node = is_named(trace, _RANGE_OF_NODE) | (first_forward_of_events(trace) >= 0)
    found: BoolArray = nearest_marked(parent, depth, is_node)[:-1] >= 0
    calls, work = origin_links(trace)
    found[work] = found[calls]
    return found


@once_per_trace
def backward_parts(trace: Trace) -> BackwardNodes:
    """Return the nodes of the backward pass, those of autograd and inside them those of compiled graphs."""
    of_autograd = backward_nodes(trace)
    inside = np.flatnonzero(fx_marks(trace).is_unit & is_in_backward(trace))
    if len(inside) == 0:
        return of_autograd
    row = np.union1d(of_autograd.row, inside)
    is_part = np.zeros(trace.events.height, np.bool_)
    is_part[row] = True
    parent, depth = trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy()
    number = np.full(len(is_part) + 1, NO_PARENT, np.int64)
    number[row] = np.arange(len(row))
    return BackwardNodes(row, number[nearest_marked(parent, depth, is_part)[parent[row]]])


class NodeNames(NamedTuple):
    """What the node of each event is called in the report, a number of ``names`` or -1."""

    of_event: IntArray
    names: pl.Series


@once_per_trace
def fx_names(trace: Trace) -> NodeNames:
    """Return the name of the node of each event: with the compiled region, and whether it is of the backward pass.

    Forward and backward of one graph, and two graphs, use the same names for different nodes.
    """
    row = fx_nodes(trace)
    known = np.flatnonzero(row >= 0)
    if len(known) == 0:
        return NodeNames(np.full(len(row), NO_PARENT), pl.Series([], dtype=pl.String))
    region, regions = regions_around(trace)
    keys = pl.DataFrame({"row": row[known], "region": region[known], "is_backward": is_in_backward(trace)[known]})
    once = keys.unique(maintain_order=True).with_row_index("number")
    names = _named(trace, once, regions)
    number = keys.join(once, on=keys.columns, how="left", maintain_order="left")["number"]
    of_event = np.full(len(row), NO_PARENT, np.int64)
    # Equal names of different rows are one: the same call of a graph that is compiled twice.
    codes, labels = _coded(names)
    of_event[known] = codes[number.to_numpy()]
    return NodeNames(of_event, labels)


def _named(trace: Trace, once: pl.DataFrame, regions: pl.Series) -> pl.Series:
    name = trace.fx_nodes["name"].gather(once["row"]).cast(pl.String)
    region = (values_at(regions, once["region"].to_numpy()) + " ").fill_null("")
    is_kernel = trace.fx_nodes["kernel"].gather(once["row"]).is_not_null()
    # What a kernel fuses says by itself what is of the backward pass.
    backward = pl.select(pl.when(once["is_backward"] & ~is_kernel).then(pl.lit("backward ")).otherwise(pl.lit("")))
    return pl.select(pl.format("{}{}{}", region, backward.to_series(), name)).to_series()


def _coded(names: pl.Series) -> tuple[IntArray, pl.Series]:
    once = names.unique(maintain_order=True)
    codes = names.replace_strict(once, pl.Series(range(len(once))), return_dtype=pl.Int64)
    return codes.to_numpy(), once


@once_per_trace
def regions_around(trace: Trace) -> tuple[IntArray, pl.Series]:
    """Return the compiled region around each event, or around its forward op, an index of the numbers, or -1."""
    texts = trace.events["name"].cast(pl.String).str.extract(REGION)
    is_region = texts.is_not_null().to_numpy() & in_category(trace, "cpu_op", "user_annotation")
    numbers = texts.unique(maintain_order=True).drop_nulls()
    code = np.full(len(texts) + 1, NO_PARENT, np.int64)
    if len(numbers):
        codes = texts.replace_strict(numbers, pl.Series(range(len(numbers))), default=NO_PARENT, return_dtype=pl.Int64)
        code[:-1] = codes.to_numpy()
    parent, depth = trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy()
    around = code[nearest_marked(parent, depth, is_region)]
    of_forward = around[first_forward_of_events(trace)]
    found = np.where(of_forward >= 0, of_forward, around[:-1])
    calls, work = origin_links(trace)
    found[work] = found[calls]
    return found, numbers


def model_lines(trace: Trace, rows: IntArray) -> tuple[pl.Series, pl.Series]:
    """Return the columns ``file`` and ``line`` of the nodes of event rows, or -1, null where they are not known."""
    node = np.append(fx_nodes(trace), NO_PARENT)[rows]
    return values_at(trace.fx_nodes["file"], node), values_at(trace.fx_nodes["line"], node)


@once_per_trace
def fused_lines(trace: Trace) -> pl.Series:
    """Return the lines of the model of each row of ``fx_nodes`` as text, one a line: ``model.py:9 y = self.fc(x)``."""
    nodes = trace.fx_nodes.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    short = pl.col("file").cast(pl.String).str.extract(r"([^/\\\\]+)$")
    text = pl.format("{}:{} {}", short, "line", pl.col("source").cast(pl.String).fill_null("")).str.strip_chars_end()
    lines = nodes.filter(pl.col("line").is_not_null()).with_columns(text.alias("text"))
    fused = lines.filter(pl.col("call") >= 0).select(pl.col("call").cast(pl.Int64).alias("of"), "text")
    every = pl.concat([fused, lines.select(pl.col("row").alias("of"), "text")])
    joined = every.unique(maintain_order=True).group_by("of").agg(pl.col("text").str.join("\n"))
    return nodes.select("row").join(joined, left_on="row", right_on="of", how="left", maintain_order="left")["text"]


def has_fx_nodes(trace: Trace) -> bool:
    """Return whether the node of any event is known."""
    return bool((own_nodes(trace) >= 0).any())


def modules_around(trace: Trace) -> list[list[tuple[str, str]]]:
    """Return for each row of ``fx_nodes`` the path and the class of the modules around it, the outermost first."""
    texts = trace.fx_nodes["modules"].cast(pl.String)
    known = {text: _modules_in(text) for text in texts.unique().drop_nulls()}
    return [known.get(text, []) for text in texts]


def _modules_in(text: str) -> list[tuple[str, str]]:
    try:
        return [(str(path), str(kind)) for path, kind in json.loads(text)]
    except (ValueError, TypeError, RecursionError):  # the file was changed
        return []
