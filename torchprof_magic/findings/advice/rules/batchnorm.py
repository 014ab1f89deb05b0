"""Advice about biases that a normalisation takes away again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.shared import in_category
from torchprof_magic.facts.source.forward_of import forward_of_events
from torchprof_magic.facts.source.places import module_of_events
from torchprof_magic.findings.advice.kinds import Advice, Effect
from torchprof_magic.findings.advice.times import (
    by_place,
    cost_of,
    cost_words,
    each,
    ns_in_steps,
    rows_named,
    spans_of,
    step_ns,
)
from torchprof_magic.model.units import counted

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

LINK = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#disable-bias-for-convolutions-directly-followed-by-a-batch-norm"
# From this share of a step on, the layers in question are worth a look.
LEAST_SHARE = 0.05
MOST_PAIRS = 10_000
_LAYER = r"^aten::(conv[123]d|linear)$"
_NORM = r"^aten::batch_norm$"


def bias_before_batchnorm(trace: Trace) -> list[Advice]:
    """Advise ``bias=False`` for layers whose output goes straight into a batch norm, which subtracts the mean."""
    if not trace.meta.has_shapes:
        return []
    layers, norms = _pairs(trace)
    found = []
    for file, line, rows in by_place(trace, layers):
        mine = np.concatenate((rows, norms[np.isin(layers, rows)]))
        if ns_in_steps(trace, spans_of(trace, mine)) < LEAST_SHARE * step_ns(trace):
            continue
        found.append(_advice(trace, file, line, rows))
    return found


def _advice(trace: Trace, file: str, line: int | None, rows: IntArray) -> Advice:
    sums = _bias_work(trace, rows)
    cost = cost_of(trace, spans_of(trace, sums)) if len(sums) and not trace.has_device else None
    module = module_of_events(trace, rows[:1])[0] or ""
    spent = f" Copies of the biases and sums for their gradients take {cost_words(trace, cost)}." if cost else ""
    count = round(len(rows) / counted_steps(trace).steps)
    verb = "leads" if count == 1 else "lead"
    return Advice(
        rule="bias_before_batchnorm",
        title="Leave out biases in front of a batch norm",
        fix="`bias=False` in the layer before the batch norm",
        evidence=f"{counted(count, 'layer')} {each(trace)} with a bias {verb} straight into a batch norm, which "
        f"subtracts the mean and the bias with it.{spent}",
        file=file,
        line=line,
        module=module,
        op=str(trace.events["name"][int(rows[0])]),
        certainty="measured" if cost else "guess",
        link=LINK,
        spans=cost.spans if cost else None,
        effect=Effect() if cost else None,
    )


def _pairs(trace: Trace) -> tuple[IntArray, IntArray]:
    """Return the layers with a bias and the norms that follow each of them with nothing between that computes."""
    layers, norms = rows_named(trace, _LAYER), rows_named(trace, _NORM)
    counters = rows_named(trace, r"^aten::add_$")  # of the batches that the norm has seen
    events = trace.events
    start, lane = (events[name].to_numpy() for name in ("start_ns", "lane"))
    tops = rows_named(trace, "^aten::")
    is_op = np.append(in_category(trace, "cpu_op"), False)
    tops = tops[~is_op[events["parent"].to_numpy()[tops]]]
    scalar = counters[
        (events["shapes"].gather(counters).cast(pl.String) == "[[], [], []]").fill_null(value=False).to_numpy()
    ]
    tops = tops[~np.isin(tops, scalar)]
    tops = tops[np.lexsort((start[tops], lane[tops]))]
    at = np.flatnonzero(np.isin(tops[:-1], layers) & np.isin(tops[1:], norms) & (lane[tops[:-1]] == lane[tops[1:]]))
    first, second = tops[at], tops[at + 1]
    has_bias = np.array([_has_bias(events["shapes"][int(row)]) for row in first[:MOST_PAIRS].tolist()], np.bool_)
    return first[:MOST_PAIRS][has_bias], second[:MOST_PAIRS][has_bias]


def _has_bias(shapes: str | None) -> bool:
    try:
        dims = json.loads(shapes or "[]")
    except (ValueError, RecursionError):
        return False
    return isinstance(dims, list) and len(dims) > 2 and isinstance(dims[2], list) and len(dims[2]) == 1  # noqa: PLR2004 - input, weight and bias


def _bias_work(trace: Trace, layers: IntArray) -> IntArray:
    """Return what these layers do for their biases: the sums of their gradients, and the copies of them."""
    sums = rows_named(trace, r"^aten::sum$")
    names = trace.events["name"].cast(pl.String)
    parent = trace.events["parent"].to_numpy().astype(np.int64)
    in_node = (
        names.gather(parent[sums]).str.ends_with("AddmmBackward0").to_numpy() if len(sums) else np.empty(0, np.bool_)
    )
    sums = sums[in_node]
    forward = forward_of_events(trace)[sums]  # the addmm in a linear layer
    above = np.append(parent, -1)[forward]
    return np.concatenate((sums[np.isin(forward, layers) | np.isin(above, layers)], _copies(trace, layers)))


def _copies(trace: Trace, layers: IntArray) -> IntArray:
    """Return the copies of the bias into every row of the output, with which a product on the CPU begins."""
    copies = rows_named(trace, r"^aten::copy_$")
    parent = trace.events["parent"].to_numpy().astype(np.int64)
    products = rows_named(trace, r"^aten::addmm$")
    above = parent[copies]
    return copies[np.isin(above, products) & np.isin(np.append(parent, -1)[above], layers)]
