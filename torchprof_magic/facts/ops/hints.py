"""What other ops say of a call that says too little of itself: the size of its result, and the tensors inside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.ops.formulas import formula_of
from torchprof_magic.facts.shared import in_category, is_named
from torchprof_magic.facts.source.forward_of import forward_of_events
from torchprof_magic.model.intervals import NO_PARENT, marked_above
from torchprof_magic.model.rows import are_known

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

_CONVOLUTION = r"^aten::(_|cudnn_|miopen_|mkldnn_)?convolution(_transpose)?$"
_BACKWARD = r"^aten::(cudnn_|miopen_|mkldnn_)?convolution(_transpose)?_backward$"
# The op of each library has the gradient as its second input, that of torch as its first.
_OF_TORCH = "aten::convolution_backward"
# So many convolutions lie in one another: of torch, and of a library.
MOST_NESTED = 4
# Of a call with more than this, the first tell enough.
MOST_INSIDE = 64


def gradients_of_results(trace: Trace, rows: IntArray) -> pl.Series:
    """Return the dimensions of the result of each call as JSON, by the gradient of it that the backward pass gets.

    Only of convolutions of which no values were recorded, which would tell it; empty for all other calls.
    """
    found = pl.Series("gradient", [""], dtype=pl.String).new_from_index(0, len(rows))
    lacks_values = is_named(trace, _CONVOLUTION, "cpu_op")[rows] & ~are_known(trace.events["concrete_inputs"])[rows]
    if not lacks_values.any():
        return found
    is_call = _marks(trace, rows[lacks_values])
    backward = np.flatnonzero(is_named(trace, _BACKWARD, "cpu_op") & are_known(trace.events["shapes"]))
    names, shapes = (trace.events[name].gather(backward).cast(pl.String).to_list() for name in ("name", "shapes"))
    texts = [_gradient(*each) for each in zip(names, shapes, strict=True)]
    parent, at = trace.events["parent"].to_numpy(), forward_of_events(trace)[backward].astype(np.int64)
    known: dict[int, str] = {}
    # The ops of torch and of its libraries, which lie in one another, have the same result.
    for _ in range(MOST_NESTED):
        at = marked_above(parent, is_call, at)
        known.update({call: text for call, text in zip(at.tolist(), texts, strict=True) if call >= 0})
        at = np.where(at >= 0, parent[at], NO_PARENT)
    return pl.Series("gradient", [known.get(row, "") for row in rows.tolist()], dtype=pl.String)


def _gradient(name: str, shapes: str) -> str:
    place = 0 if name == _OF_TORCH else 1
    try:
        return json.dumps(json.loads(shapes)[place])
    except (ValueError, LookupError, TypeError):
        return ""


def tensors_inside(trace: Trace, rows: IntArray) -> pl.Series:
    """Return the dimensions of the first tensor of ops inside each call whose formula asks for them, as JSON.

    Those of each call are in order of time and without repetitions; empty for all other calls.
    """
    inside, at = _ops_inside(trace, rows)
    shapes = trace.events["shapes"].gather(inside).cast(pl.String).to_list()
    read = {text: _first(text) for text in set(shapes)}
    known: dict[int, list[object]] = {}
    for call, text in zip(at.tolist(), shapes, strict=True):
        dims, found = read[text], known.setdefault(call, [])
        if dims and dims not in found and len(found) < MOST_INSIDE:
            found.append(dims)
    texts = [json.dumps(known[row]) if row in known else "" for row in rows.tolist()]
    return pl.Series("inside", texts, dtype=pl.String)


def rows_that_tell(trace: Trace, rows: IntArray) -> IntArray:
    """Return the ops inside some calls that their formulas ask for."""
    return _ops_inside(trace, rows)[0]


def _ops_inside(trace: Trace, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the ops inside some calls that their formulas ask for, and the call of each."""
    events = trace.events
    names = events["name"].gather(rows).cast(pl.String)
    asked = {name: formula.inside for name in names.unique().to_list() if (formula := formula_of(name))}
    wanted = names.replace_strict(asked, default="", return_dtype=pl.String)
    found, calls = [rows[:0].astype(np.int64)], [rows[:0].astype(np.int64)]
    for name in sorted(filter(None, set(asked.values()))):
        is_op = (events["name"] == name).to_numpy() & in_category(trace, "cpu_op") & are_known(events["shapes"])
        inside = np.flatnonzero(is_op)
        is_call = _marks(trace, rows[(wanted == name).to_numpy()])
        at = marked_above(events["parent"].to_numpy(), is_call, inside.astype(np.int64))
        found.append(inside[at >= 0])
        calls.append(at[at >= 0])
    return np.concatenate(found), np.concatenate(calls)


def _first(shapes: str) -> list[int]:
    """Return the dimensions of the first input; empty if it is no tensor."""
    try:
        dims = json.loads(shapes)[0]
    except (ValueError, LookupError, TypeError, RecursionError):
        return []
    return dims if isinstance(dims, list) and all(type(each) is int and each >= 0 for each in dims) else []


def _marks(trace: Trace, rows: IntArray) -> BoolArray:
    is_call = np.zeros(trace.events.height, np.bool_)
    is_call[rows] = True
    return is_call
