"""Reads the nodes of CUDA graphs, and what the program said of them, in the arguments of device work.

torch wrote annotations in several ways: 2.13 and 2.14 with a program that is run over the file
(``torch.cuda._annotate_cuda_graph_trace``), 2.15 while it exports (``cuda_graph_annotations=``), and its own recorder
of devices by itself. All put the keys of the annotation among the arguments of the event. The last one splits the
number of the node into that of the graph and the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import polars as pl

from torchprof_magic.ingest.json.schema import NO_RAW
from torchprof_magic.model.graph_notes import note_of, note_of_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Raw

    from torchprof_magic.ingest.json.schema import Args

    Numbers = Callable[..., pl.Series]

# The number of a node has that of its graph above these bits.
GRAPH_BITS = 32


def graph_columns(args: list[Args], numbers: Numbers) -> dict[str, pl.Series]:
    """Return the columns ``graph_node`` and ``annotation`` of some device work; none if none of it is of a graph."""
    if all(arg.graph_node is None for arg in args):
        return {}
    node = numbers([arg.graph_node for arg in args], what="graph node id")
    graph = numbers([arg.graph for arg in args], what="graph id")
    whole = pl.select(_whole(node, graph)).to_series()
    notes = [_text_of(arg) if known else None for arg, known in zip(args, whole.is_not_null(), strict=True)]
    return {"graph_node": whole, "annotation": pl.Series(notes, dtype=pl.Categorical())}


def _whole(node: pl.Series, graph: pl.Series) -> pl.Expr:
    """Return the whole numbers of nodes; kernels outside of graphs have 0, which is null."""
    is_part = node.is_between(1, 2**GRAPH_BITS - 1) & graph.is_between(1, 2 ** (63 - GRAPH_BITS) - 1)
    joined = graph.fill_null(0) * pl.when(is_part).then(2**GRAPH_BITS).otherwise(0) + node
    return pl.when(pl.lit(node) > 0).then(joined)


def _text_of(arg: Args) -> str | None:
    """Return what is said of the work, as JSON; None if nothing is."""
    said = {"name": arg.name, "str": _value(arg.note_text), "module": _value(arg.note_module)}
    said |= {"op": _value(arg.note_op), "autograd_phase": _value(arg.autograd_phase)}
    note = note_of(said)
    if (annotation := _value(arg.annotation)) is not None:
        note = note.or_else(note_of_text(annotation) if isinstance(annotation, str) else note_of(annotation))
    return note.as_text or None


def _value(raw: Raw) -> object:
    if raw == NO_RAW:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
