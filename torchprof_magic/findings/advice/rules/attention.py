"""Advice about attention that is computed in single ops."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.shared import in_category
from torchprof_magic.facts.source.forward_of import forward_of_events
from torchprof_magic.facts.source.places import module_of_events
from torchprof_magic.findings.advice.kinds import DEVICES, THREADS, Advice, Effect
from torchprof_magic.findings.advice.times import by_place, each, is_device_the_limit, rows_named, work_of
from torchprof_magic.model.units import counted, format_ns

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

LINK = "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html"
# Between the two products: scale, mask, softmax, dropout, and changes of type and layout.
MOST_BETWEEN = 14
MOST_CHAINS = 2_000
_SOFTMAX = r"^aten::softmax$"
_PRODUCT = re.compile(r"^aten::(matmul|bmm|baddbmm|einsum)$")
_BETWEEN = re.compile(
    r"^aten::(div|div_|mul|mul_|add|add_|sub|masked_fill|masked_fill_|where|dropout|to|type_as|view|reshape|transpose|"
    r"expand|expand_as|unsqueeze|squeeze|slice|softmax|contiguous|permute|float|detach|tril|triu|ones|eq|lt|bool|full|"
    r"arange|zeros|nan_to_num|bitwise_not|logical_not|empty|lift_fresh|detach_|fill_|gt|ge|le|clone|select)$|^detach_$"
)


def attention_unfused(trace: Trace) -> list[Advice]:
    """Advise fused attention where a softmax stands between two products of matrices."""
    if trace.has_device and not is_device_the_limit(trace):
        return []
    chains = _chains(trace)
    found = []
    for file, line, rows in by_place(trace, np.array(sorted(chains), np.int64)):
        between = np.concatenate([chains[row] for row in rows.tolist()])
        cost = work_of(trace, np.concatenate((between, _nodes_of(trace, between))))
        calls = round(len(rows) / counted_steps(trace).steps)
        module = module_of_events(trace, rows[:1])[0] or ""
        found.append(
            Advice(
                rule="attention_unfused",
                title="Compute attention in one op",
                fix="`torch.nn.functional.scaled_dot_product_attention(q, k, v)`",
                evidence=f"{counted(max(calls, 1), 'time')} {each(trace)} a softmax stands between two products. "
                f"Scale, mask, softmax and dropout take {format_ns(cost.whole_ns)} with their backward{cost.of_it}. A "
                "fused op does them while it multiplies, and never writes the scores to memory.",
                file=file,
                line=line,
                module=module,
                op="aten::softmax",
                certainty="estimated",
                link=LINK,
                spans=cost.spans,
                effect=Effect(where=DEVICES if trace.has_device else THREADS),
            )
        )
    return found


def attention_calls(trace: Trace, file: str, line: int | None) -> tuple[IntArray, IntArray]:
    """Return the first and the second product of each softmax between two, of those on one line."""
    chains = _chains(trace, with_products=True)
    places = by_place(trace, np.array(sorted(chains), np.int64))
    rows = next((rows for *place, rows in places if place == [file, line]), np.empty(0, np.int64))
    pairs = np.array([(chains[row][0], chains[row][-1]) for row in rows.tolist()], np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _chains(trace: Trace, *, with_products: bool = False) -> dict[int, IntArray]:
    """Return for each softmax between two batched products the ops between these, itself among them, in order."""
    events = trace.events
    softmax = rows_named(trace, _SOFTMAX)[:MOST_CHAINS]
    is_op = in_category(trace, "cpu_op")
    parent, lane = (events[name].to_numpy().astype(np.int64) for name in ("parent", "lane"))
    found = {}
    for row in softmax.tolist():  # bounded by MOST_CHAINS, each with at most MOST_BETWEEN neighbours
        before = _walk(events, is_op, parent, lane, row, -1)
        after = _walk(events, is_op, parent, lane, row, 1)
        if before is not None and after is not None:
            end = None if with_products else -1
            found[row] = np.array([*before[:end][::-1], row, *after[:end]], np.int64)
    return found


def _walk(
    events: pl.DataFrame, is_op: np.ndarray, parent: IntArray, lane: IntArray, row: int, way: int
) -> list[int] | None:
    """Return the siblings of a softmax up to the next product in one direction, with it; None if none is near."""
    names, passed, at = events["name"], list[int](), row + way
    end = len(names)
    while 0 <= at < end and lane[at] == lane[row] and len(passed) <= MOST_BETWEEN:
        if is_op[at] and parent[at] == parent[row]:
            name = str(names[at])
            if _PRODUCT.match(name):
                return [*passed, at] if _is_batched(events, at) else None
            if not _BETWEEN.match(name):
                return None
            passed.append(at)
        at += way
    return None


def _is_batched(events: pl.DataFrame, row: int) -> bool:
    """Return whether a product is one of batches of matrices, as far as shapes were recorded: scores are."""
    shapes = events["shapes"][row]
    if shapes is None:
        return True
    try:
        dims = [shape for shape in json.loads(shapes) if isinstance(shape, list) and shape]
    except ValueError:
        return False
    return len(dims) >= 2 and all(len(shape) >= 3 for shape in dims[:2])  # noqa: PLR2004 - two matrices


def _nodes_of(trace: Trace, rows: IntArray) -> IntArray:
    """Return the nodes of the backward pass of some ops and of what they call."""
    forward = forward_of_events(trace)
    parent = trace.events["parent"].to_numpy().astype(np.int64)
    inside = np.zeros(len(parent) + 1, np.bool_)
    inside[rows] = True
    made_by = np.append(forward, -1)
    is_node = trace.events["name"].cast(pl.String).str.starts_with("autograd::engine::").to_numpy()
    nodes = np.flatnonzero(is_node & (made_by[:-1] >= 0))
    above = made_by[nodes]
    hits = np.zeros(len(nodes), np.bool_)
    for _ in range(4):  # an op and those that it calls
        hits |= inside[above]
        above = np.append(parent, -1)[above]
    return nodes[hits]
