"""Which node of a graph of torch.compile each event on the host belongs to, by the marks that torch writes.

A mark is a range: ``## file.py ##`` around a graph, ``## 5 ##`` around its node number 5, and ``## Call CompiledFxGraph
key ##`` around code of Inductor, whose calls are known by their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.model.alignment import align
from torchprof_magic.model.distinct import codes_of, distinct
from torchprof_magic.model.intervals import NO_PARENT, nearest_marked
from torchprof_magic.model.rows import are_in, values_at

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

MARK = r"^## .+ ##$"
# A mark that only stands around ops; that of Inductor has work of its own, and is an op.
SCOPE = r"^## ([0-9]{1,9}|.+\.py) ##$"
_OF_GRAPH = r"^## (.+\.py) ##$"
_OF_NODE = r"^## ([0-9]{1,9}) ##$"
_OF_CALL = r"^## Call CompiledFxGraph (.+) ##$"
# ``graph_0_cpp_fused_add_0`` is a call of ``cpp_fused_add_0``, ``aten::addmm`` one of ``extern_kernels.bias_addmm``.
_BEFORE_NAME = r"^graph_[0-9]+_|^.*::|^torch\.ops\.[^.]*\.|^.*extern_kernels\.|^aten\."
_AROUND_NAME = r"^bias_|\.(?:default|out|Tensor)$"
# So many graphs of one key are tried; without its caches, torch calls all of them None.
_MOST_TRIED = 64


class Marks(NamedTuple):
    """The node of each event, a row of ``fx_nodes``, or -1; and the events at which nodes begin.

    ``is_unit`` marks the range of a node, or the call of a kernel: the outermost event of it. ``calls`` are the ranges
    around code of Inductor, and ``is_known`` says of which of them the calls are known.
    """

    node: IntArray
    is_unit: BoolArray
    calls: IntArray
    is_known: BoolArray


def marks_of(trace: Trace) -> Marks:
    """Return the node of each event of the host, by the innermost mark around it."""
    events = trace.events
    found = np.full(events.height + 1, NO_PARENT, np.int64)
    names = _names_of_marks(events["name"])
    calls = np.flatnonzero(names.call.is_not_null().to_numpy())
    is_known = np.zeros(len(calls), np.bool_)
    if trace.fx_nodes.height:
        _note_nodes(trace, names, found)
        is_known = _note_calls(trace, names, calls, found)
    is_unit = found[:-1] >= 0
    parent, depth = events["parent"].to_numpy(), events["depth"].to_numpy()
    stops = is_unit.copy()
    stops[calls] = True  # what is not known of a call is not what is around it
    nearest = nearest_marked(parent, depth, stops)
    return Marks(found[nearest[:-1]], is_unit, calls, is_known)


class _Names(NamedTuple):
    """What the name of each event says if it is a mark: the graph, the number of the node, or the key; else null."""

    graph: pl.Series
    node: pl.Series
    call: pl.Series


def _names_of_marks(names: pl.Series) -> _Names:
    once = distinct(names).cast(pl.String)
    marks = once.filter(once.str.contains(MARK))
    if len(marks) == 0:
        nothing = pl.Series([None], dtype=pl.String).new_from_index(0, len(names))
        return _Names(nothing, nothing, nothing)
    number = marks.str.extract(_OF_NODE)
    answers = marks.str.extract(_OF_GRAPH), number, marks.str.extract(_OF_CALL)
    text = names.cast(pl.String)
    at = text.replace_strict(marks, pl.Series(range(len(marks))), default=NO_PARENT, return_dtype=pl.Int64).to_numpy()
    return _Names(*(values_at(each, at) for each in answers))


def _note_nodes(trace: Trace, names: _Names, found: IntArray) -> None:
    """Note the row of the node at each range of one, by the graph around it."""
    rows = np.flatnonzero(names.node.is_not_null().to_numpy())
    parent, depth = trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy()
    around = nearest_marked(parent, depth, names.graph.is_not_null().to_numpy())[rows]
    asked = pl.DataFrame({"graph": values_at(names.graph, around), "number": names.node.gather(rows).cast(pl.Int32)})
    known = trace.fx_nodes.with_row_index("row").filter(pl.col("call") < 0, pl.col("kernel").is_null())
    known = known.select(pl.col("graph").cast(pl.String), "number", pl.col("row").cast(pl.Int64))
    known = known.unique(["graph", "number"], keep="first")
    answer = asked.join(known, on=["graph", "number"], how="left", maintain_order="left")["row"]
    found[rows] = answer.fill_null(NO_PARENT).to_numpy()


def _note_calls(trace: Trace, names: _Names, calls: IntArray, found: IntArray) -> BoolArray:
    """Note the row of the call at each event that is one, by their order in the range; return which ranges have any."""
    is_known = np.zeros(len(calls), np.bool_)
    kernels = trace.fx_nodes.with_row_index("row").filter(pl.col("kernel").is_not_null())
    if len(calls) == 0 or kernels.height == 0:
        return is_known
    graphs = {
        key: _candidates(frame)
        for (key,), frame in kernels.group_by(pl.col("graph").cast(pl.String), maintain_order=True)
    }
    numbers = _Numbers()
    code = codes_of(trace.events["name"])
    ops, around = _ops_and_around(trace)
    first, last = (np.searchsorted(around, calls, side) for side in ("left", "right"))
    keys = names.call.gather(calls).to_list()
    matched: dict[tuple[str, bytes], tuple[IntArray, IntArray]] = {}
    for at, key in enumerate(keys):  # once per call of compiled code; alike ones are matched once
        inside = ops[first[at] : last[at]]
        same = key, code[inside].tobytes()
        if same not in matched:
            run = numbers.of(trace.events["name"].gather(inside).cast(pl.String))
            matched[same] = _matched(run, graphs.get(key, []), numbers)
        places, rows = matched[same]
        found[inside[places]] = rows
        is_known[at] = len(rows) > 0
    return is_known


def _ops_and_around(trace: Trace) -> tuple[IntArray, IntArray]:
    """Return the ops and ranges, and the one around each, by which they are sorted."""
    parent, depth = trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy()
    is_op = are_in(trace.events["category"], ("cpu_op", "user_annotation"))
    ops = np.flatnonzero(is_op)
    around = nearest_marked(parent, depth, is_op)[parent[ops]]
    order = np.argsort(around, kind="stable")
    return ops[order], around[order].astype(np.int64)


def _candidates(kernels: pl.DataFrame) -> list[tuple[pl.Series, IntArray]]:
    """Return the kernels and the rows of each graph of one key: the numbers begin again."""
    begins = np.flatnonzero(kernels["number"].to_numpy() == 0)
    edges = [*begins.tolist(), kernels.height]
    names, rows = kernels["kernel"].cast(pl.String), kernels["row"].to_numpy().astype(np.int64)
    return [(names[low:high], rows[low:high]) for low, high in zip(edges[:-1], edges[1:], strict=True)][-_MOST_TRIED:]


class _Numbers:
    """Numbers names of kernels and ops so that those of one call are equal."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, names: pl.Series) -> IntArray:
        short = names.str.replace(_BEFORE_NAME, "").str.replace_all(_AROUND_NAME, "")
        return np.array([self._known.setdefault(name, len(self._known)) for name in short.to_list()], np.int64)


def _matched(run: IntArray, graphs: list[tuple[pl.Series, IntArray]], numbers: _Numbers) -> tuple[IntArray, IntArray]:
    """Return the places in what ran, and the rows of the calls that they are, of the graph with the most of them."""
    best = np.empty(0, np.int64), np.empty(0, np.int64)
    for names, rows in graphs:
        places, calls = align(run, numbers.of(names))
        if len(places) > len(best[0]):
            best = places, rows[calls]
    return best
