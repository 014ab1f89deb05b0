"""The ops and tensors of an execution trace, which has no times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.model.shapes import Column, Table

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

OP_COLUMNS = (
    Column(name="id", title="Number", unit="count", definition="Number of the call, in the order in which they began."),
    Column(name="name", title="Op", unit="code", definition="Name of the op or the range."),
    Column(name="inside", title="Inside", unit="code", definition="Op or range that called it; empty for none."),
    Column(
        name="inputs",
        title="Inputs",
        unit="code",
        definition="Values of its inputs; a tensor by its number, type and shape: #5 float [4, 3].",
    ),
    Column(name="outputs", title="Outputs", unit="code", definition="Values of its outputs, in the same way."),
    Column(
        name="thread", title="Thread", unit="count", definition="Number that torch gave to the thread.", is_minor=True
    ),
    Column(
        name="sequence",
        title="Sequence",
        unit="count",
        definition="Number that a forward op shares with its backward op; null without one.",
        is_minor=True,
    ),
    Column(name="schema", title="Schema", unit="code", definition="Signature of the op.", is_minor=True),
    Column(
        name="kernel_file",
        title="Kernel file",
        unit="text",
        definition="File of the generated kernel that it calls, if there is one.",
        is_minor=True,
    ),
)
TENSOR_COLUMNS = (
    Column(name="tensor", title="Tensor", unit="count", definition="Number of the tensor in the file."),
    Column(name="dtype", title="Type", unit="text", definition="Type of its elements, as torch calls it in C++."),
    Column(name="shape", title="Shape", unit="text", definition="Its sizes, when it was first seen."),
    Column(name="device", title="Device", unit="text", definition="cpu, or type and number of the device."),
    Column(
        name="size_bytes",
        title="Size",
        unit="bytes",
        definition="Number of elements times the size of one. Views of one storage count each.",
        has_bar=True,
    ),
    Column(name="storage", title="Storage", unit="count", definition="Number of its storage, which views share."),
    Column(
        name="made_by",
        title="Made by",
        unit="code",
        definition="First call that gave it back, if none took it before; empty for a tensor from outside.",
    ),
    Column(name="uses", title="Uses", unit="count", definition="Calls that take it, including those inside other ops."),
    Column(name="first_op", title="First op", unit="count", definition="Number of the first call with it."),
)


def has_graph(trace: Trace) -> bool:
    """Return whether this is an execution trace."""
    return trace.graph_ops.height > 0


@once_per_trace
def graph_ops_table(trace: Trace) -> Table:
    """Return one row per call of an op or range, in the order in which they began."""
    ops = trace.graph_ops
    names = ops["name"].cast(pl.String)
    parents = ops["parent"]
    inside = names.gather(parents.set(parents < 0, None)).fill_null("").alias("inside")
    frame = ops.with_columns(names.alias("name"), inside).select(column.name for column in OP_COLUMNS)
    return Table(frame=frame, columns=OP_COLUMNS)


@once_per_trace
def graph_tensors_table(trace: Trace) -> Table:
    """Return one row per tensor, the largest first. A number of torch's can stand for several, one after the other."""
    ops = trace.graph_ops.select("id", pl.col("name").cast(pl.String).alias("op_name")).with_row_index("op")
    uses = trace.graph_tensors.join(ops.with_columns(pl.col("op").cast(pl.Int32)), on="op", maintain_order="left")
    key = ["tensor", "storage"]
    found = uses.group_by(key, maintain_order=True).agg(
        pl.col("dtype", "shape", "device", "size_bytes").first(),
        pl.when(pl.col("role").first() == "output")
        .then(pl.col("op_name").first())
        .otherwise(pl.lit(""))
        .alias("made_by"),
        (pl.col("role") == "input").sum().cast(pl.Int64).alias("uses"),
        pl.col("id").first().alias("first_op"),
    )
    frame = found.select(column.name for column in TENSOR_COLUMNS).sort(
        "size_bytes", "first_op", descending=[True, False], maintain_order=True
    )
    return Table(frame=frame, columns=TENSOR_COLUMNS, sort_by="size_bytes")
