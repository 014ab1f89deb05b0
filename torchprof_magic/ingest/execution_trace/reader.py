"""Reads an execution trace of torch's ``ExecutionTraceObserver``: calls of ops and the tensors between them.

Its schema changed in 2024: an op's facts were keys of its node, and became ``attrs``. Both are read.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from torchprof_magic.ingest.execution_trace.tensors import GraphTensor, tensors_of, text_of
from torchprof_magic.ingest.findings import Findings
from torchprof_magic.ingest.json.blocks import read_blocks
from torchprof_magic.ingest.regular import beginning_of
from torchprof_magic.model.errors import IngestError, NotATraceError
from torchprof_magic.model.meta import Meta, encodable, shortened
from torchprof_magic.model.problems import problem
from torchprof_magic.model.trace import FRAME_SCHEMAS, MAX_NAME_CHARS, MAX_SUM, Trace

if TYPE_CHECKING:
    import os

MAX_TEXT_BYTES = 1 << 30
_HEAD_BYTES = 4096
_NODES = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{.*?"nodes"\s*:\s*\[', re.DOTALL)
# Of a profiler trace and of a CPU profile of Chrome, which may have nodes, too.
_NO_GRAPH = (b'"traceEvents"', b'"callFrame"')
_NO_OP = -1


class _Side(msgspec.Struct, gc=False):
    values: list[Any] = []
    shapes: list[Any] = []
    types: list[Any] = []


class _Attribute(msgspec.Struct, gc=False):
    name: str
    value: Any = None


class _Node(msgspec.Struct, gc=False):
    """One call; what is missing was not recorded. Of the older schema are the keys behind ``attrs``."""

    id: int
    name: str
    ctrl_deps: int | None = None
    inputs: _Side | list[Any] = []
    outputs: _Side | list[Any] = []
    attrs: list[_Attribute] = []
    parent: int | None = None
    tid: Any = None
    seq_id: Any = None
    op_schema: Any = ""
    input_shapes: list[Any] = []
    input_types: list[Any] = []
    output_shapes: list[Any] = []
    output_types: list[Any] = []


class _File(msgspec.Struct):
    nodes: list[msgspec.Raw]
    schema: Any = ""


def is_graph(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is an execution trace, by its content."""
    head = beginning_of(Path(path), _HEAD_BYTES)
    return _NODES.match(head) is not None and not any(key in head for key in _NO_GRAPH)


def read_graph(path: str | os.PathLike[str], meta: Meta | None = None) -> Trace:
    """Return a trace without events, with the ops and tensors of the file.

    Nodes that cannot be read are left out and counted. Raises ``IngestError`` when the file cannot be read, and
    ``NotATraceError`` when it lists no op.
    """
    findings = Findings()
    try:
        rows = msgspec.json.decode(_text(path, findings), type=_File).nodes
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise IngestError(f"the execution trace is cut off or damaged ({exc}); record it again") from exc
    nodes = _decoded(rows, findings)
    if not nodes:
        raise NotATraceError("this is an execution trace without any op; record it again")
    frames = {name: pl.DataFrame(schema=schema) for name, schema in FRAME_SCHEMAS.items()}
    frames |= {"graph_ops": _ops(nodes), "graph_tensors": _tensors(nodes)}
    return Trace(**frames, meta=meta or Meta(), problems=(problem("graph.no_times"), *findings.problems()))


def _text(path: str | os.PathLike[str], findings: Findings) -> bytes:
    parts, size_bytes = [], 0
    for block in read_blocks(path, findings):
        size_bytes += len(block.text)
        if size_bytes > MAX_TEXT_BYTES:
            raise IngestError("the execution trace is too large to be read; record fewer steps")
        parts.append(bytes(block.text))
    return b"".join(parts)


def _decoded(rows: list[msgspec.Raw], findings: Findings) -> list[_Node]:
    """Return the nodes in the order in which they began, which is that of their ids; each id once."""
    nodes: dict[int, _Node] = {}
    for row in rows:  # one for each call: 100,000 take a second
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            node = msgspec.json.decode(row, type=_Node)
            if 0 <= node.id < MAX_SUM:
                nodes.setdefault(node.id, node)
    findings.add("graph.damaged", len(rows) - len(nodes))
    return [nodes[number] for number in sorted(nodes)]


def _ops(nodes: list[_Node]) -> pl.DataFrame:
    row_of = {node.id: row for row, node in enumerate(nodes)}
    rows = []
    for row, node in enumerate(nodes):
        attributes = {each.name: each.value for each in node.attrs}
        parent = row_of.get((node.parent if node.ctrl_deps is None else node.ctrl_deps) or 0, _NO_OP)
        rows.append(
            (
                node.id,
                encodable(shortened(node.name, MAX_NAME_CHARS)),
                parent if parent < row else _NO_OP,
                _number(attributes.get("tid", node.tid)),
                _number(attributes.get("seq_id", node.seq_id)),
                _short(attributes.get("op_schema", node.op_schema)),
                _short(attributes.get("kernel_file", "")),
                text_of(*_side(node, "input")),
                text_of(*_side(node, "output")),
            )
        )
    return pl.DataFrame(rows, schema=FRAME_SCHEMAS["graph_ops"], orient="row")


def _tensors(nodes: list[_Node]) -> pl.DataFrame:
    rows: list[GraphTensor] = []
    for row, node in enumerate(nodes):
        for role in ("input", "output"):
            rows += tensors_of(*_side(node, role), op=row, role=role)
    return pl.DataFrame(rows, schema=FRAME_SCHEMAS["graph_tensors"], orient="row")


def _side(node: _Node, role: str) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the values, shapes and types of the inputs or outputs."""
    side = node.inputs if role == "input" else node.outputs
    if isinstance(side, _Side):
        return side.values, side.shapes, side.types
    if role == "input":
        return side, node.input_shapes, node.input_types
    return side, node.output_shapes, node.output_types


def _number(value: object) -> int | None:
    """Return a number of torch's; -1 stands for none."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_SUM
    return value if is_number else None  # type: ignore[return-value]


def _short(value: object) -> str:
    return encodable(shortened(value, MAX_NAME_CHARS)) if isinstance(value, str) else ""
